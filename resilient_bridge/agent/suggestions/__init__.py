"""Suggestions for a failure, for a person or a model: near misses, backups, and rules of the user."""
