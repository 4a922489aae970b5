"""Bulkhead: the value, the permits, and the layer that waits for a free one."""
