"""What every layer of a model is made of, by family: `table` says which rule is whose."""
