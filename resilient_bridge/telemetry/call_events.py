"""The events of single calls, public in `rb.events`: created only while a listener is registered.

Rule: an event has no argument, no result and no secret, only what a metric counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from .event import Event


if TYPE_CHECKING:
    from ..failure import Failure

__all__ = ["CallFinished", "CallOutcome", "CallRejected"]

CallOutcome: TypeAlias = Literal["ok", "failed", "rejected", "cancelled", "fell_back"]
"""How a call ended: `failed` also for a returned failure, `rejected` if nothing was called."""


class CallFinished(Event):
    """A call of `name` has ended; one event for each, while a listener is registered.

    `outcome` is ok, failed, rejected (nothing was called), cancelled or fell_back. `seconds` is the
    whole time, including the `waited` between attempts; `key` that of its circuit, or the owner of
    its state: a function, an origin.
    """

    name: str
    outcome: CallOutcome
    attempts: int
    seconds: float
    waited: float
    key: str
    failure: Failure | None = None

    __of_each_call__ = True


class CallRejected(Event):
    """An attempt of `name` was not admitted `by` a circuit, bulkhead, rate_limit or budget (a
    retry).

    Created only while a listener is registered.
    """

    name: str
    by: Literal["circuit", "bulkhead", "rate_limit", "budget"]
    key: str
    failure: Failure

    __of_each_call__ = True
