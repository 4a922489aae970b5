"""A model's stream that ends cleanly in the middle of its answer: its reader gets an error, in all three SDKs and all their forms."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import types

import resilient_bridge as rb
from tests.adapters.wrapped_openai import ASK
from tests.internals.adapters import Ending
from tests.peers.providers import Providers
from tests.peers.scripted_answers import Turn


pytestmark = pytest.mark.real

POLICY = rb.Policy(
    rb.Retry(attempts=4, backoff=rb.Backoff.constant(0)), rb.Breaker.consecutive(1, open_for=30)
)
MESSAGES = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


async def _openai(server):
    client = rb.wrap(openai.AsyncOpenAI(base_url=server.openai, api_key="k"), POLICY)
    return (
        client,
        openai.APIConnectionError,
        await client.chat.completions.create(**ASK, stream=True),
    )


async def _openai_events(server):
    client = rb.wrap(openai.AsyncOpenAI(base_url=server.openai, api_key="k"), POLICY)
    return (
        client,
        openai.APIConnectionError,
        await client.chat.completions.stream(**ASK).__aenter__(),
    )


async def _anthropic(server):
    client = rb.wrap(anthropic.AsyncAnthropic(base_url=server.anthropic, api_key="k"), POLICY)
    return (
        client,
        anthropic.APIConnectionError,
        await client.messages.create(**MESSAGES, stream=True),
    )


async def _anthropic_events(server):
    client = rb.wrap(anthropic.AsyncAnthropic(base_url=server.anthropic, api_key="k"), POLICY)
    return (
        client,
        anthropic.APIConnectionError,
        await client.messages.stream(**MESSAGES).__aenter__(),
    )


async def _google(server):
    http = types.HttpOptions(base_url=server.google)
    client = rb.wrap(genai.Client(api_key="k", http_options=http), POLICY)
    stream = await client.aio.models.generate_content_stream(model="m", contents="hi")
    return client, genai.errors.APIError, stream


async def _close(client):
    await (client.aio.aclose() if hasattr(client, "aio") else client.close())


FORMS = [_openai, _openai_events, _anthropic, _anthropic_events, _google]


@pytest.mark.parametrize("asked", FORMS)
async def test_e27_a_stream_that_ends_before_its_answer_is_reported(asked):
    """What had come is handed out, then the error, of ours and of the SDK's; the circuit hears of it, and nothing is asked again."""
    async with Providers() as server:
        server.script(Turn.ended_early(after=2))
        client, theirs, stream = await asked(server)
        items = []
        with pytest.raises(
            rb.BridgeError, match="the stream ended before the answer did"
        ) as caught:
            async for item in stream:
                items += [item]
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert len(items) >= 2
        assert isinstance(caught.value, theirs)  # C09: as the SDK's own error for a lost connection
        assert caught.value.message == caught.value.failure.message
        if theirs is not genai.errors.APIError:
            assert (caught.value.request.method, caught.value.body) == ("POST", None)
        assert caught.value.failure.executed is rb.errors.Executed.MAYBE
        await _close(client)
        assert (server.requests, rb.calls.circuit(client).state) == (1, "open")


@pytest.mark.parametrize("asked", FORMS)
async def test_e27_a_complete_stream_is_reported_as_before(asked):
    """All of it, and no error."""
    async with Providers() as server:
        client, _, stream = await asked(server)
        assert len([item async for item in stream]) >= 3
        await _close(client)
        assert rb.calls.circuit(client).state == "closed"


async def test_e27_a_cut_stream_of_a_sync_client_is_reported_too():
    """The same for its sync stream."""

    def read(url):
        with openai.OpenAI(base_url=url, api_key="k") as own:
            client = rb.wrap(own, rb.Policy(rb.Retry()))
            stream = client.chat.completions.create(**ASK, stream=True)
            try:
                for chunk in stream:
                    words[:] = [*words, chunk.choices[0].delta.content]
            finally:
                assert next(stream, None) is None

    words = []
    async with Providers() as server:
        server.script(Turn.ended_early(after=1))
        with pytest.raises(rb.BridgeError, match="the stream ended before the answer did"):
            await asyncio.to_thread(read, server.openai)
        assert "one" in "".join(word or "" for word in words)
        words.clear()
        await asyncio.to_thread(read, server.openai)
        assert "three" in "".join(word or "" for word in words)


@pytest.mark.parametrize(
    ("chunks", "is_cut"),
    [
        ([[]], False),
        ([[(0, None)], [(0, "stop")], []], False),
        ([[(0, None)], [(0, "stop")], [(0, None)]], False),
        ([[(0, None), (1, None)], [(0, "stop")]], True),
        ([[(0, None), (1, None)], [(0, "stop"), (1, "length")]], False),
        ([[(0, None)], []], True),
    ],
    ids=["nothing said", "usage last", "a remark after the end", "one of two", "both", "no end"],
)
def test_e27_every_answer_that_began_has_to_end(chunks, is_cut):
    """A filter's remark and a count of tokens say nothing; of two answers both have to end."""
    ending = Ending()
    for choices in chunks:
        parts = [SimpleNamespace(index=number, finish_reason=reason) for number, reason in choices]
        chunk = types.GenerateContentResponse.model_construct(candidates=parts)
        assert ending.inspected(chunk) is chunk
    assert (ending.cut() is not None) is is_cut


@pytest.mark.parametrize("text", ["data: [DONE]\n\n", ""], ids=["done", "cut"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_e27_done_is_an_end_too(text, is_async):
    """A server of openai's format that gives no reason, and says `[DONE]`: that is the end of it; without it, nothing is."""
    chunk = {"index": 0, "delta": {"content": "hi"}, "finish_reason": None}
    fields = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [chunk],
    }
    body = f"data: {json.dumps(fields)}\n\n{text}"
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(200, text=body, headers={"content-type": "text/event-stream"})
    )

    async def read():
        if is_async:
            own = openai.AsyncOpenAI(
                api_key="k", http_client=httpx2.AsyncClient(transport=transport)
            )
            stream = await rb.wrap(own, POLICY).chat.completions.create(**ASK, stream=True)
            return [item async for item in stream]
        own = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=transport))
        return list(rb.wrap(own, POLICY).chat.completions.create(**ASK, stream=True))

    if text:
        assert len(await read()) == 1
    else:
        with pytest.raises(rb.BridgeError, match="the stream ended before the answer did"):
            await read()


def test_e27_a_stream_of_an_unknown_format_is_unchanged():
    """Lines, bytes, and the objects of others."""
    ending = Ending()
    for item in (
        "text",
        b"x",
        SimpleNamespace(choices=[SimpleNamespace(index=0, finish_reason=None)]),
    ):
        assert ending.inspected(item) is item
    assert ending.cut() is None
