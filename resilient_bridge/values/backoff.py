"""How long to wait before the next attempt.

A schedule is a value and `next` a pure function of (attempt, previous wait, random source): the
same arguments give the same wait, and nothing is remembered between calls. Rule: a wait is finite,
never negative and never above what `delays` says. Nothing of tenacity is imported (`is_tenacity`):
a user who has such an object has imported it already.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

import attrs

from ..failure.source_text import shown
from ..failure.teaching import TeachesNames, refuse_use, taught
from ..failure.what import is_function, is_tenacity
from ..world import current_world
from .fields import (
    LONGEST,
    Seconds,
    Value,
    as_float,
    as_seconds,
    is_number,
    number,
    one_of,
    path_of,
    refuse,
    wants,
)


if TYPE_CHECKING:
    import random
    from collections.abc import Generator, Sequence
    from typing import Protocol, Self

    from ..config.texts import Call

    class _RetryState(Protocol):
        """The part of tenacity's RetryCallState that a wait looks at."""

        attempt_number: int


Jitter: TypeAlias = Literal["none", "full", "equal"]
"""How a wait is shortened at random: not, to between 0 and all of it, or to between half and all of
it.
"""
Shape: TypeAlias = Literal["constant", "linear", "exponential", "decorrelated", "steps"]
"""How waits grow."""

SHAPES: Final[tuple[str, ...]] = get_args(Shape)
_PREFIXES: Final = ("", "Backoff.", "rb.Backoff.", "resilient_bridge.Backoff.")
_CAP: Final = 30.0
_DECORRELATED_GROWTH: Final = 3.0  # each wait is drawn from [base, 3 x the wait before]
_SAMPLES: Final = 2000
# the shortest wait, as a share of the longest
_SHARE: Final = {"none": 1.0, "equal": 0.5, "full": 0.0}
# The name of the argument in errors: that of the constructor's signature, not of the field.
_ARGUMENT: Final = {
    "constant": "seconds",
    "linear": "step",
    "exponential": "base",
    "decorrelated": "base",
}


def _as_delays(value: Seconds | tuple[Seconds, ...]) -> tuple[float, ...]:
    several: list[Any] = list(cast("Any", value)) if isinstance(value, tuple | list) else [value]
    return tuple(map(as_seconds, several))


@wants("a duration, or a list of them for steps")
def _check_seconds(schedule: Backoff, _: attrs.Attribute[Any], delays: tuple[float, ...]) -> None:
    if not delays or (schedule.shape != "steps" and len(delays) > 1):
        refuse(
            f"Backoff.{schedule.shape}",
            "at least one delay" if not delays else "one duration",
            delays,
        )
    for index, delay in enumerate(delays):
        if not is_number(delay) or not 0 <= delay <= LONGEST:
            argument = _ARGUMENT.get(schedule.shape, f"steps[{index}]")
            refuse(f"Backoff.{argument}", f"seconds from 0 to {LONGEST:.0f}", delay)


@wants("the longest wait")
def _check_cap(schedule: Backoff, _: attrs.Attribute[Any], cap: float | None) -> None:
    if schedule.shape in ("constant", "steps"):
        if cap is not None:
            refuse("Backoff.cap", f"None: {schedule.shape} names its delays", cap)
    elif not is_number(cap) or not 0 < cap <= LONGEST:
        refuse("Backoff.cap", f"seconds above 0 to {LONGEST:.0f}", cap)


@wants("a Backoff to go on with after the steps")
def _check_then(schedule: Backoff, _: attrs.Attribute[Any], then: object) -> None:
    if then is not None and (schedule.shape != "steps" or not isinstance(then, Backoff)):
        refuse("Backoff.then", "a Backoff to go on with after the steps", then)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Backoff(TeachesNames, Value):
    """A schedule of waits: made by `constant`, `linear`, `exponential`, `decorrelated` or `steps`.

        backoff = rb.Backoff.steps(1, 2, then=rb.Backoff.exponential(5, jitter="none"))
        print(backoff.delays(6))      # [1.0, 2.0, 5.0, 10.0, 20.0, 30.0]

    Wait n precedes repetition n, so five delays belong to six calls, or to five connection attempts
    after a loss. A Backoff can be used wherever a wait is expected, tenacity's `wait=` included.
    """

    shape: Shape = attrs.field(validator=one_of(*SHAPES))
    seconds: tuple[float, ...] = attrs.field(converter=_as_delays, validator=_check_seconds)
    factor: float = attrs.field(default=2.0, converter=as_float, validator=number(least=1))
    cap: float | None = attrs.field(
        default=None, converter=attrs.converters.optional(as_seconds), validator=_check_cap
    )
    jitter: Jitter = attrs.field(default="none", validator=one_of(*get_args(Jitter)))
    then: Backoff | None = attrs.field(default=None, validator=_check_then)

    @classmethod
    @taught
    def constant(cls, seconds: Seconds, /, *, jitter: Jitter = "none") -> Self:
        """Return a schedule that always waits the same."""
        return cls(shape="constant", seconds=(seconds,), jitter=jitter)

    @classmethod
    @taught
    def linear(cls, step: Seconds, /, *, cap: Seconds = _CAP, jitter: Jitter = "full") -> Self:
        """Return a schedule that waits step x n seconds, at most `cap`.

        `linear(1)` is 1, 2, 3, 4, 5 ….
        """
        return cls(shape="linear", seconds=(step,), cap=cap, jitter=jitter)

    @classmethod
    @taught
    def exponential(
        cls, base: Seconds, /, *, factor: float = 2, cap: Seconds = _CAP, jitter: Jitter = "full"
    ) -> Self:
        """Return a schedule that waits base x factor ^ (n - 1) seconds, at most `cap`."""
        return cls(shape="exponential", seconds=(base,), factor=factor, cap=cap, jitter=jitter)

    @classmethod
    @taught
    def decorrelated(cls, base: Seconds, /, *, cap: Seconds = _CAP) -> Self:
        """Return a schedule of waits between `base` and three times the last one, at most `cap`.

        Recommended: clients that lost the same server do not come back together, the first time
        included.
        """
        return cls(shape="decorrelated", seconds=(base,), cap=cap)

    @classmethod
    @taught
    def steps(cls, *seconds: Seconds, then: Backoff | None = None, jitter: Jitter = "none") -> Self:
        """Return a schedule that waits as listed (`steps(1, 2, 5, 10, 30)`).

        The last step repeats; with `then` that schedule follows, from its first delay. `jitter`
        applies to the steps only.
        """
        return cls(shape="steps", seconds=seconds, jitter=jitter, then=then)

    @classmethod
    @taught
    def parse(cls, text: str, /) -> Backoff:
        """Return the schedule that a text spells as in code.

        "exponential(1, cap=30)", "steps(500ms, 2s, then=linear(5s))".

        With or without `Backoff.`; a duration alone, "2s", is a constant wait. The text is read and
        never run. Raises ConfigError with what was wanted.
        """
        try:
            return parse_schedule(text)
        except ValueError as error:
            from ..failure import ConfigError

            if isinstance(error, ConfigError):
                raise
            refuse("Backoff.parse", f'a schedule such as "exponential(1, cap=30)" ({error})', text)

    def next(self, attempt: int, previous: float | None, rng: random.Random) -> float:
        """Return the seconds to wait before repetition `attempt` (1, 2, 3 …).

        Pure: `previous` is the wait before (None at first; only decorrelated schedules use it),
        `rng` the only randomness.
        """
        if attempt < 1:
            refuse("Backoff.next.attempt", "1 or more", attempt)
        stage, index = (self, attempt) if self.then is None else _stage(self, attempt)
        longest = _longest(stage, index)
        if stage.shape == "decorrelated":
            base = _shortest(stage, index)
            # After steps, the first wait of the following schedule has no wait before it.
            before = base if previous is None or index == 1 else max(base, min(previous, longest))
            # The draw goes beyond the cap and is cut: some of the clients wait exactly the cap, as
            # in the simulations that chose this schedule.
            return min(longest, base + (_DECORRELATED_GROWTH * before - base) * rng.random())
        if stage.jitter == "none" or longest == 0:
            return longest
        shortest = _shortest(stage, index)
        return shortest + (longest - shortest) * rng.random()

    @taught
    def delays(self, n: int, /) -> list[float]:
        """Return the upper bound of each of the first `n` waits; without jitter the wait itself."""
        return [
            _longest(*_stage(self, attempt))
            for attempt in range(1, _whole("Backoff.delays.n", n) + 1)
        ]

    @taught
    def sample(self, n: int, /, *, seed: int) -> list[float]:
        """Return one possible run of `n` waits; the same seed gives the same run."""
        from random import Random

        _whole("Backoff.sample.n", n)
        waits = self._run(Random(_whole("Backoff.sample.seed", seed)))
        return [next(waits) for _ in range(n)]

    def waits(self) -> Generator[float, None, None]:
        """Yield waits for ever, for a loop of your own: `for wait in backoff.waits(): sleep(wait)`."""
        yield from self._run(current_world().rng)

    @taught
    def explain(self, n: int = 10, /) -> str:
        """Return a table of the first `n` waits in seconds.

        Shortest, mean, longest, and the sum of the longest.
        """
        total = 0.0
        lines = [
            repr(self),
            f"{'wait':>6}{'shortest':>10}{'mean':>10}{'longest':>10}{'total so far':>14}",
        ]
        for index, (shortest, mean, longest) in enumerate(
            spread(self, _whole("Backoff.explain.n", n)), 1
        ):
            total += longest
            columns = f"{_rounded(shortest):>10}{_rounded(mean):>10}{_rounded(longest):>10}"
            lines.append(f"{index:>6}{columns}{_rounded(total):>14}")
        return "\n".join(lines)

    def __call__(self, retry_state: _RetryState) -> float:
        """Return the wait after `retry_state.attempt_number` calls: the `wait=` of tenacity."""
        # tenacity has the previous wait here, 0 when there was none; before 8.4 it was lost.
        before: float | None = getattr(retry_state, "upcoming_sleep", None) or None
        return self.next(retry_state.attempt_number, before, current_world().rng)

    if not TYPE_CHECKING:
        __iter__ = __next__ = refuse_use(
            "Backoff", "its waits as a list or an iterator", "the schedule itself",
            "for wait in backoff.waits(): ...  # or backoff.delays(6)",
        )  # fmt: skip

    def __add__(self, other: Any) -> Any:
        """Return tenacity's sum of two waits: `Backoff.exponential(1) + wait_random(0, 1)`."""
        return _sum(self, other)

    def __radd__(self, other: Any) -> Any:
        """Return the sum; `sum([...])` begins with 0."""
        return self if other == 0 else _sum(other, self)

    def __repr__(self) -> str:
        """Return the constructor's call, with the arguments that differ from its defaults."""
        parts = [shown(delay) for delay in self.seconds]
        if self.factor != 2:
            parts.append(f"factor={shown(self.factor)}")
        if self.cap is not None and self.cap != _CAP:
            parts.append(f"cap={shown(self.cap)}")
        if self.jitter != ("full" if self.shape in ("linear", "exponential") else "none"):
            parts.append(f"jitter={self.jitter!r}")
        if self.then is not None:
            parts.append(f"then={self.then!r}")
        return f"Backoff.{self.shape}({', '.join(parts)})"

    def _run(self, rng: random.Random) -> Generator[float, None, None]:
        attempt, previous = 0, None
        while True:
            attempt += 1
            previous = self.next(attempt, previous, rng)
            yield previous

    @property
    def is_random(self) -> bool:
        """Whether the schedule is random: then two clients do not come back together."""
        stage: Backoff | None = self
        while stage is not None:
            if stage.shape == "decorrelated" or stage.jitter != "none":
                return True
            stage = stage.then
        return False


def parse_schedule(text: str) -> Backoff:
    """Return the schedule that a text spells.

    ValueError says what was wanted; a wrong argument is a ConfigError, which is one too.
    """
    from ..config.texts import read_call, read_seconds  # here: most schedules are made, not read

    if not isinstance(cast("object", text), str):
        raise ValueError("a text expected")  # noqa: TRY004 -- as for every other text that is none
    try:
        wait = read_seconds(text)
    except ValueError:
        pass
    else:
        return Backoff.constant(wait)
    return _made(read_call(text, "Backoff", SHAPES, prefixes=_PREFIXES))


def _made(call: Call) -> Backoff:
    def argument(written: object) -> Any:
        return _made(written) if isinstance(written, type(call)) else written

    named = {name: argument(written) for name, written in call.named.items()}
    try:
        made: Backoff = getattr(Backoff, call.name)(*map(argument, call.arguments), **named)
    except TypeError as error:  # Python names the argument that is missing or unknown
        raise ValueError(str(error)) from None
    return made


@lru_cache(maxsize=1)  # the command line asks twice
def spread(schedule: Backoff, n: int) -> Sequence[tuple[float, float, float]]:
    """Return (shortest, mean, longest) of each of the first `n` waits.

    The means are those of 2,000 runs, always the same.
    """
    runs = [schedule.sample(n, seed=seed) for seed in range(_SAMPLES if schedule.is_random else 1)]
    return [
        (
            _shortest(*_stage(schedule, index + 1)),
            sum(run[index] for run in runs) / len(runs),
            longest,
        )
        for index, longest in enumerate(schedule.delays(n))
    ]


def _stage(schedule: Backoff, attempt: int) -> tuple[Backoff, int]:
    """Return the part of the schedule that `attempt` falls into, and its number in that part."""
    while schedule.then is not None and attempt > len(schedule.seconds):
        attempt -= len(schedule.seconds)
        schedule = schedule.then
    return schedule, attempt


def _longest(stage: Backoff, index: int) -> float:
    if stage.shape == "steps":
        return stage.seconds[min(index, len(stage.seconds)) - 1]
    base = stage.seconds[0]
    if stage.cap is None or base == 0:
        return base
    try:
        if stage.shape == "linear":
            grown = base * index
        elif stage.shape == "exponential":
            grown = base * stage.factor ** (index - 1)
        else:
            grown = base * _DECORRELATED_GROWTH**index
    except OverflowError:  # attempt 1,025 and later: far beyond any cap
        return stage.cap
    return min(grown, stage.cap)


def _shortest(stage: Backoff, index: int) -> float:
    if stage.shape == "decorrelated":
        return min(stage.seconds[0], _longest(stage, index))
    return _longest(stage, index) * _SHARE[stage.jitter]


def _sum(first: Any, second: Any) -> Any:
    """Return the two waits added up, as tenacity does; NotImplemented for what is no wait."""
    if not all(
        isinstance(wait, Backoff) or is_tenacity(wait, "wait_base") for wait in (first, second)
    ):
        return NotImplemented
    from tenacity.wait import wait_combine  # here: nothing else in this module needs tenacity

    return wait_combine(first, second)


def _whole(path: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        refuse(path, "a whole number of at least 0", value)
    return value


def _rounded(seconds: float) -> str:
    return f"{seconds:,.3f}".rstrip("0").rstrip(".")


# ---- schedules in general: a Backoff, a tenacity object in its place, a function ---------------------------------------


WaitSchedule: TypeAlias = "Backoff | Callable[[Any], Seconds]"
"""A schedule: a Backoff, tenacity's `wait=`, or a function of the Attempt that returns seconds or a timedelta."""


@wants("a schedule")
def check_wait(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Validate a schedule."""
    # A Backoff is callable: tenacity calls it. A class is callable too, and no schedule.
    if (
        not is_function(value)
        or isinstance(value, type)
        or isinstance(getattr(value, "__self__", None), type)
    ):
        wanted = "a Backoff, a tenacity wait or a function of the Attempt"
        refuse(path_of(instance, attribute), wanted, value)
    if iscoroutinefunction(value):
        refuse(
            path_of(instance, attribute),
            "a schedule that is no async function: nobody awaits it",
            value,
        )


def as_wait(asked: Any) -> float:
    """Return the seconds that a user's schedule asks for.

    Nan, which stops other timers, and negative values are no wait.
    """
    seconds = asked.total_seconds() if hasattr(asked, "total_seconds") else float(asked)
    return seconds if 0 <= seconds < float("inf") else 0.0
