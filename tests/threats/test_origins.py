"""Rows 41 and 42: credentials go to the origin they were given for, encrypted or not at all. Real sockets on loopback.

Rule: the server that must not get them writes down every byte it gets.
"""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import BridgeServer
from tests.threats.certificates import serving, trusting
from tests.threats.raw_bridges import Recorder, http
from tests.threats.watching import Watch, quick, simulated


CANARY = "c4n4ry-S3CR3T-8f1e7a02b9d64c55"
HEADERS = {"Authorization": f"Bearer {CANARY}", "X-Api-Key": CANARY, "Cookie": f"sid={CANARY}"}


async def refused(watch, code):
    """FAILED with this code, once, for every operation, and no further attempt."""
    await watch.until(lambda: watch.client.state == "FAILED", 5)
    for use in (
        watch.client.wait_ready(1),
        watch.client.send("note", {}),
        watch.client.request("x_request", {}),
    ):
        with pytest.raises(rb.BridgeError) as caught:
            await use
        assert caught.value.failure.code == code
        assert CANARY not in str(caught.value)
    assert watch.waits == []
    return caught.value.failure


@pytest.mark.real
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_row_41_redirect_to_another_origin(status):
    """A redirect to another port is refused for good: Authorization, X-Api-Key, Cookie and token stay where they were."""
    async with Recorder().listening() as thief:
        location = f"Location: http://127.0.0.1:{thief.port}/ws?from=bridge"
        async with Recorder(http(f"{status} Moved", location)).listening() as bridge:
            url = f"ws://user:{CANARY}@127.0.0.1:{bridge.port}/ws"
            async with Watch(url, headers=HEADERS, token=CANARY, policy=quick()) as watch:
                failure = await refused(watch, "CONN_REDIRECT_REFUSED")
                assert str(thief.port) in failure.explain()
                await asyncio.sleep(0.05)
            assert bridge.connections == 1
        assert thief.connections == 0
        assert thief.received == b""


@pytest.mark.real
@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_row_41_redirect_from_wss_to_ws(scheme):
    """A secure bridge that redirects to the same host and port without TLS is refused: https to http, wss to ws."""
    async with Recorder().listening() as thief:
        for target in (f"{scheme}://localhost:{thief.port}/ws", f"{scheme}://localhost/ws"):
            answer = http("302 Found", f"Location: {target}")
            async with Recorder(answer).listening(serving("good")) as bridge:
                url = f"wss://localhost:{bridge.port}/ws"
                options = {
                    "headers": HEADERS,
                    "token": CANARY,
                    "ssl": trusting(),
                    "policy": quick(),
                }
                async with Watch(url, **options) as watch:
                    await refused(watch, "CONN_REDIRECT_REFUSED")
                assert bridge.connections == 1
        assert thief.connections == 0


@pytest.mark.real
async def test_row_41_redirect_within_the_origin():
    """A redirect that stays inside the origin is followed, with the credentials; a circle of them ends."""
    async with Recorder().listening() as bridge:
        bridge.answer = http("307 Temporary Redirect", "Location: /elsewhere?x=1")
        async with Watch(
            f"ws://127.0.0.1:{bridge.port}/ws", headers=HEADERS, policy=quick()
        ) as watch:
            failure = await refused(watch, "CONN_REDIRECT_REFUSED")
            assert "wanted at most 5" in failure.explain()
        assert bridge.connections == 6  # the first, and five that were followed
        assert bridge.received.count(CANARY.encode()) == 6 * len(HEADERS)
        assert bridge.received.count(b"GET /elsewhere?x=1 ") == 5


@pytest.mark.real
async def test_row_41_a_url_from_a_callable():
    """A fresh URL per attempt may name another origin: that is the user's own word, and no redirect."""
    async with BridgeServer(token=CANARY) as one, BridgeServer(token=CANARY) as two:
        urls = iter([one.url, two.url])
        async with Watch(lambda: next(urls), token=CANARY, policy=quick()) as watch:
            await watch.ready(5)
            await one.cut("abort")
            await watch.recovered(2, within=5)
            assert two.connections == 1


CREDENTIALS = {
    "token": {"token": CANARY},
    "callable": {"token": lambda: CANARY},
    "authorization": {"headers": {"authorization": f"Bearer {CANARY}"}},
    "api_key": {"headers": {"X-API-KEY": CANARY}},
    "cookie": {"headers": {"Cookie": f"sid={CANARY}"}},
    "userinfo": {},
}
PLACES = [
    "bridge.example",
    "10.1.2.3",
    "[2001:db8::1]",
    "localhost.example",
    "127.0.0.1.example",
    "0x7f000002.example",
]


@pytest.mark.real
@pytest.mark.parametrize("host", PLACES)
@pytest.mark.parametrize("kind", CREDENTIALS)
async def test_row_42_credentials_in_plain_text(host, kind, monkeypatch):
    """ws:// with any credential to another machine: refused for good before a name is looked up or a socket made."""
    touched = []
    loop = asyncio.get_running_loop()

    async def never(*args, **options):
        touched.append(args)
        raise AssertionError("nothing may be dialled")

    monkeypatch.setattr(loop, "getaddrinfo", never)
    monkeypatch.setattr(loop, "sock_connect", never)
    user = f"user:{CANARY}@" if kind == "userinfo" else ""
    async with Watch(f"ws://{user}{host}:8080/ws", policy=quick(), **CREDENTIALS[kind]) as watch:
        failure = await refused(watch, "CONN_INSECURE")
        assert "wss://" in failure.explain()
    assert touched == []


@pytest.mark.real
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_row_42_this_machine_is_no_network(host):
    """To loopback a token goes without TLS, unasked."""
    async with (
        BridgeServer(token=CANARY) as server,
        Watch(server.url.replace("127.0.0.1", host), token=CANARY, policy=quick()) as watch,
    ):
        await watch.ready(5)


@pytest.mark.parametrize("allowed", [True, False])
@simulated
async def test_row_42_unless_explicitly_allowed(server, allowed):
    """`allow_plaintext_credentials=True` is the one way to do it anyway, by a name of the simulated world."""
    policy = rb.presets.default.evolve(
        reconnect=rb.bridge.Reconnect(allow_plaintext_credentials=allowed)
    )
    server.token = CANARY
    url = server.url.replace("127.0.0.1", "bridge.test")
    async with Watch(url, token=CANARY, policy=policy) as watch:
        if allowed:
            await watch.ready()
        else:
            await refused(watch, "CONN_INSECURE")
            assert asyncio.get_running_loop().network.lookups == []
            assert server.attempt_times == []


@simulated
async def test_row_42_without_credentials(server):
    """A bridge without credentials may be anywhere: nothing to protect, nothing refused."""
    async with Watch(server.url.replace("127.0.0.1", "bridge.test")) as watch:
        await watch.ready()
