"""Processes that die: kill -9 at any moment, and the accounts of what they had promised."""
