"""Failures and the exceptions that carry them: the taxonomy, the table of codes, redaction. Each name loads when it is first used.

Rule: imports no other room, does no I/O, and everything it shows has been redacted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .codes import CODES as CODES
    from .codes import PREFIXES as PREFIXES
    from .codes import CodeInfo as CodeInfo
    from .codes import code_info as code_info
    from .exceptions import REJECTED as REJECTED
    from .exceptions import AttemptTimeoutError as AttemptTimeoutError
    from .exceptions import AuthError as AuthError
    from .exceptions import BridgeError as BridgeError
    from .exceptions import BulkheadFullError as BulkheadFullError
    from .exceptions import CircuitOpenError as CircuitOpenError
    from .exceptions import ConfigError as ConfigError
    from .exceptions import ContextOverflowError as ContextOverflowError
    from .exceptions import DeadlineExceededError as DeadlineExceededError
    from .exceptions import InboxFullError as InboxFullError
    from .exceptions import NotConnectedError as NotConnectedError
    from .exceptions import NotDeliveredError as NotDeliveredError
    from .exceptions import NotExecutedError as NotExecutedError
    from .exceptions import OutboxFullError as OutboxFullError
    from .exceptions import OutcomeUnknownError as OutcomeUnknownError
    from .exceptions import ProtocolError as ProtocolError
    from .exceptions import RejectedError as RejectedError
    from .exceptions import SessionError as SessionError
    from .exceptions import SpendLimitError as SpendLimitError
    from .exceptions import StoreError as StoreError
    from .exceptions import ThrottledError as ThrottledError
    from .exceptions import config_error as config_error
    from .exceptions import error_class as error_class
    from .exceptions import error_for as error_for
    from .exceptions import stays_here as stays_here
    from .failure import OWN_LAYER as OWN_LAYER
    from .failure import Failure as Failure
    from .failure import Stopped as Stopped
    from .failure import changed as changed
    from .failure import is_limited as is_limited
    from .failure import is_timeout as is_timeout
    from .failure import model_report as model_report
    from .failure import model_type as model_type
    from .failure import number_in as number_in
    from .failure import unproven as unproven
    from .record import OWN_WORDS as OWN_WORDS
    from .record import Record as Record
    from .record import attach as attach
    from .record import ended as ended
    from .record import record_of as record_of
    from .redaction import MASK as MASK
    from .redaction import READ as READ
    from .redaction import class_name as class_name
    from .redaction import is_sensitive as is_sensitive
    from .redaction import raw_text as raw_text
    from .redaction import redact as redact
    from .redaction import redact_lines as redact_lines
    from .redaction import redact_value as redact_value
    from .redaction import text_of as text_of
    from .rpc import CATEGORY_CODES as CATEGORY_CODES
    from .rpc import OWN_DETAILS as OWN_DETAILS
    from .rpc import RPC_CODES as RPC_CODES
    from .rpc import SESSION_UNKNOWN as SESSION_UNKNOWN
    from .rpc import is_count as is_count
    from .rpc import is_our_code as is_our_code
    from .rpc import mapping_of as mapping_of
    from .rpc import read_rpc_error as read_rpc_error
    from .taxonomy import MCP_CODES as MCP_CODES
    from .taxonomy import Category as Category
    from .taxonomy import Executed as Executed
    from .taxonomy import Kind as Kind
    from .taxonomy import Severity as Severity

__all__ = [
    "CATEGORY_CODES",
    "CODES",
    "MASK",
    "MCP_CODES",
    "OWN_DETAILS",
    "OWN_LAYER",
    "OWN_WORDS",
    "PREFIXES",
    "READ",
    "REJECTED",
    "RPC_CODES",
    "SESSION_UNKNOWN",
    "AttemptTimeoutError",
    "AuthError",
    "BridgeError",
    "BulkheadFullError",
    "Category",
    "CircuitOpenError",
    "CodeInfo",
    "ConfigError",
    "ContextOverflowError",
    "DeadlineExceededError",
    "Executed",
    "Failure",
    "InboxFullError",
    "Kind",
    "NotConnectedError",
    "NotDeliveredError",
    "NotExecutedError",
    "OutboxFullError",
    "OutcomeUnknownError",
    "ProtocolError",
    "Record",
    "RejectedError",
    "SessionError",
    "Severity",
    "SpendLimitError",
    "Stopped",
    "StoreError",
    "ThrottledError",
    "attach",
    "changed",
    "class_name",
    "code_info",
    "config_error",
    "ended",
    "error_class",
    "error_for",
    "is_count",
    "is_limited",
    "is_our_code",
    "is_sensitive",
    "is_timeout",
    "mapping_of",
    "model_report",
    "model_type",
    "number_in",
    "raw_text",
    "read_rpc_error",
    "record_of",
    "redact",
    "redact_lines",
    "redact_value",
    "stays_here",
    "text_of",
    "unproven",
]

_HOMES = {
    "CATEGORY_CODES": "rpc",
    "CODES": "codes",
    "MASK": "redaction",
    "MCP_CODES": "taxonomy",
    "OWN_DETAILS": "rpc",
    "OWN_LAYER": "failure",
    "OWN_WORDS": "record",
    "PREFIXES": "codes",
    "RPC_CODES": "rpc",
    "AttemptTimeoutError": "exceptions",
    "AuthError": "exceptions",
    "BridgeError": "exceptions",
    "BulkheadFullError": "exceptions",
    "Category": "taxonomy",
    "CircuitOpenError": "exceptions",
    "CodeInfo": "codes",
    "ConfigError": "exceptions",
    "DeadlineExceededError": "exceptions",
    "Executed": "taxonomy",
    "Failure": "failure",
    "InboxFullError": "exceptions",
    "Kind": "taxonomy",
    "NotConnectedError": "exceptions",
    "NotDeliveredError": "exceptions",
    "NotExecutedError": "exceptions",
    "OutboxFullError": "exceptions",
    "OutcomeUnknownError": "exceptions",
    "ProtocolError": "exceptions",
    "Record": "record",
    "RejectedError": "exceptions",
    "SessionError": "exceptions",
    "SpendLimitError": "exceptions",
    "ContextOverflowError": "exceptions",
    "StoreError": "exceptions",
    "Severity": "taxonomy",
    "Stopped": "failure",
    "ThrottledError": "exceptions",
    "attach": "record",
    "class_name": "redaction",
    "code_info": "codes",
    "config_error": "exceptions",
    "ended": "record",
    "REJECTED": "exceptions",
    "error_class": "exceptions",
    "error_for": "exceptions",
    "is_count": "rpc",
    "is_our_code": "rpc",
    "is_sensitive": "redaction",
    "mapping_of": "rpc",
    "model_report": "failure",
    "is_timeout": "failure",
    "model_type": "failure",
    "SESSION_UNKNOWN": "rpc",
    "read_rpc_error": "rpc",
    "record_of": "record",
    "redact": "redaction",
    "redact_lines": "redaction",
    "redact_value": "redaction",
    "stays_here": "exceptions",
    "text_of": "redaction",
    "READ": "redaction",
    "changed": "failure",
    "is_limited": "failure",
    "number_in": "failure",
    "raw_text": "redaction",
    "unproven": "failure",
}


if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _HOMES)
