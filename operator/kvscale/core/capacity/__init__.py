"""What an engine can hold: budget, blocks, footprint, ceiling, step time."""
