"""SGLang: its defaults and rules by version, its arguments, its metrics."""
