"""Verdicts on errors that the peer reports.

These are `error` and `connection_error` messages, and HTTP bodies of the same form.

Rule: nothing in a payload is trusted: wrong types are ignored, text is bounded and redacted,
unknown codes keep their name. Its `recoverable` field is believed, except for a certificate error,
and so is its `severity`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from .contents import finite_seconds
from .failure import Failure, Finding
from .rpc import CATEGORY_CODES, is_count, is_our_code, mapping_of, peer_details, severity_in
from .vocabulary import CODES, Category, Executed


EXECUTIONS: Mapping[str, Finding] = {
    "CSP_BLOCKED": Finding(
        code="TOOL_EXECUTION_FAILED",
        suggestions=(
            'repeat it with world: "isolated", for queries of the page alone',
            'world: "auto" falls back to that by itself',
        ),
        executed=Executed.MAYBE,
        details={"fallback": {"world": "isolated"}},
    ),
    "EXECUTION_TIMEOUT": Finding(
        code="TOOL_TIMEOUT",
        suggestions=(
            "raise its timeout_ms, or break it into smaller operations",
            "keep each operation under 2 s",
        ),
    ),
    "EXECUTION_ERROR": Finding(
        code="TOOL_EXECUTION_FAILED",
        suggestions=(
            "correct the script: try it in the browser's console first",
            "let it return plain data: no page elements, functions or symbols",
        ),
        executed=Executed.YES,
    ),
}
"""The execution errors of script-running peers, by the code they send."""

ALIASES: Mapping[str, str] = {
    "INVALID_TOKEN": "AUTH_INVALID_TOKEN",
    "NOT_AUTHENTICATED": "AUTH_INVALID_TOKEN",
    "TOKEN_EXPIRED": "AUTH_TOKEN_EXPIRED",
    "INSECURE_TRANSPORT": "AUTH_INSECURE_TRANSPORT",
    "UNKNOWN_TYPE": "PROTO_UNKNOWN_TYPE",
    "CIRCUIT_OPEN": "SYS_CIRCUIT_OPEN",
    "UNKNOWN_MESSAGE_TYPE": "PROTO_UNKNOWN_TYPE",
    "UNSUPPORTED_TYPE": "PROTO_UNKNOWN_TYPE",
    "UNSUPPORTED_MESSAGE_TYPE": "PROTO_UNKNOWN_TYPE",
    "INVALID_MESSAGE_TYPE": "PROTO_UNKNOWN_TYPE",
    **{code: execution.code for code, execution in EXECUTIONS.items()},
}
"""Codes that real servers send under another name."""

_NONE: Final = Finding(code="")
_PASSED_ON = (
    "violations",
    "expected",
    "received",
    "errors",
    "exit_code",
    "max_retries",
    "tool",
    "tool_call_id",
)
_RENAMED = {
    "current_phase": "phase",
    "currentPhase": "phase",
    "phase": "phase",
    "request_type": "received",
}
_LONGEST_TEXT: Final = 8_192
_UNKNOWN = "SYS_UPSTREAM_REJECTED"


def payload_finding(payload: Mapping[Any, Any], unknown: str | None = _UNKNOWN) -> Finding | None:
    """Return the verdict on a payload.

    `unknown` is the code if it has none of ours (None: no verdict).
    """
    wire_code = payload.get("code")
    if isinstance(wire_code, str) and wire_code.upper() in ALIASES:
        wire_code = wire_code.upper()  # Gasoline's own spelling is "csp_blocked"
    code = _known(wire_code) or unknown
    if code is None:
        return None
    details = _details(payload)
    if wire_code is not None and wire_code != code:
        details["wire_code"] = wire_code
    message = payload.get("message")
    execution = EXECUTIONS.get(wire_code, _NONE) if isinstance(wire_code, str) else _NONE
    return Finding(
        code=code,
        message=message if isinstance(message, str) else "",
        retryable=_recoverable(payload, code),
        executed=execution.executed,
        severity=severity_in(payload),
        retry_after=finite_seconds(payload.get("retry_after")),
        suggestions=advice_of(payload) or execution.suggestions,
        details={**execution.details, **details},
    )


_CODED: Final = re.compile(
    r"([A-Z][A-Z0-9]{1,40}(?:_[A-Z0-9]{1,40}){1,8})(?:[:,]?\s{1,9}(\S.{0,8000}))?", re.DOTALL
)


def coded_finding(text: str) -> Finding | None:
    """Return the verdict on a text with one of our codes.

    The code is alone or before other words, such as `Error('SESS_NOT_FOUND')`.

    A code alone may be unlisted; before other words only a listed code counts, because an unlisted
    one may be an ordinary word.
    """
    coded = _CODED.fullmatch(text[:_LONGEST_TEXT].strip())
    if coded is None or (
        coded[2] is not None and coded[1] not in CODES and coded[1] not in ALIASES
    ):
        return None
    return payload_finding({"code": coded[1], "message": coded[2] or ""}, unknown=None)


_TYPES: Final[Mapping[str, str]] = {  # a tool's failure, by the types shown to a model (V6)
    "timeout": "TOOL_TIMEOUT",
    "permission": "AUTH_FORBIDDEN",
    "not_found": "TOOL_EXECUTION_FAILED",
    "rate_limit": "SYS_RATE_LIMITED",
    "validation": "TOOL_ARGUMENTS_INVALID",
    "context_overflow": "SYS_CONTEXT_OVERFLOW",
    "unknown": "TOOL_EXECUTION_FAILED",
}


def report_finding(report: Mapping[Any, Any]) -> Finding | None:
    """Return the verdict on a failure report (type, message, recoverable, suggestion).

    None for anything else.
    """
    kind, message, recoverable = (
        report.get("type"),
        report.get("message"),
        report.get("recoverable"),
    )
    if kind == "context_overflow" and (sizes := _sizes(report)):
        message, recoverable = (
            message or f"context of {sizes[0]} tokens, wanted at most {sizes[1]}",
            False,
        )
    if (
        not isinstance(kind, str)
        or not isinstance(message, str)
        or not isinstance(recoverable, bool)
    ):
        return None
    category = kind.upper() if kind.upper() in Category.__members__ and kind != "timeout" else None
    code = _TYPES.get(kind) or (CATEGORY_CODES[Category(category)] if category else _UNKNOWN)
    suggestion = report.get("suggestion")
    return Finding(
        code=code,
        message=message,
        retryable=recoverable,
        executed=Executed.MAYBE,
        severity=severity_in(report),
        suggestions=(suggestion,) if isinstance(suggestion, str) and suggestion.strip() else (),
        retry_after=finite_seconds(report.get("retry_after")),
        details={
            **({"reason": kind} if kind in _TYPES else {}),
            **dict(zip(("current_tokens", "max_tokens"), _sizes(report), strict=False)),
        },
    )


def _sizes(report: Mapping[Any, Any]) -> tuple[int, ...]:
    """Return the size of a context and its limit in tokens, if a report has both."""
    sizes = report.get("current_tokens"), report.get("max_tokens")
    return cast("tuple[int, ...]", sizes) if all(map(is_count, sizes)) else ()


def payload_failure(payload: Mapping[str, Any], unknown: str) -> Failure:
    """Return the failure that a message reports; see `classify_error_payload`."""
    inner = payload.get("error")
    if "code" not in payload and "message" not in payload:
        if isinstance(inner, Mapping):
            payload = {**payload, **cast("Mapping[str, Any]", inner)}
        elif isinstance(inner, str):
            payload = {**payload, "message": inner}
    finding = payload_finding(payload, unknown)
    return (finding or Finding(code=unknown)).failure()


def _known(code: object) -> str | None:
    if not isinstance(code, str):
        return None
    code = ALIASES.get(code, code)
    return code if is_our_code(code) else None


def _recoverable(payload: Mapping[Any, Any], code: str) -> bool | None:
    if code == "CONN_TLS_HANDSHAKE_FAILED":
        return None
    for key in ("recoverable", "retryable"):
        value = payload.get(key)
        if isinstance(value, bool):
            return value
    return None


def _details(payload: Mapping[Any, Any]) -> dict[str, Any]:
    passed_on = {key: payload[key] for key in _PASSED_ON if payload.get(key) is not None}
    renamed = {name: payload[key] for key, name in _RENAMED.items() if payload.get(key) is not None}
    return peer_details({**mapping_of(payload.get("details")), **passed_on, **renamed})


def advice_of(payload: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the server's own advice: its suggestions, its remediation and its documentation URL."""
    lines = list(_lines(payload.get("suggestions")))
    remedy = payload.get("remediation")
    lines += _lines([remedy] if isinstance(remedy, str) else remedy)
    url = payload.get("documentation_url")
    if isinstance(url, str) and url.strip():
        lines.append(f"see {url.strip()}")
    return tuple(lines)


def _lines(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return ()
    return tuple(
        line
        for line in cast("Sequence[object]", value)[:10]
        if isinstance(line, str) and line.strip()
    )
