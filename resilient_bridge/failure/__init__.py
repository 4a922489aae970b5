"""What a failure is, how an error or an answer becomes one, and what is secret in it.

Where to read, from what everybody uses to what is loaded late:

- `vocabulary`: the codes, a row each, and the words that describe a failure; `failure`: the record, and
  the `Finding` of a rule that it is made of;
  `exceptions`: the errors that carry one; `record`: what is stored on an exception.
- `classifier`: `classify`, the door. Behind it `lookup` takes an error (a chain, a group, a text),
  `answers` a response or a result, `registry` adds what users teach, and `dispatch` finds the
  rows of a class.
- The rows, loaded with the first error of a library: `system`, `http_clients`, `sdks`, `services`,
  `answers`, `exits`. What they read: `contents` of an answer (its body, and the wait), `statuses`,
  `closes`, `rpc`, `payloads`, `texts`, and `provider_codes` (names and sentences).
- `what`: the matcher of rules, Retry, Breaker and registrations.
- `redaction` makes text safe with `secret_values`, `secret_fields`, `secret_near`, `secret_commands`
  and `secret_shapes`.
- `teaching` has the hooks of errors that say what to write; `mistakes`, `wrong_values`,
  `wrong_names` and `foreign_words` know it.

Each name loads when it is first used. Rule: it imports no other room but the world's clock, does no
I/O, imports no library in order to recognise its errors, and everything that it shows has been
redacted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .classifier import ANSWERS as ANSWERS
    from .classifier import RESULTS as RESULTS
    from .classifier import Reading as Reading
    from .classifier import classify as classify
    from .classifier import classify_close as classify_close
    from .classifier import classify_error_payload as classify_error_payload
    from .classifier import failure_of_answer as failure_of_answer
    from .classifier import failure_of_result as failure_of_result
    from .classifier import failure_or_none as failure_or_none
    from .closes import By as By
    from .contents import parse_retry_after as parse_retry_after
    from .contents import quota_wait as quota_wait
    from .dispatch import rule_for as rule_for
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
    from .exceptions import EffectHeldError as EffectHeldError
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
    from .exceptions import error_for as error_for
    from .exceptions import stays_here as stays_here
    from .exits import exit_finding as exit_finding
    from .failure import OWN_LAYER as OWN_LAYER
    from .failure import PLAIN as PLAIN
    from .failure import PLAIN_ANSWERS as PLAIN_ANSWERS
    from .failure import RATE_LIMITED as RATE_LIMITED
    from .failure import WHY_STOPPED as WHY_STOPPED
    from .failure import Failure as Failure
    from .failure import Stopped as Stopped
    from .failure import changed as changed
    from .failure import is_limited as is_limited
    from .failure import is_refusal as is_refusal
    from .failure import model_report as model_report
    from .failure import model_type as model_type
    from .failure import number_in as number_in
    from .failure import unproven as unproven
    from .failure import wait_asked as wait_asked
    from .failure import what_happened as what_happened
    from .record import OWN_WORDS as OWN_WORDS
    from .record import Record as Record
    from .record import attach as attach
    from .record import ended as ended
    from .record import record_of as record_of
    from .redaction import READ as READ
    from .redaction import class_name as class_name
    from .redaction import holds_secret as holds_secret
    from .redaction import redact as redact
    from .redaction import redact_lines as redact_lines
    from .redaction import redact_value as redact_value
    from .redaction import text_of as text_of
    from .registry import Registration as Registration
    from .rpc import RPC_CODES as RPC_CODES
    from .rpc import error_object_finding as error_object_finding
    from .rpc import is_count as is_count
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
    from .vocabulary import PREFIXES as PREFIXES
    from .vocabulary import Category as Category
    from .vocabulary import Executed as Executed
    from .vocabulary import Kind as Kind
    from .vocabulary import Severity as Severity
    from .vocabulary import code_info as code_info
    from .vocabulary import is_known_code as is_known_code
    from .what import matches as matches
    from .what import named as named
    from .what import names_class as names_class

_NAMES = {
    "classifier": "ANSWERS RESULTS Reading classify classify_close classify_error_payload"
    " failure_of_answer failure_of_result failure_or_none",
    "closes": "By",
    "contents": "parse_retry_after quota_wait",
    "dispatch": "rule_for",
    "exceptions": "ArgumentError AttemptTimeoutError AuthError BridgeError BulkheadFullError CircuitOpenError config_error config_errors ConfigError ContextOverflowError DeadlineExceededError EffectHeldError error_for InboxFullError NotConnectedError NotDeliveredError NotExecutedError OutboxFullError OutcomeUnknownError PositionGoneError Problem ProtocolError REJECTED RejectedError SessionError SpendLimitError stays_here StoreError ThrottledError",
    "exits": "exit_finding",
    "failure": "changed Failure is_limited is_refusal model_report model_type number_in OWN_LAYER PLAIN PLAIN_ANSWERS RATE_LIMITED Stopped unproven wait_asked what_happened WHY_STOPPED",
    "record": "attach ended OWN_WORDS Record record_of",
    "redaction": "class_name holds_secret READ redact redact_lines redact_value text_of",
    "registry": "Registration",
    "rpc": "error_object_finding is_count mapping_of RPC_CODES severity_in",
    "secret_values": "has_mix hides is_sensitive MASK sends_secret",
    "texts": "text_finding",
    "vocabulary": "Category code_info CODES Executed is_known_code Kind MCP_CODES PREFIXES Severity",
    "what": "matches named names_class",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
