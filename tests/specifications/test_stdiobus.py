"""stdio Bus' own words as input, where no other test has them: the tables of three providers, its exceptions, its health check."""

from __future__ import annotations

import re
import sys

import anthropic
import httpx2
import openai
import pytest
from google.genai import errors as google

import resilient_bridge as rb
from resilient_bridge.failure import classify
from tests.failure.edges import answering, of_anthropic, of_google, of_openai, raising
from tests.rows import each_row


OPENAI = """\
| `AuthenticationError` (401) | AUTH | No |
| `RateLimitError` (429) | UPSTREAM | Yes |
| `APIConnectionError` | TRANSPORT | Yes |
| `APITimeoutError` | TIMEOUT | Yes |
| `BadRequestError` (400) | UPSTREAM | No |
| `InternalServerError` (500+) | UPSTREAM | Yes |
| Unknown error | UPSTREAM | No |
"""
ANTHROPIC = OPENAI.replace("APITimeoutError", "APIConnectionTimeoutError")
GOOGLE = """\
| Error with status `UNAUTHENTICATED` | AUTH | No |
| Error with status `RESOURCE_EXHAUSTED` | UPSTREAM | Yes |
| Network/fetch errors | TRANSPORT | Yes |
| Timeout errors | TIMEOUT | Yes |
| Error with status `INVALID_ARGUMENT` | UPSTREAM | No |
| Error with status `INTERNAL` | UPSTREAM | Yes |
| Unknown error | UPSTREAM | No |
"""
STATUSES = {
    "UNAUTHENTICATED": 401,
    "RESOURCE_EXHAUSTED": 429,
    "INVALID_ARGUMENT": 400,
    "INTERNAL": 500,
}
UNKNOWN = {"openai": openai.OpenAIError, "anthropic": anthropic.AnthropicError}
EDGES = {"openai": of_openai, "anthropic": of_anthropic}
BROKEN = httpx2.ConnectError("Connection error")
SLOW = httpx2.ReadTimeout("Request timed out")


def _error_of_sdk(provider: str, cell: str) -> Exception:
    """What the provider's own client raises for the first cell of a row; its name for a class may be TypeScript's."""
    status = re.search(r"\((\d+)\+?\)", cell)
    if cell == "Unknown error":
        return UNKNOWN[provider]("something else")
    if status is not None:
        made = EDGES[provider](answering(int(status[1]), {"error": {"type": "x", "message": "m"}}))
        assert type(made).__name__ == re.findall(r"`(\w+)`", cell)[0]
        return made
    return EDGES[provider](raising(SLOW if "Timeout" in cell else BROKEN))


def _error_of_google(cell: str) -> Exception:
    word = re.search(r"`(\w+)`", cell)
    if word is not None:
        status = STATUSES[word[1]]
        return of_google(
            answering(status, {"error": {"code": status, "status": word[1], "message": "m"}})
        )
    if cell == "Unknown error":
        return google.APIError(418, {"error": {"code": 418, "status": "ODD", "message": "m"}})
    return of_google(raising(SLOW if "Timeout" in cell else BROKEN))


@pytest.mark.requirement("S6")
@each_row(
    ("provider", "line"),
    [
        (name, line)
        for name, table in (("openai", OPENAI), ("anthropic", ANTHROPIC))
        for line in table.splitlines()
    ]
    + [("google-gemini", line) for line in GOOGLE.splitlines()],
)
def test_each_line_of_each_table(provider, line):
    """The SDK's own exception has the row's category and retryability, and the provider's id in the details."""
    cell, category, again = (part.strip() for part in line.strip("|").split("|"))
    error = _error_of_google(cell) if provider == "google-gemini" else _error_of_sdk(provider, cell)
    failure = classify(error)
    assert (failure.category, failure.retryable) == (category, again == "Yes")
    assert failure.details["provider_id"] == provider


@pytest.mark.requirement("S10")
@each_row("text", ["Zod validation errors for malformed input", "TypeError", "x is not a function"])
def test_an_exception_that_is_no_bridge_error_is_internal(text):
    """`Unknown → -32603 (Internal Error)`, `retryable: false`: a validator's own class, and a plain error."""
    made = type("ZodError", (ValueError,), {})(text)
    for failure in (classify(made), classify(RuntimeError(text))):
        answer = failure.to_mcp()
        assert (answer["code"], answer["data"]["type"], answer["data"]["retryable"]) == (
            -32603,
            "INTERNAL",
            False,
        )


BRIDGE = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "sessions_prompt":
        os._exit(1)
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"ready": True}}), flush=True)
"""


@pytest.mark.real
@pytest.mark.requirement("S11")
async def test_bridge_health_checks_readiness_after_a_failure():
    """The bridge dies of `sessions_prompt`, which is not repeated; `bridge_health` waits for the next one and says ready."""
    policy = rb.presets.stdiobus.evolve(
        reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.01))
    )
    link = rb.reconnecting(rb.links.stdio(sys.executable, "-c", BRIDGE), policy)
    async with link as peer:
        with pytest.raises(rb.OutcomeUnknownError):
            await peer.request("sessions_prompt", {})
        assert await peer.request("bridge_health", {}) == {"ready": True}
        assert link.health().ready
        assert link.health().reconnects == 1
