"""One look at a local daemon: ready, starting, stopping, or not there at all.

Rule: a look raises nothing but cancellation, ends within its time and leaves no socket behind. What it saw is kept in words,
because "unreachable" alone helps nobody.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from ...classification import classify
from ...errors import config_error


_LONGEST_LINE: Final = 4_096  # bytes of a status line
_LONGEST_BODY: Final = 65_536  # bytes read after it, so that the daemon can finish what it says
_WANTED: Final = "an http:// URL without credentials, or an async function that returns a DaemonHealth"
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: |\r?\n)")


class DaemonHealth(StrEnum):
    """What a look at a daemon found: 503 is `STARTING`, or `STOPPING` after it has been ready; all else is `UNREACHABLE`."""

    READY = "ready"
    STARTING = "starting"
    STOPPING = "stopping"
    UNREACHABLE = "unreachable"


Check: TypeAlias = Callable[[], Awaitable[DaemonHealth]]


class Target(NamedTuple):
    """Where to ask, and what."""

    host: str
    port: int
    path: str

    def __str__(self) -> str:
        """Return host and port, as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HealthProbe:
    """Looks at one daemon, by a URL or a function; `seen` says in words what the last look saw."""

    def __init__(self, health: str | Check, seconds: float) -> None:
        """Prepare to look, each time for at most `seconds`. ConfigError for what cannot be asked."""
        self.seen = "nothing yet"
        self._seconds = seconds
        self._was_ready = False
        if isinstance(health, str):
            self._ask = partial(self._http, _target(health))
        elif callable(cast("object", health)):
            self._ask = partial(self._checked, health)
        else:
            raise config_error("Daemon.health", _WANTED, cast("object", health))

    async def look(self) -> DaemonHealth:
        """Ask once."""
        try:
            found = await self._ask()
        except TimeoutError:
            found, self.seen = DaemonHealth.UNREACHABLE, f"no answer within {self._seconds:g} s"
        except Exception as error:  # noqa: BLE001 -- whatever it is, nobody who is ready was seen
            found, self.seen = DaemonHealth.UNREACHABLE, classify(error).message
        self._was_ready = found is DaemonHealth.READY or (
            self._was_ready and found is not DaemonHealth.UNREACHABLE
        )
        return found

    async def _checked(self, check: Check) -> DaemonHealth:
        async with asyncio.timeout(self._seconds):
            found = DaemonHealth(await check())
        self.seen = str(found)
        return found

    async def _http(self, target: Target) -> DaemonHealth:
        status = await http_status(target, self._seconds)
        self.seen = f"http status {status}"
        if status == 200:
            return DaemonHealth.READY
        if status == 503:
            return DaemonHealth.STOPPING if self._was_ready else DaemonHealth.STARTING
        return DaemonHealth.UNREACHABLE


async def http_status(target: Target, seconds: float) -> int:
    """Ask with GET on a connection of its own, and return the status of the answer.

    Raises OSError (a TimeoutError after `seconds`), and ValueError for what is no HTTP.
    """
    ends = asyncio.get_running_loop().time() + seconds
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout_at(ends):
            reader, writer = await asyncio.open_connection(target.host, target.port, limit=_LONGEST_LINE)
            writer.write(
                f"GET {target.path} HTTP/1.1\r\nHost: {target}\r\nAccept: */*\r\nConnection: close\r\n\r\n".encode()
            )
            line = await reader.readline()
            found = _STATUS_LINE.match(line)
            if found is None:
                raise ValueError("no http answer" if line else "connection closed without an answer")
        with suppress(OSError):  # the status is known, the rest is manners: a daemon hung up on logs an error
            async with asyncio.timeout_at(ends):
                remaining = _LONGEST_BODY
                while remaining > 0 and (got := await reader.read(remaining)):
                    remaining -= len(got)
        return int(found[1])
    finally:
        if writer is not None:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


def _target(url: str) -> Target:
    """Return where a URL leads. ConfigError, without the URL, for one that is not plain http."""
    with suppress(ValueError):  # brackets or a port that are none
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        is_plain = url.isascii() and url.isprintable() and " " not in url
        if host and is_plain and parts.scheme == "http" and "@" not in parts.netloc:
            query = f"?{parts.query}" if parts.query else ""
            return Target(host, 80 if port is None else port, (parts.path or "/") + query)
    raise config_error("Daemon.health", _WANTED, "another URL")
