"""Breaker: the value, the circuit that it is the setting of, and the layer that asks the circuit."""
