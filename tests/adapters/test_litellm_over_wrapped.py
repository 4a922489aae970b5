"""litellm given a wrapped client: it writes the SDK's own `max_retries` at its first call, and nothing is sent more often for that.

Collected where litellm is (see conftest.py): `nox -s litellm`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import litellm
import openai
import pytest
from aiohttp import web

import resilient_bridge as rb
from tests.peers.effects import Effects


pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(60),
    pytest.mark.filterwarnings("ignore"),
]  # its own

THREE = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0.01), budget=None))
WORDS = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def wrapped_over(far):
    """A wrapped client of the far end, after one answered completion by litellm."""
    async with openai.AsyncOpenAI(api_key="k", base_url=far.url("/v1")) as bare:
        client = rb.wrap(bare, THREE)
        answer = await complete(client, "first")
        assert answer.choices[0].message.content == "x" * far.size
        yield client


async def complete(client, key):
    """One completion, by litellm over the wrapped client."""
    return await litellm.acompletion(
        model="openai/m", messages=WORDS, client=client, extra_headers={"x-key": key}, max_retries=2
    )


async def failing(request):
    """After the effect, 500 for whatever is not the first call."""
    return None if request.headers.get("x-key") == "first" else web.json_response({}, status=500)


async def test_a09_what_litellm_sets_switches_no_retries_on():
    """A batch runs once, and a model call as often as the policy says, not three times that."""
    async with Effects(respond=failing) as far, wrapped_over(far) as client:
        with pytest.raises(openai.InternalServerError):
            await client.batches.create(
                input_file_id="f",
                endpoint="/v1/responses",
                completion_window="24h",
                extra_query={"key": "batch"},
            )
        with pytest.raises(Exception, match=r"500|Internal"):
            await complete(client, "chat")
    assert far.ran == {"first": 1, "batch": 1, "chat": 3}
