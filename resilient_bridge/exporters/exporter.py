"""The base of the metric exporters: they listen until they are closed.

Rule: the exporter's own module creates its metrics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ..locks import new_rlock
from ..telemetry import listen
from ..telemetry.measures import Measures
from .readings import USER_AGENT
from .series import Series


if TYPE_CHECKING:
    from types import TracebackType

    from ..telemetry.event import Event
    from ..telemetry.instruments import Instrument


C = TypeVar("C")


class Exporter(ABC, Generic[C]):
    """A listener with series of `C`: made, then started, then closed."""

    def __init__(self, labels: tuple[str, ...], most: int) -> None:
        self._labels = labels
        self._most = most
        self._lock = new_rlock()  # reentrant: a log handler may make a protected call
        self._measures = Measures(USER_AGENT)
        self._series: Series[C] = Series(self._child, labels, most)
        self._is_open = False

    def _start(self) -> None:
        self._is_open = True
        self._listening = listen(self._hear)
        self._listening.__enter__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'open' if self._is_open else 'closed'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop counting. May be called again."""
        if self._is_open:
            self._is_open = False
            self._listening.__exit__(None, None, None)
            self._end()

    @abstractmethod
    def _child(self, instrument: Instrument, labels: tuple[str, ...]) -> C:
        """Return the child of an instrument for these labels."""

    @abstractmethod
    def _hear(self, event: Event) -> Any:
        """Count an event."""

    @abstractmethod
    def _end(self) -> None:
        """Release its resources after the last event."""
