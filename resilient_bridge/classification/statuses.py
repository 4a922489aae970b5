"""Verdicts on HTTP statuses, of a refused WebSocket upgrade and of any other response.

Rule: `x-should-retry` beats the table, both ways, and a body that names one of our codes beats the
status.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import attrs

from ..errors import Category, mapping_of
from .finding import Finding
from .payloads import payload_finding
from .provider_codes import combined, names_of
from .retry_after import wait_from_headers


_REPEATABLE = frozenset({408, 421, 423, 425, 429})
_FUTILE_5XX = frozenset({501, 505, 506, 508, 510, 511})
_PROOFS = {status: f"http_{status}" for status in (401, 407, 421, 425, 426)}
_BODY_LIMIT = 65_536
_RATE_LIMITED = 429
_SERVER = 500
_STATUSES: Mapping[int, Finding] = {
    401: Finding(code="AUTH_TOKEN_EXPIRED", message="credentials not accepted"),
    403: Finding(code="AUTH_FORBIDDEN"),
    407: Finding(code="AUTH_FORBIDDEN", message="proxy asks for credentials"),
    _RATE_LIMITED: Finding(code="SYS_RATE_LIMITED"),
}
# For an upgrade these are plain refusals; for a call they have a verdict of their own.
_OF_A_CALL: Mapping[int, Finding] = {
    402: Finding(
        code="SYS_UPSTREAM_REJECTED",
        message="payment required",
        suggestions=("raise the limit or add credit at the provider",),
        details={"reason": "quota_exhausted"},
    ),
    408: Finding(code="SYS_TIMEOUT", message="the server waited too long for the request"),
    499: Finding(code="SYS_UPSTREAM_REJECTED", message="cancelled by us"),
}
_CATEGORIES: Mapping[int, Category] = {408: Category.TIMEOUT, 421: Category.TRANSPORT, 426: Category.PROTOCOL}


def is_passing(status: int) -> bool:
    """Return True when the same request may succeed later."""
    return status in _REPEATABLE or (_SERVER <= status <= 599 and status not in _FUTILE_5XX)


def status_finding(
    status: int,
    headers: object = None,
    body: object = None,
    *,
    upgrade: bool = False,
    now_wall: float | None = None,
) -> Finding:
    """Return the verdict on a response without success; `upgrade` if it refused a WebSocket."""
    finding = _by_status(status, upgrade=upgrade)
    proof = "upgrade_refused" if upgrade else _PROOFS.get(status, "")
    retryable = is_passing(status)
    wait, retry_at = wait_from_headers(headers, now_wall)
    if status == 413 and wait is not None:
        retryable = True
    if (override := should_retry(headers)) is not None:
        retryable = override
    details: dict[str, Any] = {"http_status": status, **finding.details}
    if retry_at is not None:
        details["retry_at"] = retry_at
    finding = attrs.evolve(
        finding,
        retryable=retryable,
        retry_after=wait if retryable else None,
        details=details,
        proof=proof,
    )
    return _by_body(body, finding) or finding


def _by_status(status: int, *, upgrade: bool) -> Finding:
    if status in _STATUSES:
        return _STATUSES[status]
    if status in _OF_A_CALL and not upgrade:
        return _OF_A_CALL[status]
    if status >= _SERVER and is_passing(status):
        return Finding(code="SYS_UNAVAILABLE")
    code = "CONN_UPGRADE_REJECTED" if upgrade else "SYS_UPSTREAM_REJECTED"
    return Finding(code=code, category=_CATEGORIES.get(status))


def _by_body(body: object, status: Finding) -> Finding | None:
    """Read a body like {"code": "SESS_NOT_FOUND", "message": …}, or a provider's."""
    document = mapping_of(body) or mapping_of(read_json(body))
    finding = payload_finding(document, unknown=None)
    if finding is None:
        return combined(status, *names_of(document))
    details = {**finding.details, **status.details}
    return attrs.evolve(
        finding, retry_after=finding.retry_after or status.retry_after, details=details, proof=status.proof
    )


def read_json(body: object) -> object:
    """Return a bounded body parsed as JSON, None if it is not JSON."""
    if not isinstance(body, (bytes, bytearray, str)) or not 0 < len(body) <= _BODY_LIMIT:
        return None
    try:
        return cast("object", json.loads(body))
    except (ValueError, RecursionError):
        return None


def should_retry(headers: object) -> bool | None:
    """Return the value of `x-should-retry`, None if it has none."""
    get = getattr(headers, "get", None)
    try:
        value = get("x-should-retry") if callable(get) else None
    except Exception:  # noqa: BLE001 (websockets raises when a header came twice)
        return None
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None
