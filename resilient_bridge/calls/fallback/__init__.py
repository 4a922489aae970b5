"""Fallback: the value, and the functions that are called instead."""
