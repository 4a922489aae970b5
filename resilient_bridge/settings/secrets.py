"""Secrets by reference: `env:NAME` and `file:PATH`, read when they are needed and shown nowhere.

Rule: settings hold the reference and never the secret, so nothing that prints or writes settings can show one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import attrs

from ..values.fields import Value
from .reading import BAD, Reading


_MOST_BYTES: Final = 64 * 1024
REFERENCE: Final = "env:NAME or file:PATH"


@attrs.frozen(repr=False, eq=False)
class Secret(Value):
    """A function that returns the secret as it is now: the client asks once per connection attempt, so a rotated one is taken up.

    `reference` is `env:NAME` or `file:PATH`, of which a line break at the end is cut. Raises LookupError if there is nothing.
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


def is_reference(raw: Any) -> bool:
    """Return whether a text refers to a secret."""
    return isinstance(raw, str) and raw.startswith(("env:", "file:")) and not raw.endswith(":")


def read_secret(raw: Any, path: str, reading: Reading) -> Any:
    """Return the Secret that a text refers to, after a first look that there is one; a literal is refused."""
    if callable(raw):  # from a dict in a program
        return raw
    if not is_reference(raw):
        return reading.fail(path, f"{REFERENCE}: a secret is not written into settings", raw, is_secret=True)
    secret = Secret(raw)
    return secret if resolved(raw, path, reading) is not BAD else BAD


def resolved(raw: str, path: str, reading: Reading) -> Any:
    """Return the text itself, or what it refers to."""
    if not is_reference(raw):
        return raw
    try:
        return Secret(raw)()
    except LookupError as error:
        return reading.fail(path, str(error.args[0]), raw)
