"""What the how-to pages put beside today's code: each line of ours that a page cannot run by itself runs here, as it stands in the page."""

from __future__ import annotations

import ast
import re
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import aiohttp.web
import httpx2
import pytest
from anthropic import AsyncAnthropic
from google import genai
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from openai import AsyncOpenAI
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

import resilient_bridge as rb
from tests.adapters.other_clients import QUICK, serving
from tests.peers.running import mcp_server


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
NAMES = {
    "rb": rb,
    "asynccontextmanager": asynccontextmanager,
    "Client": Client,
    "connect": connect,
    "genai": genai,
    "httpx2": httpx2,
}
NAMES |= {"AsyncOpenAI": AsyncOpenAI, "AsyncAnthropic": AsyncAnthropic}


def skipped(page):
    """The blocks of ours that Sybil skips: those that speak of `rb.`."""
    blocks = re.findall(
        r"^<!-- skip: next -->\n```python\n(.*?)^```",
        (HOW_TO / page).read_text(),
        re.MULTILINE | re.DOTALL,
    )
    return [block for block in blocks if "rb." in block]


async def run(block, **passed):
    """Run a block that awaits, and return its names."""
    names = {**NAMES, **passed}
    started = eval(compile(block, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if started is not None:
        await started
    return names


def test_no_line_of_ours_is_omitted():
    """Of all pages, these have blocks of ours that the page itself does not run; a new one has to come here."""
    found = {
        page.name: len(skipped(page.name))
        for page in HOW_TO.glob("wrap-*.md")
        if skipped(page.name)
    }
    assert found == {
        "wrap-an-mcp-client.md": 2,
        "wrap-a-websocket.md": 1,
        "wrap-a-provider-sdk.md": 1,
        "wrap-requests-and-aiohttp.md": 1,
    }


async def test_an_mcp_client():
    """The two lines around a call, with a server for the url: the tool ran once."""
    server, asked = MCPServer("shop", log_level="CRITICAL"), []

    @server.tool()
    def search(q: str) -> str:
        """Find it."""
        asked.append(q)
        return f"found {q}"

    await run(skipped("wrap-an-mcp-client.md")[0], url=server, arguments={"q": "a"})
    assert asked == ["a"]


async def test_an_mcp_client_over_http(tmp_path):
    """With HTTPTransport below: the factory of the page gives a client of a real server that works."""
    async with mcp_server(ledger=tmp_path / "ledger") as server:
        block = skipped("wrap-an-mcp-client.md")[1].replace(
            "    ...", '    answer = await client.call_tool("add", {"a": 1, "b": 2})'
        )
        names = await run(block, url=server.url(), streamable_http_client=streamable_http_client)
    assert names["answer"].structured_content == {"result": 3}


async def test_a_websocket():
    """Sent, and then read, until the program has had enough."""
    got = []

    class EnoughError(Exception):
        """The program has had enough."""

    def handle(message):
        got.append(message)
        raise EnoughError

    async def echo(connection):
        async for message in connection:
            await connection.send(message.upper())

    async with serve(echo, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(EnoughError):
            await run(skipped("wrap-a-websocket.md")[0], url=url, message="hello", handle=handle)
    assert got == ["HELLO"]


async def test_a_session_of_aiohttp():
    """A GET that meets a 503 is repeated, and its answer read."""
    async with serving() as server:
        server.script = [503, lambda _: aiohttp.web.json_response(["book"])]
        block = skipped("wrap-requests-and-aiohttp.md")[0].replace(
            "https://shop.example/", server.url
        )
        names = await run(block, aiohttp=aiohttp, policy=QUICK)
    assert (names["items"], server.methods) == (["book"], ["GET"] * 2)


async def test_the_clients_of_providers(monkeypatch):
    """One line for each: what comes out is of the class that went in, and does not repeat by itself."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "test-key")
    names = await run(skipped("wrap-a-provider-sdk.md")[0])
    for name, kind in (("llm", AsyncOpenAI), ("claude", AsyncAnthropic), ("gemini", genai.Client)):
        assert isinstance(names[name], kind)
    assert names["llm"].max_retries == names["claude"].max_retries == 0
    for client in (names["llm"], names["claude"]):
        await client.close()
    await names["gemini"].aio.aclose()
    names["gemini"].close()
