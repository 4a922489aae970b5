"""Links to the other side that carry frames: bytes, not meaning, and no decision about what a loss means.

What carries frames fulfils the contract `Transport`; `process` and `lines` carry the lines of a child instead. Nothing is imported here, so that asking for one
transport never loads the libraries of another.
"""

from __future__ import annotations


__all__: list[str] = []  # each module is imported by those who need it
