"""How many calls may run at once or wait, and how many may start in a span of time."""

from __future__ import annotations

import math
from typing import ClassVar

import attrs

from ...failure.source_text import shown
from ...values.fields import (
    StateKey,
    as_seconds,
    called,
    count,
    optional,
    seconds,
    some_seconds,
    state_key,
    whole,
)
from ..layer import Layer


@attrs.frozen(repr=False, eq=False)
class Bulkhead(Layer):
    """At most `calls` run at once; others wait, or get BulkheadFullError.

        policy = rb.Policy(rb.Bulkhead(10, queue=20, max_wait=5))

        @policy
        async def render(page: str) -> bytes: ...

    Waiting calls are admitted first come, first served. A call waits at most `max_wait` seconds (a
    timedelta will do; None: until its deadline), and at most `queue` calls wait. Left out, `queue`
    has no bound if there is a `max_wait`, which bounds it; without both no call waits. `key` shares
    the permits between policies; without it, they belong to what the bulkhead protects. A function
    of the call's arguments has a bulkhead for each value that it returns
    (`key=lambda host, *_: host`). ConfigError names a bad field.
    """

    usual_position: ClassVar[int | None] = 3
    outside_retry: ClassVar[str] = (
        "Bulkhead outside of Retry: a call keeps its place while it waits; put it after Retry"
    )
    is_keyed: ClassVar[bool] = True
    has_local_state: ClassVar[bool] = True

    calls: int = attrs.field(validator=count)
    queue: int | None = attrs.field(default=None, validator=optional(whole), kw_only=True)
    max_wait: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(as_seconds),
        validator=optional(seconds()),
        kw_only=True,
    )
    key: StateKey = attrs.field(default=None, validator=state_key, kw_only=True)

    @property
    def most_waiting(self) -> float:
        """How many calls may wait at once: `queue`, or what follows from `max_wait`; inf: no bound."""
        if self.queue is not None:
            return self.queue
        return math.inf if self.max_wait else 0

    @property
    def worst_wait(self) -> float:
        """How long a call may wait for a permit."""
        if self.most_waiting == 0:
            return 0.0
        return math.inf if self.max_wait is None else self.max_wait

    def summary(self) -> str:
        """Return how many calls may run and wait."""
        if math.isinf(self.most_waiting):
            return f"{self.calls} at once, others wait up to {self.max_wait:g} s"
        return f"{self.calls} at once, {self.most_waiting} more may wait"

    def __repr__(self) -> str:
        """Return the constructor's call, with what differs from its defaults."""
        return called(self, shown(self.calls), calls="")


@attrs.frozen(repr=False, eq=False)
class RateLimit(Layer):
    """At most `calls` in any `per` seconds, and what fits evenly into them.

        policy = rb.Policy(rb.RateLimit(60, per=60, max_wait=5))

        @policy
        async def search(query: str) -> str: ...

    After a pause all `calls` may start at once. Durations may be timedeltas or texts ("10s"). A call whose turn
    comes within `max_wait` seconds waits for it; any other gets ThrottledError with `retry_after`:
    without `max_wait`, each that has to wait. `key` shares the limit between policies; without it,
    it belongs to what is protected. A function of the call's arguments has a limit for each value
    that it returns (`key=lambda tenant, *_: tenant`).
    ConfigError names a bad field.
    """

    usual_position: ClassVar[int | None] = 4
    outside_retry: ClassVar[str] = (
        "RateLimit outside of Retry: repeats are not limited; put it after Retry"
    )
    is_keyed: ClassVar[bool] = True
    has_local_state: ClassVar[bool] = True

    calls: int = attrs.field(validator=count)
    per: float = attrs.field(
        default=1.0, converter=as_seconds, validator=some_seconds, kw_only=True
    )
    max_wait: float = attrs.field(
        default=0.0, converter=as_seconds, validator=seconds(), kw_only=True
    )
    key: StateKey = attrs.field(default=None, validator=state_key, kw_only=True)

    @property
    def worst_wait(self) -> float:
        """How long a call may wait for its turn."""
        return self.max_wait

    def summary(self) -> str:
        """Return how many calls may start in which time."""
        return f"{self.calls} per {self.per:g} s"

    def __repr__(self) -> str:
        """Return the constructor's call, with what differs from its defaults."""
        return called(self, shown(self.calls), calls="")
