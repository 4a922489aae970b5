"""Asynchronous commands: sent once and polled until they end."""
