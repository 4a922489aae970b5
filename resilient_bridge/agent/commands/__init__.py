"""Asynchronous commands: sent, asked about until they end, and never assumed to have run."""
