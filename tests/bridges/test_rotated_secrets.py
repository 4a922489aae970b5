"""M02 at a link: a token that is rotated while the client runs, against websockets' own server and an HTTP server of another author.

Rule: the far end counts which token each dial had.
"""

from __future__ import annotations

import http
import os
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest
from aiohttp import web
from websockets.asyncio.server import serve

import resilient_bridge as rb
from resilient_bridge.adapters import EventSource
from tests.peers.running import until


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]
OLD, NEW = "old-token-77", "new-token-88"
QUICK = rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.01), connect_burst=10_000)
BEARER = rb.dialects.plain.evolve(bearer=True)
POLICY = rb.presets.default.evolve(reconnect=QUICK, dialect=BEARER)


class Door:
    """A WebSocket server that lets one token in; `asked` has the token of every dial."""

    def __init__(self):
        """It knows the old one."""
        self.valid, self.asked, self.sockets = OLD, [], set()
        self.on_refusal = lambda: None
        self.url = ""

    def check(self, connection, request):
        """Refuse every other one."""
        self.asked.append(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if self.asked[-1] != self.valid:
            self.on_refusal()
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, f"{self.asked[-1]} is over")
        return None

    async def _handle(self, socket):
        self.sockets.add(socket)
        async for frame in socket:
            await socket.send(frame)

    async def cut(self):
        """End every connection."""
        for socket in self.sockets:
            await socket.close(1001)
        self.sockets.clear()

    @asynccontextmanager
    async def open(self):
        """While it listens."""
        async with serve(self._handle, "127.0.0.1", 0, process_request=self.check) as server:
            self.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            yield self


def in_code(token):
    """The argument of a client."""
    return {"token": token}


def in_a_header(token):
    """As a word of a header."""
    return {"headers": {"Authorization": f"Bearer {token}"}}


@pytest.mark.parametrize("form", [in_code, in_a_header])
@pytest.mark.parametrize("kind", ["env", "file"])
async def test_m02_a_link_dials_with_the_rotated_token(kind, form, tmp_path, monkeypatch):
    """M02: refused once with the old one, READY with the new one, and again after the next rotation."""
    path = tmp_path / "token"

    def rotate(value):
        monkeypatch.setenv("RB_ROTATED", value)
        path.write_text(f"{value}\n")

    rotate(OLD)
    reference = "env:RB_ROTATED" if kind == "env" else f"file:{path}"
    async with (
        Door().open() as door,
        rb.BridgeClient(door.url, policy=POLICY, **form(reference)) as client,
    ):
        await client.wait_ready(10)
        for value in (NEW, "third-token-99"):
            asked, before = len(door.asked), door.valid
            door.valid, door.on_refusal = value, partial(rotate, value)
            await door.cut()
            await until(
                lambda value=value: client.health().ready and door.asked[-1] == value, "READY again"
            )
            assert door.asked[asked:] == [before, value]


async def test_m02_a_callable_is_called_again_after_a_refusal():
    """M02: once per refusal; both values stay out of the error that ends the client."""
    tokens_of_calls = iter([OLD, NEW, NEW, NEW])
    async with Door().open() as door:
        door.valid = "another"
        async with rb.BridgeClient(
            door.url, policy=POLICY, token=lambda: next(tokens_of_calls)
        ) as client:
            with pytest.raises(rb.errors.AuthError) as caught:
                await client.wait_ready(10)
        assert door.asked == [OLD, NEW]
        shown = repr(caught.value.failure) + caught.value.failure.explain() + str(caught.value)
        assert (OLD in shown, NEW in shown) == (False, False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
async def test_sec6_a_token_in_a_named_pipe_ends_the_client(tmp_path):
    """SEC6: with ConfigError, before anything is sent; the loop goes on."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with Door().open() as door:
        async with rb.BridgeClient(door.url, policy=POLICY, token=f"file:{pipe}") as client:
            with pytest.raises(rb.ConfigError, match="wanted a regular file"):
                await client.wait_ready(10)
        assert door.asked == []


async def test_m02_an_event_source_reads_a_refused_token_again(tmp_path):
    """M02: one more request after a 401, with what the file holds now; refused again, it is the end."""
    path, asked = tmp_path / "token", []
    path.write_text(OLD)
    valid = [OLD]

    async def handle(request):
        asked.append(request.headers["Authorization"])
        if asked[-1] != f"Bearer {valid[0]}":
            path.write_text(NEW)  # the rotation comes a moment after the refusal
            return web.Response(status=401, text=f"{asked[-1]} is over")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(f"id: {len(asked)}\ndata: {len(asked)}\n\n".encode())
        return response

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/"
    try:
        async with (
            httpx.AsyncClient(trust_env=False) as client,
            EventSource(
                client, url, headers={"Authorization": f"Bearer file:{path}"}, reconnect=QUICK
            ) as source,
        ):
            assert (await anext(source)).data == "1"
            valid[0] = NEW
            assert (await anext(source)).data == "3"
            assert asked == [f"Bearer {OLD}", f"Bearer {OLD}", f"Bearer {NEW}"]
            valid[0] = "another"
            with pytest.raises(rb.errors.AuthError) as caught:
                await anext(source)
            assert asked[3:] == [f"Bearer {NEW}"] * 2
            assert NEW not in repr(caught.value.failure)
    finally:
        await runner.cleanup()
