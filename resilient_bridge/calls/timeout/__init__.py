"""Timeout and Deadline: the values, the timers, and the layers that end an attempt or a whole call in time."""
