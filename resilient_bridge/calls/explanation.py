"""A policy explained: its layers, its worst case, and orders of layers that do harm. Pure.

Rule: in the worst case every attempt takes all its time, and the server asks for the longest
allowed wait.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs

from ..values.backoff import Backoff
from .adaptive.value import AdaptiveLimit
from .decision import Matcher
from .hedge.value import Hedge
from .layer_order import harmful, only
from .registry import MOST_VALUES
from .retry.value import Retry
from .shared import shares_circuits, shares_limits
from .timeout.value import Deadline, Timeout


if TYPE_CHECKING:
    from typing import Self

    from .layer import Layer
    from .shared import Store


@attrs.frozen
class Explanation:
    """What `policy.explain()` returns; `str()` is the text.

        explanation = rb.Policy(rb.Retry(attempts=3), rb.Timeout(10)).explain()
        print(explanation.max_calls)      # 3
        print(explanation)

    `inf` means that there is no limit.
    """

    lines: tuple[str, ...]
    max_calls: float
    max_seconds: float
    warnings: tuple[str, ...]

    @classmethod
    def of(
        cls,
        layers: tuple[Layer, ...],
        state: Store | None = None,
        repeats: str = "",
        now: tuple[str, ...] = (),
    ) -> Self:
        """Compute it; `repeats` says which repeats are allowed for the protected function, and `now`
        what limits it at this moment.
        """
        hedge = only(layers, Hedge)
        calls = _calls(layers) * (1 if hedge is None else 1 + hedge.most)
        seconds = _seconds(layers)
        order = [
            f"{index}. {layer!r}: {layer.summary()}{_by_key(layer)}"
            for index, layer in enumerate(layers, 1)
        ]
        worst = f"worst case: {_count(calls)}, {_span(seconds)}"
        if only(layers, AdaptiveLimit) is not None:
            worst = f"{worst}; refusals of the server are not counted"
        warned = harmful(layers)
        shared = () if state is None else _shared(layers, state)
        repeated = (f"repeats: {repeats}",) if repeats else ()
        lines = [
            "outermost first:",
            *order,
            *repeated,
            worst,
            *now,
            *shared,
            *(f"warning: {text}" for text in warned),
        ]
        return cls(tuple(lines), calls, seconds, warned)

    def __str__(self) -> str:
        """Return the text: one line for each layer, the worst case, the warnings."""
        return "\n".join(self.lines)


def _by_key(layer: Layer) -> str:
    if layer.key_function is None:
        return ""
    return f"; one for each value of its key, {MOST_VALUES} unused ones are kept"


def _calls(layers: tuple[Layer, ...]) -> float:
    retry = only(layers, Retry)
    if retry is None:
        return 1
    most = Matcher(retry).most
    return math.inf if most is None else most


def _seconds(layers: tuple[Layer, ...]) -> float:
    deadline, timeout, retry = only(layers, Deadline), only(layers, Timeout), only(layers, Retry)
    bound = math.inf if deadline is None else deadline.seconds
    calls = _calls(layers)
    if timeout is None or math.isinf(calls):
        return bound
    running: float = sum(timeout.of(number) for number in range(1, int(calls) + 1))
    running += calls * sum([layer.worst_wait for layer in layers])
    return min(bound, running + (0.0 if retry is None else _waits(retry, int(calls) - 1)))


def _waits(retry: Retry, repeats: int) -> float:
    schedules: list[Any] = [
        retry.backoff,
        *(rule.backoff for rule in retry.rules.values() if rule.backoff is not None),
    ]
    longest = [0.0] * repeats
    for schedule in schedules:
        if not isinstance(schedule, Backoff):
            return math.inf  # a function of the attempt may return any wait
        longest = [max(pair) for pair in zip(longest, schedule.delays(repeats), strict=True)]
    return sum(max(wait, retry.max_retry_after) for wait in longest)


def _shared(layers: tuple[Layer, ...], state: Store) -> tuple[str, ...]:
    """Return what is shared between processes, and what is not although one might expect it."""
    names: list[str] = []
    alone: list[str] = []
    for layer in layers:
        if isinstance(layer, AdaptiveLimit) and shares_limits(state):
            names.append("the adaptive limit")
        elif layer.shared_state and shares_circuits(state):
            names.append(layer.shared_state)
        elif layer.has_local_state or layer.shared_state:
            alone.append(type(layer).__name__)
    *first, last = sorted(names) or ["nothing"]
    shared = f"{', '.join(first)} and {last}" if first else last
    own = f"; of this process alone: {', '.join(alone)}" if alone else ""
    return (f"shared through {state!r}: {shared}{own}",)


def _count(calls: float) -> str:
    return (
        "no limit to the calls"
        if math.isinf(calls)
        else f"{calls:.0f} call{'s' if calls != 1 else ''}"
    )


def _span(seconds: float) -> str:
    return "no limit to the time" if math.isinf(seconds) else f"{seconds:g} s"
