"""The decision: how many replicas, why, and what that rests on."""
