"""Limits on spend, and the book of what was spent."""
