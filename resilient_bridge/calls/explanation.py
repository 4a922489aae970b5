"""What a policy means, in words and two numbers, and which orders of layers do harm. Pure.

Rule: worst case means worst case: every attempt takes all its time, and the server asks for all the patience there is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..values.backoff import Backoff
from .breaker.value import Breaker
from .bulkhead.value import Bulkhead
from .fallback.value import Fallback
from .rate_limit.value import RateLimit
from .retry.decision import Matcher
from .retry.value import Retry
from .timeout.deadline import Deadline
from .timeout.value import Timeout


if TYPE_CHECKING:
    from typing import Self

    from .layer import Layer
    from .shared.ports import SharedState

__all__ = ["Explanation", "harmful"]

L = TypeVar("L")


@attrs.frozen
class Explanation:
    """What `policy.explain()` returns; `str()` is the text. `inf` means: nothing bounds it."""

    lines: tuple[str, ...]
    max_calls: float
    max_seconds: float
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, layers: tuple[Layer, ...], state: SharedState | None = None, repeats: str = "") -> Self:
        """Work it out; `repeats` says what may be repeated of the function that the layers stand around."""
        calls, seconds = _calls(layers), _seconds(layers)
        order = [f"{place}. {layer!r}: {_meaning(layer)}" for place, layer in enumerate(layers, 1)]
        worst = f"worst case: {_count(calls)}, {_span(seconds)}"
        warned = harmful(layers)
        shared = () if state is None else _shared(layers, state)
        said = (f"repeats: {repeats}",) if repeats else ()
        lines = ["outermost first:", *order, *said, worst, *shared, *(f"warning: {text}" for text in warned)]
        return cls(tuple(lines), calls, seconds, warned)

    def __str__(self) -> str:
        """Return the text: one line a layer, the worst case, the warnings."""
        return "\n".join(self.lines)


def harmful(layers: tuple[Layer, ...]) -> tuple[str, ...]:
    """Return what is wrong with this order, a sentence each; empty when nothing is."""
    place = {type(layer): number for number, layer in enumerate(layers)}
    retry = place.get(Retry)
    found: list[str] = []
    if retry is not None:
        if place.get(Breaker, retry) < retry:
            found.append(
                "Breaker outside of Retry: it sees one outcome a call, so every attempt of a call still goes to a server that is "
                "down; put it after Retry"
            )
        if place.get(Timeout, retry) < retry:
            found.append(
                "Timeout outside of Retry: it bounds all attempts together, which is what Deadline is for; put it after Retry"
            )
        if place.get(Deadline, -1) > retry:
            found.append(
                "Deadline inside of Retry: every attempt gets all of it, which is what Timeout is for; put it before Retry"
            )
        if place.get(RateLimit, retry) < retry and place.get(RateLimit) is not None:
            found.append("RateLimit outside of Retry: repeats are not limited; put it after Retry")
        if place.get(Bulkhead, retry) < retry:
            found.append(
                "Bulkhead outside of Retry: a call keeps its place while it waits; put it after Retry"
            )
    if Deadline in place and Timeout in place:
        deadline, timeout = layers[place[Deadline]], layers[place[Timeout]]
        if (
            isinstance(deadline, Deadline)
            and isinstance(timeout, Timeout)
            and timeout.of(1) > deadline.seconds
            and not timeout.thread  # in a thread, the deadline ends the call by it
        ):
            found.append(f"{timeout!r} never fires: {deadline!r} ends the call before")
    return tuple(found)


def _calls(layers: tuple[Layer, ...]) -> float:
    retry = _only(layers, Retry)
    if retry is None:
        return 1
    most = Matcher(retry).most
    return math.inf if most is None else most


def _seconds(layers: tuple[Layer, ...]) -> float:
    deadline, timeout, retry = _only(layers, Deadline), _only(layers, Timeout), _only(layers, Retry)
    bound = math.inf if deadline is None else deadline.seconds
    calls = _calls(layers)
    if timeout is None or math.isinf(calls):
        return bound
    running: float = sum(timeout.of(number) for number in range(1, int(calls) + 1))
    running += calls * _turns(layers)
    return min(bound, running + (0.0 if retry is None else _waits(retry, int(calls) - 1)))


def _turns(layers: tuple[Layer, ...]) -> float:
    """Return how long an attempt may wait for its turn."""
    bulkhead, limit = _only(layers, Bulkhead), _only(layers, RateLimit)
    longest = 0.0 if limit is None else limit.max_wait
    if bulkhead is None or bulkhead.queue == 0:
        return longest
    return math.inf if bulkhead.max_wait is None else longest + bulkhead.max_wait


def _waits(retry: Retry, repeats: int) -> float:
    schedules: list[Any] = [
        retry.backoff,
        *(rule.backoff for rule in retry.rules.values() if rule.backoff is not None),
    ]
    longest = [0.0] * repeats
    for schedule in schedules:
        if not isinstance(schedule, Backoff):
            return math.inf  # a function of the attempt may say anything
        longest = [max(pair) for pair in zip(longest, schedule.delays(repeats), strict=True)]
    return sum(max(wait, retry.max_retry_after) for wait in longest)


def _meaning(layer: Layer) -> str:
    if isinstance(layer, Retry):
        budget = "no budget" if layer.budget is None else "within a budget"
        return (
            f"repeats what may be repeated, {budget}; Retry-After up to {layer.max_retry_after:g} s is obeyed"
        )
    if isinstance(layer, Breaker):
        row = layer.in_a_row
        opens = f"{row} failures in a row" if row else _rate(layer)
        return f"opens after {opens}, then {layer.probes} probe{'s' if layer.probes > 1 else ''}"
    if isinstance(layer, Timeout):
        idle = "" if layer.idle is None else f"; a stream at most {layer.idle:g} s between two items"
        return "each attempt takes at most " + ", then ".join(f"{step:g} s" for step in layer.seconds) + idle
    if isinstance(layer, Deadline):
        return f"all attempts and waits together take at most {layer.seconds:g} s"
    if isinstance(layer, Bulkhead):
        return f"{layer.calls} at once, {layer.queue} more may wait"
    if isinstance(layer, RateLimit):
        return f"{layer.calls} per {layer.per:g} s"
    if isinstance(layer, Fallback):
        return f"then {len(layer.ladder)} other way{'s' if len(layer.ladder) > 1 else ''}, reported"
    return "a layer"


def _shared(layers: tuple[Layer, ...], state: SharedState) -> tuple[str, ...]:
    """Say what is shared between processes, and what is not although one might think so."""
    retry = _only(layers, Retry)
    has_budget = retry is not None and retry.budget is not None
    said = (("the circuit", _only(layers, Breaker) is not None), ("the retry budget", has_budget))
    shared = " and ".join(name for name, is_there in said if is_there) or "nothing"
    alone = [type(layer).__name__ for layer in layers if isinstance(layer, Bulkhead | RateLimit)]
    own = f"; of this process alone: {', '.join(alone)}" if alone else ""
    return (f"shared through {state!r}: {shared}{own}",)


def _rate(layer: Breaker) -> str:
    """Say which share of which calls, and how many failures that are at the least: 40 in a row for `Breaker()`."""
    window = layer.window
    last = f"{window} calls" if isinstance(window, int) else f"{window.total_seconds():g} s"
    fewest = max(1, math.ceil(layer.rate * layer.least - 1e-9))
    return f"{layer.rate:.0%} of the last {last} failed, {fewest} failure{'s' if fewest > 1 else ''} at the least"


def _only(layers: tuple[Layer, ...], kind: type[L]) -> L | None:
    return next((layer for layer in layers if isinstance(layer, kind)), None)


def _count(calls: float) -> str:
    return "no limit to the calls" if math.isinf(calls) else f"{calls:.0f} call{'s' if calls != 1 else ''}"


def _span(seconds: float) -> str:
    return "no limit to the time" if math.isinf(seconds) else f"{seconds:g} s"
