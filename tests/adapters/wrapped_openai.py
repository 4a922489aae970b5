"""Clients of providers behind `wrap`, as the tests of it use them: against the local provider, or answered without a socket."""

from __future__ import annotations

import httpx2
import openai
import pytest

import resilient_bridge as rb
from tests.peers.scripted_answers import Turn


WORDS = [{"role": "user", "content": "hi"}]
ASK = {"model": "m", "messages": WORDS}
FAST = rb.Policy(
    rb.Retry(attempts=4, backoff=rb.Backoff.constant(1)), rb.Breaker.consecutive(3, open_for=30)
)


def answering(*answers, refused):
    """A transport that answers in turn: a status, a body, a response, an exception to raise, or a function that gives one of these.

    `refused` is the body of a refusal, or a function of its status. Gives the list of the requests, too.
    """
    script, requests = list(answers), []

    def answer(request):
        requests.append(request)
        stated = script.pop(0) if script else 200
        if callable(stated) and not isinstance(stated, type):
            stated = stated(request)
        if isinstance(stated, httpx2.Response):
            return stated
        if isinstance(stated, int):
            if stated < 400:
                return httpx2.Response(stated, json={})
            return httpx2.Response(stated, json=refused(stated) if callable(refused) else refused)
        if isinstance(stated, dict):
            return httpx2.Response(200, json=stated)
        raise stated("broken", request=request)

    return httpx2.MockTransport(answer), requests


def wrapped(server, policy=FAST, **options):
    """A wrapped client of the server; its own retries would make three requests of each."""
    client = openai.AsyncOpenAI(base_url=server.openai, api_key="sk-secret", timeout=20)
    return rb.wrap(client, policy, **options)


def scripted(*answers, client=openai.AsyncOpenAI, policy=FAST, **options):
    """A wrapped client that is answered in turn, and the requests that it made."""
    transport, requests = answering(*answers, refused={"error": {"message": "no"}})
    is_async = issubclass(client, openai.AsyncOpenAI)
    http = (
        httpx2.AsyncClient(transport=transport) if is_async else httpx2.Client(transport=transport)
    )
    return rb.wrap(client(api_key="sk-secret", http_client=http), policy, **options), requests


def in_use(client):
    """How many connections of an async client of openai or anthropic are in use."""
    pool = client.__wrapped__._client._transport._pool
    return len([each for each in pool.connections if not each.is_idle()])


def assert_protected(server, client, forms, streams, *, refusal, later, ours):
    """Of a client that blocks: a refusal and a broken first item are repeated once, a later one is not; an open circuit refuses all.

    `later` is the SDK's error of a stream that fails in the middle, `ours` its class of every rejection.
    """
    for form in forms:
        before = server.requests
        server.script(Turn.refused(refusal))
        with rb.testing.virtual_time():
            assert form(client) == "one two three"
        assert server.requests - before == 2
    for form in streams:
        before = server.requests
        server.script(Turn.failed())
        with rb.testing.virtual_time():
            assert form(client) == "one two three"
        assert server.requests - before == 2
        server.script(Turn.failed(after=2))
        with pytest.raises(later) as caught:
            form(client)
        assert "not repeated: items had been handed out" in caught.value.__notes__
        assert server.requests - before == 3
        rb.calls.circuit(client).reset()
    rb.calls.circuit(client).isolate()
    before = server.requests
    for form in forms:
        with pytest.raises(ours) as caught:
            form(client)
        assert isinstance(caught.value, rb.CircuitOpenError)
    assert server.requests == before
