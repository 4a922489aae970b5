"""Ends a child process and its descendants: SIGTERM, then SIGKILL, always within a time bound.

Rules: no signal is sent to a process number that may have been reused, and an end that has started
is finished before a cancellation is passed on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio import wrap_future
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from ...world import REAL
from . import groups


KILL_SECONDS: Final = 5.0  # seconds for the system to remove a killed child
CLOSE_SECONDS: Final = 1.0  # seconds to close our ends of the pipes
# seconds for the child's descendants; the system does not notify us of their exit, so we poll
_ORPHAN_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = (0.01, 0.2)  # seconds between two polls: at first, and at most


class Calm:
    """Waits for futures without being interrupted by a cancellation, which is stored until
    `give_back` raises it.
    """

    def __init__(self) -> None:
        self._cancelled: asyncio.CancelledError | None = None

    async def wait(self, future: asyncio.Future[Any], seconds: float | None = None) -> bool:
        """Wait that many seconds at most for the future; return whether it is done."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        while not future.done():
            remaining = None if until is None else until - loop.time()
            if remaining is not None and remaining <= 0:
                break
            try:
                await asyncio.wait([future], timeout=remaining)
            except asyncio.CancelledError as error:
                self._cancelled = error
        return future.done()

    def keep(self, error: asyncio.CancelledError) -> None:
        """Store a cancellation that came before the wait."""
        self._cancelled = error

    def give_back(self) -> None:
        """Raise the stored cancellation, if there is one."""
        if self._cancelled is not None:
            try:
                raise self._cancelled
            finally:
                self._cancelled = None


class ProcessTree:
    """A child that leads its own process group, and its descendants in it; `exited` is done once
    the child is reaped.
    """

    def __init__(
        self, transport: asyncio.SubprocessTransport, exited: asyncio.Future[None]
    ) -> None:
        self._transport = transport
        self._exited = exited
        self._pid = transport.get_pid()

    async def end(self, calm: Calm, seconds: float) -> None:
        """Send SIGTERM to the process group and, after `seconds`, SIGKILL; return when all are
        gone, 5.5 s after the kill at the latest.

        A process that moved to another process group or session is not ended. On Windows it sends
        Ctrl-Break, then runs `taskkill`; see `groups`.
        """
        await self._signal_all(calm, is_last=False)
        if not await self.is_ended_within(calm, seconds):
            await self._signal_all(calm, is_last=True)
            await calm.wait(self._exited, KILL_SECONDS)
            await self.is_ended_within(calm, _ORPHAN_SECONDS)

    async def is_ended_within(self, calm: Calm, seconds: float) -> bool:
        """Wait up to `seconds` for the child and its descendants; return whether all have ended."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        await calm.wait(self._exited, seconds)
        pause, longest = _LOOK_SECONDS
        while self._exited.done() and self._has_survivors():
            remaining = until - loop.time()
            if remaining <= 0:
                return False
            await calm.wait(loop.create_future(), min(remaining, pause))
            pause = min(2 * pause, longest)
        return self._exited.done()

    def _has_survivors(self) -> bool:
        """Return whether a descendant of the child that stayed in its group still runs."""
        if self._send(0):
            if _is_running(self._pid):
                return True
            _reap_orphans(self._pid)
        return False

    async def _signal_all(self, calm: Calm, *, is_last: bool) -> None:
        """Ask the whole group to end, or kill it."""
        if sys.platform == "win32":
            # a child that is not reaped yet: its process number cannot have been reused
            if self._transport.get_returncode() is None:
                send = groups.take_away if is_last else groups.ask_to_end
                await calm.wait(
                    wrap_future(REAL.call_in_thread(partial(send, self._pid), "taskkill"))
                )
        else:
            self._send(signal.SIGKILL if is_last else signal.SIGTERM)

    def _send(self, number: int) -> bool:
        """Send a signal to the process group, 0 to check only; return whether a process was there
        to receive it.
        """
        if sys.platform == "win32":
            return False
        # A group's number is not reused while the group exists, so a process with that number as
        # its pid shows that our group has ended.
        is_reaped = self._transport.get_returncode() is not None
        if is_reaped and _is_there(os.kill, self._pid, 0):
            return False
        return _is_there(os.killpg, self._pid, number)


def _is_there(send: Callable[[int, int], None], target: int, number: int) -> bool:
    try:
        send(target, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # another user's process; for a group: one whose members we may not signal
        return send is os.kill
    return True


def _reap_orphans(group: int) -> None:
    """Where this process is the init of a container, reap the orphans of our child: no other
    process will.
    """
    if sys.platform != "win32":
        try:
            while os.waitpid(-group, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def _is_running(group: int) -> bool:
    """Return whether a group has a process other than zombies: an init that reaps late, or never,
    must not delay us.

    Reads all of /proc, so it is the last check; without /proc every remaining process counts as
    running.
    """
    stats = list(Path("/proc").glob("[0-9]*/stat"))
    for stat in stats:
        try:
            state, _, its_group = stat.read_bytes().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):  # it has ended since
            continue
        if int(its_group) == group and state not in {b"Z", b"X"}:
            return True
    return not stats
