"""`Reconnect.process_exception`: for people who keep websockets' own loop."""

from __future__ import annotations

import socket

import pytest
import trustme
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

import resilient_bridge as rb


STEADY = rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.01, jitter="none"))


def answers(status: int, times: int):
    """A hook of a server that refuses the first so many handshakes with a status."""
    remaining = [times]

    def respond(connection, request):
        if remaining[0] <= 0:
            return None
        remaining[0] -= 1
        return Response(status, "no", Headers({"Content-Length": "0"}), b"")

    return respond


@pytest.mark.real
@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
async def test_a_passing_refusal_is_tried_again(status):
    """429 and 408 end websockets' own loop; the server is only busy."""

    async def hello(ws):
        await ws.send("hello")

    async with serve(hello, "127.0.0.1", 0, process_request=answers(status, 2)) as server:
        port = server.sockets[0].getsockname()[1]
        attempts = connect(
            f"ws://127.0.0.1:{port}",
            process_exception=STEADY.process_exception,
            reconnect_delays=STEADY.backoff.waits,
        )
        async for ws in attempts:
            assert await ws.recv() == "hello"
            break


@pytest.mark.real
@pytest.mark.parametrize("status", [401, 403, 404, 501])
async def test_a_lasting_refusal_ends_the_loop_with_the_same_error(status):
    """What comes out is what websockets raised."""
    async with serve(
        lambda ws: ws.wait_closed(), "127.0.0.1", 0, process_request=answers(status, 99)
    ) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(InvalidStatus) as caught:
            async for _ in connect(
                f"ws://127.0.0.1:{port}", process_exception=STEADY.process_exception
            ):
                pytest.fail("connected")
    assert caught.value.response.status_code == status


@pytest.mark.real
async def test_a_bad_certificate_ends_the_loop():
    """websockets' own loop tries a certificate that nobody trusts for ever."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with serve(lambda ws: ws.wait_closed(), "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ssl.SSLCertVerificationError):
            async for _ in connect(
                f"wss://127.0.0.1:{port}", process_exception=STEADY.process_exception
            ):
                pytest.fail("connected")


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "refused"),
        TimeoutError(),
        socket.gaierror(-2, "unknown"),
        EOFError(),
        OSError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_network_is_tried_again(error):
    """None means: go on."""
    assert STEADY.process_exception(error) is None


def test_a_rule_has_the_last_word():
    """A failure that stands in `rules` is tried again, whatever it usually means."""
    error = PermissionError(13, "permission denied")
    assert STEADY.process_exception(error) is error
    assert (
        rb.bridge.Reconnect(rules={PermissionError: rb.Rule(attempts=3)}).process_exception(error)
        is None
    )
