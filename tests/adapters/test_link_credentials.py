"""Threats 41 and 42 over a websockets link: credentials go to the origin they were given for, encrypted or not at all.

Rule: the server that must not get them writes down every byte it gets; what must not leave this machine is refused before a connection.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

import resilient_bridge as rb
from tests.adapters.link_peers import World, quick
from tests.rows import each_row
from tests.threats.certificates import serving, trusting
from tests.threats.raw_bridges import Recorder, http


CANARY = "c4n4ry-S3CR3T-8f1e7a02b9d64c55"
pytestmark = [pytest.mark.real, pytest.mark.timeout(30)]
HEADERS = {
    "Authorization": {"Authorization": f"Bearer {CANARY}"},
    "X-Api-Key": {"X-Api-Key": CANARY},
    "Cookie": [("cookie", f"sid={CANARY}")],
    "an iterator": None,  # made anew for each attempt
}


def headers_of(kind):
    """The headers of this kind."""
    return iter([("X-Auth-Token", CANARY)]) if kind == "an iterator" else HEADERS[kind]


async def refused(factory, code, **options):
    """Entering the link fails with this code, for good, after one attempt; its failure, in which no secret is."""
    attempts = []

    def counted():
        attempts.append(1)
        return factory()

    link = rb.reconnecting(counted, quick(), **options)
    with rb.testing.record() as reported, pytest.raises(rb.BridgeError) as caught:
        async with link:
            pytest.fail("entered")
    failure = caught.value.failure
    assert (failure.code, failure.executed, failure.retryable) == (
        code,
        rb.errors.Executed.NO,
        False,
    )
    assert (link.state, len(attempts)) == ("FAILED", 1)
    assert (
        CANARY
        not in f"{caught.value!r} {caught.value} {failure.explain()} {link.health()!r} {list(reported)!r}"
    )
    return failure


@asynccontextmanager
async def bridge(process_request=None, **options):
    """A WebSocket server that says which headers it got; its port and those."""
    got = []

    async def attend(ws):
        got.append(ws.request.headers)
        await ws.wait_closed()

    async with serve(attend, "127.0.0.1", 0, process_request=process_request, **options) as server:
        yield SimpleNamespace(port=server.sockets[0].getsockname()[1], got=got)


# -- 42: in clear text ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", HEADERS)
@pytest.mark.parametrize("host", ["192.0.2.7", "bridge.invalid", "[2001:db8::7]"])
async def test_row_42_credentials_over_ws_to_another_machine(kind, host, monkeypatch):
    """Refused before the name is looked up or a socket is made."""

    async def never(*_, **__):
        pytest.fail("it tried to connect")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    failure = await refused(
        lambda: connect(f"ws://{host}/ws", additional_headers=headers_of(kind)), "CONN_INSECURE"
    )
    assert f"got ws://{host}:80" in str(failure)
    assert "allow_plaintext_credentials" in failure.suggestions[0]


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (f"ws://user:{CANARY}@192.0.2.7/", {}),
        (f"ws://user:{CANARY}@localhost/", {"host": "192.0.2.7", "port": 80}),
        (f"ws://192.0.2.7/?token={CANARY}", {}),
    ],
    ids=["in the url", "to another host than the url's", "in the query (sec5)"],
)
async def test_row_42_wherever_they_stand(url, options):
    """User, password and a token in the query are credentials, too; and what counts is where the connection goes."""
    await refused(lambda: connect(url, **options), "CONN_INSECURE")


async def test_row_42_this_machine_and_permission(monkeypatch):
    """Loopback is no network, nor is what goes to loopback under another name; elsewhere only with permission."""
    async with bridge() as here:
        real = asyncio.get_running_loop().create_connection
        dialled = []

        async def dial(factory, host=None, port=None, **options):
            dialled.append(host)
            return await real(factory, "127.0.0.1", here.port, **options)

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", dial)
        key = {"X-Api-Key": CANARY}
        for url, host, options in (
            (f"ws://127.0.0.1:{here.port}", {}, {}),
            (f"ws://user:pw@localhost:{here.port}", {}, {}),
            ("ws://bridge.invalid", {"host": "127.0.0.1"}, {}),
            ("ws://bridge.invalid", {}, {"allow_plaintext_credentials": True}),
        ):
            link = rb.reconnecting(
                lambda u=url, h=host: connect(u, additional_headers=key, **h), quick(), **options
            )
            async with link:
                assert link.state == "READY"
        assert [headers["X-Api-Key"] for headers in here.got] == [CANARY] * 4
        plain = rb.reconnecting(
            lambda: connect("ws://bridge.invalid", additional_headers={"X-Tenant": "a"}), quick()
        )
        async with plain:
            assert dialled[-1] == "bridge.invalid"


# -- 41: to another origin -------------------------------------------------------------------------------------------------
@each_row("kind", HEADERS)
@each_row("status", [301, 302, 303, 307, 308])
async def test_row_41_redirect_to_another_origin(kind, status):
    """Another port is another origin: refused for good, and not a byte goes there."""
    async with Recorder().listening() as thief:
        location = f"Location: ws://127.0.0.1:{thief.port}/ws"
        async with Recorder(http(f"{status} Moved", location)).listening() as first:
            failure = await refused(
                lambda: connect(
                    f"ws://127.0.0.1:{first.port}/ws", additional_headers=headers_of(kind)
                ),
                "CONN_REDIRECT_REFUSED",
                allow_plaintext_credentials=True,
            )
            assert f"ws://127.0.0.1:{thief.port}" in str(failure)
        assert CANARY.encode() in first.received
    assert (thief.connections, thief.received) == (0, b"")


@pytest.mark.parametrize(
    "location", ["//127.0.0.1:{port}/ws", "http://127.0.0.1:{port}/", "wss://127.0.0.1:{port}/"]
)
async def test_row_41_however_it_is_written(location):
    """Without a scheme, as http://, with TLS; and credentials in the url are some, too."""
    async with Recorder().listening() as thief:
        answer = http("302 Found", "Location: " + location.format(port=thief.port))
        async with Recorder(answer).listening() as first:
            await refused(
                lambda: connect(f"ws://user:{CANARY}@127.0.0.1:{first.port}/"),
                "CONN_REDIRECT_REFUSED",
            )
    assert (thief.connections, thief.received) == (0, b"")


@pytest.mark.parametrize(
    "headers", [None, {"X-Api-Key": CANARY}], ids=["nothing to hide", "credentials"]
)
async def test_row_41_redirect_from_wss_to_ws(headers):
    """To the same host without TLS: refused, whether there are credentials or not."""
    async with Recorder().listening() as thief:
        answer = http("302 Found", f"Location: ws://localhost:{thief.port}/")
        async with Recorder(answer).listening(serving("good")) as first:
            await refused(
                lambda: connect(
                    f"wss://localhost:{first.port}/", ssl=trusting(), additional_headers=headers
                ),
                "CONN_REDIRECT_REFUSED",
            )
    assert (thief.connections, thief.received) == (0, b"")


@pytest.mark.parametrize("shared", [False, True], ids=["made anew", "the same object"])
async def test_row_41_a_redirect_that_does_no_harm_is_followed(shared):
    """Inside the origin with its credentials, on every attempt; to another one where there are none."""

    def within(connection, request):
        if request.path == "/moved":
            return None
        answer = connection.respond(302, "")
        answer.headers["Location"] = "/moved"
        return answer

    async with bridge(within) as here:
        url = f"ws://127.0.0.1:{here.port}/"
        once = connect(url, additional_headers={"X-Api-Key": CANARY})
        link = rb.reconnecting(
            lambda: once if shared else connect(url, additional_headers={"X-Api-Key": CANARY}),
            quick(),
        )
        async with link as ws:
            for _ in range(3):
                await ws.ping()
                ws.transport.abort()
                await ws.wait_closed()
                await link.wait_ready(10)
        assert [headers["X-Api-Key"] for headers in here.got[:3]] == [CANARY] * 3
        other = Recorder(http("302 Found", f"Location: {url}moved"))
        link = rb.reconnecting(lambda: connect(f"ws://127.0.0.1:{other.port}/"), quick())
        async with other.listening(), link as ws:
            assert ws.request.path == "/moved"


async def test_the_clients_of_other_libraries_are_untouched():
    """What is no `connect` of websockets is entered as it is, whatever it has; and the permission is True or False."""
    world = World()
    made = world.factory()
    made.uri, made.additional_headers = "ws://192.0.2.7/", {"Authorization": "x"}
    before = dict(vars(made))
    async with rb.reconnecting(lambda: made, quick()):
        assert dict(vars(made)) == before
    with pytest.raises(rb.ConfigError, match=r"reconnecting\.allow_plaintext_credentials"):
        rb.reconnecting(world.factory, allow_plaintext_credentials="yes")


@pytest.mark.parametrize("made", ["a link", "a bridge client"])
async def test_c14_a_location_of_http_stays_in_the_origin(made):
    """nginx writes `Location: http://…` whatever was asked for: inside the origin both follow it, credentials and all."""

    def within(connection, request):
        if request.path == "/moved":
            return None
        answer = connection.respond(302, "")
        answer.headers["Location"] = f"http://127.0.0.1:{here.port}/moved"
        return answer

    async with bridge(within) as here:
        url = f"ws://127.0.0.1:{here.port}/"
        if made == "a link":
            link = rb.reconnecting(
                lambda: connect(url, additional_headers={"X-Api-Key": CANARY}), quick()
            )
            async with link as ws:
                await ws.ping()
        else:
            policy = rb.bridge.BridgePolicy(dialect=rb.bridge.Dialect.envelopes())
            async with rb.BridgeClient(url, headers={"X-Api-Key": CANARY}, policy=policy) as client:
                await client.wait_ready(5)
        assert [headers["X-Api-Key"] for headers in here.got] == [CANARY]
