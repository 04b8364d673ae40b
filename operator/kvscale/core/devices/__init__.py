"""Devices: the table of cards, MIG slices, and what a node's labels say of its own."""
