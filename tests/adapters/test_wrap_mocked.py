"""The SDKs through the mocks that their users have: pytest-httpx2 for clients on httpx2, respx for those on httpx.

Rule: the mock stands at the HTTP edge; the SDK's own classes and ours are real.
"""

from __future__ import annotations

import anthropic
import httpx
import openai
import pytest
import respx
from google import genai
from google.genai import types

import resilient_bridge as rb


def chat(text):
    """An answer of OpenAI's."""
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def claude(text):
    """An answer of Anthropic's."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    parts = [{"type": "text", "text": text}]
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": parts,
        "stop_reason": "end_turn",
        "usage": usage,
    }


def gemini(text):
    """An answer of Google's."""
    return {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
        ]
    }


@pytest.fixture(autouse=True)
def clock():
    """Nobody waits here."""
    with rb.testing.virtual_time() as clock:
        yield clock


@pytest.mark.requirement("S6")
async def test_openai_through_httpx2_mock(httpx2_mock, clock):
    """503, 429 with a Retry-After of 7 s, an answer: three requests, the second wait at least as long as told."""
    route = httpx2_mock.post("https://openai.test/chat/completions")
    route.side_effect = [
        httpx.Response(503),
        httpx.Response(429, headers={"retry-after": "7"}),
        httpx.Response(200, json=chat("hello")),
    ]
    async with rb.wrap(openai.AsyncOpenAI(api_key="k", base_url="https://openai.test")) as client:
        answer = await client.chat.completions.create(model="m", messages=[])
    assert answer.choices[0].message.content == "hello"
    assert route.call_count == 3
    assert clock.slept[1] >= 7


@pytest.mark.requirement("S6")
async def test_anthropic_through_httpx2_mock(httpx2_mock):
    """529, an answer: two requests; a spent limit, which is a 429, too, is asked once."""
    route = httpx2_mock.post("https://claude.test/v1/messages")
    route.side_effect = [httpx.Response(529), httpx.Response(200, json=claude("hello"))]
    async with rb.wrap(
        anthropic.AsyncAnthropic(api_key="k", base_url="https://claude.test")
    ) as client:
        answer = await client.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]
        )
        assert answer.content[0].text == "hello"
        assert route.call_count == 2
        spent = {
            "type": "error",
            "error": {
                "type": "rate_limit_error",
                "message": "spent",
                "details": {"error_code": "enforced_spend_limit_reached"},
            },
        }
        route.side_effect = [httpx.Response(429, json=spent)]
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]
            )
    assert route.call_count == 3


@pytest.mark.requirement("S6")
async def test_google_through_httpx2_mock(httpx2_mock):
    """RESOURCE_EXHAUSTED with a RetryInfo, an answer: two requests."""
    route = httpx2_mock.post(url__startswith="https://google.test/")
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}
    fields = {
        "error": {
            "code": 429,
            "status": "RESOURCE_EXHAUSTED",
            "message": "slow down",
            "details": [wait],
        }
    }
    route.side_effect = [
        httpx.Response(429, json=fields),
        httpx.Response(200, json=gemini("hello")),
    ]
    client = rb.wrap(
        genai.Client(api_key="k", http_options=types.HttpOptions(base_url="https://google.test"))
    )
    answer = await client.aio.models.generate_content(model="m", contents="x")
    assert answer.text == "hello"
    assert route.call_count == 2


async def test_a_client_on_httpx_through_respx():
    """HTTPTransport under a mocked httpx client: the mock sees every attempt."""
    with respx.mock:
        route = respx.get("https://pages.test/")
        route.side_effect = [
            httpx.Response(503),
            httpx.ConnectTimeout("slow"),
            httpx.Response(200, text="hello"),
        ]
        async with httpx.AsyncClient(transport=rb.HTTPTransport()) as client:
            assert (await client.get("https://pages.test/")).text == "hello"
    assert route.call_count == 3
