"""Simulated engines, pure and seeded: fleet, demo, benchmarks and tests run on them."""
