"""Decides what a failed attempt means: what it proves, whether a circuit counts it, when it is repeated. Pure.

A repeat needs a permission, or the proof that the call did not run.

Rule: a proof covers one request on the wire, the last one. It proves something about a whole call
only if the call is that one request. An error that a user's function raises may always follow a
side effect, so only its own statement (`NotExecutedError`, `classify.register`) proves anything
about it, and that holds for the innermost protected function alone.

The checks in order: is this failure retryable, does the operation allow a retry, are attempts left,
does the server ask for a longer wait than `max_retry_after`, does the wait fit the deadline.
Nothing here sleeps or keeps state. The retry budget is not checked here, because checking spends
from it: the caller does that last.

A caller's mistake is no outage: only a failure of the server, or of the connection to it, counts for a
circuit. Any other is neutral, neither a failure nor a success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ..failure import (
    OWN_LAYER,
    OWN_WORDS,
    RATE_LIMITED,
    REJECTED,
    BridgeError,
    Category,
    Executed,
    Kind,
    Severity,
    changed,
    number_in,
    record_of,
)
from ..failure.what import Named, is_tenacity, matches, matches_safely, names_class
from ..values.backoff import Backoff
from ..values.rule import most_specific


if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from ..failure import Failure, Record, Stopped
    from ..values.rule import Rule
    from .retry.value import Retry

    class Marked(Protocol):
        """What the policies inside of an attempt have reported."""

        @property
        def mark(self) -> object: ...

    class Attempted(Protocol):
        """The part of an attempt (`frame.CallFrame`) that decides what its failure proves."""

        seen: tuple[BaseException, Failure | None] | None

        @property
        def is_rejected(self) -> bool: ...
        @property
        def is_called(self) -> bool: ...
        @property
        def requests(self) -> int: ...
        @property
        def inside(self) -> Marked | None: ...

    class Permits(Protocol):
        """The part of a plan that says which permissions and proofs hold for its calls."""

        @property
        def idempotent(self) -> bool | None: ...
        @property
        def proofs(self) -> str: ...

    class Counting(Protocol):
        """The part of a Breaker that says which failures count: its tuples of conditions."""

        @property
        def on(self) -> Any: ...  # pyright takes a field with a converter for a descriptor
        @property
        def ignore(self) -> Any: ...

    class HasRandom(Protocol):
        """The part of a world that a decision draws from."""

        @property
        def rng(self) -> random.Random: ...


_CIRCUIT_OPEN: Final = "SYS_CIRCUIT_OPEN"
_HINT_SPREAD: Final = (
    0.1  # clients with the same Retry-After come back spread over a tenth of their wait
)


_LIMITED: Final = 429
_ON_THE_WAY: Final = (Category.TRANSPORT, Category.TIMEOUT)
_ALARMING: Final = (Severity.CRITICAL, Severity.FATAL)
# A member that is looked up in its class costs as much as a function call.
_NO: Final = Executed.NO
_MAYBE: Final = Executed.MAYBE


# ---- what an attempt proves, and what permits another -------------------------------------------


def failure_in(attempt: Attempted, error: BaseException) -> Failure | None:
    """Return the failure of an attempt's error, computed once; None for one like cancellation."""
    seen = attempt.seen
    if seen is not None and seen[0] is error:
        return seen[1]
    failure = _read(error)
    attempt.seen = (error, failure)
    return failure


def _first_read(error: BaseException) -> Failure | None:
    """Load what reads errors, then read with it: most functions are decorated long before one fails."""
    global _read  # noqa: PLW0603 -- as in failure.classifier
    from ..failure.lookup import raw_failure

    _read = raw_failure
    return raw_failure(error)


_read: Callable[[BaseException], Failure | None] = _first_read


def proven(
    plan: Permits, attempt: Attempted, failure: Failure, error: BaseException | None
) -> Failure:
    """Return the failure of an attempt, with a proof if one holds; without one it may have run."""
    if attempt.is_rejected:  # the function was not called, whatever error a layer raised
        refused = failure.executed is _NO or attempt.is_called
        return failure if refused else changed(failure, executed=_NO, proof=OWN_LAYER)
    if failure.executed is not _NO:
        return failure
    # A request that our own layer refused is not the request that was sent.
    is_of_the_request = attempt.requests == 0 or (
        attempt.requests == 1 and failure.proof != OWN_LAYER
    )
    if plan.proofs == "all" or (plan.proofs == "request" and is_of_the_request):
        return failure
    if failure.proof in OWN_WORDS:
        record = None if error is None else record_inside(attempt, error)
        # the error has left no protected function inside this attempt
        if record is None or not record.crossed:
            return failure
    return changed(failure, executed=_MAYBE, proof="")


def record_inside(attempt: Attempted, error: BaseException) -> Record | None:
    """Return the record that a policy inside of this attempt left with the error.

    None if there is none, or if it is that of an earlier call.
    """
    record, inside = record_of(error), attempt.inside
    if record is None or record.mark is None or inside is None or inside.mark is not record.mark:
        return None
    return record


def permission_for(plan: Permits, attempt: Attempted, failure: Failure) -> str:
    """Return the permission for a repeat: "idempotent", a proof's name, "limiter"; else empty.

    The last is a convention, not a proof: providers document that a request answered by 429 was not
    executed.
    """
    if plan.idempotent:
        return "idempotent"
    if failure.executed is _NO:
        return failure.proof
    if plan.idempotent is None and attempt.requests <= 1 and not may_have_started(plan, failure):
        return "limiter"
    return ""


def may_have_started(plan: Permits, failure: Failure) -> bool:
    """Return whether the call may have started.

    It may unless there is a proof, or a limiter rejected a request that we sent ourselves.
    """
    is_turned_away = plan.proofs == "request" and number_in(failure, "http_status") == _LIMITED
    return failure.executed is not _NO and not is_turned_away


# ---- whether a circuit counts it ----------------------------------------------------------------


def verdict_of(
    failure: Failure, breaker: Counting, named: tuple[Any, ...] = ()
) -> Literal["failure", "neutral", "critical"]:
    """Return how `breaker` counts `failure`; critical opens the circuit at once.

    `breaker.on` decides which failures count; without it, the categories do and `named`, the
    exception classes that the Retry beside it names. A rejection by one of our own layers never
    left this process and says nothing about the server. Neither does a rate limiter: its server lives.
    """
    if failure.code in REJECTED or (breaker.ignore and matches_safely(breaker.ignore, failure)):
        return "neutral"
    if failure.severity in _ALARMING:
        return "critical"
    if breaker.on:
        return "failure" if matches_safely(breaker.on, failure) else "neutral"
    if failure.code == RATE_LIMITED:
        return "neutral"
    if failure.category in _ON_THE_WAY or failure.retryable or names_class(named, failure):
        return "failure"
    return "neutral"


# ---- whether it helps, and when -----------------------------------------------------------------


class Match(NamedTuple):
    """What the policy says about a failure: whether a retry is worthwhile, and by which rule.

    `counted_by` is the identity of a rule with attempts of its own, so that equal rules count
    separately; None if `Retry.attempts` counts the failure.
    """

    is_repeatable: bool
    rule: Rule | None
    counted_by: int | None


class Decision(NamedTuple):
    """Retry after `wait` seconds, or stop for the reason in `stop`.

    `further` is the largest number of calls that can follow if each of them fails in the same way.
    """

    wait: float
    stop: Stopped | None = None
    further: int | None = None


class Matcher:
    """The conditions of a Retry, sorted once by kind, because every retry goes through them.

    `theirs` are tenacity's conditions, which take tenacity's state; `of_tenacity`: there is any of
    its objects. `most` is the largest number of calls that any cap allows; None when a tenacity
    stop decides.
    """

    __slots__ = (
        "classes", "general", "most", "of_tenacity", "particular", "retry", "rules", "theirs",
    )  # fmt: skip

    def __init__(self, retry: Retry) -> None:
        on: Any = retry.on
        self.retry = retry
        classes: list[Any] = [what for what in on if isinstance(what, type | Named)]
        self.classes = on if len(classes) == len(on) else tuple(classes)
        self.general = tuple(what for what in on if isinstance(what, Category | Kind))
        self.theirs = tuple(what for what in on if is_tenacity(what, "retry_base"))
        others = (*self.classes, *self.general, *self.theirs)
        self.particular = tuple(what for what in on if not any(what is other for other in others))
        self.rules: Mapping[Any, Rule] | None = retry.rules or None
        self.most: int | None = None
        if isinstance(retry.attempts, int):
            caps = [rule.attempts for rule in retry.rules.values() if rule.attempts is not None]
            self.most = max([retry.attempts, *caps])
        schedules = [retry.backoff, *[rule.backoff for rule in retry.rules.values()]]
        self.of_tenacity = (
            bool(self.theirs)
            or self.most is None
            or any(is_tenacity(schedule, "wait_base") for schedule in schedules)
        )

    def match(self, failure: Failure, *, is_asked_for: bool = False) -> Match:
        """Return whether a retry of this failure is worthwhile, and by which rule.

        The permission is `permission_for`.

        `is_asked_for`: a user condition on the result or on tenacity's state asked for the retry.
        """
        if failure.code == _CIRCUIT_OPEN:
            # An open circuit is meant to fail fast: only a policy that names it retries it, not `on=Exception`.
            rules = {what: rule for what, rule in self.retry.rules.items() if _names_circuit(what)}
            named = [what for what in self.retry.on if _names_circuit(what)]
            rule = most_specific(rules, failure)
            return _matched(rule is not None or is_asked_for or matches(named, failure), rule)
        rule = None if self.rules is None else most_specific(self.rules, failure)
        if rule is not None:
            return _matched(True, rule)
        if is_asked_for or (self.classes and matches(self.classes, failure)):
            return _REPEATED
        # A category or kind also covers failures that no retry can help; a status, code or predicate is specific.
        is_general = failure.retryable and (
            failure.kind in self.general or failure.category in self.general
        )
        if is_general or (self.particular and matches(self.particular, failure)):
            return _REPEATED
        return _NOT_REPEATED


_REPEATED: Final = Match(True, None, None)
_NOT_REPEATED: Final = Match(False, None, None)


def _matched(is_repeatable: bool, rule: Rule | None) -> Match:
    counts = rule is not None and rule.attempts is not None
    return Match(is_repeatable, rule, id(rule) if counts else None)


def match(retry: Retry, failure: Failure) -> Match:
    """Return whether a retry of a failure is worthwhile, and by which rule."""
    return Matcher(retry).match(failure)


def sits_out_circuits(retry: Retry) -> bool:
    """Return whether calls rejected by an open circuit are retried: if the policy names them."""
    return any(_names_circuit(what) for what in (*retry.on, *retry.rules))


def _names_circuit(what: object) -> bool:
    return what == _CIRCUIT_OPEN or (isinstance(what, type) and issubclass(what, BridgeError))


def asks_result(retry: Retry) -> bool:
    """Return whether a returned value may cause a retry: by `on_result`, or by tenacity."""
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
    """Return the decision about the call that has just failed with `failure`.

    Args:
        may_repeat: Whether there is a permission, or a proof that the call did not run.
        counts: Calls that have failed so far, this one included, by what counts them (`Match.counted_by`).
        cap: See `further_calls`.
        elsewhere: See `further_calls`.
        recurred: How many earlier calls failed with the same code.
        drawn: The wait that the schedule gives.
        remaining: Seconds to the deadline.
    """
    if not found.is_repeatable:
        return Decision(0.0, "not_retryable")
    if not may_repeat:
        return Decision(0.0, "not_idempotent")
    further = further_calls(matcher, failure, found, counts, recurred, cap=cap, elsewhere=elsewhere)
    if further is not None and further <= 0:
        return Decision(0.0, "attempts")
    wait, retry = drawn, matcher.retry
    if failure.retry_after is not None:
        if failure.retry_after > retry.max_retry_after:
            return Decision(0.0, "retry_after")
        advised = _server_wait(retry, failure.retry_after, world.rng)
        # A rule's own schedule applies only without a Retry-After (V2: "header or 60 s"); the general one is a minimum.
        wait = (
            advised
            if found.rule is not None and found.rule.backoff is not None
            else max(wait, advised)
        )
    if remaining is not None and wait >= remaining:
        return Decision(0.0, "deadline")
    return Decision(wait, None, further)


def further_calls(
    matcher: Matcher,
    failure: Failure,
    found: Match,
    counts: Mapping[int | None, int],
    recurred: int,
    *,
    cap: int | None = None,
    elsewhere: int = 0,
) -> int | None:
    """Return how many more calls the counts allow, 0 or less if they are used up.

    None if only a tenacity stop bounds them. The arguments are those of `decide`. `cap`: the
    largest `attempts` of the policies around this one, which replaces a smaller one here.
    `elsewhere`: calls of the same operation that failed before, inside the same attempt of the
    outermost policy.
    """
    rule, counted_by = found.rule, found.counted_by
    limit = matcher.retry.attempts if rule is None or counted_by is None else rule.attempts
    most, further = matcher.most, None
    if cap is None:
        elsewhere = 0
    elif most is not None:
        most = max(most, cap)
    if isinstance(limit, int):
        if cap is not None and counted_by is None:
            limit = max(limit, cap)
        further = limit - counts.get(counted_by, 0)
    if most is not None:
        in_all = most - elsewhere - sum(counts.values())
        further = in_all if further is None or in_all < further else further
    # out of memory: one retry, whatever the policy allows (R11)
    allowed = number_in(failure, "max_retries")
    if allowed is not None:
        further = (
            int(allowed) - recurred if further is None else min(further, int(allowed) - recurred)
        )
    return further


def counter(rule: Rule | None) -> Rule | None:
    """Return the rule that counts a failure.

    None if `Retry.attempts` counts it, because the rule has no number.
    """
    return rule if rule is not None and rule.attempts is not None else None


def _server_wait(retry: Retry, retry_after: float, rng: random.Random) -> float:
    """Return the wait for a Retry-After.

    At least that long, at most `max_retry_after`, with jitter if the schedule has jitter.
    """
    is_exact = isinstance(retry.backoff, Backoff) and not retry.backoff.is_random
    if is_exact:
        return retry_after
    return min(retry_after + rng.random() * retry_after * _HINT_SPREAD, retry.max_retry_after)


def calls_for(retry: Retry, failure: Failure) -> object:
    """Return the most calls that a Retry makes for a failure: a number, or tenacity's stop.

    None if it does not repeat such a failure.
    """
    found = match(retry, failure)
    if not found.is_repeatable:
        return None
    rule = counter(found.rule)
    return retry.attempts if rule is None else rule.attempts
