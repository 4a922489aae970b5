"""Secrets by reference: `env:NAME` and `file:PATH`, read when they are needed and never shown.

Rule: settings hold the reference and never the secret, so nothing that prints or writes settings
can show one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import attrs

from ..values.fields import Value
from .reading import Reading, is_reference


_MOST_BYTES: Final = 64 * 1024
REFERENCE: Final = "env:NAME or file:PATH"


@attrs.frozen(repr=False, eq=False)
class Secret(Value):
    """A callable that returns the current secret; the client calls it at each connection attempt,
    so a changed secret is used.

    `reference` is `env:NAME` or `file:PATH`; at most 64 KiB of the file are read, without the line
    breaks at its end. Raises LookupError if the variable or file is missing or empty.
    """

    reference: str

    def __call__(self) -> str:
        kind, _, name = self.reference.partition(":")
        found = os.environ.get(name) if kind == "env" else _contents(name)
        if not found:
            wanted = (
                "a variable that is set" if kind == "env" else "a file that can be read and holds a secret"
            )
            raise LookupError(wanted)
        return found


def _contents(path: str) -> str | None:
    try:
        with Path(path).expanduser().open("rb") as file:
            return file.read(_MOST_BYTES).decode().rstrip("\r\n")
    except (OSError, ValueError, RuntimeError):
        return None


def resolved(raw: str, path: str, reading: Reading) -> Any:
    """Return the text itself, or the secret it refers to; BAD if that is missing."""
    if not is_reference(raw):
        return raw
    try:
        return Secret(raw)()
    except LookupError as error:
        return reading.fail(path, str(error.args[0]), raw)
