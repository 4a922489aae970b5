"""Where a client that holds connections may be used: the process that made it, the event loop that entered it, and nowhere else.

Rule: misuse is told at once, typed (threat 32). A wake-up that was meant for another loop is lost without a word.
"""

from __future__ import annotations

import asyncio
import os

from ..errors import config_error


__all__ = ["Place"]


class Place:
    """The process of a client, from its making on, and its event loop, once it has one."""

    __slots__ = ("_name", "_pid", "loop")

    def __init__(self, name: str) -> None:
        """Say whose place it is, in the words of its error."""
        self._name = name
        self._pid = os.getpid()
        self.loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Refuse another process, a thread without a loop, and another loop than the client's."""
        if os.getpid() != self._pid:
            raise config_error(self._name, "the process that made it: a child makes its own", "a forked one")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is None or (self.loop is not None and loop is not self.loop):
            raise config_error(
                self._name,
                "the event loop that entered it",
                "a thread without one" if loop is None else "another one",
            )
