"""Circuits, retry budgets and limits shared through one Redis: `Policy(..., state=RedisState(url))`.

Rule: no call waits for Redis longer than `timeout`, and none fails because of it. While Redis is
unavailable every process decides alone, from what it learned last.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import finalize

import attrs

from ...values.fields import Value, as_seconds, called, refuse, short_seconds
from ...world import REAL
from ..redis.url import check_url, public_url
from .budget import RedisBudget
from .circuit import RedisCircuit
from .exchange import Exchange
from .limit import RedisLimits


if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from ...calls.shared import BudgetRules, CircuitRules, CircuitView


def _check_url(_: object, __: attrs.Attribute[Any], url: object) -> None:
    check_url("RedisState.url", url)


def _check_prefix(_: object, __: attrs.Attribute[Any], prefix: object) -> None:
    if not isinstance(prefix, str) or not prefix or "{" in prefix or "}" in prefix:
        refuse("RedisState.prefix", "a name that is not empty, without braces", prefix)


@attrs.frozen(repr=False, eq=False)
class RedisState(Value):
    """Circuits, retry budgets and adaptive limits of all processes with this `url`, `prefix` and keys.

        state = rb.stores.RedisState("redis://localhost:6379")
        policy = rb.Policy(rb.Breaker(key="search"), state=state)

    A call waits for Redis at most `timeout` seconds, and rarely at all: a closed circuit and a call
    without a limit cost no round trip. Under an adaptive limit a call asks for its place, and times
    are those of Redis' clock; a process that dies gives its places back after 10 s. While Redis is
    unavailable, too slow or full, each process decides alone
    (`StoreChanged`). Redis is tried again after `retry_after` seconds, then after twice as long each
    time, up to 30 s; once it answers, its state counts again (`StoreChanged`).

    One thread talks to Redis, from the first call until `close()`; this is a context manager. It is
    compared by its settings and pickled as its settings, password included. ConfigError names a bad
    setting, or the package that is missing.
    """

    url: str = attrs.field(validator=_check_url)
    prefix: str = attrs.field(default="resilient_bridge", validator=_check_prefix, kw_only=True)
    timeout: float = attrs.field(
        default=0.1, converter=as_seconds, validator=short_seconds, kw_only=True
    )
    retry_after: float = attrs.field(
        default=1.0, converter=as_seconds, validator=short_seconds, kw_only=True
    )
    _exchange: Exchange = attrs.field(eq=False, init=False)
    _limits: RedisLimits = attrs.field(eq=False, init=False)

    def __attrs_post_init__(self) -> None:
        """Nothing is connected before the first call."""
        exchange = Exchange(
            self.url, self.prefix, timeout=self.timeout, retry_after=self.retry_after
        )
        object.__setattr__(self, "_exchange", exchange)
        object.__setattr__(self, "_limits", RedisLimits(exchange))
        finalize(self, exchange.stop)  # also at the end of the program: what is waiting is sent

    def circuit(
        self, key: str, rules: CircuitRules, learn: Callable[[CircuitView], None], /
    ) -> RedisCircuit:
        """Return the line to the circuit of this name. ConfigError without the package redis."""
        line = RedisCircuit(self._exchange, key, rules, learn)
        self._exchange.add(line)
        return line

    def budget(self, key: str, rules: BudgetRules, /) -> RedisBudget:
        """Return the line to the budget of this name. ConfigError without the package redis."""
        line = RedisBudget(self._exchange, key, rules)
        self._exchange.add(line)
        return line

    def limits(self) -> RedisLimits:
        """Return the adaptive limits in this Redis. ConfigError without the package redis."""
        if not self._limits.is_served:
            self._exchange.add(self._limits)
            self._limits.is_served = True
        return self._limits

    def is_common(self, clock: object, /) -> bool:
        """Return whether this is the clock of this machine, and not that of a test."""
        return clock is REAL.monotonic

    def close(self) -> None:
        """Send what is waiting, and end thread and connection; then this process decides alone."""
        self._exchange.stop()

    def __enter__(self) -> Self:
        """Return the state, which is closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        # The other process needs the settings, password included; thread and connection stay here.
        make = partial(
            RedisState, prefix=self.prefix, timeout=self.timeout, retry_after=self.retry_after
        )
        return make, (self.url,)

    def __repr__(self) -> str:
        """Return the constructor's call, without user, password and options of the url."""
        return called(self, repr(public_url(self.url)), url="", _exchange="", _limits="")
