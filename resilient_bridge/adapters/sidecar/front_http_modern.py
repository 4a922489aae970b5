"""Requests without a session (protocol 2026-07-28): their checks, and their clients at the relay.

Rule: the requests of all HTTP clients share one client of the relay. A request whose id or progress
token is in use there goes to another client of the relay. A closed response cancels its request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from ...failure import mapping_of
from . import message as rpc
from .eras import VERSION
from .front_http_exchange import INVALID_REQUEST
from .front_http_stream import MessageStream, SentEvent


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .front import Relayed
    from .front_http_exchange import Exchange
    from .front_http_limits import HttpLimits
    from .message import Key, Message


VERSION_HEADER: Final = "mcp-protocol-version"
SESSION_HEADER: Final = "mcp-session-id"
_PARAM_HEADER: Final = "mcp-param-"
_HEADER_MISMATCH: Final = -32020
_UNSUPPORTED_VERSION: Final = -32022


class ModernClient:
    """One client of the relay: requests in progress with different ids and progress tokens."""

    def __init__(self) -> None:
        self.in_flight: dict[Key, MessageStream] = {}
        self.tokens: set[Key] = set()  # the progress tokens of these requests
        self._token_of: dict[Key, Key] = {}

    def begin(self, request: Key, token: Key | None, stream: MessageStream) -> None:
        """Add a request; its id and its progress token must not be in use."""
        self.in_flight[request] = stream
        if token is not None:
            self._token_of[request] = token
            self.tokens.add(token)

    def deliver(self, message: Message, request: Key | None) -> None:
        """Put a message into the stream of its request; drop one without a request."""
        stream = self.in_flight.get(request) if request is not None else None
        if stream is None or request is None:
            return
        if not stream.put(SentEvent(message.text, is_answer=message.is_answer)):
            stream.abandon()  # aborts the connection, which cancels the request
        if message.is_answer:
            self.drop(request)

    def drop(self, request: Key) -> None:
        stream = self.in_flight.pop(request, None)
        if (token := self._token_of.pop(request, None)) is not None:
            self.tokens.discard(token)
        if stream is not None:
            stream.end()


class ModernClients:
    """All requests without a session that one relay gets."""

    def __init__(self, relay: Relayed, limits: HttpLimits) -> None:
        """Connect the first client, which stays until `end`."""
        self.relay = relay
        self._limits = limits
        self._clients = [self._connected()]

    def post(self, message: Message) -> None:
        self.relay.receive(self._clients[0], message)

    def ask(self, message: Message) -> tuple[ModernClient, MessageStream]:
        """Send a request to the relay; return its client there, and the stream of its answer."""
        key, token = _key(message), rpc.key_of(message.progress_token)
        for client in self._clients:
            if key not in client.in_flight and (token is None or token not in client.tokens):
                break
        else:
            client = self._connected()
            self._clients.append(client)
        stream = MessageStream(0, queue_bytes=self._limits.queue_bytes, events=self._limits.events)
        client.begin(key, token, stream)
        self.relay.receive(client, message)
        return client, stream

    def finish(self, client: ModernClient, message: Message) -> None:
        """Handle the end of a response: cancel its request if that is not answered.

        A client without requests is removed, except the first.
        """
        if _key(message) in client.in_flight:
            params = {"requestId": message.id, "reason": "the client closed the response"}
            self.relay.receive(client, rpc.notification("notifications/cancelled", params))
        if not client.in_flight and client is not self._clients[0] and client in self._clients:
            self._clients.remove(client)
            self.relay.disconnect(client)

    def end(self) -> None:
        for client in self._clients:
            for key in [*client.in_flight]:
                client.drop(key)
            self.relay.disconnect(client)
        self._clients = self._clients[:1]

    def _connected(self) -> ModernClient:
        client = ModernClient()
        self.relay.connect(client)
        return client


def is_modern(message: Message, headers: Mapping[str, str]) -> bool:
    """Return whether a message is of a version without sessions.

    The version header decides. Without it, a message with a version in its `_meta` is, unless it
    has a session id.
    """
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    version = headers.get(VERSION_HEADER)
    if version is not None:
        return version not in HANDSHAKE_PROTOCOL_VERSIONS
    return VERSION in message.meta and SESSION_HEADER not in headers


async def refuse_modern(
    exchange: Exchange, message: Message, relay: Callable[[], Relayed | None]
) -> bool:
    """Refuse a message without a session that is not valid; return whether it was refused.

    `relay` returns the relay for the message, and creates it if there is none yet; None if it may
    not.
    """
    from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS

    found = _wrong(exchange, message, relay)
    if found is None:
        return False
    code, text, data = found
    await exchange.refuse(
        ERROR_CODE_HTTP_STATUS.get(code, 400), text, code=code, id=message.id, data=data
    )
    return True


def status_of_answer(text: str) -> int:
    """Return the HTTP status of an answer that is sent as JSON: 200, or that of its error code."""
    from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS

    if '"error"' not in text:
        return 200
    code = rpc.parse(text).error.get("code")
    return ERROR_CODE_HTTP_STATUS.get(code, 200) if isinstance(code, int) else 200


def _wrong(
    exchange: Exchange, message: Message, relay: Callable[[], Relayed | None]
) -> tuple[int, str, Any] | None:
    from mcp.shared import inbound

    if message.is_answer:
        return INVALID_REQUEST, "Body must be a request or a notification", None
    if message.is_notification:
        return _wrong_version(exchange.headers.get(VERSION_HEADER, ""))
    if twice := inbound.find_duplicated_routing_header(exchange.pairs):
        return _HEADER_MISMATCH, f"{twice} header appears more than once", None
    verdict = inbound.classify_inbound_request(message.fields, headers=exchange.headers)
    if isinstance(verdict, inbound.InboundLadderRejection):
        return verdict.code, verdict.message, verdict.data
    return _wrong_parameter(exchange, message, relay)


def _wrong_version(version: str) -> tuple[int, str, Any] | None:
    """Return the error for a notification of a version that is not supported, else None.

    The version of a request is checked by `classify_inbound_request`.
    """
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    if version in MODERN_PROTOCOL_VERSIONS:
        return None
    data = {"supported": [*MODERN_PROTOCOL_VERSIONS], "requested": version}
    return _UNSUPPORTED_VERSION, "Unsupported protocol version", data


def _wrong_parameter(
    exchange: Exchange, message: Message, relay: Callable[[], Relayed | None]
) -> tuple[int, str, Any] | None:
    """Return the error for `Mcp-Param-*` headers that are malformed or contradict the arguments.

    They are compared with the arguments only if the tool's schema is known.
    """
    from mcp.shared import inbound

    if message.method != "tools/call":
        return None
    names = [name for name, _ in exchange.pairs if name.startswith(_PARAM_HEADER)]
    for name in names:
        if names.count(name) > 1:
            return _HEADER_MISMATCH, f"{name} header appears more than once", None
        if inbound.decode_header_value(exchange.headers[name]) is None:
            return (
                _HEADER_MISMATCH,
                f"{name} header carries a malformed base64 sentinel value",
                None,
            )
    found = relay()
    schema = None if found is None else found.schema_of(message.name)
    if schema is None:
        return None
    arguments = cast("Mapping[str, Any]", mapping_of(message.params.get("arguments")))
    rejected = inbound.validate_mcp_param_headers(schema, arguments, exchange.headers)
    return None if rejected is None else (rejected.code, rejected.message, rejected.data)


def _key(message: Message) -> Key:
    key = message.key
    if key is None:
        raise ValueError(f"a request wanted, got {message!r}")
    return key
