"""What traffic looks like: length distributions, residency, the sum of many."""
