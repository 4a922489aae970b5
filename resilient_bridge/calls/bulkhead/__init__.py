"""Bulkhead: the value, who is inside, and the layer that waits for a free place."""
