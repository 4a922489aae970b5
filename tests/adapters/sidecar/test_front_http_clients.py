"""Real MCP clients of both eras at the HTTP front, many at once, and clients that are other programs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ListRootsResult, Root

from tests.adapters.sidecar.scripted_relay import TOKEN, running
from tests.peers.running import until


pytestmark = pytest.mark.real
ERAS = ["legacy", "2026-07-28", "auto"]


@asynccontextmanager
async def sdk_client(front, mode, **options):
    """A client of the SDK that shows the token."""
    async with (
        httpx2.AsyncClient(
            headers={"authorization": f"Bearer {TOKEN}"}, timeout=20, trust_env=False
        ) as http,
        Client(streamable_http_client(front.url, http_client=http), mode=mode, **options) as client,
    ):
        yield client


async def called(client, tool, mark, **options):
    """The text that a tool returned."""
    return (await client.call_tool(tool, {"mark": mark}, **options)).content[0].text


@pytest.mark.requirement("X7")
@pytest.mark.parametrize("mode", ERAS)
async def test_the_sdk_lists_calls_and_hears_progress(mode):
    """In each era, with the relay's answers unchanged."""
    heard = []

    async def on_progress(progress, total, message):
        heard.append((progress, message))

    async with running() as front, sdk_client(front, mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["echo", "now"]
        assert await called(client, "echo", "one") == "one"
        assert await called(client, "progress", "two", progress_callback=on_progress) == "two"
        assert heard == [(1, "two")]


@pytest.mark.requirement("X7")
async def test_the_sdk_answers_a_request_of_the_server():
    """It comes in the stream of the call that caused it."""

    async def roots(context):
        return ListRootsResult(roots=[Root(uri="file:///of-the-client")])

    async with running() as front, sdk_client(front, "legacy", list_roots_callback=roots) as client:
        assert await called(client, "roots", "") == "file:///of-the-client"


@pytest.mark.requirement("X7")
@pytest.mark.parametrize("mode", ERAS[:2])
async def test_the_sdk_cancels(mode):
    """A call that its caller gives up is cancelled at the relay: by a notification, or by closing the response."""
    async with running() as front, sdk_client(front, mode) as client:
        calling = asyncio.create_task(client.call_tool("hold", {}))
        await until(
            lambda: [m for relay in front.relays for _, m in relay.got if m.name == "hold"],
            "a call",
        )
        calling.cancel()
        await until(lambda: front.relays[0].cancelled, "it was cancelled")
        assert front.relays[0].cancelled == [front.relays[0].held()[1].key]


@pytest.mark.requirement("X7")
async def test_the_sdk_resumes_a_call_whose_stream_was_cut():
    """The connection dies during the call; the answer comes on the resumed stream, and the call was sent once."""
    async with running() as front, sdk_client(front, "legacy") as client:
        relay = front.relays[0]
        calling = asyncio.create_task(called(client, "hold", "survived"))
        await until(
            lambda: any(message.name == "hold" for _, message in relay.got), "the call is under way"
        )
        owner, message = relay.held()
        stream = owner._in_flight[message.key]
        await until(lambda: stream.reader is not None, "its stream is open")
        stream.reader.abort()
        await until(lambda: stream.reader is None, "the connection is cut")
        relay.answer(owner, message)
        assert await calling == "survived"
        assert sum(message.name == "hold" for _, message in relay.got) == 1


@pytest.mark.requirement("X7")
@pytest.mark.parametrize(("shared", "count"), [(True, 12), (False, 6)])
async def test_many_clients_hear_only_their_own(shared, count):
    """Half of each era, all with ids 1, 2, 3 …: no answer, progress or request of the server reaches another."""

    async def one(front, number):
        mode, heard = ERAS[number % 2], []

        async def on_progress(progress, total, message):
            heard.append(message)

        async def roots(context):
            return ListRootsResult(roots=[Root(uri=f"file:///{number}")])

        async with sdk_client(front, mode, list_roots_callback=roots) as client:
            for turn in range(2):
                mark = f"{number}/{turn}"
                both = (
                    called(client, "echo", mark),
                    called(client, "progress", mark, progress_callback=on_progress),
                )
                assert await asyncio.gather(*both) == [mark, mark]
            if mode == "legacy":
                assert await called(client, "roots", "") == f"file:///{number}"
        assert heard == [f"{number}/{turn}" for turn in range(2)]

    async with running(shared=shared) as front:
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(one(front, number))
        assert len(front.relays) == (1 if shared else count // 2 + 1)
        ids = [
            message.id for relay in front.relays for _, message in relay.got if message.is_request
        ]
        assert len(ids) > count / 3 * len(set(ids))
