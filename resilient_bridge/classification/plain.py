"""Which classes are never an answer that stands for a failure. In a module of its own, because every call reads it and few programs need more."""

from __future__ import annotations

from typing import Final


PLAIN: Final[set[type]] = {type(None), bool, int, float, str, bytes, list, tuple}
"""Grows as results are seen; who teaches `classify` a class takes it out."""
