"""BridgeClient end to end against a bridge that behaves as ReCursor's own does today: npm's ws, another process, nothing of ours in it.

Rule: READY without a word about dialects, no loss without UNKNOWN, each send once, counted at the far end.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.telemetry.events import FeatureRefused, Resumed
from tests.bridges.foreign import Watch, quick


HERE = Path(__file__).parent
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(60),
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(
        not (HERE / "node_modules" / "ws").is_dir(), reason="npm's ws is missing: run `npm ci` in tests/node"
    ),
]


class Live:
    """The Node process and its commands."""

    def __init__(self, process, port):
        self._process = process
        self.url = f"ws://127.0.0.1:{port}/ws"

    async def tell(self, command):
        """Write a command; its answer."""
        self._process.stdin.write(f"{command}\n".encode())
        async with asyncio.timeout(10):
            return json.loads(await self._process.stdout.readline())

    async def stats(self):
        return await self.tell("stats")


@asynccontextmanager
async def live():
    """Start it, and see it end when its stdin does."""
    process = await asyncio.create_subprocess_exec(
        str(NODE), str(HERE / "recursor_live.mjs"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24,
    )  # fmt: skip
    try:
        async with asyncio.timeout(20):
            port = int(await process.stdout.readline())
        yield Live(process, port)
    finally:
        process.stdin.close()
        async with asyncio.timeout(10):
            await process.wait()


@pytest.mark.parametrize("how", ["abort", "1011"])
async def test_c01_messages_cuts_and_sends_with_the_default_dialect(how):
    """READY, messages, three cuts: every message once, every re-join UNKNOWN, the features that are missing told once each."""
    async with live() as bridge, Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        pushed = (await bridge.tell("push 5"))["pushed"]
        await watch.until(lambda: watch.read == pushed)
        for _ in range(3):
            await bridge.tell(f"cut {how}")
            pushed += (await bridge.tell("push 3"))["pushed"]
            await watch.back()
            pushed += (await bridge.tell("push 2"))["pushed"]
            await watch.until(lambda last=pushed[-1]: last in watch.read)
        numbers = [item for item in watch.read if isinstance(item, int)]
        assert numbers == pushed  # the whole queue came with each auth, and its repeats were dropped
        assert [event.verdict for event in watch.of(Resumed)] == ["UNKNOWN"] * 3
        assert [item for item in watch.read if isinstance(item, str)] == ["UNKNOWN no_replay"] * 3
        assert [event.feature for event in watch.of(FeatureRefused)] == ["join", "request_replay"]
        types = (await bridge.stats())["types"]
        assert (types["session_join"], types["request_replay"], types["auth"]) == (1, 1, 4)


async def test_c01_a_queue_that_overflowed_while_away_is_told():
    """1,500 events while the line is down, of which the bridge keeps 1,000: the loss lies under UNKNOWN, the rest comes in order."""
    policy = quick(reconnect={"backoff": rb.Backoff.constant(1)})
    async with live() as bridge, Watch(bridge.url, token="t", policy=policy) as watch:
        await watch.client.wait_ready(5)
        first = (await bridge.tell("push 10"))["pushed"]
        await watch.until(lambda: watch.read == first)
        await bridge.tell("cut abort")
        away = (await bridge.tell("push 1500"))["pushed"]
        assert watch.client.state != "READY"
        await watch.client.wait_ready(10)
        await watch.until(lambda: away[-1] in watch.read)
        assert watch.read == [*first, "UNKNOWN no_replay", *away[-1000:]]


async def test_c01_each_send_arrives_once_although_nothing_acknowledges():
    """100 sends across cuts: none twice, none lost without a word; what is read says so, the rest ends unknown."""
    async with live() as bridge, Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        receipts = []
        for number in range(100):
            receipts.append(await watch.client.send("message", {"n": number}))
            if number in (30, 60):
                await bridge.tell("cut abort")
        ends = {}
        for number, receipt in enumerate(receipts):
            try:
                ends[number] = await receipt.confirmed(20)
            except rb.OutcomeUnknownError:
                ends[number] = "unknown"
        got = [message["payload"]["n"] for message in (await bridge.tell("received"))["received"]]
        assert len(got) == len(set(got))
        assert got == sorted(got)
        assert {number for number, end in ends.items() if end == "read"} <= set(got)
        assert {number for number in range(100) if number not in got} <= {
            n for n, end in ends.items() if end == "unknown"
        }
        assert list(ends.values()).count("read") > 40


@pytest.mark.parametrize("refreshes", [False, True], ids=["value", "callable"])
async def test_c02_a_wrong_token_ends_as_auth_error(refreshes):
    """The socket stays open; the client does not: FAILED at once, or after asking a callable once more."""
    async with live() as bridge:
        token = (lambda: "wrong") if refreshes else "wrong"
        async with Watch(bridge.url, token=token) as watch:
            with pytest.raises(rb.AuthError, match="Invalid or expired token"):
                await watch.client.wait_ready(5)
        assert (await bridge.stats())["auths"] == 1 + refreshes


async def test_c02_a_token_that_was_renewed_is_taken():
    """The callable is asked again, and its new token is good: READY."""
    tokens = iter(["old", "new"])
    async with live() as bridge:
        await bridge.tell("token new")
        async with Watch(bridge.url, token=lambda: next(tokens)) as watch:
            await watch.client.wait_ready(5)


async def test_c02_plain_ws_is_refused_with_the_bridges_own_advice():
    """INSECURE_TRANSPORT: AuthError, and what the bridge says about it."""
    async with live() as bridge:
        await bridge.tell("plain refuse")
        async with Watch(bridge.url, token="t") as watch:
            with pytest.raises(rb.AuthError, match="requires a TLS connection") as caught:
                await watch.client.wait_ready(5)
    assert caught.value.failure.suggestions == ("Connect with wss://", "see https://docs.example/bridge-tls")


async def test_c07_answers_and_refusals():
    """A request is answered by id; one that is refused under a fresh id ends at the refusal; an unknown one says so."""
    async with live() as bridge, Watch(bridge.url, token="t", policy=quick()) as watch:
        await watch.client.wait_ready(5)
        assert (await watch.client.request("git_status_request", {}, timeout=5)).payload == {"branch": "main"}
        with pytest.raises(rb.BridgeError, match="Outside of the project"):
            await watch.client.request("file_read", {}, timeout=20)
        with pytest.raises(rb.ProtocolError, match="Unknown message type: launch"):
            await watch.client.request("launch", {}, timeout=20)
        assert watch.client.state == "READY"
        assert watch.read == []
