"""The kvscale command: a shell over the same functions that the operator runs."""
