"""The events of single calls, public in `rb.events`: made only while somebody listens.

Rule: as for every event, no argument, no result and no secret: what a metric counts, and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from .event import Event


if TYPE_CHECKING:
    from ..errors import Failure

__all__ = ["CallFinished", "CallOutcome", "CallRejected"]

CallOutcome: TypeAlias = Literal["ok", "failed", "rejected", "cancelled", "fell_back"]
"""How a call ended: `failed` also if it returned what stands for a failure, `rejected` if nothing was called."""


@attrs.frozen(kw_only=True, repr=False, eq=False, slots=False)
class CallFinished(Event):
    """A call of `name` has ended: told for each one, while somebody listens.

    `outcome` is ok, failed, rejected (nothing was called), cancelled or fell_back. `seconds` is all of it, the `waited` between
    attempts included; `key` that of its circuit, or what its state belongs to: a function, an origin.
    """

    name: str
    outcome: CallOutcome
    attempts: int
    seconds: float
    waited: float
    key: str
    failure: Failure | None = None


@attrs.frozen(kw_only=True, repr=False, eq=False, slots=False)
class CallRejected(Event):
    """An attempt of `name` was not admitted `by` a circuit, bulkhead, rate_limit or budget (a repeat): told while somebody listens."""

    name: str
    by: Literal["circuit", "bulkhead", "rate_limit", "budget"]
    key: str
    failure: Failure
