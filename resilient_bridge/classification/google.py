"""Rules for what google-genai and google-auth raise.

Rule: Google's own status word beats the HTTP status. Only the body says how long to wait, and
whether a quota is daily.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import attrs

from ..errors import Category, mapping_of
from .closes import close_finding
from .finding import Finding, Rules, short_of
from .provider_codes import final_finding
from .statuses import should_retry, status_finding


_PASSING: Final = Finding(code="SYS_UNAVAILABLE")
_STATUSES: Mapping[str, Finding] = {
    "UNAUTHENTICATED": Finding(code="AUTH_INVALID_TOKEN"),
    "PERMISSION_DENIED": Finding(code="AUTH_FORBIDDEN"),
    "RESOURCE_EXHAUSTED": Finding(code="SYS_RATE_LIMITED"),
    "INTERNAL": _PASSING,
    "UNAVAILABLE": _PASSING,
    "DEADLINE_EXCEEDED": Finding(code="SYS_TIMEOUT", message="the provider's time was up"),
    "ABORTED": Finding(code="SYS_UNAVAILABLE", message="aborted by the server"),
    **dict.fromkeys(
        (
            "INVALID_ARGUMENT",
            "FAILED_PRECONDITION",
            "OUT_OF_RANGE",
            "NOT_FOUND",
            "ALREADY_EXISTS",
            "UNIMPLEMENTED",
        ),
        Finding(code="SYS_UPSTREAM_REJECTED"),
    ),
}
_BAD_KEY: Final = Finding(code="AUTH_INVALID_TOKEN", message="api key not valid")
_UNREADABLE: Final = Finding(code="PROTO_INVALID_MESSAGE", message="answer is not valid json")
_DELAY: Final = re.compile(r"([0-9]{1,10}(?:\.[0-9]{1,9})?)s")


def _api_error(error: Any) -> Finding:
    code, status, message = error.code, error.status, error.message
    text = message if isinstance(message, str) else ""
    if isinstance(code, int) and 1000 <= code < 5000:  # its live API: a WebSocket close, not an HTTP status
        return close_finding(code, text or str(error.details), "peer")
    response = getattr(error, "response", None)
    headers: object = getattr(response, "headers", None)
    override = should_retry(headers)
    http = status_finding(code, headers) if isinstance(code, int) and 400 <= code <= 599 else None
    details = tuple(_details(error.details))
    finding = _judged(status, details) or http or Finding(code="SYS_UPSTREAM_REJECTED")
    if http is not None:
        finding = attrs.evolve(
            finding,
            retryable=finding.retryable if override is None else override,
            retry_after=http.retry_after,
            proof=http.proof,
            details={**http.details, **finding.details},
        )
    if finding.retry_after is None and finding.code == "SYS_RATE_LIMITED":
        finding = attrs.evolve(finding, retry_after=_delay(details))
    return attrs.evolve(finding, message=finding.summary + short_of(text))


def _judged(status: object, details: tuple[Mapping[object, Any], ...]) -> Finding | None:
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        return _BAD_KEY
    finding = _STATUSES.get(status) if isinstance(status, str) else None
    if finding is not None and finding.code == "SYS_RATE_LIMITED" and _is_daily(details):
        return final_finding(("insufficient_quota",), "")
    return finding


def _is_daily(details: tuple[Mapping[object, Any], ...]) -> bool:
    violations = [item for detail in details for item in _list(detail.get("violations"))]
    return any("PerDay" in str(item.get("quotaId", "")) for item in violations)


def _delay(details: tuple[Mapping[object, Any], ...]) -> float | None:
    for detail in details:
        delay = detail.get("retryDelay")
        match = _DELAY.fullmatch(delay) if isinstance(delay, str) else None
        if match is not None:
            return float(match[1])
    return None


def _details(document: object) -> Iterator[Mapping[object, Any]]:
    outer = mapping_of(document)
    yield from _list((mapping_of(outer.get("error")) or outer).get("details"))


def _list(value: object) -> list[Mapping[object, Any]]:
    items = cast("list[object]", value)[:50] if isinstance(value, list) else []
    return [mapping_of(item) for item in items]


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
    ("google", "TransportError"): Finding(code="CONN_UNREACHABLE", message="token server not reached"),
    ("google", "DefaultCredentialsError"): Finding(code="SYS_CONFIG_INVALID", message="credentials missing"),
    ("google", "GoogleAuthError"): _auth_error,
}

PROVIDERS: Final = {
    ("google", "APIError"): "google-gemini",
    ("google", "ContinuationInterruptedError"): "google-gemini",
}
"""The base class by which the provider's errors are known, and the provider's id in the details."""
