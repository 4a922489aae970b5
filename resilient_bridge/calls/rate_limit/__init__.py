"""RateLimit: the value, the turns that are given out, and the layer that waits for its turn."""
