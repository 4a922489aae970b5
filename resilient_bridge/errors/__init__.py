"""Failures and the exceptions that carry them: the taxonomy, the table of codes, redaction.

Rule: imports nothing of the package, does no I/O, and everything it shows has been redacted.
"""

from __future__ import annotations

from .codes import CODES, PREFIXES, CodeInfo, code_info
from .exceptions import (
    AttemptTimeoutError,
    AuthError,
    BridgeError,
    BulkheadFullError,
    CircuitOpenError,
    ConfigError,
    DeadlineExceededError,
    InboxFullError,
    NotConnectedError,
    NotDeliveredError,
    OutboxFullError,
    OutcomeUnknownError,
    ProtocolError,
    RejectedError,
    SessionError,
    ThrottledError,
    config_error,
    error_for,
)
from .failure import Failure, Stopped
from .redaction import MASK, is_sensitive, redact, redact_value, text_of
from .taxonomy import MCP_CODES, Category, Executed, Kind, Severity


__all__ = [
    "CODES",
    "MASK",
    "MCP_CODES",
    "PREFIXES",
    "AttemptTimeoutError",
    "AuthError",
    "BridgeError",
    "BulkheadFullError",
    "Category",
    "CircuitOpenError",
    "CodeInfo",
    "ConfigError",
    "DeadlineExceededError",
    "Executed",
    "Failure",
    "InboxFullError",
    "Kind",
    "NotConnectedError",
    "NotDeliveredError",
    "OutboxFullError",
    "OutcomeUnknownError",
    "ProtocolError",
    "RejectedError",
    "SessionError",
    "Severity",
    "Stopped",
    "ThrottledError",
    "code_info",
    "config_error",
    "error_for",
    "is_sensitive",
    "redact",
    "redact_value",
    "text_of",
]
