"""Bulkhead and RateLimit: the values, their state, and the layers that wait for it."""
