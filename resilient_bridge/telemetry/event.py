"""The base of all events: time, repr, equality and hash.

Rule: an event carries no payload, no argument and no secret.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs

from ..world import current_world


if TYPE_CHECKING:
    from datetime import datetime


QUIET_WAIT: Final = 1.0
"""Seconds: a shorter wait is not logged."""


def _now() -> datetime:
    return current_world().now()


# Repr, equality and hash are written once, in the base. attrs would compile them for every class,
# which is most of the cost of importing this module.
@attrs.frozen(kw_only=True, repr=False, eq=False, slots=False)
class Event:
    """The base of all events.

    `at` is the wall-clock time with its time zone; by default the current time of this context.
    `bridge` is the name of the client or link that the event is about (`BridgeClient(name=)`,
    `reconnecting(name=)`), empty without one and for all other events.
    """

    at: datetime = attrs.field(factory=_now)
    bridge: str = ""

    def __repr__(self) -> str:
        """Return the record as a call, with the time last."""
        fields = [field.name for field in attrs.fields(type(self))]
        names = (*fields[2:], *(["bridge"] if self.bridge else []), "at")
        shown = ", ".join(f"{name}={_shown(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        """Equal: of one class, with equal fields."""
        return isinstance(other, Event) and type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        """By class and fields."""
        return hash((type(self), *self._values()))

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, field.name) for field in attrs.fields(type(self)))


def _shown(value: object) -> str:
    # An enum member is shown by its name, a time in the form that people paste into searches.
    if isinstance(value, StrEnum):
        return str(value)
    isoformat = getattr(value, "isoformat", None)
    return str(isoformat()) if isoformat is not None else repr(value)
