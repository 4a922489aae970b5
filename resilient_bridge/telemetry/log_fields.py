"""The fields of a log record about an event, for `extra=`: structlog and JSON formatters print them
beside the text.

Rule: plain values, masked, and never under a name that logging itself uses on its records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..failure import Failure, redact


if TYPE_CHECKING:
    from .event import Event


# `name` is an attribute of every LogRecord
_RENAMED: Final[dict[str, str]] = {"name": "call", "seconds": "duration"}


def log_fields(event: Event) -> dict[str, Any]:
    """Return `event_name` and the event's fields that are text (not empty), numbers or booleans;
    `name` becomes `call`, `seconds` `duration`.

    Of a failure: its `code`, `category`, `severity`, `failure_kind` and `retryable` (permanent and
    no longer retryable, once the attempts are used up), and `tool`, `provider` and `session_id`
    where known.
    """
    fields: dict[str, Any] = {"event_name": type(event).__name__}
    for field, value in list(vars(event).items())[1:]:
        name = _RENAMED.get(field, field)
        if isinstance(value, Failure):
            fields.update(_of_failure(value))
        elif isinstance(value, str):
            if value:
                fields[name] = redact(value)
        elif isinstance(value, bool | int | float):
            fields[name] = value
    return fields


def _of_failure(failure: Failure) -> dict[str, Any]:
    known = {
        "code": failure.code,
        "category": failure.category.value,
        "severity": failure.severity.value,
        "failure_kind": failure.kind.value,
        "retryable": failure.retryable and failure.stopped != "attempts",
        "tool": failure.details.get("tool"),
        "provider": failure.details.get("provider_id"),
        "session_id": failure.details.get("session_id"),
    }
    return {name: value for name, value in known.items() if value is not None}
