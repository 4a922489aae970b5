"""Whether a failed call is repeated, and after how long: the one place where that is decided. Pure.

The questions in their order: may this failure be repeated at all, does the operation allow it, is another call left, does the
server ask for more patience than we have, does the wait fit the deadline. Nothing here sleeps, spends or remembers: the
budget, which is spent by asking, is asked by the caller, last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...errors import BridgeError, Category, Kind, number_in
from ...values.backoff import Backoff
from ...values.foreign import is_tenacity
from ...values.rule import most_specific
from ...values.what import matches


if TYPE_CHECKING:
    import random
    from collections.abc import Mapping
    from typing import Protocol

    from ...errors import Failure, Stopped
    from ...values.rule import Rule
    from .value import Retry

    class HasRandom(Protocol):
        """The part of a world that a decision draws from."""

        @property
        def rng(self) -> random.Random: ...


_CIRCUIT_OPEN: Final = "SYS_CIRCUIT_OPEN"
_HINT_SPREAD: Final = 0.1  # clients that were told the same second come back over a tenth of their wait


class Match(NamedTuple):
    """What the policy says about a failure: is it one that is worth repeating, and by which rule."""

    is_repeatable: bool
    rule: Rule | None


class Decision(NamedTuple):
    """Repeat after `wait` seconds, or stop for the reason given."""

    wait: float
    stop: Stopped | None = None


class Matcher:
    """What a Retry says about failures, sorted once: the walk through it is on the way of every repeat.

    `theirs` are tenacity's conditions, which are asked with tenacity's state; `most` is how many calls there can be in all: the largest
    cap, None when one of tenacity's stops decides.
    """

    __slots__ = ("classes", "general", "most", "particular", "retry", "rules", "theirs")

    def __init__(self, retry: Retry) -> None:
        on: Any = retry.on
        self.retry = retry
        classes: list[Any] = [what for what in on if isinstance(what, type | tuple)]
        self.classes = tuple(classes)
        self.general = tuple(what for what in on if isinstance(what, Category | Kind))
        self.theirs = tuple(what for what in on if is_tenacity(what, "retry_base"))
        others = (*self.classes, *self.general, *self.theirs)
        self.particular = tuple(what for what in on if not any(what is other for other in others))
        self.rules: Mapping[Any, Rule] | None = retry.rules or None
        self.most: int | None = None
        if isinstance(retry.attempts, int):
            caps = [rule.attempts for rule in retry.rules.values() if rule.attempts is not None]
            self.most = max([retry.attempts, *caps])

    def match(self, failure: Failure, *, is_asked_for: bool = False) -> Match:
        """Find whether a failure is worth repeating. `is_asked_for`: a condition of the user's on the result or on tenacity's state said so.

        Worth is no permission: that is `evidence.permission_for`.
        """
        if failure.code == _CIRCUIT_OPEN:
            # Failing fast is what an open circuit is for: only who names it waits for it, not `on=Exception`.
            rules = {what: rule for what, rule in self.retry.rules.items() if _names_circuit(what)}
            named = [what for what in self.retry.on if _names_circuit(what)]
            rule = most_specific(rules, failure)
            return Match(rule is not None or is_asked_for or matches(named, failure), rule)
        rule = None if self.rules is None else most_specific(self.rules, failure)
        if rule is not None or is_asked_for or (self.classes and matches(self.classes, failure)):
            return Match(True, rule)
        # A category or a kind holds what no repeat can help, too; a number, a code or a predicate was written for this failure.
        is_general = failure.retryable and (failure.kind in self.general or failure.category in self.general)
        return Match(is_general or (bool(self.particular) and matches(self.particular, failure)), None)


def match(retry: Retry, failure: Failure) -> Match:
    """Find whether a failure is worth repeating, and by which rule."""
    return Matcher(retry).match(failure)


def sits_out_circuits(retry: Retry) -> bool:
    """Return whether the policy repeats calls that an open circuit rejected: only if it names them."""
    return any(_names_circuit(what) for what in (*retry.on, *retry.rules))


def _names_circuit(what: object) -> bool:
    return what == _CIRCUIT_OPEN or (isinstance(what, type) and issubclass(what, BridgeError))


def asks_result(retry: Retry) -> bool:
    """Return whether a plain value may be one to repeat: by `on_result`, or by a condition of tenacity's."""
    return retry.on_result is not None or any(is_tenacity(what, "retry_base") for what in retry.on)


def decide(
    matcher: Matcher,
    failure: Failure,
    found: Match,
    *,
    may_repeat: bool,
    counts: Mapping[int | None, int],
    cap: int | None,
    elsewhere: int,
    recurred: int,
    drawn: float,
    remaining: float | None,
    world: HasRandom,
) -> Decision:
    """Return the decision about the call that has just ended in `failure`.

    `may_repeat`: there is a permission or a proof. `counts`: calls that ended so far, this one included, by the `rule_key` of the rule that
    counts them. `cap` and `elsewhere`: see `is_used_up`. `recurred`: how many calls before it ended in the same code. `drawn`: what the schedule says. `remaining`: seconds to the deadline.
    """
    if not found.is_repeatable:
        return Decision(0.0, "not_retryable")
    if not may_repeat:
        return Decision(0.0, "not_idempotent")
    if is_used_up(matcher, failure, found, counts, recurred, cap=cap, elsewhere=elsewhere):
        return Decision(0.0, "attempts")
    wait, retry = drawn, matcher.retry
    if failure.retry_after is not None:
        if failure.retry_after > retry.max_retry_after:
            return Decision(0.0, "retry_after")
        told = _server_wait(retry, failure.retry_after, world.rng)
        # A rule's own schedule is for a server that says nothing (V2: "header or 60 s"); the general one is as patient as ever.
        wait = told if found.rule is not None and found.rule.backoff is not None else max(wait, told)
    if remaining is not None and wait >= remaining:
        return Decision(0.0, "deadline")
    return Decision(wait)


def is_used_up(
    matcher: Matcher,
    failure: Failure,
    found: Match,
    counts: Mapping[int | None, int],
    recurred: int,
    *,
    cap: int | None = None,
    elsewhere: int = 0,
) -> bool:
    """Return whether no further call is left; the arguments are those of `decide`.

    `cap`: the largest `attempts` of the policies around this one, which takes the place of a smaller one here. `elsewhere`: calls of the same
    operation that failed before, inside the same attempt of the outermost policy.
    """
    counted_by = counter(found.rule)
    limit = matcher.retry.attempts if counted_by is None else counted_by.attempts
    most = matcher.most
    if cap is not None:
        if counted_by is None and isinstance(limit, int):
            limit = max(limit, cap)
        if most is not None:
            most = max(most, cap)
            if elsewhere + sum(counts.values()) >= most:
                return True
    if isinstance(limit, int) and counts.get(rule_key(counted_by), 0) >= limit:
        return True
    if most is not None and sum(counts.values()) >= most:
        return True
    allowed = number_in(failure, "max_retries")  # out of memory: once more, whoever counts (R11)
    return allowed is not None and recurred >= allowed


def counter(rule: Rule | None) -> Rule | None:
    """Return the rule that counts a failure: one that gives no number leaves the counting to `Retry.attempts`."""
    return rule if rule is not None and rule.attempts is not None else None


def rule_key(rule: Rule | None) -> int | None:
    """Return where a rule keeps its accounts: rules that are equal are two all the same. None: those of the Retry."""
    return None if rule is None else id(rule)


def _server_wait(retry: Retry, told: float, rng: random.Random) -> float:
    """Return the wait for a Retry-After: never earlier than told, never above `max_retry_after`, and in between spread out where the
    schedule is spread out.
    """
    is_exact = isinstance(retry.backoff, Backoff) and not retry.backoff.is_random
    return told if is_exact else min(told + rng.random() * told * _HINT_SPREAD, retry.max_retry_after)
