"""What the traffic asks for: length distributions, residency, floors."""
