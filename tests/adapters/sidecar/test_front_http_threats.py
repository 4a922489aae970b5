"""Who may come in over HTTP, and what one client cannot do to the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
import sys
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import attrs
import httpx
import pytest

import resilient_bridge as rb
from tests.adapters.sidecar.scripted_relay import TOKEN, call, modern, request, running
from tests.adapters.sidecar.standing_in import listening
from tests.internals.adapters import (
    HttpLimits,
    front_http,
    guard_of,
    new_http_token,
    save_http_token,
)
from tests.internals.adapters import message as rpc
from tests.peers.running import until
from tests.rows import each_row


real = pytest.mark.real
LARGE = rpc.notification("large", {"text": "x" * 100_000})
HOSTS = {
    "127.0.0.1:7777": True,
    "127.0.0.1": True,
    "127.9.9.9:1": True,
    "localhost:7777": True,
    "LocalHost": True,
    "[::1]:7777": True,
    "evil.invalid": False,
    "evil.invalid:7777": False,
    "127.0.0.1.evil.invalid": False,
    "localhost.evil.invalid:80": False,
    "127.0.0.1:80@evil.invalid": False,
    "127.0.0.1:evil.invalid": False,
    "192.168.0.1": False,
    "": False,
}
ORIGINS = {
    "http://127.0.0.1:7777": True,
    "http://localhost": True,
    "https://[::1]:7777": True,
    "http://evil.invalid": False,
    "http://localhost.evil.invalid": False,
    "http://localhost:80@evil.invalid": False,
    "null": False,
    "": False,
    "file://": False,
    "http://192.168.0.1": False,
}


@asynccontextmanager
async def raw(front, method, headers, body=""):
    """A request on a connection of its own, of which nothing is read but what the test reads."""
    headers = {"Host": "localhost", "Authorization": f"Bearer {TOKEN}", "Accept": "*/*"} | headers
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    url = urlsplit(front.url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=1)
    writer.write(f"{method} /mcp HTTP/1.1\r\n{head}\r\n{body}".encode())
    try:
        yield reader
    finally:
        writer.close()


@each_row("host", HOSTS)
def test_only_this_machine_is_a_host(host):
    """By name or address; a page that had its name resolve to this machine is refused."""
    refusal = guard_of("127.0.0.1", token=None).refusal({"host": host})
    assert refusal == ("" if HOSTS[host] else "Invalid Host header")


@each_row("origin", ORIGINS)
def test_only_this_machine_is_an_origin(origin):
    """What a browser says of a page elsewhere is refused."""
    refusal = guard_of("127.0.0.1", token=None).refusal({"host": "127.0.0.1", "origin": origin})
    assert refusal == ("" if ORIGINS[origin] else "Invalid Origin header")


@real
async def test_of_two_origins_both_count():
    """A header that comes twice is neither of its values."""
    async with running() as front:
        for first, second in (("evil.invalid", "localhost"), ("localhost", "evil.invalid")):
            origins = [("origin", f"http://{first}"), ("origin", f"http://{second}")]
            response = await front.http.post(front.url, headers=origins)
            assert response.status_code == 403


def test_names_can_be_allowed():
    """Hosts and origins that the user names; on another address than loopback, any address."""
    guard = guard_of(
        "0.0.0.0",
        token=TOKEN,
        hosts=frozenset(["Tools.example"]),
        origins=frozenset(["https://a.example"]),
    )
    for host in ("tools.example:80", "192.168.0.1:7777", "127.0.0.1"):
        assert guard.refusal({"host": host, "origin": "https://a.example"}) == ""
    assert guard.refusal({"host": "other.example"})
    assert guard.refusal({"host": "tools.example", "origin": "https://b.example"})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "tools.example", ""])
def test_without_a_token_only_this_machine_is_served(host):
    """The error names the field; a short token is none."""
    with pytest.raises(rb.ConfigError, match="token"):
        guard_of(host, token=None)
    with pytest.raises(rb.ConfigError, match="token"):
        guard_of(host, token="short")


def test_a_token_is_long_and_stays_out_of_sight(tmp_path):
    """256 random bits, in a file that only its owner reads, and in no repr."""
    token = new_http_token()
    assert len(token) == 64
    assert token != new_http_token()
    assert token not in repr(guard_of("127.0.0.1", token=token))
    file = tmp_path / "token"
    file.write_text("an older and longer one" * 9)
    file.chmod(0o644)
    save_http_token(file, token)
    assert file.read_text() == f"{token}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    """The command is in the message."""
    monkeypatch.setattr(front_http, "find_spec", lambda name: None)
    with pytest.raises(rb.ConfigError, match=r"pip install 'resilient-bridge\[mcp\]'"):
        async with front_http.serve_http(lambda: None, token=TOKEN):
            pass


@real
@each_row(
    ("headers", "status"),
    [
        ({"host": "evil.invalid"}, 403),
        ({"origin": "http://evil.invalid"}, 403),
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"authorization": "Bearer \u00fc".encode()}, 401),
        ({"host": "evil.invalid", "authorization": ""}, 403),  # who asks is looked at first
    ],
)
async def test_the_door_is_before_everything(headers, status):
    """Whatever is asked for, on every path; no relay is made, nothing is read, and no page of a browser may see the answer."""
    async with running() as front:
        response = await front.post(
            request(0, "initialize", protocolVersion="2025-11-25"), **headers
        )
        assert response.status_code == status
        assert response.json()["error"]["code"] == -32600
        assert ("www-authenticate" in response.headers) == (status == 401)
        assert "bearer" in response.headers.get("www-authenticate", "bearer").lower()
        assert not any(name.startswith("access-control") for name in response.headers)
        assert TOKEN not in response.text
        health = await front.http.get(front.url.replace("/mcp", "/health"), headers=headers)
        assert health.status_code == status
        assert front.relays == []


@real
async def test_health_says_little_to_strangers():
    """Without a token the status and nothing else; with it the details; a wrong one is refused."""
    async with running() as front:
        await front.open()
        url = front.url.replace("/mcp", "/health")
        del front.http.headers["authorization"]
        assert (await front.http.get(url)).json() == {"status": "ok"}
        own = {"authorization": f"Bearer {TOKEN}"}
        details = (await front.http.get(url, headers=own)).json()
        assert details == {
            "status": "ok",
            "sessions": 1,
            "servers": [{"status": "ok", "command": "a secret command"}],
        }
        await front.http.post(front.url, headers=own)
        front.relays[0].state = "degraded"
        assert (await front.http.get(url)).json() == {"status": "degraded"}
        front.relays[0].state = "down"
        down = await front.http.get(url)
        assert (down.status_code, down.json()) == (503, {"status": "down"})
        assert (
            await front.http.get(url, headers={"authorization": "Bearer wrong"})
        ).status_code == 401
        assert (await front.http.post(url, headers=own)).status_code == 405
        elsewhere = await front.http.get(url.replace("/health", "/other"), headers=own)
        assert elsewhere.status_code == 404


@real
async def test_the_token_reaches_no_server():
    """A relay gets the message, and nothing of its request."""
    async with running() as front:
        session = await front.open()
        await front.post(call(1, "echo"), session)
        assert all(
            TOKEN not in message.text and session not in message.text
            for _, message in front.relays[0].got
        )


@real
@pytest.mark.parametrize("how", ["declared", "chunked"])
async def test_a_body_has_a_limit(how):
    """413, before it is held; the front goes on."""
    async with running(limits=HttpLimits(body_bytes=10_000)) as front:
        session = await front.open()
        body = json.dumps(call(1, "echo", "x" * 20_000)).encode()

        async def parts():
            for begin in range(0, len(body), 4_000):
                yield body[begin : begin + 4_000]

        headers = {"content-type": "application/json", "accept": "*/*", "mcp-session-id": session}
        content = body if how == "declared" else parts()
        assert (
            await front.http.post(front.url, content=content, headers=headers)
        ).status_code == 413
        assert len(front.relays[0].got) == 1
        assert (await front.post(call(2, "echo"), session)).status_code == 200


@real
async def test_a_large_body_is_refused_before_it_is_sent():
    """Its length is in the header."""
    async with running() as front:
        length = {"Content-Type": "application/json", "Content-Length": str(1 << 40)}
        async with raw(front, "POST", length) as reader:
            assert await reader.readexactly(12) == b"HTTP/1.1 413"


@real
async def test_a_body_that_does_not_come_is_not_waited_for():
    """After the time for it: 408."""
    part = {"Content-Type": "application/json", "Content-Length": "100"}
    async with (
        running(limits=HttpLimits(body_seconds=0.1)) as front,
        raw(front, "POST", part, "{") as reader,
    ):
        assert await reader.readexactly(12) == b"HTTP/1.1 408"
        assert b'"Request body too slow"' in await reader.read()


@real
async def test_headers_have_a_limit():
    """400, and the front goes on."""
    async with running(limits=HttpLimits(header_bytes=8_000)) as front:
        assert (await front.post(call(1, "echo"), x_large="x" * 20_000)).status_code == 400
        await front.open()


@real
async def test_a_client_that_does_not_read_loses_its_session_alone():
    """What waits for it is bounded; its session ends, its connection is cut, and others have their answers meanwhile."""
    async with running(shared=True, limits=HttpLimits(queue_bytes=200_000)) as front:
        slow, other = await front.open(), await front.open()
        slow_client, other_client = front.relays[0].clients
        async with raw(front, "GET", {"Mcp-Session-Id": slow}) as reader:
            await until(lambda: slow_client.notices.reader is not None, "the stream is open")
            sent = 0
            while slow_client in front.relays[0].clients:
                slow_client.deliver(LARGE, None)
                sent += 1
                assert sent < 1_000
                assert (await front.post(call(sent, "now"), other)).status_code == 200
            assert (await front.post(call(1, "echo"), slow)).status_code == 404
            assert front.relays[0].clients == [other_client]
            with pytest.raises(
                (asyncio.IncompleteReadError, ConnectionError)
            ):  # cut, and not waited for
                await reader.readexactly(sent * 100_000)


@real
async def test_a_client_that_does_not_read_an_answer_loses_its_request():
    """Without a session it is the connection that is cut, and the request that is cancelled."""
    async with running(limits=HttpLimits(queue_bytes=200_000)) as front:
        body, headers = modern(call(1, "hold"))
        text = json.dumps(body)
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(text))}
        async with raw(front, "POST", headers, text):
            await until(lambda: front.relays and front.relays[0].got, "the call is under way")
            relay = front.relays[0]
            client, held = relay.held()
            for _ in range(1_000):
                client.deliver(LARGE, held.key)
                await asyncio.sleep(0)
                if relay.cancelled:
                    break
            assert relay.cancelled == [held.key]


@real
async def test_who_resumes_cuts_a_connection_that_is_stuck():
    """The earlier one may wait for ever for a client that is gone."""
    async with running() as front:
        session = await front.open()
        [client] = front.relays[0].clients
        async with raw(front, "GET", {"Mcp-Session-Id": session}) as reader:
            await until(lambda: client.notices.reader is not None, "the stream is open")
            for _ in range(100):
                client.deliver(LARGE, None)
            await until(lambda: client.notices.has_messages, "some of it waits")
            async with front.stream("GET", session=session, last_event_id="0-0") as second:
                async with asyncio.timeout(10):
                    assert await size_until_the_end(reader) < 10_000_000
                assert "x" * 100_000 in [line async for line in until_large(second)][-1]


@real
async def test_a_stuck_connection_does_not_hold_up_the_end():
    """It is cut after the time for it."""
    async with asyncio.timeout(10), contextlib.AsyncExitStack() as stack:
        async with running(limits=HttpLimits(close_seconds=0.2, queue_bytes=1 << 30)) as front:
            session = await front.open()
            [client] = front.relays[0].clients
            reader = await stack.enter_async_context(raw(front, "GET", {"Mcp-Session-Id": session}))
            await until(lambda: client.notices.reader is not None, "the stream is open")
            client.deliver(rpc.notification("large", {"text": "x" * 20_000_000}), None)
            await until(lambda: not client.notices.has_messages, "it is on its way")
        assert await size_until_the_end(reader) < 20_000_000


async def size_until_the_end(reader):
    """How many bytes come until the connection is closed, or reset."""
    size = 0
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(1 << 20):
            size += len(part)
    return size


async def until_large(response):
    """The lines of a stream, up to the first large one."""
    async for line in response.aiter_lines():
        yield line
        if len(line) > 100_000:
            return


@real
async def test_a_message_larger_than_the_queue_reaches_a_client_that_reads():
    """The bound is for what waits, not for a message."""
    async with running(limits=HttpLimits(queue_bytes=1_000, event_bytes=1_000)) as front:
        session = await front.open()
        response = await front.post(call(1, "echo", "x" * 3_000_000), session)
        assert len(response.content) > 3_000_000
        async with front.stream("GET", session=session, last_event_id="1-1") as again:
            assert again.status_code in {200, 400}


def test_limits_are_values():
    """They can be changed one by one, and compared."""
    assert attrs.evolve(HttpLimits(), sessions=3) == HttpLimits(sessions=3)


@real
def test_s02_what_is_missing_is_named_to_the_client_and_in_the_log(tmp_path):
    """S02: `Missing required credential: apiKey` is a diagnosis: it is in the JSON-RPC error and on stderr; a value beside such a name is in neither."""
    script = r"""
import sys
sys.stderr.write("Missing required credential: apiKey\n")
sys.exit("apiKey=hunter2hunter2 was refused")
"""
    events = tmp_path / "events"
    opening = request(1, "initialize", protocolVersion="2025-11-25", capabilities={})
    headers = {"accept": "application/json, text/event-stream"}
    options = ("--circuit", "1/9", "--events", str(events))
    with listening((sys.executable, "-c", script), *options) as sidecar:
        answer = httpx.post(
            sidecar.url, json=opening, headers=headers, timeout=30, trust_env=False
        ).text
    assert '"error"' in answer
    for text in (answer, "\n".join(sidecar.lines)):
        assert "Missing required credential: apiKey" in text
        assert "hunter2" not in text
    assert "hunter2" not in events.read_text()
