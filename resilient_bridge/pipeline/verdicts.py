"""What a failure says to a circuit breaker: that the other side is down, or nothing at all. Pure.

Rule: a caller's mistake is no outage. Only what points at the other side, or at the way there, counts; the rest is neutral,
which is neither a failure nor a success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from ..errors import Category, RejectedError, Severity, error_for
from ..policies.what import matches, names_class


if TYPE_CHECKING:
    from ..errors import Failure
    from ..policies.breaker import Breaker

__all__ = ["counts_for_breaker"]

_ON_THE_WAY: Final = (Category.TRANSPORT, Category.TIMEOUT)
_ALARMING: Final = (Severity.CRITICAL, Severity.FATAL)


def counts_for_breaker(
    failure: Failure, breaker: Breaker, named: tuple[Any, ...] = ()
) -> Literal["failure", "neutral", "critical"]:
    """Return what `failure` is to `breaker`; critical opens the circuit at once (R2).

    `named` is the `on=` of the Retry beside it: an exception class that stands there counts, whatever is known of it otherwise.
    What we rejected ourselves never left this process, and says nothing about the other side.
    """
    if isinstance(error_for(failure), RejectedError) or matches(breaker.ignore, failure):
        return "neutral"
    if failure.severity in _ALARMING:
        return "critical"
    if failure.category in _ON_THE_WAY or failure.retryable or names_class(named, failure):
        return "failure"
    return "neutral"
