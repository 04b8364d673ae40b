"""What a model is: its shape, layer kinds and dtypes, read from a config.json or a preset."""
