"""Acknowledgements of events that a server waits for, once the reader has taken the event.

A server that hears nothing sends the event again, under another name; the newest one is what is acknowledged. Rule: an event that was
accepted is acknowledged whenever it comes again, and one that is not taken in time is reported, not acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple


if TYPE_CHECKING:
    from .watermark import Key


class _Required(NamedTuple):
    value: Any
    due: float | None


class Acknowledgements:
    """By the type and id of the event."""

    def __init__(self) -> None:
        self._open: dict[Key, _Required] = {}
        self._ready: list[Any] = []

    def __contains__(self, key: Key) -> bool:
        """Has the reader not taken this event?"""
        return key in self._open

    def require(self, key: Key, value: Any, due: float | None) -> None:
        """This event is to be acknowledged when the reader has taken it, by `due` (monotonic)."""
        self._open[key] = _Required(value, due)

    def send_now(self, value: Any) -> None:
        """Acknowledge this now."""
        self._ready.append(value)

    def take(self, key: Key) -> None:
        """The reader has taken this event."""
        ack = self._open.pop(key, None)
        if ack is not None:
            self._ready.append(ack.value)

    @property
    def has_some(self) -> bool:
        """Is there something to acknowledge?"""
        return bool(self._ready)

    def to_send(self) -> list[Any]:
        """What is to be acknowledged now; afterwards it counts as done."""
        ready, self._ready = self._ready, []
        return ready

    def late(self, mono: float) -> list[Key]:
        """The events whose time is over; each is named once."""
        late = [key for key, ack in self._open.items() if ack.due is not None and ack.due <= mono]
        for key in late:
            self._open[key] = self._open[key]._replace(due=None)
        return late

    def next_timer(self) -> float | None:
        """When the first of them is late (monotonic)."""
        return min((ack.due for ack in self._open.values() if ack.due is not None), default=None)
