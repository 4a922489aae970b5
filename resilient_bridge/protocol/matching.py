"""By what two events are equal: is this a repeat, a new event, or proof of which log this is?

A server that restarts may number a new log from the beginning, and its first events may look like
the old ones. So that two events are equal shows only as much as another log would not repeat:

| match       | equal in                                                | shows                       |
|-------------|---------------------------------------------------------|-----------------------------|
| `ID`        | an id that is no counter, and the content               | the log is the one we read  |
| `TIME`      | the content, and the time that the server gave the event | the log is the one we read |
| `CONTENT`   | what is left without an id and a time                   | a repeat, or another log    |
| `ALTERED`   | all but what a replay may add, or give anew             | nothing                     |
| `OTHER`     | nothing: another event has this name                    | another log                 |
| `FORGOTTEN` | no event of this name is remembered                     | nothing                     |

Pure functions on values.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from .messages import parse_timestamp


if TYPE_CHECKING:
    from collections.abc import Sequence

    from .facts import Position, Received


class Match(Enum):
    """How an event that has come compares with the one of its name that was delivered."""

    ID = "id"
    TIME = "time"
    CONTENT = "content"
    ALTERED = "altered"
    OTHER = "other"
    FORGOTTEN = "forgotten"


PROVES: Final = frozenset({Match.ID, Match.TIME})
SAME: Final = frozenset({Match.ID, Match.TIME, Match.CONTENT})

_COUNTER: Final = re.compile(r"\D*\d{1,12}", re.ASCII)


def is_counter(identity: str | None, position: Position | None = None) -> bool:
    """Return whether another log would repeat this id, because it counts, or is the position."""
    return identity is None or identity == str(position) or _COUNTER.fullmatch(identity) is not None


def match(
    had: Received, came: Received, *, volatile: Sequence[str], is_opaque: bool = False
) -> Match:
    """Compare two events of one name.

    `volatile`: fields that are left out, because a replay adds or changes them. `is_opaque`: the
    position is a name that the server made, and serves as the id of an event without one.
    """
    if had.id != came.id and None not in {had.id, came.id}:
        return Match.OTHER
    difference = _difference(had, came, volatile)
    if difference == "other":
        return Match.OTHER
    if is_opaque:
        is_named = not is_counter(came.id or str(came.position))
    else:
        is_named = not is_counter(came.id, came.position)
    if is_named and had.id == came.id:
        return Match.ID
    if difference == "none":
        if had.timestamp == came.timestamp:
            return Match.TIME if parse_timestamp(came.timestamp) is not None else Match.CONTENT
        # The time stands within the content, and is one of the fields that are left out.
        if came.payload == came.raw:
            return Match.CONTENT
    return Match.ALTERED


def content_of(event: Received, volatile: Sequence[str]) -> str:
    """Return the frame of an event that has no name, by which its repeats are counted."""
    return json.dumps(_steady(event.raw, volatile), sort_keys=True, default=repr)


def _difference(had: Received, came: Received, volatile: Sequence[str]) -> str:
    """Return "none", "innocent" or "other": fields were added or times changed, or more than that."""
    if had.type != came.type:
        return "other"
    before: Any = had.payload or had.raw
    after: Any = came.payload or came.raw
    if before == after:
        return "none"
    before, after = _steady(before, volatile), _steady(after, volatile)
    if before == after:
        return "none"
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return "other"
    fields, now = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
    if all(
        name in now and (now[name] == value or _are_times(value, now[name]))
        for name, value in fields.items()
    ):
        return "innocent"
    return "other"


def _are_times(before: object, after: object) -> bool:
    return _is_time(before) and _is_time(after)


def _is_time(value: object) -> bool:
    is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return is_text and parse_timestamp(str(value)) is not None


def _steady(value: Any, volatile: Sequence[str]) -> Any:
    """Return the value without the fields that only say how it was sent."""
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return {name: part for name, part in fields.items() if name not in volatile}
