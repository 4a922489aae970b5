"""`wrap` around anthropic's clients: messages, their streams and helpers, the runner of tools, and what is not repeated."""

from __future__ import annotations

import json
import pickle

import anthropic
import httpx2
import pytest
from anyio.from_thread import start_blocking_portal

import resilient_bridge as rb
from tests.adapters.wrapped_openai import FAST, answering, assert_protected, in_use
from tests.peers.faults import Fault
from tests.peers.providers import Providers
from tests.peers.scripted_answers import Turn
from tests.rows import each_row


real = pytest.mark.real
ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}


def wrapped(server, policy=FAST, **options):
    """A wrapped client of the server; its own retries would make three requests of each."""
    client = anthropic.AsyncAnthropic(
        base_url=server.anthropic, api_key="sk-ant-secret", timeout=20
    )
    return rb.wrap(client, policy, **options)


def scripted(*answers, client=anthropic.AsyncAnthropic, policy=FAST, **options):
    """A wrapped client whose requests are answered in turn: a status, an exception, or a body. Gives the requests, too."""
    no = {"type": "error", "error": {"type": "api_error", "message": "no"}}
    transport, requests = answering(*answers, refused=no)
    is_async = issubclass(client, anthropic.AsyncAnthropic)
    http = (
        httpx2.AsyncClient(transport=transport) if is_async else httpx2.Client(transport=transport)
    )
    return rb.wrap(client(api_key="sk-ant-secret", http_client=http), policy, **options), requests


@pytest.mark.parametrize("kind", [anthropic.AsyncAnthropic, anthropic.Anthropic])
def test_a_wrapped_client_is_the_client(kind):
    """Class, fields and parts are anthropic's, `beta` included; no repr shows the key; own retries are off, derived or not."""
    own = kind(api_key="sk-ant-secret", base_url="http://127.0.0.1:1", max_retries=7)
    client = rb.wrap(own)
    assert isinstance(client, kind)
    assert (client.api_key, str(client.base_url)) == ("sk-ant-secret", str(own.base_url))
    assert isinstance(client.messages, type(own.messages))
    assert isinstance(client.beta.messages, type(own.beta.messages))
    assert all(
        "sk-ant" not in shown
        for shown in (repr(client), str(client.messages), repr(client.messages.create))
    )
    for each in (
        client,
        client.with_options(max_retries=3),
        client.copy(max_retries=3),
        client.with_middleware(),
    ):
        assert isinstance(each, kind)
        assert each.max_retries == 0
        assert each.__wrapped__ is not each
    assert own.max_retries == 7


CLOUDS = {
    "foundry": lambda http: anthropic.AsyncAnthropicFoundry(
        api_key="k", base_url="https://x", http_client=http
    ),
    "vertex": lambda http: anthropic.AsyncAnthropicVertex(
        region="r", project_id="p", access_token="t", http_client=http
    ),
}


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_clients_for_other_clouds_are_known(cloud):
    """Their parts are classes of their own, `beta` included: each call of them is protected."""
    transport, requests = answering(529, 200, 529, 200, refused={})
    client = rb.wrap(CLOUDS[cloud](httpx2.AsyncClient(transport=transport)), FAST)
    with rb.testing.virtual_time():
        await client.messages.create(**ASK)
        await client.beta.messages.create(**ASK)
    assert len(requests) == 4


# ---- forms of a call ------------------------------------------------------------------------------------------------


async def _plain(client):
    return (await client.messages.create(**ASK)).content[0].text


async def _raw(client):
    return (await (await client.with_raw_response.messages.create(**ASK)).parse()).content[0].text


async def _streaming(client):
    async with client.messages.with_streaming_response.create(**ASK) as answer:
        return (await answer.parse()).content[0].text


async def _runner(client):
    message = await client.beta.messages.tool_runner(**ASK, tools=[]).until_done()
    return message.content[0].text


async def _stream(client):
    async with await client.messages.create(**ASK, stream=True) as events:
        return "".join(
            [event.delta.text async for event in events if event.type == "content_block_delta"]
        )


async def _manager(client):
    async with client.messages.stream(**ASK) as events:
        return "".join([event.text async for event in events if event.type == "text"])


async def _texts(client):
    async with client.messages.stream(**ASK) as events:
        return "".join([text async for text in events.text_stream])


async def _final_message(client):
    async with client.messages.stream(**ASK) as events:
        return (await events.get_final_message()).content[0].text


async def _final_text(client):
    async with client.beta.messages.stream(**ASK) as events:
        return await events.get_final_text()


STREAMS = [_stream, _manager, _texts, _final_message, _final_text]
FORMS = [_plain, _raw, _streaming, _runner, *STREAMS]


@real
@pytest.mark.requirement("S6")
@pytest.mark.parametrize("form", FORMS)
async def test_every_form_of_a_call_is_protected(form):
    """529, then an answer: two requests and one wait, whether asked plainly, raw, by a runner of tools, or as a stream."""
    async with Providers() as server, wrapped(server) as client:
        server.script(Turn.refused("overloaded"))
        with rb.testing.virtual_time() as time:
            assert await form(client) == "one two three"
        assert (server.requests, time.slept) == (2, [1.0])


@real
@each_row("form", FORMS)
async def test_an_open_circuit_refuses_every_form(form):
    """Nothing is sent, the rejection is anthropic's base error, too, and no coroutine is left behind."""
    async with Providers() as server, wrapped(server) as client:
        rb.calls.circuit(client).isolate()
        with pytest.raises(anthropic.AnthropicError) as caught:
            await form(client)
        assert isinstance(caught.value, rb.CircuitOpenError)
        assert type(pickle.loads(pickle.dumps(caught.value))) is rb.CircuitOpenError
        assert server.requests == 0


@real
@pytest.mark.requirement("V3")
@pytest.mark.parametrize("failing", ["unauthorized", "quota", "context_length"])
async def test_a_lasting_failure_costs_one_request(failing):
    """A wrong key, an empty account (400) and a prompt that is too long fail at once, as anthropic's own error."""
    async with Providers() as server, wrapped(server) as client:
        server.script(Turn.refused(failing))
        with rb.testing.virtual_time() as time, pytest.raises(anthropic.APIStatusError) as caught:
            await _plain(client)
        assert (server.requests, time.slept) == (1, [])
        assert not rb.classify(caught.value).retryable


@real
@pytest.mark.requirement("V2")
async def test_retry_after_is_a_lower_bound_and_has_a_ceiling():
    """With a Retry-After of 12 s it waits that long; with an hour it stops at once and says so, where anthropic alone sleeps the hour."""
    async with Providers() as server, wrapped(server) as client:
        server.script(Turn.refused("rate_limited", retry_after=12))
        with rb.testing.virtual_time() as time:
            await _plain(client)
        assert len(time.slept) == 1
        assert 12 <= time.slept[0] < 14
        server.script(Turn.refused("rate_limited", retry_after=3600))
        with rb.testing.virtual_time() as time, pytest.raises(anthropic.RateLimitError) as caught:
            await _plain(client)
        assert (time.slept, server.requests) == ([], 3)
        assert rb.classify(caught.value).stopped == "retry_after"


@real
@pytest.mark.requirement("S9")
async def test_the_error_that_comes_out_is_the_sdks_own():
    """The same object, with its fields, and notes that say how often it was tried; the provider is in the details."""
    async with Providers() as server, wrapped(server, rb.Policy(rb.Retry(attempts=2))) as client:
        server.script(*[Turn.refused("overloaded")] * 2)
        with rb.testing.virtual_time(), pytest.raises(anthropic.OverloadedError) as caught:
            await _plain(client)
        error = caught.value
        failure = rb.classify(error)
        assert (error.status_code, error.type, type(error)) == (
            529,
            "overloaded_error",
            anthropic.OverloadedError,
        )
        assert failure.cause is error
        assert (failure.stopped, failure.details["provider_id"]) == ("attempts", "anthropic")
        assert any("gave up after 2 calls" in note for note in error.__notes__)


BATCH = {"requests": [{"custom_id": "1", "params": ASK}]}


@pytest.mark.requirement("S8")
async def test_a_batch_is_created_once():
    """After a 500 it may have been created; a refused connection and a 429 say it was not; `idempotent=` names it."""
    client, requests = scripted(500)
    with rb.testing.virtual_time(), pytest.raises(anthropic.InternalServerError) as caught:
        await client.messages.batches.create(**BATCH)
    assert len(requests) == 1
    assert any("idempotent" in note for note in caught.value.__notes__)
    client, requests = scripted(httpx2.ConnectError, 429, 200)
    with rb.testing.virtual_time():
        await client.messages.batches.create(**BATCH)
    assert len(requests) == 3
    client, requests = scripted(500, idempotent={"messages.batches.create"})
    with rb.testing.virtual_time():
        await client.messages.batches.create(**BATCH)
    assert len(requests) == 2


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("kind", [anthropic.AsyncAnthropic, anthropic.Anthropic])
async def test_each_page_of_a_list_is_a_call_of_its_own(kind):
    """The second page fails once, and only that one is fetched again."""

    def page(name, *, more):
        model = {
            "id": name,
            "type": "model",
            "display_name": name,
            "created_at": "2026-01-01T00:00:00Z",
        }
        return {"data": [model], "has_more": more, "first_id": name, "last_id": name}

    client, requests = scripted(page("a", more=True), 503, page("b", more=False), client=kind)
    with rb.testing.virtual_time() as time:
        if kind is anthropic.Anthropic:
            names = [model.id for model in client.models.list()]
        else:
            names = [model.id async for model in client.models.list()]
    assert (names, time.slept) == (["a", "b"], [1.0])
    assert [dict(request.url.params).get("after_id") for request in requests] == [None, "a", "a"]


def _asks_for(name):
    use = {"type": "tool_use", "id": "t1", "name": name, "input": {}}
    return {**_says("x"), "content": [use], "stop_reason": "tool_use"}


def _says(text):
    fixed = {"id": "r", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {
        **fixed,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": usage,
    }


@pytest.mark.requirement("S8")
async def test_a_runner_of_tools_repeats_the_request_and_not_the_tool():
    """The model's second answer fails once: it is asked again, and the tool that ran before has run once."""
    runs = []

    @anthropic.beta_async_tool
    async def order() -> str:
        """Order something."""
        runs.append(1)
        return "ordered"

    client, requests = scripted(_asks_for("order"), 503, _says("done"))
    with rb.testing.virtual_time():
        message = await client.beta.messages.tool_runner(**ASK, tools=[order]).until_done()
    assert (message.content[0].text, runs) == ("done", [1])
    sent = [json.loads(request.read())["messages"][-1]["content"] for request in requests]
    assert sent[1] == sent[2]
    assert sent[1][0]["content"] == "ordered"


BROKEN = [Turn.failed(), Turn.cut(), Turn.cut(reset=True)]


@real
@each_row("form", STREAMS)
@each_row("turn", BROKEN, ids=["error", "cut", "reset"])
async def test_a_stream_that_fails_at_its_first_item_is_repeated(turn, form):
    """An `overloaded_error` with status 200, or a connection that ends: one whole stream comes, also from the manager."""
    async with Providers() as server, wrapped(server) as client:
        server.script(turn)
        with rb.testing.virtual_time():
            assert await form(client) == "one two three"
        assert server.requests == 2
        assert in_use(client) == 0


@real
@pytest.mark.parametrize("form", STREAMS)
async def test_a_stream_that_fails_later_is_not_repeated(form):
    """The error of the SDK comes, with a note, whichever helper reads; the circuit heard of it, and the connection is free."""
    async with Providers() as server, wrapped(server) as client:
        server.script(Turn.failed(after=2))
        with rb.testing.virtual_time() as time, pytest.raises(anthropic.APIStatusError) as caught:
            await form(client)
        assert (caught.value.status_code, caught.value.type) == (200, "overloaded_error")
        assert caught.value.__notes__ == ["not repeated: items had been handed out"]
        assert (server.requests, time.slept, in_use(client)) == (1, [], 0)
        assert "1/3 failed" in repr(rb.calls.circuit(client))


@real
async def test_a_raw_cut_later_comes_as_it_came():
    """anthropic lets httpx2's error through: so do we, with the note, and it is known for what it is."""
    async with Providers() as server, wrapped(server) as client:
        server.script(Turn.cut(after=2))
        with pytest.raises(httpx2.RemoteProtocolError) as caught:
            await _texts(client)
        assert "not repeated: items had been handed out" in caught.value.__notes__
        assert server.requests == 1


@real
async def test_a_stream_may_be_closed_early():
    """Leaving the block, or `close()`, gives the connection back; nothing is repeated, and no failure is counted."""
    async with Providers() as server, wrapped(server) as client:
        async with client.messages.stream(**ASK) as events:
            assert isinstance(events, anthropic.AsyncMessageStream)
            assert (await anext(events)).type == "message_start"
            assert events.current_message_snapshot.id
        stream = await client.messages.create(**ASK, stream=True)
        await stream.close()
        assert (server.requests, in_use(client)) == (2, 0)
        assert "0/" in repr(rb.calls.circuit(client))


@real
async def test_a_deadline_covers_the_wait_for_the_first_item():
    """A manager whose stream says nothing is cut by the deadline, as an error of anthropic's, too."""
    async with (
        Providers() as server,
        wrapped(server, rb.Policy(rb.Deadline(0.2), rb.Retry())) as client,
    ):
        server.strike(Fault.black_hole())
        with pytest.raises(anthropic.AnthropicError) as caught:
            await _manager(client)
        assert isinstance(caught.value, rb.DeadlineExceededError)


def _sync_plain(client):
    return client.messages.create(**ASK).content[0].text


def _sync_stream(client):
    with client.messages.create(**ASK, stream=True) as events:
        return "".join(
            [event.delta.text for event in events if event.type == "content_block_delta"]
        )


def _sync_texts(client):
    with client.messages.stream(**ASK) as events:
        return "".join(events.text_stream)


def _sync_final(client):
    with client.messages.stream(**ASK) as events:
        return events.get_final_message().content[0].text


def _sync_runner(client):
    return client.beta.messages.tool_runner(**ASK, tools=[]).until_done().content[0].text


@real
def test_the_client_that_blocks_is_protected_in_every_form():
    """A 529 and a broken first item are repeated, a later one is not; an open circuit refuses without a request."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Providers()) as server,
        rb.wrap(
            anthropic.Anthropic(base_url=server.anthropic, api_key="k", timeout=20), FAST
        ) as client,
    ):
        forms = [_sync_plain, _sync_runner, _sync_stream, _sync_texts, _sync_final]
        kinds = {
            "refusal": "overloaded",
            "later": anthropic.APIStatusError,
            "ours": anthropic.AnthropicError,
        }
        assert_protected(server, client, forms, forms[2:], **kinds)
