"""The base of all events: fields, time, repr, equality and hash.

Rule: an event carries no payload, no argument and no secret.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, dataclass_transform

import attrs

from ..world import current_world


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Protocol

    from ..failure import Failure

    class Counts(Protocol):
        """Where an event says what it changes in the metrics: `Measures` in metrics.py.

        `add` changes a metric, by its name without `resilient_bridge.`, with its labels in order.
        `failure` counts a failure; None and one of severity info change nothing. `link` returns the
        record of the link that sent the event.
        """

        def add(self, metric: str, value: float, *labels: str) -> None: ...
        def failure(self, failure: Failure | None) -> None: ...
        def link(self) -> LinkRecord: ...


QUIET_WAIT: Final = 1.0
"""Seconds: up to this, the wait of a reconnect is not logged, and that of a retry is logged at
debug.
"""
ALWAYS: Final = ("",)
"""For `__notable__`: whatever its state."""
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class LinkRecord:
    """What the events of one link have said of it so far; `__counts__` reads it and writes it."""

    __slots__ = ("down_since", "is_dropped", "is_up", "last")

    def __init__(self) -> None:
        self.is_up = False
        self.is_dropped = False  # lost, and its first ReconnectScheduled or GaveUp has not come yet
        self.down_since: datetime | None = None
        self.last: Failure | None = None


def _now() -> datetime:
    return current_world().now()


# attrs would compile an `__init__` for each of sixty classes, which would take half of the import
# time.
@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Record:
    """A frozen record: its fields are the annotations of its class, given by name.

    `vars(record)` has them in their order. A default that is an `attrs.Factory` is called for each
    record.
    """

    _defaults: ClassVar[Mapping[str, Any]] = {}
    _factories: ClassVar[tuple[tuple[str, Callable[[], Any]], ...]] = ()
    _required: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Read the fields of the class."""
        own = {
            name: cls.__dict__.get(name, attrs.NOTHING)
            for name in cls.__annotations__
            if not name.startswith("_")
        }
        cls._defaults = {**cls._defaults, **own}
        cls._required = frozenset(
            name for name, value in cls._defaults.items() if value is attrs.NOTHING
        )
        made = {name: value.factory for name, value in own.items() if hasattr(value, "factory")}
        cls._factories = (*cls._factories, *made.items())

    def __init__(self, **fields: Any) -> None:
        """Take each field by its name; a TypeError names those that are missing or unknown."""
        values = self.__dict__
        values.update(self._defaults)
        values.update(fields)
        if len(values) != len(self._defaults) or not self._required.issubset(fields):
            wrong = {*self._required.difference(fields), *fields.keys() - self._defaults.keys()}
            msg = f"{type(self).__name__}: missing or unknown: {', '.join(sorted(wrong))}"
            raise TypeError(msg)
        for name, make in self._factories:
            if name not in fields:
                values[name] = make()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: an event cannot be changed."""
        raise attrs.exceptions.FrozenInstanceError

    def __delattr__(self, name: str) -> NoReturn:
        """Refuse: an event cannot be changed."""
        raise attrs.exceptions.FrozenInstanceError


class Event(Record):
    """The base of all events.

    `at` is the wall-clock time with its time zone; by default the current time of this context.
    `bridge` is the name of the client or link that the event is about (`BridgeClient(name=)`,
    `reconnecting(name=)`), empty without one and for all other events.
    """

    # Which client or link it is, for what counts here: several have one name. No field, so it is in
    # no text, no file and no comparison.
    __slots__ = ("_sender",)

    at: datetime = attrs.Factory(_now)
    bridge: str = ""

    # What a class says of itself, for the log, the metrics, spans, debug mode and session logs.
    __kind__: ClassVar[str] = ""  # of debug mode
    __state__: ClassVar[str] = ""  # the field that has what happened, and the words of its values
    __words__: ClassVar[Mapping[str, str]] = {}
    __notable__: ClassVar[tuple[str, ...]] = ()  # a report lists it: ALWAYS, or in these states
    __of_each_call__: ClassVar[bool] = False  # no decision: `testing.record` leaves it out
    __by_strangers__: ClassVar[bool] = (
        False  # as often as somebody else likes, so its lines are limited
    )

    def __level__(self) -> str:
        """Return the level of its line in the log; "" for none."""
        return ""

    def __text__(self) -> str:
        """Return its line in the log, not yet masked; asked only if there is one."""
        return ""

    def __counts__(self, counts: Counts) -> None:
        """Say what it changes in the metrics; nothing for most events."""

    def __note__(self) -> tuple[str, dict[str, Any]] | None:
        """Return its name and attributes on the span of its call; None if it is not noted there."""
        return None

    def __repr__(self) -> str:
        """Return the record as a call, with the time last."""
        names = (*list(vars(self))[2:], *(["bridge"] if self.bridge else []), "at")
        shown = ", ".join(f"{name}={_shown(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        """Return whether both are of one class, with equal fields."""
        return isinstance(other, Event) and type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        """Return a hash of the class and the time: a field may be a dict, which has none."""
        return hash((type(self), self.at))


TOOL_CALL: Final[ContextVar[str | None]] = ContextVar("resilient_bridge.tool_call", default=None)
"""The tool that `Toolbox.call` is calling in this context, which reports the end of it by ToolFailed."""


def sent_by(event: Event, sender: object) -> Event:
    """Mark an event with the identity of the client or link that sends it, and return it."""
    object.__setattr__(event, "_sender", sender)
    return event


def sender_of(event: Event) -> object | None:
    """Return the identity of the client or link that sent an event; None for any other event."""
    return getattr(event, "_sender", None)


def name_in_words(event: Event) -> str:
    """Return what happened as words: `tool failed`; `circuit opened` for a CircuitChanged to open."""
    words = event.__words__.get(getattr(event, event.__state__)) if event.__state__ else None
    return words or _HUMP.sub(" ", type(event).__name__).lower()


def with_failure(reason: str, failure: Failure | None) -> str:
    """Return a reason, and its failure where there is one."""
    return reason if failure is None else f"{reason}: {failure}"


def _shown(value: object) -> str:
    # A StrEnum member is shown by its value, a time in ISO 8601 format.
    if isinstance(value, StrEnum):
        return str(value)
    isoformat = getattr(value, "isoformat", None)
    return str(isoformat()) if isoformat is not None else repr(value)
