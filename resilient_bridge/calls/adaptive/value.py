"""A limit that is learnt: nothing is limited before the server refuses a call."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import attrs

from ...values.fields import (
    StateKey,
    as_seconds,
    called,
    count,
    is_count,
    number,
    optional,
    path_of,
    refuse,
    some_seconds,
    state_key,
    wants,
)
from ..layer import Layer


@wants("calls at once that are allowed in any case")
def _check_least(instance: AdaptiveLimit, attribute: attrs.Attribute[Any], value: Any) -> None:
    path = path_of(instance, attribute)
    if not is_count(value):
        refuse(path, "a whole number of at least 1", value)
    for name, other in (("most", instance.most), ("start", instance.start)):
        if other is not None and other < value:
            refuse(path, f"at most {name}={other}", value, write=f"{name}={value}")


@attrs.frozen(kw_only=True, repr=False, eq=False)
class AdaptiveLimit(Layer):
    """A refusal (429, 503, 529) costs the call time, and no attempt: calls wait as the server needs.

        policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit())

        @policy(idempotent=True)
        async def ask(prompt: str) -> str: ...

    Nothing is limited before the first refusal. Then half of the calls in flight may run at once;
    the number grows while nothing is refused, is halved when something is, and is forgotten after
    ten minutes without a refusal. Calls wait for a place first come, first served. A refused call
    goes back to the front, after the server's Retry-After or a growing pause, and no attempt, no
    token of the budget and no failure of the circuit is counted. It goes back only if a repeat is
    permitted; otherwise the server's answer is returned at once, and still lowers the limit.

    `start` is the number to begin with, instead of none; it stays between `least` and `most`. A call
    gives up with ThrottledError once nothing has moved for `patience` seconds (a timedelta or "2m"
    will do), at the end of its deadline, or at once where the limit has refused everybody for 30 s
    and another call is trying. `throttle` rejects some calls at once, unsent, while the server takes
    fewer than one of so many: Google's adaptive throttling, with its K. `key` joins calls: a name
    shares one limit between policies, a function of the call's arguments has one limit for each of
    its results. Without it the limit belongs to what is protected; an HTTP transport has one for
    each credential, method, route and model. ConfigError names a bad field.
    """

    usual_position: ClassVar[int | None] = 3
    never_outside_retry: ClassVar[str] = (
        "AdaptiveLimit inside of Retry: outside, a call would keep its place while it waits"
    )
    has_local_state: ClassVar[bool] = True
    is_keyed: ClassVar[bool] = True

    start: int | None = attrs.field(default=None, validator=optional(count))
    most: int | None = attrs.field(default=None, validator=optional(count))
    least: int = attrs.field(default=1, validator=_check_least)
    patience: float = attrs.field(default=120.0, converter=as_seconds, validator=some_seconds)
    throttle: float | None = attrs.field(
        default=None, validator=optional(number(least=1, above=True))
    )
    key: StateKey = attrs.field(default=None, validator=state_key)

    @property
    def worst_wait(self) -> float:
        """How long a call may wait: as long as others move, so without a limit."""
        return math.inf

    def with_key(self, key: str) -> AdaptiveLimit:  # noqa: ARG002 -- as of every layer
        """Return it unchanged: its owner has limits by key, and a name would join them."""
        return self

    def summary(self) -> str:
        """Return from when on it limits, and what a refusal costs."""
        begins = "no limit" if self.start is None else f"{self.start} at once"
        text = f"{begins} until the server refuses a call, then as many as it takes; a refusal costs time and no attempt"
        if self.throttle is None:
            return text
        return f"{text}; throttle={self.throttle:g}: some calls are rejected while it takes fewer than one of so many"

    def __repr__(self) -> str:
        """Return the constructor's call, with what differs from its defaults."""
        return called(self)
