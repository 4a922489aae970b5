"""The exceptions that are caught less often than those at the top, and two words of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_names import lazily


if TYPE_CHECKING:
    from .failure.exceptions import ArgumentError as ArgumentError
    from .failure.exceptions import AttemptTimeoutError as AttemptTimeoutError
    from .failure.exceptions import AuthError as AuthError
    from .failure.exceptions import BridgeError as BridgeError
    from .failure.exceptions import BulkheadFullError as BulkheadFullError
    from .failure.exceptions import CircuitOpenError as CircuitOpenError
    from .failure.exceptions import ConfigError as ConfigError
    from .failure.exceptions import ContextOverflowError as ContextOverflowError
    from .failure.exceptions import DeadlineExceededError as DeadlineExceededError
    from .failure.exceptions import EffectHeldError as EffectHeldError
    from .failure.exceptions import InboxFullError as InboxFullError
    from .failure.exceptions import NotConnectedError as NotConnectedError
    from .failure.exceptions import NotDeliveredError as NotDeliveredError
    from .failure.exceptions import NotExecutedError as NotExecutedError
    from .failure.exceptions import OutboxFullError as OutboxFullError
    from .failure.exceptions import OutcomeUnknownError as OutcomeUnknownError
    from .failure.exceptions import PositionGoneError as PositionGoneError
    from .failure.exceptions import Problem as Problem
    from .failure.exceptions import ProtocolError as ProtocolError
    from .failure.exceptions import RejectedError as RejectedError
    from .failure.exceptions import SessionError as SessionError
    from .failure.exceptions import SpendLimitError as SpendLimitError
    from .failure.exceptions import StoreError as StoreError
    from .failure.exceptions import ThrottledError as ThrottledError
    from .failure.failure import Failure as Failure
    from .failure.vocabulary import Category as Category
    from .failure.vocabulary import Executed as Executed
    from .failure.vocabulary import Kind as Kind
    from .failure.vocabulary import Severity as Severity

_NAMES = {
    ".failure.exceptions": (
        "ArgumentError AttemptTimeoutError AuthError BulkheadFullError ContextOverflowError EffectHeldError InboxFullError NotConnectedError NotDeliveredError OutboxFullError PositionGoneError Problem ProtocolError RejectedError SessionError SpendLimitError StoreError ThrottledError"
    ),
    ".failure.vocabulary": "Executed Severity",
}

# Listed at the top level; an `except rb.errors.…` finds them here, too.
_INSIDE = {
    ".failure.exceptions": (
        "BridgeError CircuitOpenError ConfigError DeadlineExceededError NotExecutedError OutcomeUnknownError"
    ),
    ".failure.failure": "Failure",
    ".failure.vocabulary": "Category Kind",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES, _INSIDE)
