"""The loop: observe, decide, validate, act; and what explains it."""
