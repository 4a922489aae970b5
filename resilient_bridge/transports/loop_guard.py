"""Checks that an object that holds connections is used only in the process and the event loop that
it belongs to.

Rule: every public method of such an object checks its guard before it does anything, so misuse
raises a typed error at once. Without it, the caller could wait for ever, because a wake-up for
another loop is lost silently. Plain reads (a state, an id, `health()`) are allowed from any thread
of the process, because a health endpoint often has a thread of its own.
"""

from __future__ import annotations

import asyncio
import os

from ..failure import config_error
from .event_loop import no_loop


class LoopGuard:
    """Stores the process that created an object and, in `loop`, the event loop that entered it
    (None before that).
    """

    __slots__ = ("_name", "_pid", "loop")

    def __init__(self, name: str) -> None:
        """Guard the object; `name` is used in its errors."""
        self._name = name
        self._pid = os.getpid()
        self.loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise ConfigError in another process, in a thread without a running loop, or on another
        loop than the one that entered.
        """
        if os.getpid() != self._pid:
            self.check_process()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is self.loop and loop is not None:
            return
        if loop is None and self.loop is None:
            raise no_loop(self._name)
        if loop is None or (self.loop is not None and loop is not self.loop):
            raise config_error(
                self._name,
                "the event loop that entered it",
                "a thread without one" if loop is None else "another one",
            )

    @property
    def is_forked(self) -> bool:
        """Return whether this is another process than the one that made the object."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Raise ConfigError in another process than the one that made the object: a fork has a copy
        of its memory, but none of its tasks.
        """
        if self.is_forked:
            raise config_error(
                self._name, "the process that made it: a child makes its own", "a forked one"
            )
