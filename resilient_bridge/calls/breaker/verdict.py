"""What a failure means to a circuit breaker: the server is down, or nothing. Pure.

Rule: a caller's mistake is no outage. Only a failure of the server, or of the connection to it,
counts. Any other failure is neutral: neither a failure nor a success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from ...failure import REJECTED, Category, Severity, is_limited
from ...failure.what import matches_safely, names_class


if TYPE_CHECKING:
    from ...failure import Failure
    from .value import Breaker


_ON_THE_WAY: Final = (Category.TRANSPORT, Category.TIMEOUT)
_ALARMING: Final = (Severity.CRITICAL, Severity.FATAL)


def verdict_of(
    failure: Failure, breaker: Breaker, named: tuple[Any, ...] = ()
) -> Literal["failure", "neutral", "critical"]:
    """Return how `breaker` counts `failure`; critical opens the circuit at once.

    `breaker.on` decides which failures count; without it, the categories do and `named`, the
    exception classes that the Retry beside it names. A rejection by one of our own layers never
    left this process and says nothing about the server. Neither does a limiter that says when to
    retry.
    """
    if failure.code in REJECTED or (breaker.ignore and matches_safely(breaker.ignore, failure)):
        return "neutral"
    if failure.severity in _ALARMING:
        return "critical"
    if breaker.on:
        return "failure" if matches_safely(breaker.on, failure) else "neutral"
    if is_limited(failure):
        return "neutral"
    if failure.category in _ON_THE_WAY or failure.retryable or names_class(named, failure):
        return "failure"
    return "neutral"
