"""Rules for the exceptions of AI providers' SDKs: openai, anthropic, litellm, google-genai and google-auth.

Rule: the class shows the provider, a structured code the reason, and the status the rest. An error
inside a stream has a status of 200 or none, and is judged by its code alone. A body is read like any
other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from .closes import close_finding
from .contents import body_of, document_in, name_key, read_body
from .dispatch import Rows, Rules
from .failure import Finding, short_of
from .provider_codes import REJECTED, known_final, login_finding
from .redaction import package_of, text_of
from .statuses import bare_finding, lasting_finding, should_retry, status_finding, stream_finding
from .system import NO_CREDENTIALS
from .vocabulary import Category, Executed


_READ: Final = 4_096  # characters
_DEEP: Final = 4  # errors below litellm's
_WORDS: Final = re.compile(r"\w+")
# statuses 409 that are not explained by a lock
_CONFLICTS: Final = ("taken", "conflict", "undecryptable")
_VALIDATION: Final = Finding(
    code="PROTO_INVALID_MESSAGE",
    message="answer not as its schema says",
    executed=Executed.YES,
    suggestions=("update the sdk, and check that the base url is the provider's",),
)
_CONNECTION: Final = Finding(code="CONN_UNREACHABLE", message="connection to the provider failed")
_TIMEOUT: Final = Finding(code="CONN_TIMEOUT", message="provider did not answer in time")
_MISSING: Final = ("credentials", "api_key", "api key", "must be set")
_UNKNOWN: Final = Finding(code="SYS_UPSTREAM_REJECTED", message="provider reported an error")
_UNFINISHED: Final = Finding(
    code="SYS_UPSTREAM_REJECTED", message="answer not finished: length limit", executed=Executed.YES
)


def _status_error(error: Any) -> Finding:
    """The rule for an unsuccessful response; with a status below 400 it came inside a stream."""
    status, body = error.status_code, error.body
    if not isinstance(status, int) or status < 400:
        return _with_request(error, stream_finding(_body_or_text(error, body)))
    # litellm makes a response of its own, and keeps the headers of the real one beside it.
    headers = getattr(error, "litellm_response_headers", None)
    headers = headers or getattr(getattr(error, "response", None), "headers", None)
    held = body_of(getattr(error, "response", None))  # openai keeps a part of it as its body
    body = held or body
    finding = status_finding(status, headers, body)
    if status == 409 and "reason" not in finding.details:
        # A lock that timed out, unless a name says otherwise.
        names = map(name_key, read_body(body).names)
        if not any(name.endswith(_CONFLICTS) for name in names):
            finding = finding.evolve(retryable=should_retry(headers) is not False)
    return _with_request(error, finding)


def _stream_error(error: Any) -> Finding:
    """The rule for openai's bare APIError: an error event in the middle of a stream."""
    return stream_finding(_body_or_text(error, error.body))


def _body_or_text(error: Any, body: object) -> object:
    """Return the body, and with it what the error itself says if the body says nothing."""
    if isinstance(body, (Mapping, list)) and body:
        return cast("object", body)
    named = {"code": getattr(error, "code", None), "type": getattr(error, "type", None)}
    return {**named, "message": body if isinstance(body, str) and body else str(error)}


def _openai_error(error: BaseException) -> Finding:
    """The rule for the base class, which is also raised for missing credentials.

    It applies to errors without a class of their own; an unlisted subclass is an error of the
    provider.
    """
    text = text_of(error)
    lowered = text.lower()
    is_theirs = type(error).__name__ == "OpenAIError" and package_of(type(error)) == "openai"
    if is_theirs and any(word in lowered for word in _MISSING):
        return NO_CREDENTIALS.evolve(message=NO_CREDENTIALS.message + short_of(text))
    return _UNKNOWN.evolve(message=_UNKNOWN.message + short_of(text))


def _anthropic_error(error: BaseException) -> Finding:
    body: object = getattr(error, "body", None)
    return stream_finding(body) if body else _UNKNOWN


def _litellm_status(error: Any) -> Finding:
    """The rule for what has a status; the body may stand in litellm's text alone."""
    status = _status_error(error)
    inside = document_in(str(error))
    content = read_body(str(error) if inside is None else inside[1])
    named = attrs.evolve(
        content, names=(*read_body(error.body).names, *_named(error), *content.names)
    )
    found = lasting_finding(named)
    return status if found is None else found.evolve(details={**status.details, **found.details})


def _litellm_login(error: Any) -> Finding:
    """The rule for a 401: its body is in the SDK's own error below, or in litellm's text."""
    found, text = _litellm_status(error), str(error)
    if found.code != "AUTH_TOKEN_EXPIRED":
        return found
    # `AuthenticationError` is litellm's own name for any 401: only names with a `_` are a provider's
    words = [word for word in _WORDS.findall(text[:_READ]) if "_" in word]
    below = error.__cause__ or error.__context__
    for _ in range(_DEEP):
        words += read_body(getattr(below, "body", None)).names
        below = getattr(below, "__cause__", None) or getattr(below, "__context__", None)
    key = login_finding(words, text[:_READ].lower())
    return found if key is None else key.evolve(details={**found.details, **key.details})


def _named(error: Any) -> tuple[str, ...]:
    code = getattr(error, "code", None)
    return (code,) if isinstance(code, str) else ()


def _with_request(error: Any, finding: Finding) -> Finding:
    number = getattr(error, "request_id", None)
    if not isinstance(number, str):
        return finding
    return finding.evolve(details={**finding.details, "request_id": number})


_RULES: Rules = {
    ("openai", "APIStatusError"): _status_error,
    ("openai", "APITimeoutError"): _TIMEOUT,
    ("openai", "APIConnectionError"): _CONNECTION,
    ("openai", "APIResponseValidationError"): _VALIDATION,
    ("openai", "APIError"): _stream_error,
    ("openai", "LengthFinishReasonError"): _UNFINISHED,
    ("openai", "ContentFilterFinishReasonError"): known_final("content_filter"),
    ("openai", "SubjectTokenProviderError"): Finding(code="AUTH_REFRESH_FAILED"),
    ("openai", "WebSocketConnectionClosedError"): Finding(code="CONN_WEBSOCKET_CLOSED"),
    ("openai", "WebSocketQueueFullError"): Finding(code="SYS_OUTBOX_FULL"),
    ("openai", "OpenAIError"): _openai_error,
    ("anthropic", "APIStatusError"): _status_error,
    ("anthropic", "APITimeoutError"): _TIMEOUT,
    ("anthropic", "APIConnectionError"): _CONNECTION,
    ("anthropic", "APIResponseValidationError"): _VALIDATION,
    ("anthropic", "RetryableError"): Finding(code="SYS_UNAVAILABLE"),
    ("anthropic", "CredentialsError"): NO_CREDENTIALS,
    ("anthropic", "AnthropicError"): _anthropic_error,
    # litellm's classes derive from openai's: only what differs
    ("litellm", "Timeout"): _TIMEOUT,
    ("litellm", "AuthenticationError"): _litellm_login,
    ("litellm", "ContextWindowExceededError"): known_final("context_length_exceeded"),
    ("litellm", "ContentPolicyViolationError"): known_final("content_policy_violation"),
    ("litellm", "PaymentRequiredError"): known_final("insufficient_quota"),
    ("litellm", "BudgetExceededError"): known_final("insufficient_quota"),
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

# ---- google-genai, google-auth ----------------------------------------------------------------------


_UNREADABLE: Final = Finding(code="PROTO_INVALID_MESSAGE", message="answer is not valid json")


def _api_error(error: Any) -> Finding:
    code, message = error.code, error.message
    text = message if isinstance(message, str) else ""
    if (
        isinstance(code, int) and 1000 <= code < 5000
    ):  # its live API: a WebSocket close, not an HTTP status
        return close_finding(code, text or str(error.details), "peer")
    headers: object = getattr(getattr(error, "response", None), "headers", None)
    if isinstance(code, int) and 400 <= code <= 599:
        return status_finding(code, headers, error.details)
    content = read_body(error.details)
    found = bare_finding(
        attrs.evolve(content, names=(*content.names, *_word(error.status))), REJECTED
    )
    return REJECTED if found is None else found


def _word(status: object) -> tuple[str, ...]:
    return (status,) if isinstance(status, str) else ()


def _auth_error(error: Any) -> Finding:
    passing = error.retryable is True
    return Finding(
        code="AUTH_REFRESH_FAILED",
        category=Category.AUTH,
        retryable=passing,
        message="credentials not obtained",
    )


def _google_call(error: Any) -> Finding | None:
    """Return the verdict on a google.api_core call error.

    It uses the HTTP status of its class, for gRPC too.
    """
    status = error.code
    if not isinstance(status, int) or not 400 <= status <= 599:
        return None
    return status_finding(status).evolve(proof="")


_GOOGLE: Rules = {
    ("google", "GoogleAPICallError"): _google_call,
    ("google", "APIError"): _api_error,
    ("google", "UnknownApiResponseError"): _UNREADABLE,
    ("google", "TransportError"): Finding(
        code="CONN_UNREACHABLE", message="token server not reached"
    ),
    ("google", "DefaultCredentialsError"): Finding(
        code="SYS_CONFIG_INVALID", message="credentials missing"
    ),
    ("google", "GoogleAuthError"): _auth_error,
}


ROWS: Final = Rows(
    {**_RULES, **_GOOGLE},
    wrappers={
        ("openai", "APIConnectionError"): None,
        ("anthropic", "APIConnectionError"): None,
        ("google", "ContinuationInterruptedError"): "",
        ("google", "TransportError"): "",
        ("litellm", "BaseLLMException"): None,  # litellm's own, around the client's error
    },
    leaves=frozenset({("litellm", "Timeout")}),
    providers={
        ("openai", "OpenAIError"): "openai",
        ("anthropic", "AnthropicError"): "anthropic",
        ("google", "APIError"): "google-gemini",
        ("google", "ContinuationInterruptedError"): "google-gemini",
    },
    through=frozenset({("openai", "APIConnectionError"), ("anthropic", "APIConnectionError")}),
)
