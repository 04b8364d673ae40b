"""Measurements: what a tick, a reaction, a simulated token and a plan cost on this machine.

Benchmarks, not tests: nothing here passes or fails. CPU time is preferred to wall time, because
it says the same on a busy machine. docs/benchmarks.md carries the figures of one run.
"""
