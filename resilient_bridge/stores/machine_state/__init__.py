"""Adaptive limits that all processes of one machine share through a file."""
