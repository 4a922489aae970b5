"""The bounded series of the metrics: one child of an instrument for each set of labels.

Rule: whatever names a program creates, an instrument has at most `most` series. Further ones are
counted as `other`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ..failure import config_error, redact
from ..telemetry.log import say


if TYPE_CHECKING:
    from ..telemetry.instruments import Instrument
    from ..telemetry.measures import Measurement


C = TypeVar("C")

OTHER: Final = "other"
ERROR_LABELS: Final = ("session_id", "user_agent")
"""Attributes of an error that are labels only on request."""
_LONGEST: Final = 100
_OPEN: Final = frozenset({"policy", "circuit", "bridge", *ERROR_LABELS})
"""Labels with values from the program; all other labels have a fixed list of values."""


class Series(Generic[C]):
    """The children that `make(instrument, labels)` has created so far.

    An error also has the labels of `error_labels`.
    """

    def __init__(
        self,
        make: Callable[[Instrument, tuple[str, ...]], C],
        error_labels: tuple[str, ...],
        most: int,
    ) -> None:
        self._make = make
        self._error_labels = error_labels
        self._most = most
        self._children: dict[tuple[Instrument, tuple[str, ...]], C] = {}
        self._counts: dict[Instrument, int] = {}
        self._full: set[Instrument] = set()

    def child(self, found: Measurement) -> C:
        instrument, _, labels, error = found
        names = instrument.labels
        if error is not None and self._error_labels:
            labels = (*labels, *(getattr(error, name) or "" for name in self._error_labels))
            names = (*names, *self._error_labels)
        key = instrument, labels
        child = self._children.get(key)
        if child is not None:
            return child
        if self._counts.get(instrument, 0) >= self._most:
            return self._rest(instrument, labels, names)
        plain = tuple(redact(text, limit=_LONGEST) for text in labels)
        return self._add(instrument, labels, plain)

    def _rest(self, instrument: Instrument, labels: tuple[str, ...], names: tuple[str, ...]) -> C:
        if instrument not in self._full:
            self._full.add(instrument)
            text = (
                f"{instrument.name} has {self._most} series: whatever is new is counted as {OTHER}"
            )
            say("warning", text)
        folded = tuple(
            OTHER if name in _OPEN and text else redact(text, limit=_LONGEST)
            for name, text in zip(names, labels, strict=True)
        )
        return self._children.get((instrument, folded)) or self._add(instrument, folded, folded)

    def _add(self, instrument: Instrument, labels: tuple[str, ...], plain: tuple[str, ...]) -> C:
        child = self._children[instrument, labels] = self._make(instrument, plain)
        self._counts[instrument] = self._counts.get(instrument, 0) + 1
        return child


def checked_options(owner: str, labels: Iterable[str], max_series: object) -> tuple[str, ...]:
    """Return the additional labels of errors. Raises ConfigError for an unknown one."""
    names = tuple(labels)
    if not set(names) <= set(ERROR_LABELS):
        raise config_error(f"{owner}.labels", f"a tuple out of {', '.join(ERROR_LABELS)}", labels)
    if not isinstance(max_series, int) or isinstance(max_series, bool) or max_series < 1:
        raise config_error(f"{owner}.max_series", "a whole number of at least 1", max_series)
    return tuple(name for name in ERROR_LABELS if name in names)
