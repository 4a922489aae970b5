"""`wrap` around openai's clients: every form of a call, pages, and streams, async and in clients that block."""

from __future__ import annotations

import threading

import httpx2
import openai
import pytest
from anyio.from_thread import start_blocking_portal

import resilient_bridge as rb
from tests.adapters.wrapped_openai import ASK, FAST, assert_protected, in_use, scripted, wrapped
from tests.peers.faults import Fault
from tests.peers.providers import Providers
from tests.peers.scripted_answers import Turn
from tests.rows import each_row


real = pytest.mark.real


# ---- the other forms of a call --------------------------------------------------------------------------------------


async def _raw(client):
    answer = await client.chat.completions.with_raw_response.create(**ASK)
    return answer.parse().choices[0].message.content


async def _raw_of_all(client):
    answer = await client.with_raw_response.chat.completions.create(**ASK)
    return answer.parse().choices[0].message.content


async def _streaming(client):
    async with client.chat.completions.with_streaming_response.create(**ASK) as answer:
        return (await answer.parse()).choices[0].message.content


async def _streaming_of_all(client):
    async with client.with_streaming_response.chat.completions.create(**ASK) as answer:
        return (await answer.parse()).choices[0].message.content


async def _stream(client):
    async with await client.chat.completions.create(**ASK, stream=True) as chunks:
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])


async def _manager(client):
    async with client.chat.completions.stream(**ASK) as events:
        return "".join([event.delta async for event in events if event.type == "content.delta"])


async def _final(client):
    async with client.chat.completions.stream(**ASK) as events:
        return (await events.get_final_completion()).choices[0].message.content


async def _parsed(client):
    return (await client.chat.completions.parse(**ASK)).choices[0].message.content


FORMS = [_raw, _raw_of_all, _streaming, _streaming_of_all, _stream, _manager, _final, _parsed]


@real
@each_row("form", FORMS)
async def test_every_form_of_a_call_is_protected(form):
    """Raw and streamed answers, streams and their managers: a 503 is repeated once for each, and the answer is whole."""
    async with Providers() as server, wrapped(server) as client:
        server.script(Turn.refused("unavailable"))
        with rb.testing.virtual_time() as time:
            assert await form(client) == "one two three"
        assert (server.requests, time.slept) == (2, [1.0])


@real
@each_row("form", FORMS)
async def test_an_open_circuit_refuses_every_form(form):
    """Nothing is sent, and the rejection is openai's base error, too; no coroutine is left behind."""
    async with Providers() as server, wrapped(server) as client:
        await client.chat.completions.create(**ASK)
        rb.calls.circuit(client).isolate()
        with pytest.raises(openai.OpenAIError) as caught:
            await form(client)
        assert isinstance(caught.value, rb.CircuitOpenError)
        assert server.requests == 1


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("kind", [openai.AsyncOpenAI, openai.OpenAI])
async def test_each_page_of_a_list_is_a_call_of_its_own(kind):
    """Several pages read as one list; the second fails once, and only that one is fetched again."""

    def page(name, *, more):
        return {"object": "list", "data": [{"id": name}], "has_more": more}

    pages = (
        page("a", more=True),
        503,
        page("b", more=True),
        httpx2.ReadTimeout,
        page("c", more=False),
    )
    client, requests = scripted(*pages, client=kind)
    with rb.testing.virtual_time() as time:
        if kind is openai.OpenAI:
            names = [file.id for file in client.files.list()]
        else:
            names = [file.id async for file in client.files.list()]
    assert names == ["a", "b", "c"]
    assert [dict(request.url.params).get("after") for request in requests] == [
        None,
        "a",
        "a",
        "b",
        "b",
    ]
    assert time.slept == [1.0, 1.0]


async def test_a_page_is_what_it_was():
    """Awaited, a list gives openai's page, whose next one is a call; reading by pages works, too."""
    body = {"object": "list", "data": [{"id": "a"}], "has_more": True}
    client, requests = scripted(
        body, 503, {**body, "data": [{"id": "b"}]}, body, {**body, "has_more": False}
    )
    with rb.testing.virtual_time():
        page = await client.files.list(limit=1)
        assert isinstance(page, openai.pagination.AsyncCursorPage)
        assert (page.data[0].id, page.has_next_page(), page.model_dump()["has_more"]) == (
            "a",
            True,
            True,
        )
        following = await page.get_next_page()
        assert (following.data[0].id, len(requests)) == ("b", 3)
        assert len([each async for each in (await client.files.list()).iter_pages()]) == 2


# ---- streams --------------------------------------------------------------------------------------------------------


BROKEN = {
    "error": Turn.failed,
    "cut": Turn.cut,
    "reset": lambda after: Turn.cut(after=after, reset=True),
}


@real
@each_row("form", [_stream, _manager, _final])
@each_row("ending", ["error", "reset", "cut"])
async def test_a_stream_that_fails_at_its_first_item_is_repeated(ending, form):
    """The status was 200, and nothing had been handed out: the reader sees one whole stream, and no connection stays open."""
    async with Providers() as server, wrapped(server) as client:
        server.script(BROKEN[ending](after=0))
        with rb.testing.virtual_time():
            assert await form(client) == "one two three"
        assert server.requests == 2
        assert in_use(client) <= 1


@real
@pytest.mark.parametrize("form", [_stream, _manager, _final])
async def test_a_stream_that_fails_later_is_not_repeated(form):
    """Items were handed out: the SDK's own error comes, the note says why, and the circuit has heard of it."""
    async with Providers() as server, wrapped(server) as client:
        server.script(Turn.failed(after=2))
        with rb.testing.virtual_time() as time, pytest.raises(openai.APIError) as caught:
            await form(client)
        assert type(caught.value) is openai.APIError
        assert "not repeated: items had been handed out" in caught.value.__notes__
        assert (server.requests, time.slept) == (1, [])
        assert rb.classify(caught.value).stopped == "not_idempotent"
        assert "1/3 failed" in repr(rb.calls.circuit(client))
        assert in_use(client) == 0


@real
async def test_a_stream_may_be_closed_early():
    """`close()` and leaving the block give the connection back; nothing was repeated, and the circuit saw no failure."""
    async with Providers() as server, wrapped(server) as client:
        stream = await client.chat.completions.create(**ASK, stream=True)
        assert isinstance(stream, openai.AsyncStream)
        await anext(stream)
        await stream.close()
        async with await client.chat.completions.create(**ASK, stream=True) as stream:
            assert stream.response.status_code == 200
        assert (server.requests, in_use(client)) == (2, 0)
        assert "0/" in repr(rb.calls.circuit(client))


@real
async def test_a_deadline_covers_the_wait_for_the_first_item():
    """A stream that says nothing is cut by the deadline, and its connection is gone."""
    policy = rb.Policy(rb.Deadline(0.2), rb.Retry())
    async with Providers() as server, wrapped(server, policy) as client:
        server.strike(Fault.black_hole())
        with pytest.raises(openai.OpenAIError) as caught:
            await _stream(client)
        assert isinstance(caught.value, rb.DeadlineExceededError)
        assert in_use(client) == 0


async def test_an_empty_stream_is_empty():
    """No item is no failure."""
    ended = httpx2.Response(
        200, content=b"data: [DONE]\n\n", headers={"content-type": "text/event-stream"}
    )
    client, requests = scripted(ended)
    assert [chunk async for chunk in await client.chat.completions.create(**ASK, stream=True)] == []
    assert len(requests) == 1


# ---- the client that blocks -----------------------------------------------------------------------------------------


def _sync_plain(client):
    return client.chat.completions.create(**ASK).choices[0].message.content


def _sync_raw(client):
    return (
        client.with_raw_response.chat.completions.create(**ASK).parse().choices[0].message.content
    )


def _sync_streaming(client):
    with client.chat.completions.with_streaming_response.create(**ASK) as answer:
        return answer.parse().choices[0].message.content


def _sync_stream(client):
    with client.chat.completions.create(**ASK, stream=True) as chunks:
        return "".join([chunk.choices[0].delta.content or "" for chunk in chunks])


def _sync_manager(client):
    with client.chat.completions.stream(**ASK) as events:
        return "".join([event.delta for event in events if event.type == "content.delta"])


def _sync_final(client):
    with client.chat.completions.stream(**ASK) as events:
        return events.get_final_completion().choices[0].message.content


SYNC_FORMS = [_sync_plain, _sync_raw, _sync_streaming, _sync_stream, _sync_manager, _sync_final]


@real
def test_the_client_that_blocks_is_protected_in_every_form():
    """A 503 is repeated once, a broken first item is, a later one is not; an open circuit refuses without a request."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Providers()) as server,
        rb.wrap(openai.OpenAI(base_url=server.openai, api_key="k", timeout=20), FAST) as client,
    ):
        kinds = {"refusal": "unavailable", "later": openai.APIError, "ours": openai.OpenAIError}
        assert_protected(server, client, SYNC_FORMS, SYNC_FORMS[3:], **kinds)


def test_preparing_a_stream_is_no_call():
    """With its circuit half open, `.stream(…)` takes no probe and proves nothing: entering it does."""
    client, requests = scripted(*[503] * 9, client=openai.OpenAI)
    with rb.testing.virtual_time() as time:
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(**ASK)
        time.advance(31)
        manager = client.chat.completions.stream(**ASK)
        assert rb.calls.circuit(client).state == "open"
        assert len(requests) == 3
        with pytest.raises(openai.OpenAIError), manager:
            pass
        assert len(requests) == 4
        assert rb.calls.circuit(client).state == "open"


def test_threads_share_a_client_that_blocks():
    """Ten threads, each with a failure of its own: every one gets its answer, and each repeats once."""
    lock, failed = threading.Lock(), set()

    def answer(request):
        with lock:
            name = request.headers["x-thread"]
            if name in failed:
                return httpx2.Response(200, json={"id": name})
            failed.add(name)
            return httpx2.Response(503, json={})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    policy = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0.001)))
    client = rb.wrap(openai.OpenAI(api_key="k", http_client=http), policy)
    answers = []

    def ask(number):
        answers.append(
            client.chat.completions.create(**ASK, extra_headers={"x-thread": str(number)}).id
        )

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(answers) == sorted(map(str, range(10)))


def test_a_timeout_around_a_client_that_blocks_is_refused_at_once():
    """Nothing could end its call."""
    with pytest.raises(rb.ConfigError, match="Timeout"):
        rb.wrap(openai.OpenAI(api_key="k"), rb.Policy(rb.Timeout(5)))


# ---- in tests -------------------------------------------------------------------------------------------------------


async def test_injected_faults_need_no_server():
    """The target is the policy that the client was wrapped with: every call of it goes by the script."""
    client, requests = scripted(policy=FAST)
    with rb.testing.virtual_time() as time, rb.testing.inject(FAST, 503, rb.testing.PASS) as script:
        await client.chat.completions.create(**ASK)
    assert (script.calls, len(requests), time.slept) == (2, 1, [1.0])


async def test_disabled_calls_as_if_there_were_no_policy():
    """One request, and the SDK's error without a note."""
    client, requests = scripted(503, 200)
    with rb.testing.disabled(), pytest.raises(openai.InternalServerError) as caught:
        await client.chat.completions.create(**ASK)
    assert len(requests) == 1
    assert not hasattr(caught.value, "__notes__")
