"""litellm: the rows of the mapping on what its client raises.

litellm pins `openai<3`, so it cannot be installed beside the current SDK: this file is collected only where litellm is
installed, in a separate environment (see conftest.py).
"""

from __future__ import annotations

import os

import httpx
import openai
import pytest

from resilient_bridge.failure import classify


os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = (
    "True"  # otherwise its import downloads a list of prices
)

import litellm


pytestmark = [pytest.mark.requirement("S6"), pytest.mark.filterwarnings("default")]


def _raised(handler) -> Exception:
    http = httpx.Client(transport=httpx.MockTransport(handler), trust_env=False)
    client = openai.OpenAI(
        api_key="sk-canary123", base_url="http://host/v1", max_retries=0, http_client=http
    )
    with pytest.raises(Exception) as caught:
        litellm.completion(
            model="openai/m",
            client=client,
            messages=[{"role": "user", "content": "x"}],
            num_retries=0,
        )
    client.close()
    return caught.value


def _answer(status: int, code: str | None = None):
    message = (
        "This model's maximum context length is 1 tokens"
        if code == "context_length_exceeded"
        else "m"
    )
    return lambda request: httpx.Response(
        status, json={"error": {"message": message, "type": code, "code": code}}
    )


def _row(error: BaseException) -> str:
    failure = classify(error)
    assert "canary" not in repr(failure.to_dict())
    return f"{failure.category} {'yes' if failure.retryable else 'no'} {failure.executed}"


@pytest.mark.parametrize(
    ("status", "code", "cls", "wanted"),
    [
        (400, None, "BadRequestError", "UPSTREAM no maybe"),
        (400, "context_length_exceeded", "ContextWindowExceededError", "UPSTREAM no maybe"),
        (401, None, "AuthenticationError", "AUTH no no"),
        (402, None, "APIError", "UPSTREAM no maybe"),
        (403, None, "APIError", "AUTH no maybe"),
        (404, None, "NotFoundError", "UPSTREAM no maybe"),
        (429, "rate_limit_exceeded", "RateLimitError", "UPSTREAM yes maybe"),
        (429, "insufficient_quota", "RateLimitError", "UPSTREAM no maybe"),
        (500, None, "InternalServerError", "UPSTREAM yes maybe"),
        (502, None, "BadGatewayError", "UPSTREAM yes maybe"),
        (503, None, "ServiceUnavailableError", "UPSTREAM yes maybe"),
    ],
)
def test_every_status(status, code, cls, wanted):
    """The verdict has litellm's class, the row of the mapping, and the provider that litellm names."""
    error = _raised(_answer(status, code))
    assert (type(error).__name__, _row(error)) == (cls, wanted)
    assert classify(error).details["provider_id"] == "openai"


def test_a_timeout_and_a_lost_connection():
    """`Timeout` is a TIMEOUT although it says 408: class before status. A lost connection can be repeated."""

    def slow(request):
        raise httpx.ReadTimeout("")

    def lost(request):
        raise httpx.ConnectError("x")

    assert _row(_raised(slow)) == "TIMEOUT yes maybe"
    assert classify(_raised(lost)).retryable


def test_what_it_raises_by_itself():
    """`BudgetExceededError` and `ContentPolicyViolationError`: final, not run."""
    assert _row(litellm.BudgetExceededError(1.0, 2.0)) == "UPSTREAM no maybe"
    error = litellm.ContentPolicyViolationError("x", "m", "openai")
    assert (_row(error), classify(error).details["reason"]) == (
        "UPSTREAM no maybe",
        "content_policy_violation",
    )
    error = litellm.APIConnectionError("x", "openai", "m")
    assert _row(error) == "TRANSPORT yes maybe"


def _response(status: int, kind: str, **headers: str):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"error": {"message": "m", "type": kind, "code": kind}}
    return lambda request: httpx.Response(status, json=body, headers=named)


def test_f10_what_the_headers_say():
    """Retry-After and x-should-retry are not in the response that litellm makes; both are obeyed."""
    limited = classify(_raised(_response(429, "rate_limit_exceeded", retry_after="86400")))
    assert (limited.code, limited.retry_after) == ("SYS_RATE_LIMITED", 86400.0)
    for status in (429, 500, 503):
        refused = classify(_raised(_response(status, "x", x_should_retry="false", retry_after="3")))
        assert (refused.retryable, refused.retry_after) == (False, None)
    assert classify(_raised(_response(503, "x", retry_after="3"))).retry_after == 3.0


def test_f08_a_wrong_key():
    """litellm puts the provider's body into its text: the key is wrong, no token has expired."""
    assert classify(_raised(_response(401, "invalid_api_key"))).code == "AUTH_INVALID_TOKEN"
    assert classify(_raised(_response(401, "other"))).code == "AUTH_TOKEN_EXPIRED"
