"""Simulated engines as HTTP servers, for the demo and the tests."""
