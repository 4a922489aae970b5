"""The argument of `on_connect`: the new connection, before anything else is sent on it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from ..failure import Failure, config_error, error_for


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..protocol import Message
    from ..protocol.facts import Record
    from ..protocol.link import AnyLink
    from .driver import Driver


class Greeting:
    """The new connection, as `on_connect` gets it: `send` a frame, `expect` an answer.

        async def subscribe(link: rb.bridge.Greeting) -> None:
            await link.send({"type": "subscribe", "channel": "orders"})
            await link.expect({"type": "subscribed"})

        bridge = rb.BridgeClient("wss://host/ws", on_connect=subscribe)

    All other frames wait, in order, for the reader. The object ends with the function it was passed
    to: a lost connection cancels that function, and the next connection calls it again.
    """

    __slots__ = ("_driver", "_link")

    def __init__(self, driver: Driver, link: AnyLink) -> None:
        """Created by the client, for each connection."""
        self._driver = driver
        self._link = link

    @property
    def record(self) -> Record:
        """The known state of the session.

        `record.joined` is False at the first connection, `record.positions` say how far it was
        read.
        """
        return self._driver.session.record()

    async def send(self, frame: Mapping[str, Any] | bytes, /) -> None:
        """Send this JSON object, or these bytes as a binary frame, on this connection only.

        It goes before all that is queued, once, without a receipt. Bytes need a dialect with frames
        of its own.

        Raises ConfigError for what is neither, NotConnectedError if this connection is over.
        """
        has_bytes = self._driver.session.dialect.decode is not None
        written: str | bytes = b""
        if isinstance(frame, bytes) and has_bytes:
            written = frame
        elif isinstance(frame, dict):
            written = _as_json(frame)
        else:
            wanted = "a JSON object: a dict; or bytes" if has_bytes else "a JSON object: a dict"
            raise config_error("on_connect.send", wanted, frame)
        self._check()
        self._link.wire.control.append(written)
        self._driver.wake()

    async def expect(
        self, pattern: Mapping[str, Any] | bytes | Callable[[Any], bool], /
    ) -> Message:
        """Return the first frame of this connection that matches and was not returned before.

        The reader does not get it.

        `pattern`: field values that the frame must have, the whole frame as bytes, or a function of
        the decoded frame (of `Message.raw`). The whole `on_connect` may take `Reconnect.connect_timeout`. Raises NotConnectedError if this
        connection is over, and what your function raises.
        """
        wanted: Any = pattern
        if not isinstance(wanted, dict | bytes) and not callable(wanted):
            text = "a dict of fields, bytes, or a function of a frame"
            raise config_error("on_connect.expect", text, wanted)
        self._check()
        found: asyncio.Future[Message] = self._driver.loop.create_future()

        def take(message: Message | Exception) -> None:
            if found.done():
                return
            if isinstance(message, Exception):
                found.set_exception(message)
            else:
                found.set_result(message)

        assert self._link.greeting is not None  # noqa: S101 -- a link that is greeted has one
        forget = self._link.greeting.expect(wanted, take)
        try:
            return await found
        finally:
            forget()

    def _check(self) -> None:
        greeting = self._link.greeting
        if greeting is None or not greeting.is_open or self._driver.session.link is not self._link:
            raise error_for(
                Failure.of("CONN_NOT_CONNECTED", "this connection is over, or its on_connect is")
            )


def _as_json(frame: dict[str, Any]) -> str:
    try:
        text = json.dumps(frame, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise config_error("on_connect.send", "what JSON can write", str(error)) from None
    return text
