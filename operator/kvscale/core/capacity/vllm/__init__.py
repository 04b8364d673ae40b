"""What one vLLM engine holds: settings resolved, the budget, block tables, blocks, the ceiling."""
