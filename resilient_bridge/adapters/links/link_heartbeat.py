"""The heartbeat of a link over websockets: it pings, and ends a connection that does not answer.

Rule: a missing pong counts only if nothing else moves. While reading is paused because messages are
not consumed, while messages arrive, or while the write buffer drains, the pong may still come.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from ...failure import Failure, error_for


if TYPE_CHECKING:
    from ...protocol.policies.heartbeat import Heartbeat


class Beating(Protocol):
    """The part of a `Connection` that a heartbeat uses."""

    client: Any
    received: int
    has_worked: bool

    def end(self, cause: BaseException | None) -> None: ...


def has_heartbeat(client: object) -> bool:
    """Return whether this client can be pinged: a connection of websockets.

    The end of a child process or a stream is seen without a ping.
    """
    return (
        type(client).__module__.startswith("websockets.")
        and hasattr(client, "ping")
        and hasattr(client, "transport")
    )


async def beat(connection: Beating, heartbeat: Heartbeat) -> None:
    """Ping every `heartbeat.every` seconds until the connection ends.

    End it when nothing has come back for `heartbeat.timeout` seconds.
    """
    client: Any = connection.client
    while True:
        await asyncio.sleep(heartbeat.every)
        try:
            pong = await _answered(connection, client.ping(), heartbeat.timeout)
            if (
                pong is not None
                and await _answered(connection, pong, heartbeat.timeout) is not None
            ):
                connection.has_worked = True
                continue
        except Exception:  # noqa: BLE001 -- it is closing already, and reports the cause itself
            return
        text = f"no pong within {heartbeat.timeout:g} s"
        connection.end(error_for(Failure.of("CONN_HEARTBEAT_TIMEOUT", text)))
        client.transport.abort()  # a close handshake would wait for the same peer
        return


async def _answered(connection: Beating, what: Any, seconds: float) -> Any:
    """Return the result of the ping or of its pong, True if that is None.

    Return None if it did not come for `seconds`, and no data was received or sent either.
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
