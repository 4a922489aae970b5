"""Circuits: the value that users write, the state that it is the setting of, and the layer that asks it."""
