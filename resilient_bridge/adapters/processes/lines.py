"""Lines through a pipe: splits incoming bytes into lines, and records whether an outgoing line was
written.

Rule: a line never takes more memory than its limit, and a line that is too long does not damage the
next one.
"""

from __future__ import annotations

from collections.abc import Callable


class Lines:
    """Splits a stream of bytes into lines, however the stream was cut into chunks.

    A line of more than `longest` bytes is dropped and counted in `skipped`.
    """

    def __init__(self, longest: int) -> None:
        self.skipped = 0
        self._longest = longest
        self._partial = bytearray()
        self._is_skipping = False

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Add bytes; return the lines that they complete, without their line ends (LF or CRLF)."""
        *ends, rest = bytes(data).split(b"\n")  # the event loop of Windows passes a bytearray
        lines = [line for end in ends if (line := self._finished(end)) is not None]
        self._keep(rest)
        return lines

    def end(self) -> list[bytes]:
        """Return the last line if it has no line end; else an empty list."""
        line = self._finished(b"")
        return [line] if line else []

    def _finished(self, end: bytes) -> bytes | None:
        if self._partial or self._is_skipping:
            self._keep(end)
            end = bytes(self._partial)
            self._partial = bytearray()
        line = end.removesuffix(b"\r")
        if self._is_skipping:
            self._is_skipping = False
            return None
        if len(line) > self._longest:
            self.skipped += 1
            return None
        return line

    def _keep(self, piece: bytes) -> None:
        if self._is_skipping:
            return
        if (
            len(self._partial) + len(piece) <= self._longest + 1
        ):  # one byte more, for the CR of a CRLF
            self._partial += piece
        else:
            self._is_skipping = True
            self._partial = bytearray()
            self.skipped += 1


class Outgoing:
    """One line to write to a pipe.

    `is_handed` is true once part of it may have been written. While it is false, nothing of the
    line has been written.
    """

    __slots__ = ("_wake", "data", "end", "is_handed")

    def __init__(self, data: bytes, wake: Callable[[], object]) -> None:
        self.data = data
        self.end = 0  # where the line ends, in bytes since the start of the pipe
        self.is_handed = False
        self._wake = wake

    def handed(self) -> None:
        self.is_handed = True
        self.data = b""
        self._wake()
