"""A first connection in the wrong dialect says what was sent, what came back, and what would fit."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

import resilient_bridge as rb
from tests.bridges.doubles.agno import Agno
from tests.bridges.doubles.harness import serving_aiohttp
from tests.bridges.doubles.homemade import Homemade
from tests.bridges.doubles.mattermost import Mattermost
from tests.bridges.doubles.openhands import SessionSocket
from tests.bridges.doubles.slack_socket_mode import SlackSocketMode
from tests.bridges.doubles.socketio import SocketIO
from tests.internals.protocol import FirstFrames, fitting


SECRET = "k-1234567890"


@pytest.mark.parametrize(
    ("double", "path", "dialect", "fits"),
    [
        (SocketIO, "/socket.io/?EIO=4&transport=websocket", rb.dialects.recursor, "socketio()"),
        (
            SocketIO,
            "/socket.io/?EIO=4&transport=websocket",
            rb.dialects.recursor_live,
            "socketio()",
        ),
        (Agno, "/workflows/ws", rb.dialects.recursor, "agno(workflow_id=…)"),
    ],
    ids=["socket.io", "socket.io, by its functions", "agno"],
)
async def test_it_says_so_within_seconds(double, path, dialect, fits):
    """In the error of `wait_ready`, and without the token."""
    async with asyncio.timeout(20), serving_aiohttp(double(random.Random(1))) as url:
        client = rb.BridgeClient(url + path, dialect=dialect, token=SECRET)
        with pytest.raises(rb.errors.AttemptTimeoutError) as error:
            async with client as bridge:
                await bridge.wait_ready(timeout=3)
    text = str(error.value)
    assert f"what would fit: rb.dialects.{fits}" in text
    assert "came back: " in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("double", "path", "first", "fits"),
    [
        (
            SessionSocket,
            "/sockets/session/main",
            '{"type":"auth","session_api_key":"k"}',
            "openhands",
        ),
        (Mattermost, "/api/v4/websocket", "", "mattermost"),
        (SlackSocketMode, None, "", "slack_socket_mode"),
        (Homemade, "/", "", "sequence(field='seq', ask=…)"),
    ],
    ids=["openhands", "mattermost", "slack", "homemade"],
)
async def test_first_frames_show_the_dialect(double, path, first, fits):
    """Of servers that speak when they are spoken to, as a client of plain frames sees them."""
    server = (
        double(random.Random(1), token="secret")
        if double is Mattermost
        else double(random.Random(1))
    )

    async def hello(link):
        if first or double is Mattermost:
            challenge = {
                "seq": 1,
                "action": "authentication_challenge",
                "data": {"token": "secret"},
            }
            await link.send(
                challenge if double is Mattermost else {"type": "auth", "session_api_key": "k"}
            )

    async with asyncio.timeout(20), serving_aiohttp(server) as url:
        where = url + (server.new_path() if path is None else path)
        async with rb.BridgeClient(where, dialect=rb.dialects.plain, on_connect=hello) as bridge:
            await bridge.wait_ready(timeout=5)
            if double is Homemade:
                await server.publish(1)
            message = await anext(aiter(bridge))
    frames = FirstFrames()
    frames.came(json.dumps(message.raw))
    assert f"rb.dialects.{fits}" in str(frames)


@pytest.mark.parametrize(
    ("frame", "fits"),
    [
        ('{"jsonrpc":"2.0","method":"x"}', ("rb.dialects.jsonrpc",)),
        ('{"header":{},"parent_header":{},"channel":"iopub"}', ("rb.dialects.jupyter(session=…)",)),
        ('{"id":1,"connect":{}}\n{"push":{}}', ("rb.dialects.centrifugo(…)",)),
        ('{"type":"x","seq":4}', ("rb.dialects.sequence(field='seq', ask=…)", "rb.dialects.plain")),
        ("[1]", ("rb.dialects.plain",)),
        ("hello", ("rb.dialects.plain",)),
    ],
)
def test_what_fits_a_frame(frame, fits):
    """The likeliest first; any frame is plain."""
    assert fitting([frame]) == fits


def test_what_was_sent_is_named_without_its_values():
    """The kind of a frame, or the names of its fields."""
    frames = FirstFrames()
    frames.went('{"type":"auth","payload":{"token":"k-1234567890"}}')
    frames.went('{"token":"k-1234567890"}')
    assert str(frames) == "sent: auth, {token}; nothing came back"
