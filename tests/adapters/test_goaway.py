"""Connections that nginx ends after a few requests: a GOAWAY over HTTP/2, and every service has them; effects are counted behind it."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager, suppress

import httpx2
import openai
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import resilient_bridge as rb
from tests.adapters.behind_nginx import (
    LIBRARIES,
    QUICK,
    VERSIONS,
    as_error_record,
    client_of,
    in_parallel,
)
from tests.adapters.campaigns import TRUE
from tests.adapters.link_peers import quick
from tests.peers.effects import Effects
from tests.peers.nginx import needs_nginx, nginx
from tests.peers.running import mcp_server
from tests.samples import IS_ALL


pytestmark = [pytest.mark.real, needs_nginx]


async def status_of(library, client, key):
    """Return the status of the answer to a GET, whose body is read as far as it comes."""
    async with client.stream("GET", "/", params={"key": key}) as answer:
        with suppress(library.TransportError):
            await answer.aread()
        return answer.status_code


@LIBRARIES
@VERSIONS
async def test_a03_posts_over_connections_that_end_run_never_more_often_than_reported(
    tmp_path, library, is_http2
):
    """A GOAWAY, or a close after five requests, amid large answers: no POST runs twice, none that ran is reported "not run"; every GET is answered.

    A body that is cut when its answer has begun is the caller's, as without us.
    """
    async with (
        Effects(size=400_000) as far,
        nginx(tmp_path / "nginx", far.port, http="keepalive_requests 5;") as front,
        client_of(library, front, is_http2=is_http2) as client,
    ):
        posts = await in_parallel(
            60 if IS_ALL else 30,
            lambda key: as_error_record(client.post("/", params={"key": key}, content=b"x")),
        )
        gets = await in_parallel(
            60 if IS_ALL else 30, lambda key: status_of(library, client, f"g{key}")
        )
    wrong = {
        key: (reported, far.ran[key])
        for key, reported in posts.items()
        if far.ran[key] not in TRUE[reported]
    }
    assert not wrong
    assert set(gets.values()) == {200}


@VERSIONS
async def test_a04_a_wrapped_sdk_fails_no_more_often_than_the_bare_one(tmp_path, is_http2):
    """120 model calls, four at a time, through connections of 20 requests: all answered."""
    async with (
        Effects(size=4_000) as far,
        nginx(tmp_path / "nginx", far.port, http="keepalive_requests 20;") as front,
        client_of(httpx2, front, is_http2=is_http2, policy=None) as http,
    ):
        base = f"{front.secure_url('') if is_http2 else front.url('')}/v1"
        async with openai.AsyncOpenAI(api_key="k", base_url=base, http_client=http) as bare:
            wrapped = rb.wrap(bare, QUICK)

            async def ask(key: str) -> str:
                answer = await wrapped.chat.completions.create(
                    model="m",
                    messages=[{"role": "user", "content": "hi"}],
                    extra_query={"key": key},
                )
                return answer.choices[0].message.content

            came = await in_parallel(240 if IS_ALL else 120, ask)
    assert {len(text) for text in came.values()} == {4_000}


async def test_a04_a_link_over_http2_lives_on(tmp_path):
    """An MCP server behind connections of seven requests: 40 calls on one link, all of them answered, none twice."""
    ledger = tmp_path / "ledger"
    async with (
        mcp_server(ledger=ledger) as server,
        nginx(tmp_path / "nginx", server.port, http="keepalive_requests 7;") as front,
    ):

        @asynccontextmanager
        async def made():
            async with (
                httpx2.AsyncClient(http2=True, verify=front.trust, trust_env=False) as http,
                Client(
                    streamable_http_client(front.secure_url("/mcp"), http_client=http)
                ) as client,
            ):
                yield client

        async with rb.reconnecting(made, quick()) as link:

            async def call(key: str) -> str:
                try:
                    await link.call_tool("create_ticket", {"key": key})
                except rb.OutcomeUnknownError:
                    return "unknown"
                return "done"

            came = await in_parallel(40, call)
        reported = Counter(came.values())
    assert reported["done"] + reported["unknown"] == 40
    assert server.ledger.repeated == []
    assert {key for key, word in came.items() if word == "done"} <= set(server.ledger.keys)
