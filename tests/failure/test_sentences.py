"""Names and sentences that nobody has listed: what they are made of decides, and ordinary language stays ordinary."""

from __future__ import annotations

import httpx
import pytest

from resilient_bridge.failure import Failure, classify
from tests.rows import each_row


CONTEXT = [
    (400, "The input length 200123 exceeds the context length 131072"),
    (400, "Input length 5000 exceeds maximum allowed token size 4096"),
    (400, "This model's maximum context length is 4097 tokens, however you requested 4162 tokens"),
    (400, "Input validation error: inputs tokens + max_new_tokens must be <= 4096"),
    (422, "Input is too long. Max 8192 tokens, got 9000"),
    (400, "Prompt has too many tokens: 9000 > 8192 maximum"),
    (429, "Input has too many tokens: got 9000, the maximum is 8192"),
    (500, "requested tokens (5000) exceed context window of 4096"),
    (400, "Requested tokens (3500) exceed context window of 2048"),
    (400, "The total number of tokens in your request (150000) is over the limit of 128000"),
    (
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    (400, "Input token length 33000 is longer than maximum 32768"),
    (413, "Request body too large for gpt-4o model. Max size: 8000 tokens."),
    (400, "prompt token length is 10000, max is 8192"),
    (400, "输入长度超过模型最大长度限制"),
    (400, "上下文长度超出限制"),
    (400, "请求的 tokens 超过模型上限 32768"),
    (400, "The prompt is too large for this model: 12000 > 8192"),
    (400, "too many input tokens"),
    (400, "messages exceed the maximum token count"),
    (400, "Conversation is too long for the model; start a new chat"),
    (400, "Sequence length 9000 exceeds model maximum of 8192 tokens"),
    (400, "Input tokens exceed limit"),
    (400, "Total tokens 200000 exceed model limit 128000"),
    (
        400,
        "input validation failed: prompt has 9000 tokens which does not fit into the 8192 token window",
    ),
    (400, "the request exceeds the context limit of the model"),
    (400, "Please reduce the number of tokens in your prompt. 9000 > 8000"),
    (400, "Input too large for model: 40000 tokens; limit is 32000"),
    (400, "input text too long. Truncate to 512 tokens"),
    (
        400,
        "Token indices sequence length is longer than the specified maximum sequence length for this model (1024 > 512)",
    ),
    (400, "The text contains 9000 tokens, the maximum is 8191"),
]
QUOTA = [
    (429, "You have insufficient quota"),
    (402, "Your account balance is not enough"),
    (400, "Insufficient funds. Please add funds to your account"),
    (403, "You have run out of credits"),
    (403, "Monthly spend limit reached"),
    (429, "You have no credits left"),
    (429, "Your free trial has ended. Upgrade to continue"),
    (429, "You've used up your free quota"),
    (403, "User quota is not enough"),
    (403, "用户额度不足, 剩余额度: 0"),
    (403, "该令牌额度已用尽"),
    (403, "账户余额不足,请充值"),
    (429, "Your plan's usage limit has been reached"),
    (429, "Usage quota exceeded for this month"),
    (429, "API quota exhausted"),
    (402, "Out of credits"),
    (429, "You have exceeded the quota of your subscription"),
    (403, "quota exceeded"),
    (500, "insufficient_user_quota"),
    (403, "Your credit balance is negative"),
    (403, "budget limit exceeded for this project"),
    (429, "You exceeded your daily quota"),
    (429, "Daily limit exceeded"),
    (429, "You have reached your daily message limit"),
    (400, "You have used all of your monthly tokens"),
    (429, "Quota exceeded. Upgrade your plan"),
    (403, "Your subscription has expired"),
    (429, "reach max api daily quota limit"),
    (429, "You have used 100% of your monthly quota"),
    (429, "out of call volume quota. Quota will be replenished in 10.01:12:32."),
    (403, "Out of call volume quota. Quota will be replenished in 23:10:15."),
    (
        401,
        "You have exceeded the MONTHLY quota for Requests on your current plan, BASIC. Upgrade your plan",
    ),
    (429, "The plan limit has been exceeded"),
    (403, "Not enough balance to perform this operation"),
    (402, "Account overdue"),
]
RATE = [
    (429, "Rate limit is exceeded. Try again in 12 seconds."),
    (403, "Quota exceeded for quota group 'default' and limit 'USER-100s' per minute"),
    (403, "Rate Limit Exceeded"),
    (400, "Too many requests, please slow down"),
    (400, "请求过于频繁,请稍后再试"),
    (403, "QPS 超限"),
    (400, "Application request limit reached"),
    (400, "User request limit reached"),
    (400, "Call limit exceeded: 5 calls per second"),
    (400, "Rate exceeded"),
    (503, "Please reduce your request rate."),
    (403, "You are being throttled"),
    (429, "Quota will reset after 20s: exhausted your quota"),
    (429, "Concurrency limit exceeded"),
    (403, "Maximum concurrent requests reached"),
    (400, "You have reached the limit of 10 requests per minute"),
    (403, "Exceeded rate limit of 100 req/min"),
    (400, "Request was rejected due to rate limiting. Details: TPM limit reached."),
    (403, "Requests are too frequent"),
    (400, "Max rate limit reached"),
    (403, "Developer Over Qps"),
    (403, "访问频率受限"),
]
MODEL = [
    (404, "The model 'x' does not exist"),
    (400, "Model x not supported"),
    (400, "Unknown model: gpt-9"),
    (400, "Unsupported model gpt-3"),
    (404, "Could not find model foo/bar"),
    (400, "Model not found: foo"),
    (403, "Model gpt-5 is not available in your region"),
    (400, "The model gpt-x is deprecated"),
    (400, "The model `x` has been deprecated, learn more here"),
    (404, "model claude-2 is no longer available"),
    (400, "模型不存在,请检查模型代码"),
    (400, "Model 'x' is not a valid model"),
    (
        404,
        "Publisher Model `projects/p/locations/us/publishers/google/models/x` was not found or your project does not have access to it.",
    ),
    (404, "The requested model was not found"),
    (400, "The model identifier 'x' is not recognized"),
    (400, "invalid model ID"),
    (404, "Model x is not found. Please check"),
    (400, "The supplied model is not supported"),
]
NAMES = {
    "quota_exhausted": "quotaExceeded QUOTA_EXCEEDED quota-exceeded Quotas.Exceeded InsufficientBalance INSUFFICIENT_FUNDS NoCreditsLeft usage_limit_exceeded dailyLimitExceeded insufficient_user_quota SubscriptionExpired account_overdue BalanceNotEnough AuthCreditLimit monthly_limit_reached DAILY_QUERY_OVER_LIMIT",
    "rate": "TooManyRequests RequestLimitExceeded RateLimitExceeded.TPM concurrency_limit_exceeded LimitExceeded.QPS OVER_QUERY_LIMIT FlowLimitExceeded userRateLimitExceeded requests_per_minute_exceeded ModelAccountRpmRateLimitExceeded",
    "context_length_exceeded": "prompt_too_long tokens_limit_reached context_too_long model_max_prompt_tokens_exceeded input_too_long",
    "model_not_found": "ModelNotFound model_not_supported InvalidEndpointOrModel.NotFound InvalidEndpoint.NotFound UnsupportedModel ModelNotOpen",
}
HARMLESS = """the balance of the account was updated|quota page not found|Maximum call stack size exceeded|
    value exceeds maximum length of column|limit must be less than 100|
    model.fit() got an unexpected keyword argument|context manager was never entered|
    maximum recursion depth exceeded|string exceeds 255 characters|password is too long|
    the budget report was sent|billing address is missing|plan not found|subscription created|
    no plan matches the query|usage: prog [-h] file|invalid token in line 3|
    too many values to unpack (expected 2)|list index out of range|integer out of range|
    the message was too short|message queue is empty|prompt toolkit is not installed|
    prompt was answered with no|credit card number is invalid|account balance must be positive|
    load balance failed for pool a|balance sheet is out of date|the tree is out of balance|
    retry budget exhausted|error budget exceeded|time budget exceeded by 3 s|latency budget exceeded|
    file name too long|header line too long|URI too long|input must be a string|input too short|
    sequence item 0: expected str instance, int found|invalid sequence length for pad|
    length of values does not match length of index|Expected more than 1 value per channel when training|
    model has no attribute 'predict'|the model was trained for 3 epochs|endpoint /v1/users returned nothing|
    engine started|deployment finished|page limit reached the end of the list|the limit is 10 rows per page|
    processed 5 requests per second|a request per minute is sent|rate must be between 0 and 1|
    exchange rate not found|concurrent modification of the list|the quota was set to 5|
    spending report for may|usage statistics are disabled|500 rows were updated|404 Main Street|
    500 Miles to go|403 items in stock|429 Broadway|400 lines of context|tokens: 512 of 4096 used|
    the context has 12 keys|max length is 10|maximum number of threads is 8|
    maximum number of attempts reached|recursion limit exceeded|exceeded 30 redirects.|
    Exceeded maximum number of retries|value too large for column|array is too large|
    number too large to fit in target type|integer string conversion exceeds the limit (4300 digits)|
    Exceeds the limit (4300 digits) for integer string conversion|
    message larger than max (5000000 vs. 4194304)|Received message larger than max|packet too large|
    row size too large|field larger than field limit (131072)|image is too large|
    Object of type int64 is not JSON serializable|invalid literal for int() with base 10: '500'|
    Invalid model parameters|model is not fitted yet|unknown model field|Unsupported engine option|
    wait 5 minutes for the tea|the credits of the film are over|plan exceeded expectations|
    the trial is over|the account was used up to 3 times|free trial text"""


def _answer(status: int, message: str, **error: str) -> Failure:
    failure = classify(httpx.Response(status, json={"error": {"message": message, **error}}))
    assert isinstance(failure, Failure)
    return failure


@each_row(("status", "message"), QUOTA + CONTEXT + MODEL)
def test_an_unlisted_sentence(status, message):
    """A thing and what became of it, near each other and in either order, in English and Chinese."""
    groups = {
        "quota_exhausted": QUOTA,
        "context_length_exceeded": CONTEXT,
        "model_not_found": MODEL,
    }
    wanted = next(reason for reason, rows in groups.items() if (status, message) in rows)
    failure = _answer(status, message)
    assert (failure.code, failure.details.get("reason")) == ("SYS_UPSTREAM_REJECTED", wanted)


@each_row(("status", "message"), RATE)
def test_an_unlisted_rate(status, message):
    """Calls in a unit of time, or a quota that is back within the hour, are a rate whatever the status."""
    failure = _answer(status, message)
    assert (failure.code, failure.retryable) == ("SYS_RATE_LIMITED", True)


@each_row("reason", NAMES)
def test_an_unlisted_name(reason):
    """Names are read by their words, in any way of joining them."""
    for name in NAMES[reason].split():
        failure = _answer(400, "x", code=name)
        got = failure.details.get("reason") or (
            "rate" if failure.code == "SYS_RATE_LIMITED" else ""
        )
        assert got == reason, name


@each_row(
    "name",
    [
        "bad_request_error",
        "InvalidParameter",
        "token_expired",
        "max_tokens_exceeded",
        "request_timeout",
    ],
)
def test_other_names_say_nothing(name):
    """A request, a token or a maximum alone is no limit."""
    failure = _answer(400, "x", code=name)
    assert (failure.code, failure.details.get("reason")) == ("SYS_UPSTREAM_REJECTED", None)


@each_row("text", HARMLESS.replace("\n    ", "").split("|"))
def test_ordinary_language(text):
    """One of the words alone is neither a quota nor a context nor a rate: in an exception, or under 400, 403 and 500."""
    assert classify(RuntimeError(text)).code == "SYS_INTERNAL_ERROR"
    for status, code in (
        (400, "SYS_UPSTREAM_REJECTED"),
        (403, "AUTH_FORBIDDEN"),
        (500, "SYS_UNAVAILABLE"),
    ):
        failure = _answer(status, text)
        assert (failure.code, failure.details.get("reason")) == (code, None)


@each_row(
    ("text", "code"),
    [
        ("Token has expired", "SYS_INTERNAL_ERROR"),
        ("context deadline exceeded", "CONN_TIMEOUT"),
        ("disk quota exceeded", "SYS_UPSTREAM_REJECTED"),
    ],
)
def test_words_with_another_meaning(text, code):
    """A token that expires, a deadline and a disk are no context and no quota."""
    failure = classify(RuntimeError(text))
    assert (failure.code, failure.details.get("reason")) == (code, None)


@each_row(
    ("text", "code", "wait"),
    [
        ("429 status code (no body)", "SYS_RATE_LIMITED", None),
        ("402 Insufficient credits", "SYS_UPSTREAM_REJECTED", None),
        ("Error: 404 model 'x' not found, try pulling it first", "SYS_UPSTREAM_REJECTED", None),
        ("status_code=403, insufficient balance", "SYS_UPSTREAM_REJECTED", None),
        ("[SDKException] code:FlowLimitExceeded message:x", "SYS_RATE_LIMITED", None),
        ("rpc error: code = Unavailable desc = closing", "SYS_UNAVAILABLE", None),
        ("Your quota will reset after 53s", "SYS_RATE_LIMITED", 53.0),
        ("429 rows were read", "SYS_INTERNAL_ERROR", None),
        ("500 Miles to go", "SYS_INTERNAL_ERROR", None),
    ],
)
def test_the_beginning_of_a_text(text, code, wait):
    """A status or a name at the beginning is one, a count is none."""
    assert (classify(RuntimeError(text)).code, classify(RuntimeError(text)).retry_after) == (
        code,
        wait,
    )


@each_row(
    ("body", "wait"),
    [
        ({"retry_in": 12}, 12.0),
        ({"data": {"rate": {"backoff_seconds": 30}}}, 30.0),
        ({"error": {"retry_after_ms": 500}}, 0.5),
        ({"error": {"details": [{"metadata": {"quotaResetDelay": "373.5ms"}}]}}, 0.3735),
        ({"error": {"reset_after": "1m30s"}}, 90.0),
        ({"reset": 1_700_000_000}, None),
        ({"resets_at": 1_700_000_000}, None),
        ({"usage": {"wait_seconds": 3}}, None),
        ({"message": "Expected available in 831.0 seconds."}, 831.0),
        ({"message": "Please wait 1 minute and 30 seconds."}, 90.0),
        ({"message": "请在 60 秒后重试"}, 60.0),
        ({"message": "Retry-After: 30"}, 30.0),
    ],
)
def test_a_wait_by_its_name_or_in_words(body, wait):
    """A field in any depth whose name says a wait, and sentences; a moment is no wait."""
    assert classify(httpx.Response(429, json=body)).retry_after == wait


@each_row(
    ("body", "says"),
    [
        (
            {"errors": ["Maximum size reached here"], "message": "error"},
            "Maximum size reached here",
        ),
        ({"status": {"error_message": "the words"}}, "the words"),
        ({"fault": {"faultstring": "the words"}}, "the words"),
        ({"errors": {"prompt": ["is not good"]}}, "prompt: is not good"),
        ("<E><Message>the words</Message></E>", "the words"),
        ("<html><body><h1>the words</h1></body></html>", "the words"),
    ],
)
def test_the_servers_own_words_in_any_envelope(body, says):
    """The message is found by the names that servers give it, below any object."""
    answer = (
        httpx.Response(400, content=body)
        if isinstance(body, str)
        else httpx.Response(400, json=body)
    )
    assert says in classify(answer).message


@each_row(
    ("body", "code"),
    [
        (
            {"status": "0", "message": "NOTOK", "result": "Max rate limit reached (5/sec)"},
            "SYS_RATE_LIMITED",
        ),
        ({"error_code": 18, "error_msg": "Open api qps request limit reached"}, "SYS_RATE_LIMITED"),
        (
            {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
            "SYS_UPSTREAM_REJECTED",
        ),
        (
            {"Response": {"Error": {"Code": "RequestLimitExceeded", "Message": "x"}}},
            "SYS_RATE_LIMITED",
        ),
        ({"base_resp": {"status_code": 0, "status_msg": "success"}}, None),
        ({"code": 1, "msg": "created"}, None),
        ({"status": "ok", "message": "rate limit exceeded 5 times last week"}, None),
        ({"code": 5, "msg": "quota exceeded", "data": {"rows": [1]}}, None),
    ],
)
def test_a_refusal_under_200(body, code):
    """A short answer that calls itself a failure, for a known reason, and has no data."""
    failure = classify(httpx.Response(200, json=body))
    assert (failure.code if isinstance(failure, Failure) else None) == code


@pytest.mark.parametrize("status", [400, 403])
def test_it_says_that_it_passes(status):
    """`is_transient: true` beats a status that is final."""
    body = {
        "error": {
            "message": "Please retry",
            "type": "OAuthException",
            "is_transient": True,
            "code": 2,
        }
    }
    assert classify(httpx.Response(status, json=body)).retryable
