"""Hedge: the value, what a policy has learnt of its answers, and the race of requests."""
