"""The one reader of error bodies: its forms, its bounds, and what it must not believe."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc

import botocore.exceptions
import httpx
import httpx2
import openai
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from resilient_bridge.failure import Failure, classify
from tests.rows import each_row

from .edges import answering, of_google, of_openai, streaming


MINUTE = {
    "error": {
        "code": 429,
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "47s"}],
    }
}


def _inside_a_stream(body: object) -> openai.APIError:
    """What openai's client raises for an event that it has decoded."""
    return openai.APIError("their words", httpx2.Request("POST", "http://host/"), body=body)


def _response(status: int, body: object, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, json=body)


def test_k04_google_says_the_same_through_every_client():
    """RetryInfo is read of an object and of a list, through httpx, openai's client, google-genai and a text."""
    carriers = [
        _response(429, MINUTE),
        _response(429, [MINUTE]),
        of_openai(answering(429, [MINUTE])),
        of_google(answering(429, MINUTE)),
        RuntimeError(f"429 RESOURCE_EXHAUSTED. {MINUTE}"),
    ]
    for what in carriers:
        failure = classify(what)
        assert (failure.code, failure.retryable, failure.retry_after) == (
            "SYS_RATE_LIMITED",
            True,
            47.0,
        )


@each_row(
    ("status", "message"),
    [
        (
            429,
            "Your account is suspended due to insufficient balance, please recharge your account",
        ),
        (429, "Too many tokens per day, please wait before trying again."),
        (429, "Extra usage is required for long context requests."),
        (
            403,
            "Your team has either used all available credits or reached its monthly spending limit.",
        ),
        (500, "Budget has been exceeded! Current cost: 2, Max budget: 1"),
        (
            413,
            "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 14810",
        ),
    ],
)
def test_k05_what_is_used_up_is_final_at_once(status, message):
    """Money, a day and a size that no minute allows are final under every status, whatever Retry-After says."""
    for what in (
        _response(status, {"error": {"message": message}}, retry_after="7"),
        of_openai(answering(status, {"error": {"message": message}}, retry_after="7")),
        RuntimeError(f"Error code: {status} - {message}"),
    ):
        failure = classify(what)
        assert (failure.retryable, failure.retry_after) == (False, None)
        assert failure.details["reason"] in {"quota_exhausted", "request_too_large"}


@each_row(
    ("status", "message", "reason"),
    [
        (
            401,
            "This request exceeds your quota of 10000. You have 17 credits remaining.",
            "quota_exhausted",
        ),
        (401, "Maximum credits exceeded", "quota_exhausted"),
        (429, "Usage cap exceeded: Monthly product cap", "quota_exhausted"),
        (
            429,
            "You've reached your write unit limit for the current month (2000000).",
            "quota_exhausted",
        ),
        (432, "This request exceeds your plan's set usage limit.", "quota_exhausted"),
        (400, "Not enough credits", "quota_exhausted"),
        (429, "You've hit your limit, resets 7am (America/Chicago)", "quota_exhausted"),
        (429, "Your prepayment credits are depleted.", "quota_exhausted"),
        (
            422,
            "Prompt has 300000 tokens, but the maximum allowed is 262144 tokens.",
            "context_length_exceeded",
        ),
        (400, "The requested model is not supported.", "model_not_found"),
        (400, "API key expired. API key not valid.", "invalid_api_key"),
        (429, "Requests per minute limit exceeded - too many requests sent.", None),
        (
            429,
            "You have not yet added your payment method in the billing page and will have reduced limits.",
            None,
        ),
        (429, "You have exceeded your usage limits. Please try again later.", None),
        (
            429,
            "Requests to the operation have exceeded call rate limit of your current pricing tier.",
            None,
        ),
        (503, "The model is loading, credit to its authors", None),
    ],
)
def test_k09_reasons_in_other_providers_words(status, message, reason):
    """Why it failed is found in sentences that the corpus does not have; a rate is not taken for a quota."""
    failure = classify(_response(status, {"message": message}))
    assert (failure.details.get("reason"), failure.retryable) == (reason, reason is None)


@each_row(
    ("text", "seconds"),
    [
        ("Please try again in 9m38.016s. Need more?", 578.016),
        ("Please try again in 644ms.", 0.644),
        ("Please retry after 86400 seconds.", 86400.0),
        ("try again in 1h2m3s", 3723.0),
        ("Your rate limit resets in ~5s.", 5.0),
        ("please try again after 1 seconds", 1.0),
        ("try again in 5 minutes", 300.0),
        ("Try again in 7 days", 604_800.0),
        ("Please retry in 47.429760048s.", 47.429760048),
        ("please try again later", None),
        ("retry in a moment, 5 apples", None),
    ],
)
def test_k05_a_wait_that_stands_in_a_text(text, seconds):
    """Where no header says it, the words do."""
    assert classify(_response(429, {"message": f"rate limited. {text}"})).retry_after == seconds


def test_k05_a_wait_that_is_a_field():
    """Hugging Face, Discord, Telegram and Kubernetes say it in fields of their own; a header is asked first."""
    assert (
        classify(_response(503, {"error": "loading", "estimated_time": 20.0})).retry_after == 20.0
    )
    assert classify(_response(429, {"message": "slow", "retry_after": 0.3})).retry_after == 0.3
    assert (
        classify(_response(429, {"ok": False, "parameters": {"retry_after": 5}})).retry_after == 5.0
    )
    assert classify(_response(429, {"details": {"retryAfterSeconds": 1}})).retry_after == 1.0
    assert classify(_response(429, {"retry_after": 3}, retry_after="9")).retry_after == 9.0
    for nonsense in (-1, True, "5x", 1e999, None):
        assert classify(
            _response(429, {"retry_after": 4 if nonsense == 1e999 else nonsense})
        ).retry_after in {None, 4.0}


@each_row(
    ("field", "value", "seconds"),
    [
        ("retry_after", "30", 30.0),
        ("retry_after_ms", "1500", 1.5),
        ("retryAfterSeconds", "12.5", 12.5),
        ("reset_in", "45", 45.0),
        ("retry_after_minutes", "2", 120.0),
        ("retry_after", "nan", None),
        ("retry_after", "1e5", None),
        ("retry_after", "9" * 400, None),
    ],
)
def test_k05_a_wait_that_is_a_number_written_as_a_text(field, value, seconds):
    """A server that writes 30 as "30" is not asked again after 1 s."""
    assert (
        classify(_response(429, {"message": "Rate limit exceeded.", field: value})).retry_after
        == seconds
    )


@each_row(
    ("text", "seconds"),
    [
        ("retryAfter: 30", 30.0),
        ("retry_after_seconds: 12", 12.0),
        ("retry in 1d2h", 93_600.0),
        ("retry after 30 days", 2_592_000.0),
        ("retry_after_ms: 1500", None),
        ("retry in 1 dozen", None),
    ],
)
def test_k05_a_wait_in_other_words(text, seconds):
    """A text that names a wait without a unit that is known asks for none."""
    assert classify(f"429 Too Many Requests: {text}").retry_after == seconds


def test_k04_a_text_of_megabytes_is_looked_at_in_part():
    """Only what can be shown is split into words: a long text costs no more than a copy of it."""
    text = "a " * 1_000_000
    assert classify("warm").code == "SYS_INTERNAL_ERROR"
    tracemalloc.start()
    try:
        assert classify(text).code == "SYS_INTERNAL_ERROR"
        assert tracemalloc.get_traced_memory()[1] < 2 * len(text)
    finally:
        tracemalloc.stop()


def test_k05_out_of_memory_is_repeated_once():
    """Ollama's 500 for a model that does not fit keeps the bound of R11."""
    failure = classify(
        _response(
            500, {"error": "model requires more system memory (5 GiB) than is available (3 GiB)"}
        )
    )
    assert (failure.code, failure.retryable, failure.details["max_retries"]) == (
        "SYS_UNAVAILABLE",
        True,
        1,
    )


@each_row(
    ("event", "code", "again"),
    [
        ({"error": {"code": 502, "message": "x"}}, "SYS_UNAVAILABLE", True),
        ({"error": {"code": "429", "message": "x"}}, "SYS_RATE_LIMITED", True),
        (
            {"error": {"code": 500, "type": "InternalServerError", "message": "x"}},
            "SYS_UNAVAILABLE",
            True,
        ),
        (
            {"error": {"code": 400, "type": "BadRequestError", "message": "x"}},
            "SYS_UPSTREAM_REJECTED",
            False,
        ),
        ({"error": {"type": "too_many_requests", "message": "x"}}, "SYS_RATE_LIMITED", True),
        ({"error": {"type": "RATE_LIMIT_EXCEEDED", "message": "x"}}, "SYS_RATE_LIMITED", True),
        ({"error": {"type": "nobody_knows", "message": "x"}}, "SYS_UNAVAILABLE", True),
    ],
)
def test_k06_errors_inside_a_stream(event, code, again):
    """A number or digits are the status that they say, names have no case, and an unknown one is not final."""
    for what in (of_openai(streaming(event), stream=True), _inside_a_stream(event)):
        assert (classify(what).code, classify(what).retryable) == (code, again)


@pytest.mark.parametrize("name", ["throttlingException", "ThrottlingException", "THROTTLING"])
def test_k06_bedrock_writes_the_first_letter_small(name):
    """An error of an event stream has no status: its name decides, in any case."""
    body = {"Error": {"Code": name, "Message": "Too many tokens, please wait before trying again."}}
    failure = classify(botocore.exceptions.EventStreamError(body, "ConverseStream"))
    assert (failure.code, failure.retryable, failure.details["reason"]) == (
        "SYS_RATE_LIMITED",
        True,
        name,
    )


@each_row(
    ("body", "code"),
    [
        ({"error": {"code": 502, "message": "Provider returned error"}}, "SYS_UNAVAILABLE"),
        ({"error": {"code": "1302", "message": "x"}}, "SYS_RATE_LIMITED"),
        ({"ok": False, "error": "ratelimited"}, "SYS_RATE_LIMITED"),
        ({"errors": [{"type": "RATE_LIMITED", "message": "x"}]}, "SYS_RATE_LIMITED"),
        ({"error": {"code": 502, "message": "x"}, "choices": [{"text": "y"}]}, None),
        (
            {
                "id": "batch_1",
                "status": "failed",
                "error": {"code": "server_error", "message": "x"},
            },
            None,
        ),
        ({"error": None, "ok": True}, None),
        ({"error": "words"}, None),
        ({"error": {}}, None),
        ({"data": {"a": 1}, "errors": [{"message": "x", "extensions": {"code": "Y"}}]}, None),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "x"}}, None),
    ],
)
def test_k06_an_error_under_200(body, code):
    """A success that is nothing but an error is none; one that reports about something else stays one."""
    answer = requests.Response()
    answer.status_code, answer._content = 200, json.dumps(body).encode()
    for what in (_response(200, body), httpx2.Response(200, json=body), answer):
        failure = classify(what)
        assert (failure.code if isinstance(failure, Failure) else None) == code


def test_k07_a_403_that_is_a_rate_limit():
    """GitHub's two limits: by Retry-After, by a limit that is used up, by its words; any other 403 is forbidden."""
    reset = {
        "date": "Mon, 13 Jun 2022 11:48:53 GMT",
        "x_ratelimit_remaining": "0",
        "x_ratelimit_reset": "1655120964",
    }
    for headers, wait in (({"retry_after": "60"}, 60.0), (reset, 31.0)):
        failure = classify(
            _response(403, {"message": "API rate limit exceeded for user ID 1."}, **headers)
        )
        assert (failure.code, failure.retryable, failure.retry_after) == (
            "SYS_RATE_LIMITED",
            True,
            wait,
        )
    bare = classify(_response(403, {"message": "You have exceeded a secondary rate limit."}))
    assert (bare.code, bare.retryable, bare.retry_after) == ("SYS_RATE_LIMITED", True, None)
    refused = _response(
        403, {"message": "Resource not accessible by integration"}, x_ratelimit_remaining="4999"
    )
    assert (classify(refused).code, classify(refused).retryable) == ("AUTH_FORBIDDEN", False)


@each_row(
    "body",
    [
        {"error": {"message": "tools.3.name: should match"}},
        {"message": "tools.3.name: should match"},
        {"error": "tools.3.name: should match"},
        {"detail": "tools.3.name: should match"},
        {"detail": [{"loc": ["tools", 3, "name"], "msg": "should match", "type": "x"}]},
        {"title": "Invalid", "detail": "tools.3.name: should match"},
        {"errors": [{"message": "tools.3.name: should match"}]},
        [{"error": {"message": "tools.3.name: should match"}}],
    ],
)
def test_k08_the_message_of_the_server_is_passed_on(body):
    """The message, the explanation and what a model sees repeat the server, for every client's raw response."""
    answer = requests.Response()
    answer.status_code, answer._content = 400, json.dumps(body).encode()
    for what in (_response(400, body), httpx2.Response(400, json=body), answer):
        failure = classify(what)
        shown = (failure.message, failure.explain(), json.dumps(failure.to_llm()))
        assert all("tools.3.name: should match" in text for text in shown)


def test_k08_the_message_of_the_server_is_masked_and_bounded():
    """A key in the server's words is masked; a long text is cut."""
    failure = classify(
        _response(
            401, {"error": {"message": "Incorrect API key provided: sk-canary1234567890abcdef"}}
        )
    )
    assert "canary" not in failure.message + failure.explain() + json.dumps(failure.to_dict())
    assert len(classify(_response(400, {"message": "x" * 50_000})).message) < 300


class _TheirError(Exception):
    """An error of an SDK that is not listed."""

    def __init__(self, response: object = None, **fields: object) -> None:
        super().__init__("their words")
        self.response = response
        self.__dict__.update(fields)


def test_k10_an_unlisted_error_that_carries_an_answer():
    """By its `response`, or by `status_code` beside headers or a body; a status alone is not an answer."""
    limited = _response(429, {"error": {"message": "slow down"}}, retry_after="12")
    keys = {"error": {"message": "Invalid API Key", "code": "invalid_api_key"}}
    for error, code, wait in (
        (_TheirError(limited), "SYS_RATE_LIMITED", 12.0),
        (_TheirError(_response(401, keys)), "AUTH_INVALID_TOKEN", None),
        (_TheirError(status_code=503, headers={"retry-after": "3"}), "SYS_UNAVAILABLE", 3.0),
        (_TheirError(status_code=404, error="model 'x' not found"), "SYS_UPSTREAM_REJECTED", None),
        (_TheirError(status_code=503), "SYS_INTERNAL_ERROR", None),
        (_TheirError(_response(200, {})), "SYS_INTERNAL_ERROR", None),
        (_TheirError(status_code=True, headers={}), "SYS_INTERNAL_ERROR", None),
    ):
        failure = classify(error)
        assert (failure.code, failure.retry_after, failure.executed) == (code, wait, "maybe")


@each_row(
    ("value", "wait"),
    [
        ("120, 240", 240.0),
        ("240, 120", 240.0),
        ("1,5", None),
        ("120, soon", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_k11_two_headers_that_a_proxy_joined(value, wait):
    """Of `Retry-After: 120, 240` the longer counts; the comma of a date, or without a space, separates nothing."""
    assert classify(_response(503, {}, retry_after=value)).retry_after == wait


HARD = {
    "10 MB": b'{"error":{"message":"' + b"x" * 10_000_000 + b'"}}',
    "10 MB of words": b"rate limit " * 1_000_000,
    "lists": b"[" * 10_000 + b"]" * 10_000,
    "objects": b'{"error":' * 10_000 + b"1" + b"}" * 10_000,
    "utf-16": '{"error":{"message":"prompt is too long"}}'.encode("utf-16"),
    "utf-16 without a mark": "prompt is too long".encode("utf-16-le"),
    "utf-32": '{"error":{"message":"prompt is too long"}}'.encode("utf-32"),
    "latin-1": "prompt is too long \xe9".encode("latin-1"),
    "nul": b"\0" * 70_000,
    "surrogate": b'{"error":{"message":"\\ud800","code":"\\udfff"}}',
    "quotes": b"{'" + b"\\'" * 8_000,
    "pairs of quotes": b'{"' + b"'\"'\"" * 4_000,
    "open": b"[{'a': " * 3_000,
    "words again": b"exceeds model retry in 9m " * 3_000,
    "a number": b'{"error":{"code":' + b"9" * 5_000 + b"}}",
    "infinity": b'{"retry_after": 1e999}',
    **{
        text: text.encode()
        for text in ("null", "true", "429", '"text"', '[1,[2,[3]],null,{"error":[{"error":"y"}]}]')
    },
}


@each_row(("name", "body"), HARD.items(), ids=HARD)
def test_a_body_made_to_hurt(name, body):
    """Of any size, depth and encoding: a typed verdict, in a time that grows with the size and no faster."""
    for status in (400, 403, 429, 500):
        text = RuntimeError(f"Error code: {status} - {body.decode('latin-1')}")
        for what in (httpx.Response(status, content=body), text):
            began = time.process_time()
            failure = classify(what)
            assert time.process_time() - began < 1.0
            assert isinstance(failure, Failure)
            json.dumps(failure.to_dict())
            assert failure.explain()
    if name.startswith(("utf", "latin")):
        assert (
            classify(httpx.Response(400, content=body)).details["reason"]
            == "context_length_exceeded"
        )


def test_a_decoded_body_made_to_hurt():
    """The same for what an SDK has decoded already."""
    nested: object = 1
    for _ in range(10_000):
        nested = {"error": nested}
    for body in (
        nested,
        {"error": {"code": 10**5_000}},
        {1: 2},
        {"error": {"message": b"x"}},
        object(),
        "\0",
        True,
    ):
        assert classify(_inside_a_stream(body)).to_dict()
        assert (
            classify(_TheirError(status_code=429, headers={}, body=body)).code == "SYS_RATE_LIMITED"
        )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["error", "errors", "code", "message", "detail", "type", "retry_after"]
            ),
            inner,
        )
    ),
    max_leaves=20,
)


@given(_JSON, st.sampled_from([None, 200, 400, 403, 429, 500]))
def test_any_json_has_a_typed_verdict(body, status):
    """Whatever a server sends, a failure of a known form comes out, or none for a success."""
    if status is None:
        assert isinstance(classify(_inside_a_stream(body)), Failure)
        return
    failure = classify(
        httpx.Response(
            status, json=json.loads(json.dumps(body, allow_nan=False)) if _finite(body) else {}
        )
    )
    assert isinstance(failure, Failure) or (status == 200 and failure is None)


def _finite(body: object) -> bool:
    try:
        json.dumps(body, allow_nan=False)
    except ValueError:
        return False
    return True


def test_no_sdk_is_imported():
    """Reading a body loads no library that was not loaded."""
    code = (
        "import sys, resilient_bridge as rb\n"
        "rb.classify(RuntimeError(\"Error code: 429 - {'error': {'code': 'insufficient_quota'}}\"))\n"
        "print(sorted({'openai','anthropic','google.genai','litellm','requests','aiohttp','botocore','groq'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
