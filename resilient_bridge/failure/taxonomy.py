"""The words a failure is described with.

Four closed sets, each value spelled as the wire and the logs spell it, and a row of them for each
code.

Rule: `retryable` alone decides a retry; severity decides who is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import attrs


class Category(StrEnum):
    """Where a failure comes from.

        failure = rb.classify(ConnectionResetError())
        print(failure.category is rb.Category.TRANSPORT)      # True

    It decides no repeat: `Failure.retryable` does.
    """

    CONFIG = "CONFIG"
    AUTH = "AUTH"
    UPSTREAM = "UPSTREAM"
    TRANSPORT = "TRANSPORT"
    TIMEOUT = "TIMEOUT"
    PROTOCOL = "PROTOCOL"
    INTERNAL = "INTERNAL"


class Kind(StrEnum):
    """What recovery a failure calls for: wait, give up, restore, or resume.

        failure = rb.classify(ConnectionResetError())
        print(failure.kind is rb.Kind.TRANSIENT)      # True

    What a Retry repeats by default is `on=rb.Kind.TRANSIENT`.
    """

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    CORRUPTION = "corruption"
    PARTIAL = "partial"


class Severity(StrEnum):
    """Who is notified: log; + metric; + notify; + alert, open the circuit; end of the session.

        failure = rb.classify(ConnectionResetError())
        print(failure.severity is rb.errors.Severity.ERROR)      # True

    In this order: INFO, WARNING, ERROR, CRITICAL, FATAL.
    """

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"
    FATAL = "fatal"


class Executed(StrEnum):
    """Whether the server can have acted on what was sent.

        failure = rb.classify(ConnectionRefusedError())
        print(failure.executed is rb.errors.Executed.NO)      # True

    Of anything but NO a repeat needs permission, such as `idempotent=True`.
    """

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


MCP_CODES: Mapping[Category, int] = MappingProxyType(
    {
        Category.CONFIG: -32004,
        Category.AUTH: -32003,
        Category.UPSTREAM: -32002,
        Category.TIMEOUT: -32001,
        Category.TRANSPORT: -32000,
        Category.PROTOCOL: -32000,
        Category.INTERNAL: -32603,
    }
)
"""JSON-RPC error codes of the categories."""


@attrs.frozen(kw_only=True)
class CodeInfo:
    """What a code means by itself: the defaults of a `Failure` that carries it."""

    category: Category
    kind: Kind
    severity: Severity
    retryable: bool
    executed: Executed
    session_valid: bool = True
    hint: str
    summary: str


def lasting(
    category: Category,
    executed: Executed,
    summary: str,
    hint: str,
    *,
    severity: Severity = Severity.ERROR,
    kind: Kind = Kind.PERMANENT,
    session_valid: bool = True,
) -> CodeInfo:
    """Return a row for a code where repeating the same call cannot help."""
    return CodeInfo(
        category=category,
        kind=kind,
        severity=severity,
        retryable=kind is Kind.TRANSIENT,
        executed=executed,
        session_valid=session_valid,
        summary=summary,
        hint=hint,
    )


def passing(
    category: Category,
    executed: Executed,
    summary: str,
    hint: str,
    *,
    severity: Severity = Severity.ERROR,
) -> CodeInfo:
    """Return a row for a code where repeating the same call can help."""
    return lasting(category, executed, summary, hint, severity=severity, kind=Kind.TRANSIENT)
