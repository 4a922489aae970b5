"""Servers that other people wrote, killed while messages lie unread: `python -m tests.bridges.kills` prints the totals."""
