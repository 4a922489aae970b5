"""Servers that are not ours, as packages install them: each started on loopback for one test, and gone after it.

One module for each server, all with the same interface: `async with socketio.running(tmp_path) as server:` gives a `Server`.
`python -m tests.bridges.servers.install NAME...` installs them; where one is not installed its tests are skipped, and fail
with RESILIENT_BRIDGE_REQUIRE_SERVERS=1.
"""

from __future__ import annotations

from typing import Any, Protocol


class Server(Protocol):
    """What a test may ask of any of them."""

    @property
    def url(self) -> str:
        """What a client connects to; the same after a restart."""
        ...

    async def start(self) -> None:
        """Start it and wait until it answers."""

    async def stop(self) -> None:
        """End it as a system does (SIGTERM) and wait until it has ended."""

    def kill(self) -> None:
        """End it at once (SIGKILL), with all processes that it started. Connects are refused until `start`."""

    async def publish(self, number: int) -> None:
        """Make the server say something that carries this number, to those who listen."""

    async def ledger(self) -> list[Any]:
        """What clients' messages did, counted by the server and in order, repeats included. Survives a kill."""
        ...
