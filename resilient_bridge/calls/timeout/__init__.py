"""Timeout and Deadline: the values, the timers, and the layers that apply them."""
