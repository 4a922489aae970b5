"""When calls to a failing service are rejected, and when it is tried again.

Rule: numbers only. The window and the state are kept in the registry of circuits, by key, so that
they survive a change of the numbers.
"""

from __future__ import annotations

from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import attrs

from ...failure.source_text import shown
from ...failure.teaching import taught
from ...failure.what import What
from ...values.backoff import Backoff
from ...values.fields import (
    LONGEST,
    Seconds,
    StateKey,
    as_seconds,
    called,
    count,
    flag,
    is_count,
    is_number,
    optional,
    path_of,
    read_span_of,
    refuse,
    share,
    some_seconds,
    state_key,
    wants,
)
from ...values.rule import as_whats, whats
from ..layer import Layer


if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from ..shared import CircuitRules


# Chosen by bench/request_storms.py; docs/strategies/breaker.md has the numbers.
_ENOUGH: Final = 10  # calls that are enough to judge by
_OPEN_FOR: Final = Backoff.exponential(1, cap=3, jitter="equal")
_IN_A_ROW_OPEN_FOR: Final = Backoff.constant(30)


def _as_open_for(value: Seconds | Backoff) -> Backoff:
    received: Any = as_seconds(cast("Any", value))
    return (
        Backoff.constant(float(received))
        if is_number(received) and 0 <= received <= LONGEST
        else cast("Any", received)
    )


def _as_window(value: int | timedelta | str) -> int | timedelta:
    return read_span_of(value) if isinstance(value, str) else value


@wants("a schedule, or seconds")
def _check_open_for(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, Backoff):
        refuse(
            path_of(instance, attribute), f"a Backoff, or seconds from 0 to {LONGEST:.0f}", value
        )


@wants("calls, or a span of time")
def _check_window(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, timedelta):
        if value <= timedelta(0):
            refuse(path_of(instance, attribute), "a timedelta above 0", value)
    elif not is_count(value):
        wanted = 'a whole number of calls of at least 1, a timedelta, or a text such as "60s"'
        refuse(path_of(instance, attribute), wanted, value)


def _check_minimum(instance: Breaker, attribute: attrs.Attribute[Any], value: int | None) -> None:
    if value is not None and isinstance(instance.window, int) and value > instance.window:
        refuse(
            path_of(instance, attribute),
            f"at most the {instance.window} calls of the window",
            value,
        )


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Breaker(Layer):
    """A circuit breaker. Durations are seconds, timedeltas or texts ("10s"); ConfigError names a bad field.

        policy = rb.Policy(rb.Breaker(rate=0.5, window=20, open_for=30))

        @policy
        def search(query: str) -> str: ...

        print(rb.calls.circuit(search).state)      # closed

    It opens when `rate` of the last `window` calls failed, or, with a timedelta, of the calls in
    that time. `minimum` is the number of calls that say enough; left out, 10, or all of a smaller
    window, and of a rate of 1. Open, it rejects every call with
    CircuitOpenError for as long as `open_for` says; that schedule goes on while it opens again and
    again, and starts over once it has closed. Then `probes` calls may try: it closes after as many
    successes, and opens on the first failure. A probe that has not ended after `lease` seconds has
    lost its place. A call that takes `slow_after` seconds or more counts as failed, while it is
    still under way and also when it is cancelled.

    `on` says which failures count, in the words of `Retry.on` (`on=Exception`: all of them). Left
    out, those that point at the other side (transport, timeouts, what may pass) and the exception
    classes that the Retry beside it names; a 4xx or a mistake of ours counts neither way. What fits
    `ignore` never counts. `key` shares one circuit between policies; without it, it belongs to what
    the breaker protects. A function of the call's arguments has one circuit for each value that it
    returns (`key=lambda host, *_: host`). With `shadow=True` it counts, opens and closes, and says
    so, and rejects no call: what it would have done can be seen first.
    """

    usual_position: ClassVar[int | None] = 5
    is_keyed: ClassVar[bool] = True
    conditions_in: ClassVar[tuple[str, ...]] = ("on", "ignore")
    outside_retry: ClassVar[str] = (
        "Breaker outside of Retry: it sees one outcome a call, so every attempt of a call still goes to a server that is "
        "down; put it after Retry"
    )

    rate: float = attrs.field(default=0.8, validator=share)
    window: int | timedelta = attrs.field(default=50, converter=_as_window, validator=_check_window)
    open_for: Backoff = attrs.field(
        default=_OPEN_FOR, converter=_as_open_for, validator=_check_open_for
    )
    probes: int = attrs.field(default=1, validator=count)
    slow_after: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(as_seconds),
        validator=optional(some_seconds),
    )
    on: tuple[What, ...] = attrs.field(default=(), converter=as_whats, validator=whats())
    ignore: tuple[What, ...] = attrs.field(default=(), converter=as_whats, validator=whats())
    minimum: int | None = attrs.field(default=None, validator=(optional(count), _check_minimum))
    lease: float = attrs.field(default=30.0, converter=as_seconds, validator=some_seconds)
    key: StateKey = attrs.field(default=None, validator=state_key)
    shadow: bool = attrs.field(default=False, validator=flag)

    @classmethod
    @taught
    def consecutive(
        cls,
        failures: int,
        /,
        *,
        open_for: Seconds | Backoff = _IN_A_ROW_OPEN_FOR,
        probes: int = 1,
        slow_after: Seconds | None = None,
        on: What | Collection[What] = (),
        ignore: What | Collection[What] = (),
        lease: Seconds = 30.0,
        key: StateKey = None,
        shadow: bool = False,
    ) -> Self:
        """Return a breaker that opens after `failures` in a row.

        It is open for 30 s by default. The preset `gasoline` has 5 failures and 30 s, `recursor` 5
        and 60 s. It is the same as a rate of 1 over a window of that many calls.
        """
        if not is_count(failures):
            refuse("Breaker.consecutive.failures", "a whole number of at least 1", failures)
        return cls(
            rate=1.0,
            window=failures,
            open_for=open_for,
            probes=probes,
            slow_after=slow_after,
            on=on,
            ignore=ignore,
            lease=lease,
            key=key,
            shadow=shadow,
        )

    @property
    def in_a_row(self) -> int | None:
        """How many consecutive failures open it; None if it opens by another rate."""
        is_row = self.rate == 1 and isinstance(self.window, int) and self.least == self.window
        return self.window if is_row and isinstance(self.window, int) else None

    @property
    def least(self) -> int:
        """The fewest calls that the rate is computed from: `minimum`, or its default."""
        if self.minimum is not None:
            return self.minimum
        if not isinstance(self.window, int):
            return _ENOUGH
        return self.window if self.rate == 1 else min(_ENOUGH, self.window)

    @property
    def shared_state(self) -> str:
        """What is shared between processes: the circuit."""
        return "the circuit"

    def summary(self) -> str:
        """Return when it opens, and the smallest number of failures for that."""
        opens = f"{self.in_a_row} failures in a row" if self.in_a_row else self._share()
        shadow = "; a shadow: it rejects no call" if self.shadow else ""
        return (
            f"opens after {opens}, then {self.probes} probe{'s' if self.probes > 1 else ''}{shadow}"
        )

    def _share(self) -> str:
        window = self.window
        last = f"{window} calls" if isinstance(window, int) else f"{window.total_seconds():g} s"
        fewest = max(1, ceil(self.rate * self.least - 1e-9))
        return f"{self.rate:.0%} of the last {last} failed, {fewest} failure{'s' if fewest > 1 else ''} at the least"

    def __repr__(self) -> str:
        """Return the constructor's call, with what differs from its defaults."""
        usual = _OPEN_FOR if self.in_a_row is None else _IN_A_ROW_OPEN_FOR
        steady = self.open_for.shape == "constant" and self.open_for.jitter == "none"
        open_for = shown(self.open_for.seconds[0] if steady else self.open_for)
        fields = {"open_for": "" if self.open_for == usual else open_for}
        if self.in_a_row is None:
            return called(self, **fields)
        return called(
            self, shown(self.window), by="Breaker.consecutive", rate="", window="", **fields
        )


def rules_of(breaker: Breaker) -> CircuitRules:
    """Return the breaker's numbers as a window and a store read them."""
    return cast("CircuitRules", breaker)
