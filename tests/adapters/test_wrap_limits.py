"""`max_bytes` of `wrap` (S5): what is too large is refused before anything is sent, as an error of ours and of the SDK."""

from __future__ import annotations

import asyncio

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import errors, types

import resilient_bridge as rb
from resilient_bridge.failure import Category, Executed


def _openai(requests, *, is_async=True, **options):
    transport = httpx2.MockTransport(
        lambda request: requests.append(request) or httpx2.Response(200, json={})
    )
    if is_async:
        client = openai.AsyncOpenAI(
            api_key="k", http_client=httpx2.AsyncClient(transport=transport)
        )
    else:
        client = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=transport))
    return rb.wrap(client, **options)


SIZES = {
    "text": ("x" * 10, "x" * 11),
    "text in utf-8": ("é" * 5, "é" * 6),
    "a lone surrogate": ("\ud800" * 3, "\ud800" * 4),
    "bytes": (b"x" * 10, bytearray(11)),
    "data as json": ({"a": "123"}, {"a": "1234567"}),
    "a list": (["abcdef"], ["abcdefgh"]),
}


@pytest.mark.requirement("S5")
@pytest.mark.parametrize("kind", SIZES)
async def test_the_bound_is_exact(kind):
    """So many bytes pass, more do not; text and bytes count as they are, everything else as JSON in UTF-8."""
    fits, exceeds = SIZES[kind]

    class Any:
        def ask(self, prompt):
            return "asked"

    bound = 10 if kind != "data as json" else 12
    client = rb.wrap(Any(), methods=["ask"], max_bytes={"prompt": bound})
    assert client.ask(prompt=fits) == "asked"
    with pytest.raises(rb.errors.RejectedError, match="prompt exceeds maximum size"):
        client.ask(prompt=exceeds)
    with pytest.raises(rb.errors.RejectedError, match="prompt exceeds maximum size"):
        client.ask(exceeds)


@pytest.mark.requirement("S5")
async def test_what_is_too_large_is_not_sent():
    """UPSTREAM, not executed, not retryable, with the sizes in its details; the text is in no message."""
    requests = []
    client = _openai(requests, max_bytes={"messages": 100, "metadata": 50})
    words = [{"role": "user", "content": "secret " * 20}]
    with pytest.raises(openai.OpenAIError) as caught:
        await client.chat.completions.create(model="m", messages=words)
    error = caught.value
    assert isinstance(error, rb.errors.RejectedError)
    failure = rb.classify(error)
    assert (failure.code, failure.category, failure.executed) == (
        "SYS_TOO_LARGE",
        Category.UPSTREAM,
        Executed.NO,
    )
    assert not failure.retryable
    assert failure.details == {"argument": "messages", "size": 173, "max": 100}
    assert "secret" not in failure.explain()
    assert requests == []
    with pytest.raises(rb.errors.RejectedError, match="metadata"):
        await client.chat.completions.create(model="m", messages=[], metadata={"a": "x" * 60})
    await client.chat.completions.create(model="m", messages=[], metadata={"a": "x"})
    assert len(requests) == 1


@pytest.mark.requirement("S5")
@pytest.mark.parametrize("is_async", [True, False])
async def test_the_bound_holds_for_every_form(is_async):
    """Raw, streamed, by a manager, by a derived client: the call itself refuses, and the circuit counts nothing."""
    requests = []
    client = _openai(requests, is_async=is_async, max_bytes={"messages": 2})
    parts = [client.chat.completions, client.with_options(timeout=3).chat.completions]
    calls = [
        each
        for part in parts
        for each in (part.create, part.with_raw_response.create, part.stream, part.parse)
    ]
    for call in [*calls, client.with_streaming_response.chat.completions.create]:
        with pytest.raises(rb.errors.RejectedError):
            result = call(model="m", messages=["hello"])
            if is_async:
                await result
    assert requests == []
    assert "0/" in repr(rb.calls.circuit(client))


@pytest.mark.requirement("S5")
async def test_the_rejection_is_the_base_error_of_each_sdk():
    """`except anthropic.AnthropicError` and `except errors.APIError` hold as well; nothing was connected to."""
    nowhere = "http://127.0.0.1:1"
    claude = rb.wrap(
        anthropic.AsyncAnthropic(api_key="k", base_url=nowhere), max_bytes={"system": 5}
    )
    with pytest.raises(anthropic.AnthropicError) as caught:
        await claude.messages.create(model="m", max_tokens=1, messages=[], system="too long")
    assert isinstance(caught.value, rb.errors.RejectedError)
    google = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=nowhere))
    with pytest.raises(errors.APIError) as refused:
        rb.wrap(google, max_bytes={"contents": 5}).models.generate_content(
            model="m", contents="too long"
        )
    assert isinstance(refused.value, rb.errors.RejectedError)


@pytest.mark.requirement("S5")
async def test_a_generator_of_any_object_is_refused_too():
    """At the call, before its first item is asked for."""

    class Any:
        def rows(self, *, query):
            yield query

    client = rb.wrap(Any(), methods=["rows"], max_bytes={"query": 3})
    assert list(client.rows(query="abc")) == ["abc"]
    with pytest.raises(rb.errors.RejectedError):
        client.rows(query="abcd")


@pytest.mark.parametrize("bound", [0, -1, True, 1.5, "10", None])
def test_a_bound_is_a_whole_number(bound):
    """At least 1; the error names the argument."""
    with pytest.raises(rb.ConfigError, match=r"wrap\.max_bytes\['prompt'\]"):
        rb.wrap([], methods=["append"], max_bytes={"prompt": bound})


@pytest.mark.parametrize("bounds", [5, 0, "prompt", [("prompt", 5)], dict])
def test_bounds_are_a_mapping(bounds):
    """Of the names of arguments; the error shows one."""
    wanted = (
        r"wrap\.max_bytes: wanted a mapping of argument names to bytes, or None, .*write rb\.wrap"
    )
    with pytest.raises(rb.ConfigError, match=wanted):
        rb.wrap([], methods=["append"], max_bytes=bounds)


@pytest.mark.requirement("S5")
async def test_over_the_concurrency_limit_is_retryable_and_openais():
    """The second call at once finds no place: TRANSPORT, retryable, not sent, and `except openai.OpenAIError` holds."""
    asked, go, requests = asyncio.Event(), asyncio.Event(), []

    async def answer(request):
        requests.append(request)
        asked.set()
        await go.wait()
        return httpx2.Response(200, json={})

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = rb.wrap(
        openai.AsyncOpenAI(api_key="k", http_client=http), rb.Policy(rb.Bulkhead(1, queue=0))
    )
    first = asyncio.create_task(client.chat.completions.create(model="m", messages=[]))
    await asked.wait()
    with pytest.raises(openai.OpenAIError) as caught:
        await client.chat.completions.create(model="m", messages=[])
    go.set()
    await first
    assert isinstance(caught.value, rb.errors.BulkheadFullError)
    failure = rb.classify(caught.value)
    assert (failure.category, failure.retryable, failure.executed) == (
        Category.TRANSPORT,
        True,
        Executed.NO,
    )
    assert len(requests) == 1


async def test_a_stream_frees_its_slot_with_its_first_item():
    """A bulkhead limits calls: while one stream is read the next may begin, unlike those of a generator function."""
    chunk = 'data: {"id": "c", "choices": []}\n\n'
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(
            200, text=chunk * 2 + "data: [DONE]\n\n", headers={"content-type": "text/event-stream"}
        )
    )
    http = httpx2.AsyncClient(transport=transport)
    own = openai.AsyncOpenAI(api_key="k", http_client=http)
    client = rb.wrap(own, rb.Policy(rb.Bulkhead(1, queue=0)))
    streams = [
        await client.chat.completions.create(model="m", messages=[], stream=True) for _ in range(2)
    ]
    for stream in streams:
        assert [chunk.id async for chunk in stream] == ["c", "c"]
