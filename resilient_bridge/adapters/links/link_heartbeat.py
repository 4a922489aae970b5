"""The heartbeat of a link over websockets: it pings, and ends a connection that does not answer.

Rule: a verdict needs silence. While reading is paused because messages are not taken, while
messages arrive, or while what was sent still drains, the answer may be on its way.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import Failure, error_for


if TYPE_CHECKING:
    from ...protocol.policies.heartbeat import Heartbeat


class Beating(Protocol):
    """What a heartbeat uses of a `Connection`."""

    client: Any
    received: int
    has_worked: bool

    def end(self, cause: BaseException | None) -> None: ...


def has_heartbeat(client: object) -> bool:
    """Return whether this client can be pinged: a connection of websockets.

    The end of a child or a stream is visible anyway.
    """
    return (
        type(client).__module__.startswith("websockets.")
        and hasattr(client, "ping")
        and hasattr(client, "transport")
    )


async def beat(connection: Beating, heartbeat: Heartbeat) -> None:
    """Ping until the connection ends.

    End it when nothing has come back for `heartbeat.timeout` seconds.
    """
    client: Any = connection.client
    while True:
        await asyncio.sleep(heartbeat.every)
        try:
            pong = await _answered(connection, client.ping(), heartbeat.timeout)
            if pong is not None and await _answered(connection, pong, heartbeat.timeout) is not None:
                connection.has_worked = True
                continue
        except Exception:  # noqa: BLE001 -- it is closing already, and says itself why
            return
        text = f"no pong within {heartbeat.timeout:g} s"
        connection.end(error_for(Failure.of("CONN_HEARTBEAT_TIMEOUT", text)))
        client.transport.abort()  # a goodbye would wait for the same peer
        return


async def _answered(connection: Beating, what: Any, seconds: float) -> Any:
    """Return the result of the ping.

    None if nothing came, and nothing else moved either, for so many seconds.
    """
    waiting = asyncio.ensure_future(what)
    transport = connection.client.transport
    try:
        while True:
            before = connection.received, transport.get_write_buffer_size()
            done, _ = await asyncio.wait([waiting], timeout=seconds)
            if done:
                result = waiting.result()
                return True if result is None else result
            received, buffered = connection.received, transport.get_write_buffer_size()
            is_moving = received != before[0] or buffered < before[1]
            if transport.is_reading() and not is_moving:
                return None
    finally:
        waiting.cancel()
