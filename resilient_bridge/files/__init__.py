"""Files in which something is stored: a lock of one owner, atomic writes, and who may read them. Rule: nothing here emits an event."""

from __future__ import annotations


__all__: list[str] = []  # each module is imported by those who need it
