"""Objects of tenacity in place of ours, and schedules in general.

Rule: nothing of tenacity is imported (`fields.is_tenacity`); a user who has such an object has
imported it already.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeAlias

from ..failure.what import is_function
from .fields import path_of, refuse
from .forms import takes


if TYPE_CHECKING:
    import attrs

    from .backoff import Backoff
    from .fields import Seconds


WaitSchedule: TypeAlias = "Backoff | Callable[[Any], Seconds]"
"""A schedule: a Backoff, tenacity's `wait=`, or a function of the Attempt that returns seconds or a timedelta."""


@takes("wait", wanted="a schedule")
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
