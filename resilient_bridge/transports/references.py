"""Secrets by reference, `env:NAME` and `file:PATH`: read when they are needed, and never shown.

Rule: whoever sends a secret keeps its source and not its value, because a secret is rotated while
the process runs. It is read for each connection, and again after a refusal (401).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import attrs

from ..failure import Failure, config_error, error_for


REFERENCE: Final = "env:NAME or file:PATH"
_MOST_BYTES: Final = 64 * 1024
_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
)  # fmt: skip
"""Without O_NONBLOCK, opening a named pipe would wait for its writer, perhaps for ever."""


class UnreadableError(LookupError):
    """A secret that cannot be read.

    `wanted` says what should be there, `reference` where; `is_lasting`: it is the wrong thing, so
    waiting does not help.
    """

    def __init__(self, wanted: str, reference: str, *, is_lasting: bool = False) -> None:
        super().__init__(f"wanted {wanted}, got {reference}")
        self.wanted, self.reference, self.is_lasting = wanted, reference, is_lasting


def is_reference(raw: Any) -> bool:
    """Return whether a text refers to a secret; `file://` alone is the origin of a local page."""
    if not isinstance(raw, str):
        return False
    kind, _, where = raw.partition(":")
    return kind in {"env", "file"} and where not in {"", "//"} and not where.endswith(":")


def read_secret(reference: str) -> str:
    """Return the secret as it is now, without a byte order mark, and the line breaks at its end.

    Raises UnreadableError if the variable or the file is missing or empty, or (lasting) if that is
    no regular file, has more than 64 KiB, or is not UTF-8.
    """
    kind, _, name = reference.partition(":")
    if kind == "env":
        found, wanted = os.environ.get(name, ""), "a variable that is set"
    else:
        found, wanted = _contents(name, reference), "a file that can be read and holds a secret"
    found = found.rstrip("\r\n")
    if not found:
        raise UnreadableError(wanted, reference)
    return found


def _contents(path: str, reference: str) -> str:
    """Return the text of a file; empty for one that cannot be opened."""
    try:
        handle = os.open(Path(path).expanduser(), _FLAGS)
    except (
        OSError,
        ValueError,
        RuntimeError,
    ):  # also a name that no file can have, a user without a home
        return ""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UnreadableError("a regular file", reference, is_lasting=True)
        data = b""
        while len(data) <= _MOST_BYTES and (piece := os.read(handle, _MOST_BYTES + 1)):
            data += piece
    except OSError:
        return ""
    finally:
        os.close(handle)
    if len(data) > _MOST_BYTES:
        raise UnreadableError(f"a file of at most {_MOST_BYTES} bytes", reference, is_lasting=True)
    try:
        # editors of Windows begin a file with a mark that is no part of it
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableError("a file of text in UTF-8", reference, is_lasting=True) from None


@attrs.frozen
class Secret:
    """A callable that returns the secret at `reference`, as it is now.

    Raises AuthError (AUTH_REFRESH_FAILED) if it is missing, and ConfigError if it never can be one.
    """

    reference: str

    def __call__(self) -> str:
        return _read(read_secret, self.reference)


def _read(read: Any, text: str) -> str:
    try:
        return cast("str", read(text))
    except UnreadableError as error:
        if error.is_lasting:
            raise config_error("secret", error.wanted, error.reference) from None
        raise error_for(Failure.of("AUTH_REFRESH_FAILED", f"secret: {error}")) from None


# ---- headers ---------------------------------------------------------------------------------------------------------


def names_secret(text: str) -> bool:
    """Return whether a word of a header's value refers to a secret, as in `Bearer env:TOKEN`."""
    return any(map(is_reference, text.split(" ")))


def only_names_secret(text: str) -> bool:
    """Return whether a header's value is such words alone, with at most a scheme before them."""
    scheme, *rest = text.split(" ")
    return all(map(is_reference, rest if rest and scheme.isalpha() else [scheme, *rest]))


def in_words(text: str) -> str:
    """Return a header's value with each word that refers to a secret replaced by it.

    Raises UnreadableError, also (lasting) for a secret that no header may have.
    """
    return " ".join(_word(word) if is_reference(word) else word for word in text.split(" "))


def _word(reference: str) -> str:
    found = read_secret(reference).strip()
    if not found.isprintable():
        wanted = "a secret without a line break or another character that no header may have"
        raise UnreadableError(wanted, reference, is_lasting=True)
    return found


@attrs.frozen
class Headers:
    """A callable that returns headers, with the secrets in them as they are now."""

    entries: tuple[tuple[str, str], ...]

    def __call__(self) -> dict[str, str]:
        """Return the current headers. Raises as a Secret does."""
        return {name: _read(in_words, text) for name, text in self.entries}


# ---- arguments -------------------------------------------------------------------------------------------------------


def as_source(value: Any) -> Any:
    """Return a Secret for a text that refers to one, anything else unchanged."""
    return Secret(value) if is_reference(value) else value


def as_headers(headers: Any) -> Any:
    """Return Headers for a mapping of texts in which a value refers to a secret, else as it is."""
    if not isinstance(headers, Mapping):
        return headers
    named: Mapping[Any, Any] = headers  # pyright: ignore[reportUnknownVariableType]
    entries = tuple(named.items())
    # if not, it is refused elsewhere
    is_text = all(isinstance(part, str) for pair in entries for part in pair)
    return Headers(entries) if is_text and any(names_secret(text) for _, text in entries) else named
