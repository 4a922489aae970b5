"""Counts the bytes that an ended child left unread in its stdin pipe, to prove that it never read a
line's end, and so never acted on the line.

Rule: only bytes that were read out of the pipe here count, because no other process can read them
any more. Linux only; elsewhere every line counts as read.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self


if TYPE_CHECKING:
    import asyncio

_CHUNK: Final = 65536


class Unread:
    """Counts the bytes written to a pipe and, after its reader has ended, those left unread."""

    def __init__(self, descriptor: int | None) -> None:
        """Take ownership of `descriptor`, a writing end: while it is open, the content of the pipe
        is not lost, and the reader gets no end of input.

        With None, every line counts as read.
        """
        self._descriptor = descriptor
        self._written = 0
        self._unread = 0

    @classmethod
    def of(cls, pipe: asyncio.WriteTransport) -> Self:
        """Return the count for a pipe that nothing was written to yet."""
        file = pipe.get_extra_info("pipe")  # uvloop has none
        if sys.platform != "linux" or file is None:
            return cls(None)
        try:
            return cls(os.dup(file.fileno()))
        except (
            OSError,
            ValueError,
        ):  # no descriptor is free; the child is gone, and its pipe closed
            return cls(None)

    def wrote(self, count: int) -> int:
        """Add this number of written bytes; return the total."""
        self._written += count
        return self._written

    def take(self) -> None:
        """Read and count the unread bytes, and close the descriptor."""
        if sys.platform != "linux" or self._descriptor is None:
            return
        # OSError: there is no /proc, or the pipe is empty and has other writers.
        with suppress(OSError):
            source = os.open(
                f"/proc/self/fd/{self._descriptor}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            )
            try:
                while count := len(os.read(source, _CHUNK)):
                    self._unread += count
            finally:
                os.close(source)
        self.close()

    def may_have_read(self, end: int) -> bool:
        """Return whether the reader may have acted on the line that ends at this offset: it has
        read all of it but, at most, the line break.
        """
        return self._written - self._unread >= end - 1

    def close(self) -> None:
        """Close the descriptor. Calling it again does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
