"""The end of a child process and of all that it started: asked, then told, then taken away, always within a bound.

Rule: nobody is signalled by a number that may belong to somebody else by now, and an end that has begun is finished before
a cancellation is passed on.
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

from ..world import REAL
from . import process_groups


KILL_SECONDS: Final = 5.0  # what the system has to take away a child that was killed
CLOSE_SECONDS: Final = 1.0  # our own ends of the pipes
_ORPHAN_SECONDS: Final = 0.5  # as for a child, for what it had started; nobody tells us, so we look
_LOOK_SECONDS: Final = (0.01, 0.2)  # between two looks: at first, and at most


class Calm:
    """Waits that no cancellation cuts short: it is kept, and raised once what has to end has ended."""

    def __init__(self) -> None:
        self._cancelled: asyncio.CancelledError | None = None

    async def wait(self, future: asyncio.Future[Any], seconds: float | None = None) -> bool:
        """Return whether the future was done within so many seconds."""
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
        """Keep a cancellation that came before the wait."""
        self._cancelled = error

    def give_back(self) -> None:
        """Raise the cancellation that was kept, if there was one."""
        if self._cancelled is not None:
            try:
                raise self._cancelled
            finally:
                self._cancelled = None


class ProcessTree:
    """A child that leads a session of its own, and what it started there; `exited` is done once the child is reaped."""

    def __init__(self, transport: asyncio.SubprocessTransport, exited: asyncio.Future[None]) -> None:
        self._transport = transport
        self._exited = exited
        self._pid = transport.get_pid()

    async def end(self, calm: Calm, seconds: float) -> None:
        """SIGTERM to all, after `seconds` SIGKILL; returns when all are gone, 5.5 s after the kill at the latest.

        What moved to a session of its own is not reached. On Windows: Ctrl-Break, then the tree is ended; see `process_groups`.
        """
        await self._signal_all(calm, is_last=False)
        if not await self.is_ended_within(calm, seconds):
            await self._signal_all(calm, is_last=True)
            await calm.wait(self._exited, KILL_SECONDS)
            await self.is_ended_within(calm, _ORPHAN_SECONDS)

    async def is_ended_within(self, calm: Calm, seconds: float) -> bool:
        """Wait for the child, and for what it started, for so many seconds; return whether all are gone."""
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
        """Whether anything that the child started, and that stayed in its group, still runs."""
        if self._send(0):
            if _is_running(self._pid):
                return True
            _reap_orphans(self._pid)
        return False

    async def _signal_all(self, calm: Calm, *, is_last: bool) -> None:
        """Ask all of the group to end, or take all of it away."""
        if sys.platform == "win32":
            if self._transport.get_returncode() is None:  # its number is ours until then
                send = process_groups.take_away if is_last else process_groups.ask_to_end
                await calm.wait(wrap_future(REAL.call_in_thread(partial(send, self._pid), "taskkill")))
        else:
            self._send(signal.SIGKILL if is_last else signal.SIGTERM)

    def _send(self, number: int) -> bool:
        """Send a signal to all of the process group, 0 only to ask; return whether anybody was there to get it."""
        if sys.platform == "win32":
            return False
        # A group keeps its number from being used again, so a process of that number says that ours is gone.
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
        return send is os.kill  # a process of somebody else; a group in which we may signal nobody
    return True


def _reap_orphans(group: int) -> None:
    """Where we are the init of a container, what our child left behind became ours, and nobody else will reap it."""
    if sys.platform != "win32":
        try:
            while os.waitpid(-group, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def _is_running(group: int) -> bool:
    """Whether any of a group is more than a zombie: an init that reaps late, or never, must not keep us waiting.

    Reads all of /proc, so it is asked last; where there is none, whoever is there counts as running.
    """
    stats = list(Path("/proc").glob("[0-9]*/stat"))
    for stat in stats:
        try:
            state, _, its_group = stat.read_bytes().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):  # gone since
            continue
        if int(its_group) == group and state not in {b"Z", b"X"}:
            return True
    return not stats
