"""What an HTTP status means, for a refused WebSocket upgrade and for any other answer.

Rule: `x-should-retry` beats the table, both ways, and a body that names one of our codes beats the status.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from ..errors import Category, Executed
from .finding import Finding
from .payloads import payload_finding
from .retry_after import wait_from_headers


_REPEATABLE = frozenset({408, 421, 423, 425, 429})
_FUTILE_5XX = frozenset({501, 505, 506, 508, 510, 511})
_BODY_LIMIT = 65_536
_RATE_LIMITED = 429
_SERVER = 500
_STATUSES: Mapping[int, Finding] = {
    401: Finding(code="AUTH_TOKEN_EXPIRED", message="credentials not accepted"),
    403: Finding(code="AUTH_FORBIDDEN"),
    407: Finding(code="AUTH_FORBIDDEN", message="proxy asks for credentials"),
    _RATE_LIMITED: Finding(code="SYS_RATE_LIMITED"),
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
    """Return the verdict on an answer that is no success; `upgrade` when it refused a WebSocket upgrade."""
    finding = _by_status(status, upgrade=upgrade)
    retryable = is_passing(status)
    wait, retry_at = wait_from_headers(headers, now_wall)
    told = _header(headers, "x-should-retry")
    if status == 413 and wait is not None:
        retryable = True
    if told in {"true", "false"}:
        retryable = told == "true"
    details: dict[str, Any] = {"http_status": status}
    if retry_at is not None:
        details["retry_at"] = retry_at
    finding = attrs.evolve(
        finding, retryable=retryable, retry_after=wait if retryable else None, details=details
    )
    return _by_body(body, finding) or finding


def _by_status(status: int, *, upgrade: bool) -> Finding:
    if status in _STATUSES:
        return _STATUSES[status]
    executed = Executed.NO if upgrade or status < _SERVER else Executed.MAYBE
    if status >= _SERVER and is_passing(status):
        return Finding(code="SYS_UNAVAILABLE", executed=executed)
    code = "CONN_UPGRADE_REJECTED" if upgrade else "SYS_UPSTREAM_REJECTED"
    return Finding(code=code, category=_CATEGORIES.get(status), executed=executed)


def _by_body(body: object, status: Finding) -> Finding | None:
    """Read a body like {"code": "SESS_NOT_FOUND", "message": …, "suggestions": […]} (R9)."""
    if not isinstance(body, (bytes, bytearray, str)) or not 0 < len(body) <= _BODY_LIMIT:
        return None
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    finding = payload_finding(document, unknown=None)  # pyright: ignore[reportUnknownArgumentType]
    if finding is None:
        return None
    details = {**finding.details, **status.details}
    return attrs.evolve(finding, retry_after=finding.retry_after or status.retry_after, details=details)


def _header(headers: object, name: str) -> str | None:
    get = getattr(headers, "get", None)
    try:
        value = get(name) if callable(get) else None
    except Exception:  # noqa: BLE001 (websockets raises when a header came twice)
        return None
    return value.strip().lower() if isinstance(value, str) else None
