"""Headers with references to secrets, `env:NAME` and `file:PATH`, read for each connection.

Rule: an error never shows a secret, only the name of its variable or file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .upstream import LostError


if TYPE_CHECKING:
    from collections.abc import Mapping


_MOST: Final = 65_536  # bytes of a file that holds a secret


def resolved(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with each word `env:NAME` or `file:PATH` replaced.

    Raises a final LostError for a secret that is missing or that no header may have.
    """
    return {name: " ".join(_word(name, word) for word in value.split(" ")) for name, value in headers.items()}


def _word(header: str, word: str) -> str:
    kind, _, where = word.partition(":")
    if kind == "env" and where:
        found = os.environ.get(where, "")
        missing = f"the environment variable {where} is not set"
    elif kind == "file" and where:
        found, missing = _read(where), f"the file {where} cannot be read, or is empty"
    else:
        return word
    found = found.strip()
    if not found:
        raise LostError.final(f"header {header}: {missing}")
    if not found.isprintable():
        text = f"{kind}:{where} holds a line break or another character that no header may have"
        raise LostError.final(f"header {header}: {text}")
    return found


def _read(path: str) -> str:
    try:
        with Path(path).expanduser().open("rb") as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except (OSError, ValueError, RuntimeError):  # a name that no file can have, or a user without a home
        return ""
