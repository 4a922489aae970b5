"""RateLimit: the value, its state, and the layer that waits for a turn."""
