"""One health check of a local daemon: ready, starting, stopping or unreachable.

Rule: a check raises nothing but cancellation, ends within its time and closes its socket. Its
finding is also kept as text, because "unreachable" alone does not give the reason.
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

from ...failure import classify, config_error


_LONGEST_LINE: Final = 4_096  # bytes of a status line
_LONGEST_BODY: Final = (
    65_536  # bytes read after the status line, so that the daemon can finish its answer
)
_WANTED: Final = (
    "an http:// URL without credentials, or an async function that returns a DaemonHealth"
)
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: |\r?\n)")


class DaemonHealth(StrEnum):
    """The result of a health check.

        print(await daemon.health() is rb.agent.DaemonHealth.READY)      # True

    Over HTTP, 200 is READY, 503 is STARTING, or STOPPING after the daemon was ready, and all else
    is UNREACHABLE.
    """

    READY = "ready"
    STARTING = "starting"
    STOPPING = "stopping"
    UNREACHABLE = "unreachable"


Check: TypeAlias = Callable[[], Awaitable[DaemonHealth]]
"""Asks the daemon for its state."""


class Target(NamedTuple):
    """Host, port and path of a health check."""

    host: str
    port: int
    path: str

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HealthProbe:
    """Checks one daemon, by a URL or a function; `seen` is the last finding as text."""

    def __init__(self, health: str | Check, seconds: float) -> None:
        """Prepare checks of at most `seconds` each. ConfigError for a wrong `health`."""
        self.seen = "nothing yet"
        self._seconds = seconds
        self._was_ready = False
        self.asks_url = isinstance(health, str)
        if isinstance(health, str):
            self._ask = partial(self._http, _target(health))
        elif callable(cast("object", health)):
            self._ask = partial(self._checked, health)
        else:
            raise config_error("Daemon.health", _WANTED, cast("object", health))

    async def look(self) -> DaemonHealth:
        try:
            found = await self._ask()
        except TimeoutError:
            found, self.seen = DaemonHealth.UNREACHABLE, f"no answer within {self._seconds:g} s"
        except Exception as error:  # noqa: BLE001 -- any error means not ready
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
    """Send GET on a new connection and return the status code of the response.

    Raises OSError (TimeoutError after `seconds`), and ValueError for a response that is not HTTP.
    """
    ends = asyncio.get_running_loop().time() + seconds
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout_at(ends):
            reader, writer = await asyncio.open_connection(
                target.host, target.port, limit=_LONGEST_LINE
            )
            writer.write(
                f"GET {target.path} HTTP/1.1\r\nHost: {target}\r\nAccept: */*\r\nConnection: close\r\n\r\n".encode()
            )
            line = await reader.readline()
            found = _STATUS_LINE.match(line)
            if found is None:
                raise ValueError(
                    "no http answer" if line else "connection closed without an answer"
                )
        with suppress(
            OSError
        ):  # read the rest, too: a daemon whose response is cut off logs an error
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
    """Return the target of a URL.

    ConfigError, without the URL in its text, for one that is not plain http.
    """
    with suppress(ValueError):  # invalid brackets or port
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        is_plain = url.isascii() and url.isprintable() and " " not in url
        if host and is_plain and parts.scheme == "http" and "@" not in parts.netloc:
            query = f"?{parts.query}" if parts.query else ""
            return Target(host, 80 if port is None else port, (parts.path or "/") + query)
    raise config_error("Daemon.health", _WANTED, "another URL")
