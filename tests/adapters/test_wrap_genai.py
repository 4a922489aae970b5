"""`wrap` around google-genai's clients: both sides of one, chats, streams and pagers, whose failures httpx2 and Google tell."""

from __future__ import annotations

import asyncio
import pickle
from contextlib import aclosing

import httpx2
import pytest
from anyio.from_thread import start_blocking_portal
from google import genai
from google.genai import errors, pagers, types

import resilient_bridge as rb
from tests.adapters.wrapped_openai import FAST, answering, assert_protected
from tests.peers.faults import Fault
from tests.peers.providers import Providers
from tests.peers.scripted_answers import Turn


real = pytest.mark.real
ASK = {"model": "m", "contents": "hi"}


def wrapped(server, policy=FAST, **options):
    """A wrapped client of the server."""
    http = types.HttpOptions(base_url=server.google, timeout=20_000)
    return rb.wrap(genai.Client(api_key="AIza-secret", http_options=http), policy, **options)


def scripted(*answers, policy=FAST, **options):
    """A wrapped client whose requests are answered in turn: a status, an exception, or a body. Gives the requests, too."""

    def refused(status):
        name = {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}[status]
        return {"error": {"code": status, "message": "no", "status": name}}

    transport, requests = answering(*answers, refused=refused)
    http = types.HttpOptions(
        httpx_client=httpx2.Client(transport=transport),
        httpx_async_client=httpx2.AsyncClient(transport=transport),
    )
    return rb.wrap(
        genai.Client(api_key="AIza-secret", http_options=http), policy, **options
    ), requests


def test_a_wrapped_client_is_the_client():
    """Class and parts are the SDK's, those of `aio`, too; no repr shows the key."""
    client, _ = scripted()
    assert isinstance(client, genai.Client)
    assert isinstance(client.models, genai.models.Models)
    assert isinstance(client.aio, genai.client.AsyncClient)
    assert isinstance(client.aio.models, genai.models.AsyncModels)
    assert (client.vertexai, client.models.generate_content.__name__) == (False, "generate_content")
    shown = (
        repr(client),
        str(client),
        repr(client.aio),
        repr(client.models),
        repr(client.aio.models.generate_content),
    )
    assert all("AIza" not in each for each in shown)


def test_its_own_retries_are_refused():
    """They cannot be switched off later, and two retries multiply: the error names the option."""
    http = types.HttpOptions(retry_options=types.HttpRetryOptions(attempts=3))
    with pytest.raises(rb.ConfigError, match="retry_options"):
        rb.wrap(genai.Client(api_key="k", http_options=http))
    with pytest.raises(rb.ConfigError, match="retry_options"):
        rb.wrap(genai.Client(api_key="k", http_options=http).aio)


# ---- forms of a call ------------------------------------------------------------------------------------------------


async def _plain(client):
    return (await client.aio.models.generate_content(**ASK)).text


async def _chat(client):
    return (await client.aio.chats.create(model="m").send_message("hi")).text


async def _stream(client):
    async with aclosing(await client.aio.models.generate_content_stream(**ASK)) as chunks:
        return "".join([chunk.text or "" async for chunk in chunks])


async def _chat_stream(client):
    chunks = await client.aio.chats.create(model="m").send_message_stream("hi")
    return "".join([chunk.text or "" async for chunk in chunks])


STREAMS = [_stream, _chat_stream]
FORMS = [_plain, _chat, *STREAMS]


@real
@pytest.mark.requirement("S6")
@pytest.mark.parametrize("form", FORMS)
async def test_every_form_of_a_call_is_protected(form):
    """503, then an answer: two requests and one wait, for models and chats, whole and streamed."""
    async with Providers() as server, wrapped(server).aio as aio:
        client = _Both(aio)
        server.script(Turn.refused("unavailable"))
        with rb.testing.virtual_time() as time:
            assert await form(client) == "one two three"
        assert (server.requests, time.slept) == (2, [1.0])


class _Both:
    """`aio` of a client, for the forms above."""

    def __init__(self, aio):
        self.aio = aio


@real
@pytest.mark.parametrize("form", FORMS)
async def test_an_open_circuit_refuses_every_form(form):
    """Nothing is sent; the rejection is google-genai's APIError, too, and can be pickled."""
    async with Providers() as server, wrapped(server).aio as aio:
        server.script(Turn.refused("unavailable"))
        with rb.testing.virtual_time():
            await form(_Both(aio))
        rb.calls.circuit(aio).isolate()
        with pytest.raises(errors.APIError) as caught:
            await form(_Both(aio))
        assert isinstance(caught.value, rb.CircuitOpenError)
        assert type(pickle.loads(pickle.dumps(caught.value))) is rb.CircuitOpenError
        assert server.requests == 2


@real
async def test_the_async_side_may_be_wrapped_alone():
    """`rb.wrap(client.aio)` is what `rb.wrap(client).aio` is; a Timeout is welcome there."""
    async with Providers() as server:
        http = types.HttpOptions(base_url=server.google)
        own = genai.Client(api_key="k", http_options=http)
        policy = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(1)), rb.Timeout(20))
        async with rb.wrap(own.aio, policy) as aio:
            assert isinstance(aio, genai.client.AsyncClient)
            server.script(Turn.refused("unavailable"))
            with rb.testing.virtual_time():
                assert await _plain(_Both(aio)) == "one two three"
        assert server.requests == 2


# ---- what is repeated -----------------------------------------------------------------------------------------------


@real
@pytest.mark.requirement("V3")
@pytest.mark.parametrize("failing", ["unauthorized", "quota", "context_length"])
async def test_a_lasting_failure_costs_one_request(failing):
    """A wrong key (400), a day's quota that is used up (429) and a prompt that is too long fail at once."""
    async with Providers() as server, wrapped(server).aio as aio:
        server.script(Turn.refused(failing))
        with rb.testing.virtual_time() as time, pytest.raises(errors.ClientError) as caught:
            await _plain(_Both(aio))
        assert (server.requests, time.slept) == (1, [])
        assert not rb.classify(caught.value).retryable


@real
@pytest.mark.requirement("V2")
async def test_the_delay_that_google_tells_is_a_lower_bound():
    """RetryInfo in the body says 12 s; google-genai itself would ignore it. Without it the preset waits 60 s."""
    async with Providers() as server, wrapped(server, rb.presets.openviber).aio as aio:
        server.script(Turn.refused("rate_limited", retry_after=12), Turn.refused("rate_limited"))
        with rb.testing.virtual_time() as time:
            await _plain(_Both(aio))
        assert len(time.slept) == 2
        assert 12 <= time.slept[0] < 14
        assert time.slept[1] == 60


@real
@pytest.mark.requirement("S9")
async def test_the_error_that_comes_out_is_the_sdks_own():
    """The same object with its fields, a note and its history; httpx2's errors come raw, as they do without us."""
    async with Providers() as server, wrapped(server, rb.Policy(rb.Retry(attempts=2))).aio as aio:
        server.script(*[Turn.refused("overloaded")] * 2)
        with rb.testing.virtual_time(), pytest.raises(errors.ServerError) as caught:
            await _plain(_Both(aio))
        error = caught.value
        assert (error.code, error.status, type(error)) == (503, "UNAVAILABLE", errors.ServerError)
        failure = rb.classify(error)
        assert failure.cause is error
        assert (failure.stopped, failure.details["provider_id"]) == ("attempts", "google-gemini")
        assert any("gave up after 2 calls" in note for note in error.__notes__)
        server.strike(Fault.reset_after(), times=2)
        with rb.testing.virtual_time(), pytest.raises(httpx2.ReadError) as broken:
            await _plain(_Both(aio))
        assert any("gave up after 2 calls" in note for note in broken.value.__notes__)
        assert server.requests == 4


@pytest.mark.requirement("S8")
async def test_a_cache_is_created_once():
    """After a 500 it may exist; a refused connection and a 429 say that it does not; `idempotent=` allows it."""
    ask = {"model": "m", "config": types.CreateCachedContentConfig(contents="hi", ttl="60s")}
    client, requests = scripted(500)
    with rb.testing.virtual_time(), pytest.raises(errors.ServerError) as caught:
        await client.aio.caches.create(**ask)
    assert len(requests) == 1
    assert any("idempotent" in note for note in caught.value.__notes__)
    client, requests = scripted(httpx2.ConnectError, 429, 200)
    with rb.testing.virtual_time():
        client.caches.create(**ask)
    assert len(requests) == 3
    client, requests = scripted(500, 200, 500, idempotent=["aio.caches.create"])
    with rb.testing.virtual_time():
        await client.aio.caches.create(**ask)
        with pytest.raises(errors.ServerError):
            client.caches.create(**ask)
    assert len(requests) == 3


@pytest.mark.requirement("S8")
def test_a_call_that_runs_functions_is_not_repeated_if_it_may_have_run():
    """google-genai calls functions among the tools inside of the call: a 500 in between would run them again."""
    runs = []

    def order() -> str:
        """Order something."""
        runs.append(1)
        return "ordered"

    asked = {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"functionCall": {"name": "order", "args": {}}}],
                }
            }
        ]
    }
    for config in ({"tools": [order]}, types.GenerateContentConfig(tools=[order])):
        runs.clear()
        client, requests = scripted(asked, 500)
        with rb.testing.virtual_time(), pytest.raises(errors.ServerError):
            client.models.generate_content(**ASK, config=config)
        assert (len(requests), runs) == (2, [1])


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("side", ["sync", "async"])
async def test_each_page_of_a_pager_is_a_call_of_its_own(side):
    """The second page fails once, and only that one is fetched again; the end of the list is no failure."""
    first = {"cachedContents": [{"name": "a"}], "nextPageToken": "t"}
    client, requests = scripted(first, 503, {"cachedContents": [{"name": "b"}]})
    with rb.testing.virtual_time() as time, rb.testing.record() as seen:
        if side == "sync":
            pager = client.caches.list()
            assert isinstance(pager, pagers.Pager)
            assert (len(pager), pager[0].name, pager.page[0].name) == (1, "a", "a")
            names = [cache.name for cache in pager]
        else:
            pager = await client.aio.caches.list()
            assert isinstance(pager, pagers.AsyncPager)
            names = [cache.name async for cache in pager]
    assert (names, len(requests), time.slept) == (["a", "b"], 3, [1.0])
    assert [type(event).__name__ for event in seen] == ["RetryScheduled", "RetryRecovered"]


@real
async def test_a_chat_remembers_a_repeated_message_once():
    """Two requests, one turn of history; what is read from a chat is no call, and works with an open circuit."""
    async with Providers() as server, wrapped(server).aio as aio:
        chat = aio.chats.create(model="m")
        assert isinstance(chat, genai.chats.AsyncChat)
        server.script(Turn.refused("unavailable"))
        with rb.testing.virtual_time():
            await chat.send_message("hi")
        rb.calls.circuit(aio).isolate()
        assert [content.role for content in chat.get_history()] == ["user", "model"]
        assert aio.chats.create(model="m").get_history() == []


# ---- streams --------------------------------------------------------------------------------------------------------


@real
@pytest.mark.parametrize("form", STREAMS)
@pytest.mark.parametrize(
    "turn", [Turn.failed(), Turn.cut(), Turn.cut(reset=True)], ids=["error", "cut", "reset"]
)
async def test_a_stream_that_fails_at_its_first_item_is_repeated(turn, form):
    """Status 200 and an error in the body, or a connection that ends: one whole stream comes."""
    async with Providers() as server, wrapped(server).aio as aio:
        server.script(turn)
        with rb.testing.virtual_time():
            assert await form(_Both(aio)) == "one two three"
        assert server.requests == 2


@real
@pytest.mark.parametrize("form", STREAMS)
async def test_a_stream_that_fails_later_is_not_repeated(form):
    """The SDK's own error comes, with a note, and the circuit has heard of it."""
    async with Providers() as server, wrapped(server).aio as aio:
        server.script(Turn.failed(after=2))
        with rb.testing.virtual_time() as time, pytest.raises(errors.ServerError) as caught:
            await form(_Both(aio))
        assert caught.value.__notes__ == ["not repeated: items had been handed out"]
        assert (server.requests, time.slept) == (1, [])
        assert "1/3 failed" in repr(rb.calls.circuit(aio))


@real
async def test_fifty_calls_at_once_share_circuit_and_client():
    """A circuit that opens stops all of them: of two hundred possible requests few are made."""
    policy = rb.Policy(
        rb.Retry(attempts=4, backoff=rb.Backoff.constant(1)), rb.Breaker.consecutive(5, open_for=30)
    )
    client, requests = scripted(*[503] * 300, policy=policy)
    with rb.testing.virtual_time():
        ended = await asyncio.gather(*[_plain(client) for _ in range(50)], return_exceptions=True)
    assert all(isinstance(each, errors.APIError) for each in ended)
    assert len(requests) < 100
    assert rb.calls.circuit(client).state == "open"


# ---- the side that blocks -------------------------------------------------------------------------------------------


def _sync_plain(client):
    return client.models.generate_content(**ASK).text


def _sync_chat(client):
    return client.chats.create(model="m").send_message("hi").text


def _sync_stream(client):
    return "".join([chunk.text or "" for chunk in client.models.generate_content_stream(**ASK)])


def _sync_chat_stream(client):
    return "".join(
        [chunk.text or "" for chunk in client.chats.create(model="m").send_message_stream("hi")]
    )


@real
def test_the_side_that_blocks_is_protected_in_every_form():
    """A 503 and a broken first item are repeated, a later one is not; an open circuit refuses without a request."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Providers()) as server,
        wrapped(server) as client,
    ):
        forms = [_sync_plain, _sync_chat, _sync_stream, _sync_chat_stream]
        kinds = {"refusal": "unavailable", "later": errors.ServerError, "ours": errors.APIError}
        assert_protected(server, client, forms, forms[2:], **kinds)
        assert client.chats.create(model="m").get_history() == []


def test_a_timeout_holds_for_the_side_that_can_be_cut():
    """One client has both sides: the blocking one refuses a Timeout when it is called, before anything is sent."""
    client, requests = scripted(policy=rb.Policy(rb.Retry(), rb.Timeout(5)))
    with pytest.raises(rb.ConfigError, match="Timeout"):
        client.models.generate_content(**ASK)
    assert requests == []
