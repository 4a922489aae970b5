"""What a failure is: its vocabulary, its exceptions, what is secret in it, and `classify`.

Each name loads when it is first used. Rule: it imports no other room but the world's clock, does no I/O,
imports no library in order to recognise its errors, and everything that it shows has been redacted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .classifier import answered_failure as answered_failure
    from .classifier import classify as classify
    from .classifier import classify_close as classify_close
    from .classifier import classify_error_payload as classify_error_payload
    from .classifier import failure_or_none as failure_or_none
    from .closes import By as By
    from .exceptions import REJECTED as REJECTED
    from .exceptions import ArgumentError as ArgumentError
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
    from .exceptions import PositionGoneError as PositionGoneError
    from .exceptions import Problem as Problem
    from .exceptions import ProtocolError as ProtocolError
    from .exceptions import RejectedError as RejectedError
    from .exceptions import SessionError as SessionError
    from .exceptions import SpendLimitError as SpendLimitError
    from .exceptions import StoreError as StoreError
    from .exceptions import ThrottledError as ThrottledError
    from .exceptions import config_error as config_error
    from .exceptions import config_errors as config_errors
    from .exceptions import error_class as error_class
    from .exceptions import error_for as error_for
    from .exceptions import stays_here as stays_here
    from .exits import exit_finding as exit_finding
    from .failure import OWN_LAYER as OWN_LAYER
    from .failure import WHY_STOPPED as WHY_STOPPED
    from .failure import Failure as Failure
    from .failure import Stopped as Stopped
    from .failure import changed as changed
    from .failure import is_limited as is_limited
    from .failure import is_timeout as is_timeout
    from .failure import model_report as model_report
    from .failure import model_type as model_type
    from .failure import number_in as number_in
    from .failure import unproven as unproven
    from .failure import what_happened as what_happened
    from .finding import rule_for as rule_for
    from .record import OWN_WORDS as OWN_WORDS
    from .record import Record as Record
    from .record import attach as attach
    from .record import ended as ended
    from .record import record_of as record_of
    from .redaction import READ as READ
    from .redaction import class_name as class_name
    from .redaction import holds_secret as holds_secret
    from .redaction import raw_text as raw_text
    from .redaction import redact as redact
    from .redaction import redact_lines as redact_lines
    from .redaction import redact_value as redact_value
    from .redaction import text_of as text_of
    from .registry import Registration as Registration
    from .retry_after import parse_retry_after as parse_retry_after
    from .rpc import CATEGORY_CODES as CATEGORY_CODES
    from .rpc import OWN_DETAILS as OWN_DETAILS
    from .rpc import RPC_CODES as RPC_CODES
    from .rpc import SESSION_UNKNOWN as SESSION_UNKNOWN
    from .rpc import error_object_finding as error_object_finding
    from .rpc import is_count as is_count
    from .rpc import is_our_code as is_our_code
    from .rpc import mapping_of as mapping_of
    from .rpc import severity_in as severity_in
    from .secret_values import MASK as MASK
    from .secret_values import has_mix as has_mix
    from .secret_values import hides as hides
    from .secret_values import is_sensitive as is_sensitive
    from .secret_values import sends_secret as sends_secret
    from .texts import text_finding as text_finding
    from .vocabulary import CODES as CODES
    from .vocabulary import MCP_CODES as MCP_CODES
    from .vocabulary import OWN_CODES as OWN_CODES
    from .vocabulary import PREFIXES as PREFIXES
    from .vocabulary import Category as Category
    from .vocabulary import CodeInfo as CodeInfo
    from .vocabulary import Executed as Executed
    from .vocabulary import Kind as Kind
    from .vocabulary import Severity as Severity
    from .vocabulary import code_info as code_info
    from .vocabulary import is_known_code as is_known_code
    from .vocabulary import near_code as near_code
    from .what import matches as matches
    from .what import named as named
    from .what import names_class as names_class

_NAMES = {
    "classifier": "answered_failure classify classify_close classify_error_payload failure_or_none",
    "closes": "By",
    "finding": "rule_for",
    "exceptions": "ArgumentError AttemptTimeoutError AuthError BridgeError BulkheadFullError CircuitOpenError config_error config_errors ConfigError ContextOverflowError DeadlineExceededError error_class error_for InboxFullError NotConnectedError NotDeliveredError NotExecutedError OutboxFullError OutcomeUnknownError PositionGoneError Problem ProtocolError REJECTED RejectedError SessionError SpendLimitError stays_here StoreError ThrottledError",
    "exits": "exit_finding",
    "failure": "changed Failure is_limited is_timeout model_report model_type number_in OWN_LAYER Stopped unproven what_happened WHY_STOPPED",
    "record": "attach ended OWN_WORDS Record record_of",
    "redaction": "class_name holds_secret raw_text READ redact redact_lines redact_value text_of",
    "registry": "Registration",
    "retry_after": "parse_retry_after",
    "rpc": "CATEGORY_CODES error_object_finding is_count is_our_code mapping_of OWN_DETAILS RPC_CODES SESSION_UNKNOWN severity_in",
    "secret_values": "has_mix hides is_sensitive MASK sends_secret",
    "texts": "text_finding",
    "vocabulary": "Category code_info CodeInfo CODES Executed is_known_code Kind MCP_CODES near_code OWN_CODES PREFIXES Severity",
    "what": "matches named names_class",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
