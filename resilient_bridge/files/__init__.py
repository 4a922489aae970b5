"""Files that store something: an exclusive lock, atomic writes, and access rights.

Rule: nothing here emits an event.
"""

from __future__ import annotations


__all__: list[str] = []  # each module is imported by its users
