"""WebSocket pings for dialects without pings of their own: any server answers them.

They prove less than an answer of the application, since a proxy may give them. As with pings of a
dialect, a verdict of death needs more than an overdue answer: nothing else was received, reading
was not paused, and one more quiet moment has passed in which what had arrived could be read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ..failure import Failure


if TYPE_CHECKING:
    from ..protocol.policies.heartbeat import Heartbeat
    from .driver import Connection, Driver


_LAST_LOOK: Final = 0.25  # seconds


async def keep_alive(driver: Driver, pump: Connection, policy: Heartbeat) -> None:
    """Ping every `every` seconds; end the connection if nothing arrives in `timeout` after that."""
    session = driver.session
    while pump.loss is None:
        await asyncio.sleep(policy.every)
        heard = session.inbound.received
        try:
            answer = await pump.ping()
        except Exception:  # noqa: BLE001 -- the connection is ending; its reader reports why
            return
        if answer is None:
            return
        await asyncio.wait([answer], timeout=policy.timeout)
        if not answer.done():
            await asyncio.sleep(_LAST_LOOK)
        if (
            not answer.done()
            and session.inbound.received == heard
            and not session.reading.is_paused
        ):
            text = f"no pong within {policy.timeout:g} s"
            pump.end(Failure.of("CONN_HEARTBEAT_TIMEOUT", text))
