"""AI providers: every row of the mapping, with the real errors of openai, anthropic and google-genai (S6)."""

from __future__ import annotations

import ssl

import anthropic
import httpx2
import openai
import pytest
from google import genai

from resilient_bridge.failure import classify
from tests.rows import each_row

from .edges import (
    answering,
    garbled,
    of_anthropic,
    of_google,
    of_openai,
    raised,
    raising,
    row,
    streaming,
)


pytestmark = pytest.mark.requirement("S6")
FINAL = (400, 422, 405, 406, 410, 411, 412, 414, 415, 416, 417, 404, 413, 431, 426, 451)
PASSING = (500, 502, 503, 504, 520, 521, 522, 523, 524, 529, 599)
STATUSES = {
    "HTTP 400 422 405 406 410 … 404 413 431 451 | UPSTREAM | no": ("UPSTREAM no maybe", tuple(s for s in FINAL if s != 426)),
    "426: PROTOCOL is fine": ("PROTOCOL no no", (426,)),
    "401, 407 | AUTH | no": ("AUTH no no", (401, 407)),
    "403 | AUTH | no": ("AUTH no maybe", (403,)),
    "402 | UPSTREAM | no | quota_exhausted": ("UPSTREAM no maybe", (402,)),
    "408 | TIMEOUT | yes": ("TIMEOUT yes maybe", (408,)),
    "409 | UPSTREAM | SDK classes yes ★": ("UPSTREAM yes maybe", (409,)),
    "421 | TRANSPORT | yes": ("TRANSPORT yes no", (421,)),
    "423 | UPSTREAM | yes": ("UPSTREAM yes maybe", (423,)),
    "425 | UPSTREAM | yes": ("UPSTREAM yes no", (425,)),
    "429 | UPSTREAM | yes, RA": ("UPSTREAM yes maybe", (429,)),
    "499 | UPSTREAM | no | we cancelled": ("UPSTREAM no maybe", (499,)),
    "500 502 503 504 520-524 529 599 | UPSTREAM | yes, RA": ("UPSTREAM yes maybe", PASSING),
    "501 505 506 508 510 511 | UPSTREAM | no ★": ("UPSTREAM no maybe", (501, 505, 506, 508, 510, 511)),
}  # fmt: skip
SDKS = {"openai": of_openai, "anthropic": of_anthropic}


@each_row("sdk", SDKS)
@each_row(("wanted", "statuses"), STATUSES.values(), ids=STATUSES)
def test_every_status_of_an_sdk(wanted, statuses, sdk):
    """Each status has the row's verdict, with the provider's id and the status in the details."""
    for status in statuses:
        error = SDKS[sdk](
            answering(status, {"error": {"type": "x", "message": "the provider's words"}})
        )
        assert type(error).__module__.partition(".")[0] == sdk
        assert (status, row(error)) == (status, wanted)
        details = classify(error).details
        assert (details["http_status"], details["provider_id"]) == (status, sdk)


@each_row("sdk", SDKS)
@each_row(
    ("status", "headers", "wait", "again"),
    [
        (429, {"retry_after": "12"}, 12.0, True),
        (503, {"retry_after_ms": "1500", "retry_after": "9"}, 1.5, True),
        (413, {"retry_after": "3"}, 3.0, True),
        (400, {"x_should_retry": "true"}, None, True),
        (409, {"x_should_retry": "false"}, None, False),
        (503, {"x_should_retry": "false"}, None, False),
    ],
    ids=str,
)
def test_what_the_headers_overrule(sdk, status, headers, wait, again):
    """x-should-retry beats every HTTP row, both ways; Retry-After in its forms; 413 with Retry-After: yes."""
    failure = classify(SDKS[sdk](answering(status, {"error": {"message": "m"}}, **headers)))
    assert (failure.retryable, failure.retry_after) == (again, wait)


def _openai_body(code: str) -> dict[str, object]:
    return {"error": {"message": "m", "type": code, "code": code}}


def _anthropic_body(kind: str, message: str = "m", code: str | None = None) -> dict[str, object]:
    details = {} if code is None else {"details": {"error_code": code}}
    return {"type": "error", "error": {"type": kind, "message": message, **details}}


QUOTA = "insufficient_quota billing_hard_limit_reached organization_spend_limit_exceeded project_spend_limit_exceeded credit_balance_exhausted"


@pytest.mark.parametrize("code", QUOTA.split())
def test_429_with_a_quota_code(code):
    """`429 + insufficient_quota …` is final, whatever the headers say: a person has to act."""
    failure = classify(
        of_openai(answering(429, _openai_body(code), x_should_retry="true", retry_after="1"))
    )
    assert (failure.retryable, failure.executed, failure.details["reason"]) == (
        False,
        "maybe",
        "quota_exhausted",
    )
    assert failure.retry_after is None
    assert failure.suggestions


@each_row(
    ("status", "body", "again", "reason"),
    [
        (429, _anthropic_body("rate_limit_error", code="contract_spend_limit_reached"), False, "quota_exhausted"),
        (429, _anthropic_body("rate_limit_error", code="enforced_spend_limit_reached"), False, "quota_exhausted"),
        (429, _anthropic_body("rate_limit_error", code="ramp_limit_exceeded"), True, None),
        (402, _anthropic_body("billing_error"), False, "quota_exhausted"),
        (402, _anthropic_body("billing_error", code="linked_organization_spend_limit_reached"), False, "quota_exhausted"),
        (400, _anthropic_body("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), False, "quota_exhausted"),
        (400, _anthropic_body("invalid_request_error", "prompt is too long: 2 tokens > 1 maximum"), False, "context_length_exceeded"),
        (409, _anthropic_body("invalid_request_error"), True, None),
        (409, _anthropic_body("invalid_request_error", code="plugin_name_taken"), False, None),
        (409, _anthropic_body("invalid_request_error", code="slack_channel_set_up_settings_conflict"), False, None),
        (503, _anthropic_body("api_error", code="cmek_key_unreachable"), True, None),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_anthropic_codes(status, body, again, reason):
    """All its error codes, and the two cases that only its message shows."""
    failure = classify(of_anthropic(answering(status, body)))
    assert (failure.retryable, failure.details.get("reason")) == (again, reason)
    assert failure.details["provider_id"] == "anthropic"


@pytest.mark.requirement("V3")
@pytest.mark.parametrize(
    ("code", "suggestion"),
    [
        ("context_length_exceeded", "compact the history"),
        ("content_policy_violation", "have a person review"),
        ("model_not_found", "check the model's name"),
    ],
)
def test_what_the_request_itself_is_to_blame_for(code, suggestion):
    """`context_length_exceeded`, `content_policy_violation` and `model_not_found` are final, with a suggestion."""
    failure = classify(of_openai(answering(400, _openai_body(code))))
    assert (failure.retryable, failure.category, failure.details["reason"]) == (
        False,
        "UPSTREAM",
        code,
    )
    assert suggestion in failure.suggestions[0]


@pytest.mark.requirement("V3")
@pytest.mark.parametrize("status", [400, 401])
def test_a_bad_request_and_a_bad_key_fail_at_once(status):
    """401 and 400 are final with every provider."""
    assert not classify(of_openai(answering(status, {"error": {}}))).retryable
    assert not classify(of_anthropic(answering(status, {"error": {}}))).retryable
    assert not classify(of_google(answering(status, {"error": {"code": status}}))).retryable


STREAMED = {
    "overloaded_error": "UPSTREAM yes maybe",
    "server_error": "UPSTREAM yes maybe",
    "api_error": "UPSTREAM yes maybe",
    "rate_limit_error": "UPSTREAM yes maybe",
    "authentication_error": "AUTH no maybe",
    "insufficient_quota": "UPSTREAM no maybe",
    "billing_error": "UPSTREAM no maybe",
    "nobody_knows_error": "UPSTREAM yes maybe",  # not final by the provider's word
}


@each_row(("kind", "wanted"), STREAMED.items())
def test_an_error_inside_a_stream(kind, wanted):
    """The status is 200 or none: type and code decide; a started stream may have run."""
    openai_error = of_openai(
        streaming({"error": {"message": "m", "type": kind, "code": None}}), stream=True
    )
    assert type(openai_error) is openai.APIError
    assert row(openai_error) == wanted
    anthropic_error = of_anthropic(streaming(_anthropic_body(kind), name="error"), stream=True)
    assert anthropic_error.status_code == 200
    assert row(anthropic_error) == wanted


@each_row("sdk", SDKS)
@each_row(
    ("below", "code", "wanted"),
    [
        (httpx2.ReadTimeout(""), "CONN_TIMEOUT", "TIMEOUT yes maybe"),
        (httpx2.ConnectTimeout(""), "CONN_TIMEOUT", "TIMEOUT yes no"),
        (httpx2.PoolTimeout(""), "CONN_TIMEOUT", "TIMEOUT yes no"),
        (httpx2.ConnectError("x"), "CONN_UNREACHABLE", "TRANSPORT yes no"),
        (httpx2.ReadError("x"), "CONN_RESET", "TRANSPORT yes maybe"),
        (httpx2.UnsupportedProtocol("x"), "SYS_CONFIG_INVALID", "CONFIG no maybe"),
        (httpx2.LocalProtocolError("Illegal header value b'Bearer sk-canary12345'"), "SYS_CONFIG_INVALID", "CONFIG no maybe"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)  # fmt: skip
def test_a_connection_error_is_judged_by_its_chain(sdk, below, code, wanted):
    """For `APIConnectionError` and `APITimeoutError` the error below decides, and whether the request was sent."""
    error = SDKS[sdk](raising(below))
    assert isinstance(error, openai.APIConnectionError | anthropic.APIConnectionError)
    assert row(error) == wanted
    failure = classify(error)
    assert (failure.code, failure.details["provider_id"], failure.cause) == (code, sdk, error)


@pytest.mark.parametrize("sdk", SDKS)
def test_a_certificate_below_a_connection_error(sdk):
    """An expired certificate stays final under the SDK's "Connection error." ★"""
    below = httpx2.ConnectError("x")
    below.__context__ = ssl.SSLCertVerificationError(1, "certificate has expired")
    below.__context__.verify_code = 10
    error = SDKS[sdk](raising(below))
    assert row(error) == "TRANSPORT no no"
    assert classify(error).details["reason"] == "CERTIFICATE_EXPIRED"


def test_a_defect_below_a_connection_error():
    """anthropic wraps any exception of a transport: a ZeroDivisionError is no connection problem ★"""
    error = of_anthropic(raising(ZeroDivisionError("x")))
    assert isinstance(error, anthropic.APIConnectionError)
    assert row(error) == "INTERNAL no maybe"


@pytest.mark.parametrize("sdk", SDKS)
def test_an_answer_that_is_no_json(sdk):
    """`200 + bad JSON` leaks as JSONDecodeError: PROTOCOL, final, and it may have run."""
    assert row(SDKS[sdk](garbled)) == "PROTOCOL no maybe"


def test_an_answer_that_is_not_as_its_schema_says():
    """`APIResponseValidationError`: PROTO_INVALID_MESSAGE; the server has answered, so it ran."""
    client = openai.OpenAI(
        api_key="k",
        base_url="http://host",
        max_retries=0,
        _strict_response_validation=True,
        http_client=httpx2.Client(
            transport=httpx2.MockTransport(lambda _: httpx2.Response(200, text="<html>", headers={"content-type": "text/html"}))
        ),
    )  # fmt: skip
    with client:
        error = raised(client.models.list)
    assert type(error) is openai.APIResponseValidationError
    assert (row(error), classify(error).code) == ("PROTOCOL no yes", "PROTO_INVALID_MESSAGE")


def test_missing_keys(monkeypatch):
    """A missing key is a configuration error, also if the SDK raises one of Python's own exceptions."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    error = raised(openai.OpenAI)
    assert type(error) is openai.OpenAIError
    assert (row(error), classify(error).details["provider_id"]) == ("CONFIG no maybe", "openai")
    assert row(raised(genai.Client)) == "CONFIG no maybe"


GOOGLE = {
    "UNAUTHENTICATED AUTH no": (401, "AUTH no no"),
    "PERMISSION_DENIED AUTH no": (403, "AUTH no maybe"),
    "RESOURCE_EXHAUSTED yes": (429, "UPSTREAM yes maybe"),
    "INTERNAL yes": (500, "UPSTREAM yes maybe"),
    "UNAVAILABLE yes": (503, "UPSTREAM yes maybe"),
    "DEADLINE_EXCEEDED TIMEOUT yes": (504, "TIMEOUT yes maybe"),
    "INVALID_ARGUMENT no": (400, "UPSTREAM no maybe"),
    "FAILED_PRECONDITION no": (400, "UPSTREAM no maybe"),
    "ABORTED yes": (409, "UPSTREAM yes maybe"),
}


def _google(status: int, word: str, *details: dict[str, object]) -> dict[str, object]:
    return {
        "error": {
            "code": status,
            "message": "Quota exceeded",
            "status": word,
            "details": list(details),
        }
    }


@pytest.mark.parametrize(("status", "wanted"), GOOGLE.values(), ids=GOOGLE)
def test_every_status_word_of_google(status, wanted, request):
    """Google's own word decides, whatever the HTTP status."""
    word = request.node.callspec.id.split()[0]
    error = of_google(answering(status, _google(status, word)))
    assert isinstance(error, genai.errors.APIError)
    assert row(error) == wanted
    assert classify(error).details["provider_id"] == "google-gemini"
    assert row(of_google(streaming(_google(status, word)), stream=True)) == wanted


def test_google_tells_the_wait_and_the_day_in_the_body():
    """RetryInfo is the wait, a header beats it; a PerDay quota and API_KEY_INVALID are final; "Quota exceeded" alone is not."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "14.5s"}
    day = {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
    }
    key = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    exhausted = _google(429, "RESOURCE_EXHAUSTED", info)
    assert classify(of_google(answering(429, exhausted))).retry_after == 14.5
    assert classify(of_google(answering(429, exhausted, retry_after="2"))).retry_after == 2.0
    daily = classify(of_google(answering(429, _google(429, "RESOURCE_EXHAUSTED", info, day))))
    assert (daily.retryable, daily.retry_after, daily.details["reason"]) == (
        False,
        None,
        "quota_exhausted",
    )
    assert row(of_google(answering(400, _google(400, "INVALID_ARGUMENT", key)))) == "AUTH no maybe"
    assert row(of_google(raising(httpx2.ConnectError("x")))) == "TRANSPORT yes no"
    assert row(of_google(raising(httpx2.ReadTimeout("")))) == "TIMEOUT yes maybe"


@pytest.mark.parametrize(
    ("code", "wanted"),
    [(1011, "UPSTREAM yes maybe"), (1008, "AUTH no maybe"), (1007, "PROTOCOL no maybe")],
)
def test_google_tells_a_websocket_close_as_a_status(code, wanted):
    """Its live API puts the close code in the field of the HTTP status."""
    error = raised(lambda: genai.errors.APIError.raise_error(code, "the reason", None))
    assert row(error) == wanted
    assert classify(error).details["close_code"] == code


def test_the_provider_of_the_seed_reads_like_this():
    """`BridgeError UPSTREAM: "Rate limit exceeded" {providerId: "anthropic"}`, as one line of ours."""
    failure = classify(
        of_anthropic(answering(429, _anthropic_body("rate_limit_error", "Rate limit exceeded")))
    )
    assert str(failure) == "rate limited: Rate limit exceeded (UPSTREAM, 429)"
    assert failure.code == "SYS_RATE_LIMITED"


@pytest.mark.requirement("V3")
def test_f08_a_wrong_key_is_no_expired_token():
    """With the bodies of openai and anthropic, from their clients and from a plain HTTP client, the advice is to fix the key."""
    wrong = {
        "error": {
            "code": "invalid_api_key",
            "type": "invalid_request_error",
            "message": "Incorrect API key",
        }
    }
    anthropic_body = {
        "type": "error",
        "error": {"type": "authentication_error", "message": "invalid x-api-key"},
    }
    for error in (
        of_openai(answering(401, wrong)),
        of_anthropic(answering(401, anthropic_body)),
        httpx2.Response(401, json=wrong),
        httpx2.Response(401, json=anthropic_body),
    ):
        failure = classify(error)
        assert failure is not None
        assert (failure.code, failure.retryable) == ("AUTH_INVALID_TOKEN", False)
        assert failure.suggestions[0].startswith("fix the api key")
        assert failure.details["http_status"] == 401
    expired = {"error": {"type": "authentication_error", "message": "OAuth token has expired"}}
    assert classify(httpx2.Response(401, json=expired)).code == "AUTH_TOKEN_EXPIRED"


@pytest.mark.requirement("S6")
def test_f04_missing_keys_and_names(monkeypatch):
    """Without a key the failure is CONFIG, with the provider and the setting, whatever class the SDK raises; other errors keep their text."""
    for name in (
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    makers = {
        "google-gemini": genai.Client,
        "openai": openai.OpenAI,
        "anthropic": lambda: anthropic.Anthropic(api_key=None).messages.create(
            model="m", max_tokens=1, messages=[]
        ),
    }
    for provider, make in makers.items():
        failure = classify(raised(make))
        assert (failure.category, failure.details.get("provider_id")) == ("CONFIG", provider), (
            failure
        )
        assert failure.suggestions == ("set the provider's api key",)
    odd = classify(openai.OpenAIError("odd"))
    assert (odd.category, odd.retryable, odd.message) == (
        "UPSTREAM",
        False,
        "provider reported an error: odd",
    )
    assert classify(ValueError("No such thing")).code == "SYS_INTERNAL_ERROR"


@pytest.mark.requirement("S6")
def test_f04_googles_network_errors_name_the_provider():
    """google-genai does not wrap its HTTP library's errors: its frames in the traceback name the provider."""
    for error in (
        httpx2.ConnectError("x"),
        httpx2.ReadTimeout("x"),
        httpx2.RemoteProtocolError("x"),
    ):
        failure = classify(of_google(raising(error)))
        assert failure.details.get("provider_id") == "google-gemini", failure
    assert "provider_id" not in classify(httpx2.ConnectError("x")).details


@pytest.mark.parametrize(
    ("text", "retryable"),
    [
        ("403 Forbidden", False),
        ("407 Proxy Authentication Required", False),
        ("503 Service Unavailable", True),
        ("Proxy Server could not connect: Connection refused.", True),
        ("Malformed reply", False),
    ],
)
def test_f12_a_proxy_is_judged_by_what_it_says(text, retryable):
    """By its status, or the text of a SOCKS proxy; without a known text it is not retried."""
    assert classify(httpx2.ProxyError(text)).retryable is retryable
