"""What the errors of a wrapped SDK's call prove: of the one request that was sent, and of nothing if there were two."""

from __future__ import annotations

import httpx
import httpx2
import openai
import pytest

import resilient_bridge as rb


FAST = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0), budget=None))
BATCH = {"input_file_id": "f", "endpoint": "/v1/x", "completion_window": "24h"}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


class Provider:
    """A provider that answers by a script: a status, or an exception to raise; `methods` is what reached it."""

    def __init__(self, *script):
        self.script, self.methods = list(script), []

    def __call__(self, request):
        self.methods.append(request.method)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        location = {"location": "http://127.0.0.1:9/elsewhere"} if step == 303 else {}
        return httpx2.Response(step, json={}, headers={"retry-after-ms": "1", **location})

    def client(self, **how):
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self), follow_redirects=True)
        return rb.wrap(openai.AsyncOpenAI(api_key="k", http_client=http), FAST, **how)


async def test_a_request_that_was_refused_is_sent_again():
    """One call is one request: that nobody was there is a proof for the whole call."""
    provider = Provider(httpx2.ConnectError("refused"), httpx2.ConnectError("refused"), 200)
    await provider.client().batches.create(**BATCH)
    assert provider.methods == ["POST"] * 3


async def test_a13_a_call_that_was_redirected_is_not():
    """303 after the effect, then nobody: the proof speaks of the second request, and the note says how many there were."""
    provider = Provider(303, httpx2.ConnectError("refused"))
    with pytest.raises(openai.APIConnectionError) as caught:
        await provider.client().batches.create(**BATCH)
    assert provider.methods == ["POST", "GET"]
    assert rb.classify(caught.value).executed is rb.errors.Executed.MAYBE
    (note,) = caught.value.__notes__
    assert "2 requests were sent inside of it" in note


async def test_a13_a_limiter_behind_a_redirect_is_no_limiter_of_the_call():
    """The convention about 429 holds for a request that we sent ourselves, and alone."""
    provider = Provider(303, 429)
    with pytest.raises(openai.RateLimitError):
        await provider.client().batches.create(**BATCH)
    assert provider.methods == ["POST", "GET"]


@pytest.mark.parametrize(("idempotent", "sent"), [(None, 3), (False, 1)])
async def test_429_is_a_convention_that_a_word_closes(idempotent, sent):
    """Providers answer it before they begin; `executed` stays maybe, and `idempotent=False` closes that door."""
    provider, seen = Provider(429), []
    with rb.listen(seen.append), pytest.raises(openai.RateLimitError) as caught:
        await provider.client(idempotent=idempotent).batches.create(**BATCH)
    assert len(provider.methods) == sent
    assert rb.classify(caught.value).executed is rb.errors.Executed.MAYBE
    repeats = [event.permission for event in seen if isinstance(event, rb.events.RetryScheduled)]
    assert repeats == ["limiter"] * (sent - 1)


@pytest.mark.parametrize(("idempotent", "sent"), [(None, 3), (False, 1)])
async def test_an_explicit_no_holds_for_model_calls_too(idempotent, sent):
    """The protocol says that a model call may be repeated; the user's word counts more."""
    provider = Provider(503)
    with pytest.raises(openai.InternalServerError):
        await provider.client(idempotent=idempotent).chat.completions.create(**CHAT)
    assert len(provider.methods) == sent


async def test_a09_the_sdks_own_retries_stay_off():
    """Whoever sets `max_retries`, on the proxy or on the real client below a part of it, switches nothing on."""
    provider = Provider(500)
    llm = provider.client()
    llm.max_retries = 2
    llm.batches._client.max_retries = 2
    with pytest.raises(openai.InternalServerError):
        await llm.batches.create(**BATCH)
    assert provider.methods == ["POST"]
    with pytest.raises(openai.InternalServerError):
        await llm.with_options(max_retries=5).batches.create(**BATCH)
    assert provider.methods == ["POST"] * 2


async def test_a_wrapped_client_does_not_stay_in_memory():
    """What switches the retries off holds no reference to the client: it goes when nobody uses it."""
    import gc
    import weakref

    llm = Provider(200).client()
    alive = weakref.ref(llm.__wrapped__)
    gc.collect()
    gc.disable()
    try:
        del llm
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(("extensions", "sent"), [({}, 3), ({"rb.idempotent": False}, 1)])
async def test_429_under_http_transport(extensions, sent):
    """The same for a POST without a key."""
    calls = []
    inner = httpx.MockTransport(lambda request: calls.append(request) or httpx.Response(429))
    async with httpx.AsyncClient(transport=rb.HTTPTransport(FAST, inner)) as client:
        answer = await client.post("https://shop.example/orders", extensions=extensions)
    assert (answer.status_code, len(calls)) == (429, sent)
