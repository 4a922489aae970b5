"""Row 43: certificates that are expired, for another host, self-signed, from a stranger, or not the pinned one.

Rule: terminal on the first look. The peer gets a TLS handshake and not one byte of what comes after it.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import BridgeServer, FaultProxy
from tests.threats.certificates import KINDS, pin_of, serving, trusting
from tests.threats.raw_bridges import Recorder
from tests.threats.watching import Watch, quick


CANARY = "c4n4ry-S3CR3T-8f1e7a02b9d64c55"
REASONS = {
    "expired": "CERTIFICATE_EXPIRED",
    "wrong-host": "HOSTNAME_MISMATCH",
    "self-signed": "SELF_SIGNED",
    "stranger": "UNTRUSTED_CHAIN",
    "pin": "PIN_MISMATCH",
}
pytestmark = [pytest.mark.real, pytest.mark.requirement("R5")]


async def refused(kind, caplog, **options):
    """Meet a server with that certificate: FAILED at once, everything said, nothing sent. Its failure."""
    caplog.set_level(logging.WARNING)
    context = serving("self-signed" if kind == "pin" else kind)
    async with (
        Recorder().listening(context) as server,
        FaultProxy("127.0.0.1", server.port) as door,
    ):
        url = f"wss://localhost:{door.port}/ws"
        async with Watch(url, token=CANARY, policy=quick(), **options) as watch:
            await watch.until(lambda: watch.client.state == "FAILED", 5)
            with pytest.raises(rb.BridgeError) as caught:
                await watch.client.wait_ready(1)
            await asyncio.sleep(0.3)  # fifteen waits of this policy: a storm would show
            # the attempt, and one look at what the certificate says of itself; a pin has looked already
            assert door.connections == (1 if kind == "pin" else 2)
            assert watch.waits == []
            assert watch.failures == []
        assert server.received == b""
    failure = caught.value.failure
    assert failure.code == "CONN_TLS_HANDSHAKE_FAILED"
    assert failure.retryable is False
    assert failure.details["reason"] == REASONS[kind]
    expiry = failure.details["expiry"]
    assert len(expiry) == len("2026-03-01T00:00:00Z")
    assert expiry.endswith("Z")
    text = str(caught.value)
    assert expiry in text  # the message alone tells until when it was valid
    assert REASONS[kind] in text
    assert failure.suggestions[0] in text  # and what to do
    assert failure.details["suggested_action"]
    assert expiry in failure.explain()
    (record,) = [record for record in caplog.records if record.name == "resilient_bridge"]
    assert expiry in record.getMessage()
    return failure


@pytest.mark.parametrize("kind", KINDS)
async def test_row_43_refused_certificates(kind, caplog):
    """Expired, wrong host, self-signed, unknown issuer: terminal, one attempt, reason and expiry and remedy in the message."""
    failure = await refused(kind, caplog, ssl=trusting())
    if kind == "expired":
        assert failure.details["expiry"] == "2026-03-01T00:00:00Z"


async def test_row_43_pin_mismatch(caplog):
    """A certificate that is not the pinned one: the same end, whatever else it is."""
    failure = await refused("pin", caplog, pin="sha256:" + "00" * 32)
    assert "pin" in failure.message


async def test_row_43_the_system_does_not_know_it(caplog):
    """Without a context of our own the system's authorities decide, and they know none of ours."""
    await refused("stranger", caplog)


async def test_row_43_no_downgrade():
    """A port that does not speak TLS at all is refused as well: nothing is sent to it in plain text but a TLS hello."""
    async with BridgeServer() as server:
        url = server.url.replace("ws://127.0.0.1", "wss://localhost")
        async with Watch(url, token=CANARY, policy=quick(), ssl=trusting()) as watch:
            await watch.until(lambda: watch.waits or watch.client.state == "FAILED", 5)
            assert server.attempt_times == []
            assert server.frames == []
    async with Recorder().listening() as plain:
        url = f"wss://localhost:{plain.port}/ws"
        async with Watch(url, token=CANARY, policy=quick(), ssl=trusting()) as watch:
            await watch.until(lambda: plain.received, 5)
            await asyncio.sleep(0.05)
        assert plain.received[:2] == b"\x16\x03"  # a ClientHello
        assert CANARY.encode() not in plain.received
        assert b"GET " not in plain.received


async def test_row_43_the_right_pin():
    """The pinned certificate is accepted although it is self-signed, through a cut and a resume."""
    async with BridgeServer(ssl=serving("self-signed"), token=CANARY) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        pin = await pin_of(int(url.rpartition(":")[2].partition("/")[0]))
        async with Watch(url, token=CANARY, policy=quick(), pin=pin) as watch:
            await watch.ready(5)
            await server.push("tool_call", {"n": 1})
            await watch.until(lambda: watch.ids == [1], 5)
            await server.cut("abort")
            await server.push("tool_call", {"n": 2})
            await watch.recovered(2, within=5)
            await watch.until(lambda: watch.ids == [1, 2], 5)


async def test_row_43_sec6_a_certificate_is_rotated_to_the_second_pin():
    """SEC6: the client pins today's certificate and the next one's, and stays READY through the change."""
    async with BridgeServer(ssl=serving("self-signed"), token=CANARY) as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        url = f"wss://localhost:{port}/ws"
        pins, following = [await pin_of(port)], serving("self-signed")
        async with BridgeServer(ssl=following) as other:
            pins.append(await pin_of(int(other.url.rpartition(":")[2].partition("/")[0])))
        async with Watch(url, token=CANARY, policy=quick(), pin=pins) as watch:
            await watch.ready(5)
            await server.aclose()
            async with BridgeServer(port=port, ssl=following, token=CANARY) as renewed:
                await watch.until(lambda: renewed.connections, 5)
                await watch.until(lambda: watch.client.health().ready, 5)


async def test_row_43_a_certificate_that_goes_bad_later():
    """A good first connection, an expired certificate on the way back: FAILED, and what was queued is told about."""
    async with BridgeServer(ssl=serving("good")) as good:
        port = int(good.url.rpartition(":")[2].partition("/")[0])
        url = f"wss://localhost:{port}/ws"
        async with Watch(url, policy=quick(), ssl=trusting()) as watch:
            await watch.ready(5)
            await good.aclose()
            async with BridgeServer(port=port, ssl=serving("expired")) as bad:
                receipt = await watch.client.send("note", {"n": 1})
                await watch.until(lambda: watch.client.state == "FAILED", 10)
                with pytest.raises(rb.BridgeError):
                    await receipt.confirmed(1)
                assert bad.attempt_times == []
                assert "CERTIFICATE_EXPIRED" in str(watch.client.health().failure)
