"""Lines through a pipe: incoming bytes are assembled into lines; an outgoing line knows whether it
was handed out.

Rule: the cost of one line is bounded by its limit, and a line that is too long does not damage the
next one.
"""

from __future__ import annotations

from collections.abc import Callable


class Lines:
    """Splits bytes into lines, wherever they were cut.

    A line over `longest` bytes is skipped up to its end and counted.
    """

    def __init__(self, longest: int) -> None:
        self.skipped = 0
        self._longest = longest
        self._partial = bytearray()
        self._is_skipping = False

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Return the lines that are complete now, without their line ends (`\n` or `\r\n`)."""
        *ends, rest = bytes(data).split(b"\n")  # the event loop of Windows passes a bytearray
        lines = [line for end in ends if (line := self._finished(end)) is not None]
        self._keep(rest)
        return lines

    def end(self) -> list[bytes]:
        """Return what came after the last line end, if anything did."""
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
        if len(self._partial) + len(piece) <= self._longest + 1:  # a `\r` may be no part of the line
            self._partial += piece
        else:
            self._is_skipping = True
            self._partial = bytearray()
            self.skipped += 1


class Outgoing:
    """One line on its way out. `is_handed`: some of it may have left; False and no longer waiting means that none has."""

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
