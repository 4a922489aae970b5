"""Events in the order of their times, for servers that put live events between those of a replay.

Rule: where one of the positions is no time, nothing is known about the order of any, and all stay as they were heard.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from .messages import parse_timestamp


if TYPE_CHECKING:
    from collections.abc import Sequence

    from .recovery import Incoming


def by_time(heard: Sequence[Incoming]) -> list[Incoming]:
    """The same events, the oldest first; events of one time stay in the order in which they were heard."""
    times = [parse_timestamp(str(each.event.position)) for each in heard]
    timed = [(time, each) for time, each in zip(times, heard, strict=True) if time is not None]
    if len(timed) < len(heard):
        return [*heard]
    return [each for _, each in sorted(timed, key=itemgetter(0))]
