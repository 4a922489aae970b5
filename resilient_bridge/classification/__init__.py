"""Exceptions and answers become failures.

Rule: decides by class name, errno, status and close code, in that order of trust, never by guessing from text; knows
no clock and no network, and imports no library in order to recognise its errors.
"""

from __future__ import annotations

from typing import overload

from ..errors import Failure
from .closes import By, close_finding
from .lookup import answer_failure, failure_of
from .payloads import classify_error_payload
from .retry_after import parse_retry_after


__all__ = ["By", "classify", "classify_close", "classify_error_payload", "parse_retry_after"]


@overload
def classify(error: BaseException, /) -> Failure: ...
@overload
def classify(answer: object, /) -> Failure | None: ...
def classify(error: object, /) -> Failure | None:
    """Return the failure an exception or an answer stands for (R1).

    A `BridgeError` gives its own failure. An exception group gives that of its leaves: the first that repeating cannot
    help, else the first. What nobody has a rule for is SYS_INTERNAL_ERROR, not retryable (S10). An answer (an HTTP
    response) gives None when it means success. CancelledError, KeyboardInterrupt, SystemExit and GeneratorExit are no
    failures: they are raised again.
    """
    return failure_of(error) if isinstance(error, BaseException) else answer_failure(error)


def classify_close(code: int | None, text: str, by: By | None) -> Failure:
    """Return the failure a WebSocket close stands for.

    `by` says whose close frame counts: "peer", "us", or None when the connection ended without one (then `code` is
    None too). The three are kept in the details as close_code, close_text and close_by.
    """
    return close_finding(code, text, by).failure()
