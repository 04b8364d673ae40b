"""TensorRT-LLM: its defaults and rules, its arguments, its metrics."""
