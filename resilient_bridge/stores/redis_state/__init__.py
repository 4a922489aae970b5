"""Circuits and budgets in Redis, shared between processes."""
