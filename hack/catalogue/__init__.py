"""The catalogue of presets, generated from the public configs in the repository."""
