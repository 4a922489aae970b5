"""The codes in AI providers' errors: `insufficient_quota`, `overloaded_error` and others.

Rule: a structured code that names the reason beats the status it came with, because 429 is also the
status of an empty account.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from ..errors import mapping_of
from .finding import Finding, short_of


def _lasting(reason: str, message: str, *suggestions: str) -> Finding:
    return Finding(
        code="SYS_UPSTREAM_REJECTED",
        message=message,
        retryable=False,
        suggestions=suggestions,
        details={"reason": reason},
    )


_QUOTA: Final = _lasting(
    "quota_exhausted",
    "quota exhausted",
    "raise the limit or add credit at the provider",
    "use another key or provider",
)
_CONTEXT: Final = _lasting(
    "context_length_exceeded",
    "context too long",
    "compact the history, or offer fewer tools",
    "start a new session",
)
_CONTENT: Final = _lasting(
    "content_policy_violation",
    "content refused by the provider's policy",
    "have a person review the request",
)
_MODEL: Final = _lasting(
    "model_not_found", "model not found", "check the model's name, and that the key may use it"
)
_FINAL: Mapping[str, Finding] = {
    **dict.fromkeys(("insufficient_quota", "billing_hard_limit_reached", "billing_error"), _QUOTA),
    **dict.fromkeys(("organization_spend_limit_exceeded", "project_spend_limit_exceeded"), _QUOTA),
    **dict.fromkeys(("credit_balance_exhausted", "linked_organization_billing_unavailable"), _QUOTA),
    **dict.fromkeys(("context_length_exceeded", "context_window_exceeded"), _CONTEXT),
    **dict.fromkeys(("content_policy_violation", "content_filter"), _CONTENT),
    "model_not_found": _MODEL,
}
_BAD_KEY: Final = Finding(
    code="AUTH_INVALID_TOKEN",
    message="api key not accepted",
    suggestions=("fix the api key: it is wrong, revoked or of another account",),
    details={"reason": "invalid_api_key"},
)
_KEY_NAMES: Final = frozenset(
    {"invalid_api_key", "incorrect_api_key", "api_key_invalid", "missing_api_key", "authentication_error"}
)
_UNAUTHORIZED: Final = 401
_SPENT: Final = ("spend_limit_reached", "spend_limit_exceeded")
# Anthropic's reasons that are only in prose, under 400 invalid_request_error
_TEXTS: Mapping[str, Finding] = {
    "credit balance is too low": _QUOTA,
    "prompt is too long": _CONTEXT,
}

_PASSING: Final = Finding(code="SYS_UNAVAILABLE")
_REJECTED: Final = Finding(code="SYS_UPSTREAM_REJECTED")
_LOGIN: Final = Finding(code="AUTH_INVALID_TOKEN")
_IN_STREAM: Mapping[str, Finding] = {
    **dict.fromkeys(("overloaded_error", "server_error", "api_error", "internal_server_error"), _PASSING),
    # the answer had started: a limit reached inside it does not prove that nothing ran
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded"), Finding(code="SYS_RATE_LIMITED")),
    "timeout_error": Finding(code="SYS_TIMEOUT"),
    **dict.fromkeys(("authentication_error", "invalid_api_key"), _LOGIN),
    "permission_error": Finding(code="AUTH_FORBIDDEN"),
}


def names_of(body: object) -> tuple[tuple[str, ...], str]:
    """Return the codes and the message in an error body.

    Its form is {"error": {"type", "code", "message", "details": {"error_code"}}}.
    """
    outer = mapping_of(body)
    inner = mapping_of(outer.get("error")) or outer
    details = mapping_of(inner.get("details"))
    names = (details.get("error_code"), inner.get("code"), inner.get("type"))
    message = inner.get("message")
    return tuple(name for name in names if isinstance(name, str)), message if isinstance(message, str) else ""


def final_finding(names: Iterable[str], message: str) -> Finding | None:
    """Return the verdict if a code, or a message without one, says that a repeat cannot help.

    Else None.
    """
    for name in names:
        if name in _FINAL:
            return _FINAL[name]
        if name.endswith(_SPENT):
            return _QUOTA
    lowered = message[:500].lower()
    return next((found for text, found in _TEXTS.items() if text in lowered), None)


def stream_finding(names: Iterable[str], message: str) -> Finding:
    """Return the verdict on an error inside a stream, whose status says nothing.

    An unknown code is not repeated.
    """
    names = tuple(names)
    found = final_finding(names, message)
    if found is None:
        found = next((_IN_STREAM[name] for name in names if name in _IN_STREAM), _REJECTED)
    return with_message(found, message)


def combined(status: Finding, names: Iterable[str], message: str) -> Finding | None:
    """Return the verdict of the codes and the status, None if the codes add nothing."""
    names = tuple(names)
    found = final_finding(names, message)
    if found is None and status.details.get("http_status") == _UNAUTHORIZED:
        found = key_finding(names, message)
    if found is None:
        return None
    return attrs.evolve(
        with_message(found, message), details={**status.details, **found.details}, proof=status.proof
    )


def key_finding(names: Iterable[str], message: str) -> Finding | None:
    """Distinguish a wrong key from an expired token, which a refresh replaces."""
    if "expired" in message[:500].lower():
        return None
    return _BAD_KEY if any(name.lower() in _KEY_NAMES for name in names) else None


def with_message(finding: Finding, message: str) -> Finding:
    """Return the finding with the provider's text after our own."""
    if not message:
        return finding
    return attrs.evolve(finding, message=finding.summary + short_of(message))
