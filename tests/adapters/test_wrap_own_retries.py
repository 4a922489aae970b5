"""google-genai's own repeats, all of them off behind `wrap`: in `interactions`, and those that one call asks for (test_wrap_aiohttp.py: through aiohttp)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import httpx2
import pytest
from google import genai
from google.genai import types

import resilient_bridge as rb
from tests.adapters.test_wrap_genai import scripted


ONCE = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0)))
CACHE = {"model": "m", "config": types.CreateCachedContentConfig(contents="hi")}


@asynccontextmanager
async def hanging_up():
    """A server that reads each request and hangs up: the options of a client of it, and the requests."""
    seen = []

    async def attend(reader, writer):
        with suppress(asyncio.IncompleteReadError):
            seen.append((await reader.readuntil(b"\r\n\r\n")).split(b" ")[0])
        writer.close()

    server = await asyncio.start_server(attend, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield types.HttpOptions(base_url=f"http://127.0.0.1:{port}"), seen


@pytest.mark.real
async def test_a_request_through_httpx_is_made_once():
    """Without aiohttp nothing is different."""
    async with hanging_up() as (options, seen):
        options.httpx_async_client = httpx2.AsyncClient()
        async with rb.wrap(genai.Client(api_key="k", http_options=options), ONCE).aio as client:
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.caches.create(**CACHE)
        assert seen == [b"POST"]


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("is_used", [False, True])
async def test_an_interaction_is_created_once(is_used):
    """`interactions` and its like would repeat a 503 four times, whatever the options say; also if they were used before."""
    script, requests = [503] * 9, []

    def answer(request):
        requests.append(request)
        return httpx2.Response(script.pop(0), json={"error": {"message": "no"}})

    transport = httpx2.MockTransport(answer)
    http = types.HttpOptions(
        httpx_client=httpx2.Client(transport=transport),
        httpx_async_client=httpx2.AsyncClient(transport=transport),
    )
    own = genai.Client(api_key="k", http_options=http)
    if is_used:
        assert own.interactions is own.interactions
        assert own.aio.interactions is own.aio.interactions
    client = rb.wrap(own, ONCE)
    with pytest.raises(Exception, match="no"):
        client.interactions.create(model="m", input="hi")
    assert len(requests) == 1
    with pytest.raises(Exception, match="no"):
        await client.aio.interactions.create(model="m", input="hi")
    assert len(requests) == 2


def test_a_client_is_set_to_try_once():
    """Its options say so, a second wrapping takes them for what they are, and the options it was made with stay as they were."""
    options = types.HttpOptions(timeout=20_000, headers={"x-team": "a"})
    own = genai.Client(api_key="k", http_options=options)
    for _ in range(2):
        reported = rb.wrap(own)._api_client._http_options
        assert (reported.retry_options.attempts, reported.timeout, reported.headers["x-team"]) == (
            1,
            20_000,
            "a",
        )
    assert options.retry_options is None


@pytest.mark.parametrize("attempts", [None, 2, 5])
def test_a_client_with_retries_of_its_own_is_refused(attempts):
    """Two retries multiply; one attempt is none."""
    with pytest.raises(rb.ConfigError, match="retry_options"):
        rb.wrap(_with_retries(attempts))
    for none in (0, 1):
        rb.wrap(_with_retries(none))


def _with_retries(attempts):
    retries = types.HttpRetryOptions(attempts=attempts)
    return genai.Client(api_key="k", http_options=types.HttpOptions(retry_options=retries))


ASKING = [
    {"http_options": {"retry_options": {"attempts": 3}}},
    {"httpOptions": {"retryOptions": {"attempts": 3}}},
    types.GenerateContentConfig(
        http_options=types.HttpOptions(retry_options=types.HttpRetryOptions())
    ),
]


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("config", ASKING)
async def test_a_call_that_asks_for_retries_is_refused(config):
    """Its own, or its chat's: nothing is sent. One attempt may be asked for."""
    client, requests = scripted(200)
    with pytest.raises(rb.ConfigError, match="retry_options"):
        await client.aio.models.generate_content(model="m", contents="hi", config=config)
    with pytest.raises(rb.ConfigError, match="retry_options"):
        client.chats.create(model="m", config=config).send_message("hi")
    assert requests == []
    once = {"http_options": {"timeout": 9_000, "retry_options": {"attempts": 1}}}
    client.models.generate_content(model="m", contents="hi", config=once)
    assert len(requests) == 1
