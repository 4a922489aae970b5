"""Where a connection over streamable HTTP may send what: redirects, credentials, and what a server echoes."""

from __future__ import annotations

import pytest
from aiohttp import web

import resilient_bridge as rb
from tests.adapters.sidecar.http_servers import (
    Heard,
    Scripted,
    call,
    connected,
    lost,
    opened,
)
from tests.internals.adapters import HTTPUpstream, LostError


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

NO, MAYBE = rb.errors.Executed.NO, rb.errors.Executed.MAYBE


async def test_redirects_are_followed_inside_the_origin_only():
    """307 and 308 with method, body and headers; to another origin nothing goes, least of all a credential."""
    stranger = Scripted()
    targets = {}

    class Moved(Scripted):
        async def handle(self, request):
            if request.path != "/mcp":
                return await super().handle(request)
            return web.Response(status=307, headers={"Location": targets["to"]})

    server = Moved()
    headers = {"Authorization": "Bearer topsecret-1"}
    async with stranger.serving() as elsewhere, server.serving() as url:
        targets["to"] = "/mcp/"
        async with connected(url, headers=headers) as (upstream, heard):
            upstream.send(call(1))
            assert (await heard.outcome(1)).result
            assert server.posts[0][1]["Authorization"] == "Bearer topsecret-1"
        targets["to"] = elsewhere
        loss = await lost(url, headers=headers)
        assert (loss.executed, loss.is_final) == (MAYBE, True)
        assert "redirect" in loss.reason
    assert not stranger.seen
    assert server.effects == {1: 1}


@pytest.mark.parametrize(
    ("url", "headers", "reason"),
    [
        ("ftp://host/mcp", {}, "wanted http:// or https://"),
        ("host/mcp", {}, "wanted http:// or https://"),
        ("http://host:x/mcp", {}, "an unreadable one"),
        (
            "http://host/mcp",
            {"Authorization": "Bearer topsecret-1"},
            "credentials over plaintext refused",
        ),
        ("http://user:topsecret-1@host/mcp", {}, "credentials over plaintext refused"),
        ("http://host/mcp?api_key=topsecret-1", {}, "credentials over plaintext refused"),
        ("https://host/mcp", {"X-Key": "topsecret-1\n"}, "wanted printable characters"),
    ],
)
async def test_what_cannot_work_or_would_leak_is_refused_before_anything_is_sent(
    url, headers, reason
):
    """By `open`, for good, and without a secret in the words."""
    with pytest.raises(LostError, match=reason) as caught:
        async with connected(url, headers=headers):
            pass
    assert (caught.value.loss.is_final, caught.value.loss.executed) == (True, NO)
    assert "topsecret" not in repr(caught.value.loss)


async def test_no_secret_that_a_server_echoes_is_shown():
    """Header values, parts of the URL and the session id are masked in reasons, words and notes."""
    secret = "topsecret-1"

    async def script(*_):
        challenge = {
            "WWW-Authenticate": f'Bearer error_description="{secret} and qu-ery-2 and s-1-session"'
        }
        return web.Response(status=401, text=f"no {secret} qu-ery-2 s-1-session", headers=challenge)

    server = Scripted(script, session="s-1-session").serving()
    async with (
        server as url,
        connected(f"{url}?key=qu-ery-2", headers={"X-Mine": secret}) as (upstream, heard),
    ):
        await opened(upstream, heard)
        upstream.send(call(1))
        loss = await heard.outcome(1)
    assert not any(word in repr(loss) for word in (secret, "qu-ery-2", "s-1-session"))
    assert loss.words == "no [redacted] [redacted] [redacted]"


@pytest.mark.parametrize("where", ["/nowhere/at/all", "~nobody-of-this-name/key", "a\0b", "/"])
async def test_a_secret_s_file_that_cannot_be_is_a_loss_like_one_that_is_missing(where):
    """Final, and named: no home of such a user, a name that no file can have, a folder."""
    upstream = HTTPUpstream(
        "http://127.0.0.1:9/mcp",
        receiver=Heard(),
        headers={"Authorization": f"Bearer file:{where}"},
    )
    with pytest.raises(LostError) as error:
        await upstream.open()
    assert (error.value.loss.is_final, error.value.loss.executed) == (True, NO)
    wanted = "a regular file" if where == "/" else "a file that can be read and holds a secret"
    assert error.value.loss.reason == f"header Authorization: wanted {wanted}, got file:{where}"
