"""Events in the order of their times, for servers that put live events between those of a replay.

Rule: where one of the positions is no time, nothing is known about the order of any, and all stay as they were heard.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from .messages import parse_timestamp


if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


def by_time(events: Sequence[T], times: Sequence[object]) -> list[T]:
    """The same events, the oldest first; events of one time stay in the order in which they were heard."""
    parsed = [parse_timestamp(str(time)) for time in times]
    timed = [(time, event) for time, event in zip(parsed, events, strict=True) if time is not None]
    if len(timed) < len(events):
        return [*events]
    return [event for _, event in sorted(timed, key=itemgetter(0))]
