"""`client.post(path, body=…)` of a wrapped SDK client, as litellm makes its model calls: known by its path and its body."""

from __future__ import annotations

import httpx2
import openai
import pytest

import resilient_bridge as rb
from tests.adapters.wrapped_openai import scripted


BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
RUNS_BY_ITSELF = {"type": "mcp", "server_url": "https://host/mcp", "require_approval": "never"}


async def _requests_after_a_failure(path: str, **arguments: object) -> int:
    client, requests = scripted(500, 200)
    with rb.testing.virtual_time():
        try:
            await client.post(path, cast_to=httpx2.Response, **arguments)
        except openai.InternalServerError:
            assert len(requests) == 1
    return len(requests)


@pytest.mark.parametrize("path", ["/chat/completions", "/responses", "/embeddings", "/moderations"])
async def test_a_bare_model_call_is_repeated(path):
    """It costs money and nothing else, whichever method makes it."""
    assert await _requests_after_a_failure(path, body=BODY) == 2


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("/batches", {"body": BODY}),
        ("/chat/completions/", {"body": BODY}),
        ("/responses", {"body": {**BODY, "tools": [RUNS_BY_ITSELF]}}),
        ("/responses", {"body": BODY, "options": {"extra_json": {"tools": [RUNS_BY_ITSELF]}}}),
        ("/responses", {"body": {**BODY, "conversation": "c1"}}),
        ("/chat/completions", {}),
    ],
    ids=[
        "another path",
        "almost the path",
        "a tool that runs",
        "a tool beside the body",
        "a conversation",
        "no body",
    ],
)
async def test_what_is_no_model_call_or_has_an_effect_is_sent_once(path, arguments):
    """An unknown path, a provider's tool that nobody approves, a conversation that is written to, a body that is not known."""
    assert await _requests_after_a_failure(path, **arguments) == 1
