"""google-genai where aiohttp is installed: it would take that way, with a repeat of its own.

Collected where aiohttp is, which is the environment of litellm (see conftest.py): beside it the SDK's other tests would take it as well.
"""

from __future__ import annotations

import aiohttp
import httpx2
import pytest
from google import genai

import resilient_bridge as rb
from tests.adapters.test_wrap_own_retries import CACHE, ONCE, hanging_up


pytestmark = [
    pytest.mark.real,
    pytest.mark.requirement("S8"),
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]


@pytest.mark.parametrize("side", ["client", "aio"])
async def test_with_aiohttp_installed_a_request_is_made_once(side):
    """google-genai would use it, and send a request again after 1 to 10 s, a POST like any other; a wrapped client keeps to httpx2."""
    async with hanging_up() as (options, seen):
        own = genai.Client(api_key="k", http_options=options)
        assert own._api_client._use_aiohttp()
        async with rb.wrap(own.aio, ONCE) if side == "aio" else rb.wrap(own, ONCE).aio as client:
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.caches.create(**CACHE)
            assert seen == [b"POST"]
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.models.generate_content(model="m", contents="hi")
        assert seen == [b"POST"] * (
            1 + rb.Retry().attempts
        )  # a model call: as often as the policy says, and not twice that


async def test_a_request_through_a_session_of_aiohttp_is_made_once():
    """Who brings a session of aiohttp has it used, without the repeat."""
    async with hanging_up() as (options, seen), aiohttp.ClientSession() as session:
        options.aiohttp_client = session
        async with rb.wrap(genai.Client(api_key="k", http_options=options), ONCE).aio as client:
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await client.caches.create(**CACHE)
        assert seen == [b"POST"]
