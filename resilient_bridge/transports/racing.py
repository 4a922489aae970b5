"""Staggered connection attempts to all addresses of a name, after RFC 8305: one unreachable address
must not use up the deadline.

Rule: every attempt that loses, or succeeds after a cancellation, is closed. asyncio's own
`happy_eyeballs_delay` leaks a connected socket if it is cancelled at the wrong moment.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from itertools import chain, zip_longest
from typing import Any, Final, TypeVar


T = TypeVar("T")
# An address without a route from this machine says nothing about the server.
_ROUTELESS: Final = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
)


def interleaved(infos: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return the hosts of a `getaddrinfo()` answer, each once, alternating between address
    families.
    """
    families: dict[int, list[str]] = {}
    for family, *_, address in infos:
        hosts = families.setdefault(family, [])
        if address[0] not in hosts:
            hosts.append(address[0])
    return [
        host for host in chain.from_iterable(zip_longest(*families.values())) if host is not None
    ]


async def first_connected(
    attempts: Iterable[Callable[[], Coroutine[Any, Any, T]]],
    delay: float,
    discard: Callable[[T], object],
) -> T:
    """Run the attempts, each `delay` seconds after the one before or when that fails, and return
    the first result.

    If all fail with an `OSError`, it raises the first one that is not a missing route. A TLS
    failure, or any other error, is raised at once. A result that is not returned is passed to
    `discard`, also after a cancellation.
    """
    waiting = deque(attempts)
    started: list[asyncio.Task[T]] = []
    winner: asyncio.Task[T] | None = None
    failures: list[OSError] = []
    try:
        running: set[asyncio.Task[T]] = set()
        while waiting or running:
            if waiting:
                started.append(asyncio.create_task(waiting.popleft()()))
                running.add(started[-1])
            done, running = await asyncio.wait(
                running, timeout=delay if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    winner = task
                    return task.result()
                if not isinstance(error, OSError) or isinstance(error, ssl.SSLError):
                    raise error
                failures.append(error)
        # imported here, where an error will be read anyway
        from ..failure.system import errno_of

        raise next((error for error in failures if errno_of(error) not in _ROUTELESS), failures[0])
    finally:
        for task in started:
            if task is not winner:
                task.cancel()
                task.add_done_callback(lambda loser: _take_down(loser, discard))
        # Break the cycle of exception and frame, which would live until the next garbage
        # collection.
        del failures


def _take_down(loser: asyncio.Task[T], discard: Callable[[T], object]) -> None:
    if not loser.cancelled() and loser.exception() is None:
        discard(loser.result())
