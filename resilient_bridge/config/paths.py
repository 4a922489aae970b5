"""Paths into a document, its size limits, and the error with a line.

Rule: a path is written in the same way for all formats.
"""

from __future__ import annotations

import json
import re
from typing import Final


MOST_BYTES: Final = 256 * 1024
MOST_KEYS: Final = 5_000
DEEPEST: Final = 24
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class DocumentError(ValueError):
    """An error in the text itself, with its line where known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def joined(path: str, key: object) -> str:
    """Return the path of a key below another: `tools.bash`, `rules."CONN RESET"`, `on[2]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    text = str(key)
    if path and not text:
        return path  # an empty key stands for the table itself
    bare = text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
    return f"{path}.{bare}" if path else bare
