"""Simulated engines, pure and seeded: the replay and the demo run on them."""
