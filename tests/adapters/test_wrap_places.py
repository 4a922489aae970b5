"""`wrap` and other processes: a wrapped client is made where it is used, and not pickled (threat 32); a shallow copy stays here."""

from __future__ import annotations

import copy
import gc
import pickle

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import types

import resilient_bridge as rb
from tests.rows import each_row


def _reported(request):
    if request.url.path.endswith("/models"):
        return httpx2.Response(200, json={"data": [{"id": "m"}], "object": "list"})
    text = (
        'data: {"id": "r", "choices": []}\n\ndata: {"id": "r", "choices": []}\n\ndata: [DONE]\n\n'
    )
    return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})


def _openai():
    http = httpx2.Client(transport=httpx2.MockTransport(_reported))
    return rb.wrap(openai.OpenAI(api_key="k", http_client=http))


def _async_openai():
    return rb.wrap(openai.AsyncOpenAI(api_key="k"))


def _google():
    return rb.wrap(genai.Client(api_key="k", http_options=types.HttpOptions()))


def _page():
    return _openai().models.list()


def _coming():
    return _async_openai().models.list()


def _stream():
    return _openai().chat.completions.create(model="m", messages=[], stream=True)


PROXIES = {
    "openai": _openai,
    "anthropic": lambda: rb.wrap(anthropic.AsyncAnthropic(api_key="k")),
    "google": _google,
    "one side of google": lambda: _google().aio,
    "a part": lambda: _openai().chat.completions,
    "a chat": lambda: _google().chats.create(model="m"),
    "a derived client": lambda: _openai().with_options(timeout=5),
    "a page": _page,
    "a list to await": _coming,
    "a stream": _stream,
    "a context": lambda: _openai().chat.completions.with_streaming_response.create(
        model="m", messages=[]
    ),
    "an async context": lambda: _async_openai().chat.completions.with_streaming_response.create(
        model="m", messages=[]
    ),
    "any object": lambda: rb.wrap([], methods=["append"]),
}
VARIANTS = {"pickle": pickle.dumps, "deepcopy": copy.deepcopy}
ANSWERS = {"a list to await", "a stream", "a context", "an async context"}


@each_row("way", VARIANTS)
@each_row("kind", PROXIES)
def test_what_wrap_gives_stays_in_its_process(kind, way):
    """A typed error that says what to do instead, for the client and everything that comes out of it."""
    made = PROXIES[kind]()
    with pytest.raises(rb.ConfigError, match="made where it is used"):
        VARIANTS[way](made)


@each_row("kind", PROXIES)
def test_c09_a_shallow_copy_is_wrapped_with_the_same_policy(kind):
    """C09: as the bare object can be copied; what a call has returned cannot."""
    made = PROXIES[kind]()
    if kind in ANSWERS:
        with pytest.raises(rb.ConfigError, match="made where it is used"):
            copy.copy(made)
        return
    again = copy.copy(made)
    assert type(again) is type(made)
    assert again.__wrapped__ is not made.__wrapped__
    assert again.__class__ is made.__class__
    assert repr(again) == repr(made)
    limited = rb.resilient.replace(rb.AdaptiveLimit())
    assert any(repr(policy) in repr(made) for policy in (rb.resilient, limited))


def test_c09_a_copy_of_a_client_makes_each_request_once():
    """C09: also after the client that it was copied from is gone; its calls go to the circuit of that."""
    asked = []

    def busy(request):
        asked.append(request)
        return httpx2.Response(503, headers={"x-should-retry": "true"})

    http = httpx2.Client(transport=httpx2.MockTransport(busy))
    policy = rb.Policy(rb.Retry(attempts=2, backoff=rb.Backoff.constant(0)))
    made = rb.wrap(openai.OpenAI(api_key="k", http_client=http), policy)
    again = copy.copy(made)
    del made
    gc.collect()
    with pytest.raises(openai.InternalServerError):
        again.models.list()
    assert len(asked) == 2


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google", "a part"])
def test_c09_a_wrapped_client_is_not_wrapped_again(kind):
    """C09: ConfigError, which says how it gets another policy."""
    with pytest.raises(rb.ConfigError, match=r"wrap\.client: .*rb\.wrap\(client\.__wrapped__, …\)"):
        rb.wrap(PROXIES[kind]())


def test_what_is_inside_is_untouched():
    """The policy can be pickled, and so can what the client answers with once it is taken out of its proxy."""
    policy = rb.Policy(rb.Retry())
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert pickle.loads(pickle.dumps(_page().data))[0].id == "m"
