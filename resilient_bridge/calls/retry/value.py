"""Which failures are repeated, how often, after which wait; and the share of calls that may be repeats.

Rule: numbers only. What a budget has counted is kept in the registry, by key, so that it survives a
change of the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import attrs

from ...failure.source_text import shown
from ...failure.vocabulary import Kind
from ...failure.what import What, is_tenacity
from ...values.backoff import Backoff, WaitSchedule, check_wait
from ...values.fields import (
    StateKey,
    Value,
    as_seconds,
    called,
    fits,
    function,
    instance_of,
    is_count,
    number,
    optional,
    refuse,
    seconds,
    state_key,
)
from ...values.rule import Rule, Rules, as_rules, as_whats, check_rules, whats
from ..layer import Layer


if TYPE_CHECKING:
    from typing import Self

    from tenacity.retry import retry_base
    from tenacity.stop import stop_base


@attrs.frozen(kw_only=True, repr=False, eq=False)
class RetryBudget(Value):
    """At most `ratio` repeats per call, and `floor` more in any 10 s.

        budget = rb.RetryBudget(ratio=0.1, key="search")
        policy = rb.Policy(rb.Retry(attempts=4, budget=budget))

    Raises ConfigError that names a bad field.

    An outage then multiplies the load by about 1 + `ratio`, and not by `Retry.attempts`. The
    `floor` is for callers with few calls. `key` shares one budget between policies; without it, it
    belongs to what the Retry protects. A function of the call's arguments has a budget for each
    value that it returns (`key=lambda host, *_: host`).
    """

    ratio: float = attrs.field(default=0.2, validator=number(least=0))
    floor: float = attrs.field(default=10, validator=number(least=0))
    key: StateKey = attrs.field(default=None, validator=state_key)

    def __attrs_post_init__(self) -> None:
        """Refuse a budget that never allows a repeat: no retries is `Retry(attempts=1)`."""
        if self.ratio == self.floor == 0:
            refuse("RetryBudget.floor", "a number above 0, or a ratio above 0", self.floor)


def _as_on(
    value: What | Collection[What] | retry_base | Collection[What | retry_base],
) -> tuple[What, ...]:
    return as_whats(cast("What | Collection[What]", value))


# Chosen by bench/request_storms.py; docs/strategies/retry.md has the numbers. A call has a caller
# who waits, so the first repeat comes at once; the waits after it ride out a restart.
_BACKOFF: Final = Backoff.steps(0.3, then=Backoff.decorrelated(1), jitter="full")

_check_attempts: Final = fits(
    "a whole number of at least 1",
    lambda value: is_count(value) or is_tenacity(value, "stop_base"),
    refused="a whole number of at least 1 (1 is no repeat), or a tenacity stop",
)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Retry(Layer):
    """How a failed call is repeated.

        policy = rb.Policy(rb.Retry(attempts=4, backoff=rb.Backoff.steps(1, 2, 5)))

        @policy(idempotent=True)      # running it twice does no harm
        def fetch(url: str) -> str: ...

    Durations are seconds, timedeltas or texts ("10s"); ConfigError names a bad field.

    `attempts` counts calls, the first one included (ccsetup's "3 retries" are 4). `on` says what is
    repeated at all: an unknown exception, such as a class of yours, only if `on` or a rule names
    it. It is no permission: a call that may have run is repeated only with `idempotent=True`.
    `rules` give a sort of failure its own count and schedule, whatever `on` says. `on_result` is
    asked for every returned value; True means: repeat. `backoff` waits before each repeat; a
    server's Retry-After is a lower bound of that wait, and one above `max_retry_after` ends the
    call, with the hint. `budget` bounds the repeats of all calls together (None: no bound).
    """

    usual_position: ClassVar[int | None] = 2
    conditions_in: ClassVar[tuple[str, ...]] = ("on", "rules")

    attempts: int | stop_base = attrs.field(default=5, validator=_check_attempts)
    on: tuple[What, ...] = attrs.field(
        default=(Kind.TRANSIENT,), converter=_as_on, validator=whats(of_tenacity=True)
    )
    on_result: Callable[[Any], bool] | None = attrs.field(
        default=None, validator=optional(function("a function of the returned value, or None"))
    )
    backoff: WaitSchedule = attrs.field(default=_BACKOFF, validator=check_wait)
    rules: Mapping[Any, Rule] = attrs.field(
        default=Rules(), converter=as_rules, validator=check_rules
    )
    max_retry_after: float = attrs.field(default=120.0, converter=as_seconds, validator=seconds())
    budget: RetryBudget | None = attrs.field(
        default=RetryBudget(), validator=optional(instance_of(RetryBudget))
    )

    @property
    def key_function(self) -> Callable[..., Any] | None:
        """The function that selects the state of its budget; None if the budget's key is none."""
        key: Any = None if self.budget is None else self.budget.key
        return key if callable(key) else None

    @property
    def shared_state(self) -> str:
        """The retry budget, if there is one."""
        return "" if self.budget is None else "the retry budget"

    def summary(self) -> str:
        """Return whether a budget bounds the repeats, and which Retry-After is obeyed."""
        budget = "no budget" if self.budget is None else "within a budget"
        return f"repeats what may be repeated, {budget}; Retry-After up to {self.max_retry_after:g} s is obeyed"

    def with_key(self, key: str) -> Self:
        """Return it with this key for its budget, if the budget has no key yet."""
        if self.budget is None or self.budget.key is not None:
            return self
        return attrs.evolve(self, budget=attrs.evolve(self.budget, key=key))

    def __repr__(self) -> str:
        """Return the constructor's call; the number of calls is always included."""
        one = self.on[0] if len(self.on) == 1 else self.on
        on = "" if one is Kind.TRANSIENT else shown(one)
        return called(self, attempts=shown(self.attempts), on=on)
