"""Values in, values out: no clock, no I/O, no logging, the standard library only."""
