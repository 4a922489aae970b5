"""Rules for the exceptions of AI providers' SDKs: openai, anthropic, litellm.

Rule: the class shows the provider, a structured code the reason, and the status the rest. An error
inside a stream has a status of 200 or none, and is judged by its code alone.
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from ..errors import Executed, text_of
from .finding import Finding, Rules, short_of
from .provider_codes import final_finding, key_finding, names_of, stream_finding, with_message
from .statuses import should_retry, status_finding


_READ: Final = 4_096  # characters
_DEEP: Final = 4  # errors below litellm's
_WORDS: Final = re.compile(r"\w+")
# statuses 409 that are not explained by a lock
_CONFLICTS: Final = ("_taken", "_conflict", "_undecryptable")
_VALIDATION: Final = Finding(
    code="PROTO_INVALID_MESSAGE",
    message="answer not as its schema says",
    executed=Executed.YES,
    suggestions=("update the sdk, and check that the base url is the provider's",),
)
_CONNECTION: Final = Finding(
    code="CONN_UNREACHABLE", message="connection to the provider failed", executed=Executed.MAYBE
)
_TIMEOUT: Final = Finding(
    code="CONN_TIMEOUT", message="provider did not answer in time", executed=Executed.MAYBE
)
_CREDENTIALS: Final = Finding(
    code="SYS_CONFIG_INVALID",
    message="credentials missing",
    suggestions=("set the provider's api key",),
)
_MISSING: Final = ("credentials", "api_key", "api key", "must be set")
_NO_KEY: Final = {
    "No API key was provided": "google-gemini",
    "Missing key inputs argument": "google-gemini",
    "Could not resolve authentication method": "anthropic",
}
_UNKNOWN: Final = Finding(code="SYS_UPSTREAM_REJECTED", message="provider reported an error")
_UNFINISHED: Final = Finding(
    code="SYS_UPSTREAM_REJECTED", message="answer not finished: length limit", executed=Executed.YES
)


def _status_error(error: Any) -> Finding:
    """The rule for an unsuccessful response; with a status below 400 it came inside a stream."""
    status, body = error.status_code, error.body
    names, message = names_of(body)
    if not isinstance(status, int) or status < 400:
        return _with_request(error, stream_finding(names, message))
    # litellm makes a response of its own, and keeps the headers of the real one beside it.
    headers = getattr(error, "litellm_response_headers", None)
    headers = headers or getattr(getattr(error, "response", None), "headers", None)
    finding = status_finding(status, headers, body)
    if "reason" not in finding.details:
        if status == 409 and not any(name.endswith(_CONFLICTS) for name in names):
            # A lock that timed out.
            finding = attrs.evolve(finding, retryable=should_retry(headers) is not False)
        finding = with_message(finding, message)
    return _with_request(error, finding)


def _stream_error(error: Any) -> Finding:
    """The rule for openai's bare APIError: an error event in the middle of a stream."""
    names, message = names_of(error.body)
    own = tuple(name for name in (error.code, error.type) if isinstance(name, str))
    return stream_finding((*own, *names), message or str(error))


def _openai_error(error: BaseException) -> Finding:
    """The rule for the base class, which is also raised for missing credentials.

    It applies to errors without a class of their own; an unlisted subclass is an error of the
    provider.
    """
    text = text_of(error)
    lowered = text.lower()
    if type(error).__name__ == "OpenAIError" and any(word in lowered for word in _MISSING):
        return attrs.evolve(_CREDENTIALS, message=_CREDENTIALS.message + short_of(text))
    return attrs.evolve(_UNKNOWN, message=_UNKNOWN.message + short_of(text))


def _no_key(error: BaseException) -> Finding | None:
    """The rule for a missing key: ValueError (google-genai) or TypeError (anthropic), by text."""
    text = text_of(error)
    provider = next((name for words, name in _NO_KEY.items() if text.strip('"').startswith(words)), None)
    if provider is None:
        return None
    message = _CREDENTIALS.message + short_of(text)
    return attrs.evolve(_CREDENTIALS, message=message, details={"provider_id": provider})


def _anthropic_error(error: BaseException) -> Finding:
    names, message = names_of(getattr(error, "body", None))
    return stream_finding(names, message) if names else _UNKNOWN


def _litellm_status(error: Any) -> Finding:
    names, _ = names_of(error.body)
    found = final_finding((*names, *_named(error)), str(error))
    status = _status_error(error)
    return status if found is None else attrs.evolve(found, details={**status.details, **found.details})


def _litellm_login(error: Any) -> Finding:
    """The rule for a 401: its body is in the SDK's own error below, or in litellm's text."""
    found, text = _status_error(error), str(error)
    words, below = _WORDS.findall(text[:_READ]), error.__cause__ or error.__context__
    for _ in range(_DEEP):
        words += names_of(getattr(below, "body", None))[0]
        below = getattr(below, "__cause__", None) or getattr(below, "__context__", None)
    key = key_finding(words, text)
    return found if key is None else attrs.evolve(key, details={**found.details, **key.details})


def _named(error: Any) -> tuple[str, ...]:
    code = getattr(error, "code", None)
    return (code,) if isinstance(code, str) else ()


def _final(name: str) -> Finding:
    found = final_finding((name,), "")
    assert found is not None  # noqa: S101 (a name of the table itself)
    return found


def _with_request(error: Any, finding: Finding) -> Finding:
    number = getattr(error, "request_id", None)
    if not isinstance(number, str):
        return finding
    return attrs.evolve(finding, details={**finding.details, "request_id": number})


RULES: Rules = {
    ("builtins", "ValueError"): _no_key,
    ("builtins", "TypeError"): _no_key,
    ("openai", "APIStatusError"): _status_error,
    ("openai", "APITimeoutError"): _TIMEOUT,
    ("openai", "APIConnectionError"): _CONNECTION,
    ("openai", "APIResponseValidationError"): _VALIDATION,
    ("openai", "APIError"): _stream_error,
    ("openai", "LengthFinishReasonError"): _UNFINISHED,
    ("openai", "ContentFilterFinishReasonError"): _final("content_filter"),
    ("openai", "SubjectTokenProviderError"): Finding(code="AUTH_REFRESH_FAILED"),
    ("openai", "WebSocketConnectionClosedError"): Finding(code="CONN_WEBSOCKET_CLOSED"),
    ("openai", "WebSocketQueueFullError"): Finding(code="SYS_OUTBOX_FULL"),
    ("openai", "OpenAIError"): _openai_error,
    ("anthropic", "APIStatusError"): _status_error,
    ("anthropic", "APITimeoutError"): _TIMEOUT,
    ("anthropic", "APIConnectionError"): _CONNECTION,
    ("anthropic", "APIResponseValidationError"): _VALIDATION,
    ("anthropic", "RetryableError"): Finding(code="SYS_UNAVAILABLE"),
    ("anthropic", "CredentialsError"): _CREDENTIALS,
    ("anthropic", "AnthropicError"): _anthropic_error,
    # litellm's classes derive from openai's: only what differs
    ("litellm", "Timeout"): _TIMEOUT,
    ("litellm", "AuthenticationError"): _litellm_login,
    ("litellm", "ContextWindowExceededError"): _final("context_length_exceeded"),
    ("litellm", "ContentPolicyViolationError"): _final("content_policy_violation"),
    ("litellm", "PaymentRequiredError"): _final("insufficient_quota"),
    ("litellm", "BudgetExceededError"): _final("insufficient_quota"),
    ("litellm", "APIConnectionError"): _CONNECTION,
    ("litellm", "APIResponseValidationError"): _VALIDATION,
    ("litellm", "JSONSchemaValidationError"): _VALIDATION,
    **{
        ("litellm", name): _litellm_status
        for name in (
            "RateLimitError",
            "BadRequestError",
            "APIError",
            "ServiceUnavailableError",
            "BadGatewayError",
        )
    },
}

PROVIDERS: Final = {("openai", "OpenAIError"): "openai", ("anthropic", "AnthropicError"): "anthropic"}
"""The base class by which a provider's errors are recognised, and its id in the details."""
