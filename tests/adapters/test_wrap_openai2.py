"""`wrap` around whichever openai is installed: 2 speaks httpx, 3 speaks httpx2, and nothing else differs for our users.

Run in two environments: the one of today, and the one that litellm's pin on openai<3 makes.
"""

from __future__ import annotations

from importlib import import_module

import openai
import pytest

import resilient_bridge as rb


http = import_module("httpx2" if int(openai.__version__.partition(".")[0]) >= 3 else "httpx")
ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
FAST = rb.Policy(
    rb.Retry(attempts=3, backoff=rb.Backoff.constant(1)), rb.Breaker.consecutive(5, open_for=30)
)
KINDS = [openai.AsyncOpenAI, openai.OpenAI]


def _event(body):
    return b"data: " + http.Response(200, json=body).read() + b"\n\n"


def _chunk(text):
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return {
        "id": "r",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


WHOLE = _event(_chunk("one")) + _event(_chunk(" two")) + b"data: [DONE]\n\n"
FAILED = _event(
    {"error": {"message": "busy", "type": "server_error", "code": "server_is_overloaded"}}
)


def scripted(kind, *answers):
    """A wrapped client, and the requests that it made."""
    script, requests = list(answers), []

    def answer(request):
        requests.append(request)
        stated = script.pop(0) if script else 200
        if isinstance(stated, bytes):
            return http.Response(200, content=stated, headers={"content-type": "text/event-stream"})
        if isinstance(stated, int):
            return http.Response(
                stated, json={"id": "r"} if stated < 400 else {"error": {"message": "no"}}
            )
        raise stated("broken", request=request)

    transport = http.MockTransport(answer)
    client = http.AsyncClient if kind is openai.AsyncOpenAI else http.Client
    return rb.wrap(
        kind(api_key="sk-secret", http_client=client(transport=transport)), FAST
    ), requests


async def ask(client):
    """The id of an answer, sync or async."""
    answer = client.chat.completions.create(**ASK)
    return (await answer if isinstance(client, openai.AsyncOpenAI) else answer).id


async def stream(client):
    """What a stream says."""
    chunks = client.chat.completions.create(**ASK, stream=True)
    if isinstance(client, openai.AsyncOpenAI):
        return "".join([chunk.choices[0].delta.content async for chunk in await chunks])
    return "".join([chunk.choices[0].delta.content for chunk in chunks])


@pytest.mark.requirement("S6")
@pytest.mark.parametrize("kind", KINDS)
async def test_passing_failures_are_repeated(kind):
    """A refused connection and a 503 cost two waits; its own retries are off, for derived clients, too."""
    client, requests = scripted(kind, http.ConnectError, 503, 200, 503, 503, 503)
    assert isinstance(client, kind)
    with rb.testing.virtual_time() as time:
        assert await ask(client) == "r"
    assert (len(requests), time.slept) == (3, [1.0, 1.0])
    with rb.testing.virtual_time(), pytest.raises(openai.InternalServerError) as caught:
        await ask(client.with_options(max_retries=5))
    assert len(requests) == 6
    assert rb.classify(caught.value).cause is caught.value


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_deletion_is_not_repeated_if_it_may_have_run(kind):
    """One request after a 500, and one more after a connection that was refused."""
    client, requests = scripted(kind, 500, http.ConnectError, 200)
    for error in (openai.InternalServerError, None):
        with rb.testing.virtual_time():
            try:
                answer = client.files.delete("f")
                _ = await answer if kind is openai.AsyncOpenAI else answer
            except openai.InternalServerError:
                assert error is not None
    assert len(requests) == 3


@pytest.mark.parametrize("kind", KINDS)
async def test_streams_are_repeated_up_to_their_first_item(kind):
    """An error as the first event is repeated, a later one is not and has a note."""
    client, requests = scripted(kind, FAILED, WHOLE, WHOLE[: WHOLE.index(b"\n\n") + 2] + FAILED)
    with rb.testing.virtual_time():
        assert await stream(client) == "one two"
        assert len(requests) == 2
        with pytest.raises(openai.APIError) as caught:
            await stream(client)
    assert "not repeated: items had been handed out" in caught.value.__notes__
    assert len(requests) == 3


@pytest.mark.parametrize("kind", KINDS)
async def test_a_rejection_is_openais_base_error(kind):
    """An open circuit refuses without a request."""
    client, requests = scripted(kind)
    rb.calls.circuit(client).isolate()
    with pytest.raises(openai.OpenAIError) as caught:
        await ask(client)
    assert isinstance(caught.value, rb.CircuitOpenError)
    assert requests == []
