"""The receipts of `pipe --store`: a file with one line for each line of input that was dealt with, in the same order.

Rule: a receipt is written after the store has accepted the line and before the next line is read, so a kill can come between at most
one line and its receipt; that line, given again, gets the same key again, by which the store knows it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Final, Literal


__all__ = ["Dealt", "Receipts"]

_HEAD: Final = re.compile(rb'\{"input":"([0-9a-f]{16})"')

Dealt = Literal["accepted", "known", "refused", "empty"]


class Receipts:
    """The file at `path`, continued if it is there. `lines` of input were dealt with, in all runs.

    Its first bytes name the input, and are written before anything is accepted: the keys of lines without one of their own are
    made of this name, the line's number and what it says. Raises OSError, and ValueError for a file that is something else.
    """

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
        try:
            self.lines, whole, self._input = _read(self._fd, path)
            self._is_begun = self.lines == 0  # the head stands there, and nothing behind it
            if self._input is not None:
                os.ftruncate(self._fd, len(self._head()) if self._is_begun else whole)
            else:
                self._input = secrets.token_hex(8)
                self._write(self._head())
        except BaseException:
            os.close(self._fd)
            raise

    def _head(self) -> bytes:
        return f'{{"input":"{self._input}"'.encode()

    def key_of(self, line: bytes) -> str:
        """The key of the next line: the same for the same line at the same place of the same input."""
        said = hashlib.sha256(line.rstrip(b"\r\n")).hexdigest()[:16]
        return f"{self._input}-{self.lines + 1}-{said}"

    def add(self, state: Dealt, key: str | None = None) -> None:
        """The next line was dealt with. Raises OSError."""
        fields: dict[str, object] = {"input": self._input, "line": self.lines + 1, "state": state}
        if key is not None:
            fields["key"] = key
        text = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        self._write(text.removeprefix(self._head()) if self._is_begun else text)
        self._is_begun = False
        self.lines += 1

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def _read(fd: int, path: str) -> tuple[int, int, str | None]:
    """How many whole lines there are, how many bytes they have, and the name of the input; None for an empty file."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise ValueError("a regular file expected")
    lines, whole, first = 0, 0, b""
    with Path(path).open("rb") as file:
        for line in file:
            first = first or line
            if line.endswith(b"\n"):
                lines += 1
                whole += len(line)
    found = _HEAD.match(first)
    if first and found is None:
        raise ValueError("a file of receipts expected, got one that is something else")
    return lines, whole, None if found is None else found[1].decode()
