"""What a WebSocket library raises around a connection, and what our own transports refuse."""

from __future__ import annotations

import asyncio
import json

import pytest
from websockets import exceptions as ws
from websockets.asyncio.client import connect

from resilient_bridge.failure import classify
from tests.rows import each_row


def _row(failure) -> str:
    return f"{failure.code} {failure.category} {'yes' if failure.retryable else 'no'}"


def _undecodable() -> Exception:
    try:
        return json.loads("{") or AssertionError()
    except ValueError as error:
        return error


@pytest.mark.requirement("R1")
@each_row(
    ("error", "row"),
    [
        (ws.InvalidURI("x", "no"), "SYS_CONFIG_INVALID CONFIG no"),
        (ws.InvalidProxy("x", "no"), "SYS_CONFIG_INVALID CONFIG no"),
        (ws.ProxyError("failed to connect to SOCKS proxy"), "CONN_RESET TRANSPORT yes"),
        (ws.InvalidUpgrade("Upgrade", "h2c"), "PROTO_VIOLATION PROTOCOL no"),
        (ws.InvalidHeader("Sec-WebSocket-Accept"), "PROTO_VIOLATION PROTOCOL no"),
        (ws.NegotiationError("x"), "PROTO_VIOLATION PROTOCOL no"),
        (
            getattr(ws, "TooManyHeaders", ws.NegotiationError)("x"),
            "PROTO_VIOLATION PROTOCOL no",
        ),  # from 17 on
        (ws.InvalidMessage("x"), "PROTO_VIOLATION PROTOCOL no"),
        (ws.ProtocolError("x"), "PROTO_VIOLATION PROTOCOL no"),
        (ws.PayloadTooBig(2, 1), "PROTO_MESSAGE_TOO_BIG PROTOCOL no"),
        (ws.InvalidState("x"), "SYS_INTERNAL_ERROR INTERNAL no"),
        (ws.ConcurrencyError("x"), "SYS_INTERNAL_ERROR INTERNAL no"),
        (_undecodable(), "PROTO_INVALID_MESSAGE PROTOCOL no"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), "PROTO_INVALID_FRAME PROTOCOL no"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), "PROTO_INVALID_MESSAGE PROTOCOL no"),
    ],
)
def test_every_error_of_a_link(error, row):
    """Addresses, handshakes, frames, JSON."""
    assert _row(classify(error)) == row


def test_json_of_another_library_is_recognised():
    """orjson's error derives from json's: the MRO is enough."""
    orjson = pytest.importorskip("orjson")
    with pytest.raises(ValueError) as caught:
        orjson.loads(b"{")
    assert classify(caught.value).code == "PROTO_INVALID_MESSAGE"


async def _dial(answer: bytes) -> BaseException:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Exception) as caught:
            await connect(f"ws://127.0.0.1:{port}", proxy=None).__aenter__()
    return caught.value


@pytest.mark.real
@pytest.mark.parametrize(
    ("answer", "row"),
    [
        (b"", "CONN_RESET TRANSPORT yes"),
        (b"HTTP/1.1 101 Swi", "CONN_RESET TRANSPORT yes"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "PROTO_VIOLATION PROTOCOL no"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
            "PROTO_VIOLATION PROTOCOL no",
        ),
        (
            b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
            "SYS_UNAVAILABLE UPSTREAM yes",
        ),
    ],
)
async def test_what_a_real_handshake_ends_in(answer, row):
    """Cut: repeat; answered by something that is no WebSocket server: do not. Nothing of ours was executed."""
    failure = classify(await _dial(answer))
    assert _row(failure) == row
    assert failure.executed == "no"


def test_a_handshake_broken_by_the_system_keeps_its_errno():
    """InvalidMessage on top of a reset is the reset."""
    error = ws.InvalidMessage("did not receive a valid HTTP response")
    error.__cause__ = ConnectionResetError(104, "reset")
    assert classify(error).details["errno"] == 104


@pytest.mark.parametrize(
    ("name", "base", "row"),
    [
        ("RedirectRefusedError", ConnectionError, "CONN_REDIRECT_REFUSED CONFIG no"),
        ("InsecureURLError", ValueError, "CONN_INSECURE CONFIG no"),
    ],
)
def test_what_our_transports_refuse(name, base, row):
    """By name, because this room may not look up to them."""
    cls = type(name, (base,), {"__module__": "resilient_bridge.transports.websocket"})
    assert _row(classify(cls("refused"))) == row
