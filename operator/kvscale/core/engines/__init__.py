"""Inference engines: one module per engine with its defaults, memory rule and metric names."""
