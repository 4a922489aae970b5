"""Rules for what google-genai and google-auth raise.

Rule: the body is read like any other; only its classes, and the closes of its live API, are here.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from .bodies import read_body
from .closes import close_finding
from .finding import Finding, Rules
from .provider_codes import REJECTED
from .statuses import bare_finding, status_finding
from .taxonomy import Category


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


RULES: Rules = {
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

PROVIDERS: Final = {
    ("google", "APIError"): "google-gemini",
    ("google", "ContinuationInterruptedError"): "google-gemini",
}
"""The base class by which the provider's errors are known, and the provider's id in the details."""
