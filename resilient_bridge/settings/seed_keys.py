"""Keys of published specifications, as the fields that they mean: OpenViber's `max_attempts`,
Gasoline's `resetTimeout`.

Rule: one function per class. It takes its keys out of the table and returns the fields; the
remaining keys are read as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..calls.breaker.value import Breaker
from ..calls.retry.value import Retry
from ..config.paths import joined
from ..values.backoff import Backoff
from ..values.fields import LONGEST
from .fields import from_millis, make
from .reading import BAD, Aliases, Entry, Reading


_SHAPES: Final = {  # OpenViber's words, and its defaults
    "linear": ("linear", "none"),
    "exponential": ("exponential", "none"),
    "jittered": ("exponential", "full"),
}
_FIRST: Final = 1.0
_CAP: Final = 30.0
_STEPS: Final = (0, 1, 2, 4, 8)  # Gasoline's, in units of its initial backoff, and then the cap
_IN_A_ROW_OPEN_FOR: Final = 30.0


def _retry(table: dict[str, Any], path: str, reading: Reading) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for key, name in (("max_attempts", "attempts"), ("retryable_errors", "on")):
        if key in table:
            found[name] = Entry(key, table.pop(key))
    shape = table.get("backoff")
    is_word = isinstance(shape, str) and shape in _SHAPES
    if is_word or not {"base_delay_ms", "max_delay_ms"}.isdisjoint(table):
        written: dict[str, Any] = {
            key: table.pop(key)
            for key in ("base_delay_ms", "max_delay_ms", "backoff")
            if key in table
        }
        found["backoff"] = Entry("backoff", _schedule(written, path, reading))
    return found


def _schedule(written: Mapping[str, Any], path: str, reading: Reading) -> Any:
    """Return the schedule of `backoff: exponential`, `base_delay_ms` and `max_delay_ms`."""
    word = written.get("backoff", "exponential")
    if not isinstance(word, str) or word not in _SHAPES:
        return reading.fail(
            joined(path, "backoff"), f"one of {', '.join(_SHAPES)} beside base_delay_ms", word
        )
    shape, jitter = _SHAPES[word]
    entries = {"shape": Entry("backoff", shape), "jitter": Entry("backoff", jitter)}
    for key, name, default in (("base_delay_ms", "seconds", _FIRST), ("max_delay_ms", "cap", _CAP)):
        value = from_millis(written[key], joined(path, key), reading) if key in written else default
        entries[name] = Entry(key, value)
    return make(Backoff, entries, path, reading)


def _breaker(table: dict[str, Any], path: str, reading: Reading) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for key in ("consecutive", "maxFailures"):
        if key in table:
            found["window"], found["rate"] = Entry(key, table.pop(key)), Entry(key, 1.0)
            if "open_for" not in table:
                found["open_for"] = Entry("open_for", _IN_A_ROW_OPEN_FOR)
    if "resetTimeout" in table:
        seconds = from_millis(table.pop("resetTimeout"), joined(path, "resetTimeout"), reading)
        found["open_for"] = Entry("resetTimeout", seconds)
    return found


def gasoline_steps(table: dict[str, Any], path: str, reading: Reading) -> Any:
    """Take `initialBackoff` and `maxBackoff` out of a breaker's table.

    Return their schedule, BAD after a problem, or None if the table has neither.
    """
    if {"initialBackoff", "maxBackoff"}.isdisjoint(table):
        return None
    units: list[Any] = []
    for key, default in (("initialBackoff", _FIRST), ("maxBackoff", _CAP)):
        units.append(
            from_millis(table.pop(key), joined(path, key), reading) if key in table else default
        )
    if BAD in units:
        return BAD
    first, cap = units
    if not 0 <= first <= cap <= LONGEST:
        wanted = "initialBackoff and maxBackoff in milliseconds, the larger one last"
        return reading.fail(joined(path, "initialBackoff"), wanted, first * 1000)
    return Backoff.steps(*(min(first * step, cap) for step in _STEPS), cap)


def _backoff(table: dict[str, Any], _: str, __: Reading) -> dict[str, Entry]:
    """Return the table of a schedule with the defaults of the constructor of its shape."""
    shape = table.get("shape")
    found: dict[str, Entry] = {}
    if (
        shape in ("linear", "exponential", "decorrelated")
        and "cap" not in table
        and "cap_ms" not in table
    ):
        found["cap"] = Entry("cap", _CAP)
    if shape in ("linear", "exponential") and "jitter" not in table:
        found["jitter"] = Entry("jitter", "full")
    return found


WORDS_OF: Final[Mapping[type, tuple[str, ...]]] = {
    Retry: ("base_delay_ms", "max_attempts", "max_delay_ms", "retryable_errors"),
    Breaker: ("consecutive", "initialBackoff", "maxBackoff", "maxFailures", "resetTimeout"),
}
"""The extra keys of each class."""
ALIASES: Final[Mapping[type, Aliases]] = {Retry: _retry, Breaker: _breaker, Backoff: _backoff}
