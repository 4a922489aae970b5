"""What the adaptive limits of this process show: `rb.calls.adaptive_limits()`."""

from __future__ import annotations

from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ..frame import CURRENT
from .state import made


if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from ...failure import Failure
    from ...world import World
    from .state import Limit, Limits


class LimitStatus(NamedTuple):
    """One adaptive limit at this moment.

        for name, status in rb.calls.adaptive_limits().items():
            print(name, status.state, status.waiting)

    `state` is "limited"; "paused" while no call starts, for `seconds` more; or "exhausted": the
    server has refused everybody for 30 s, one call tries, and the others fail at once.
    """

    state: Literal["limited", "paused", "exhausted"]
    at_once: float
    """How many calls may run at once; the fraction is what it has grown towards the next."""
    per_second: float
    """How many may start in a second, inf if only the number at once counts."""
    running: int
    """The calls that hold a permit."""
    waiting: int
    refused: int
    """The refusals so far."""
    seconds: float
    """Until calls may start again, 0 if they may."""
    last: Failure | None
    """The last refusal."""
    throttled: int = 0
    """The calls so far that `throttle` rejected in this process: they were not sent."""


def adaptive_limits() -> Mapping[str, LimitStatus]:
    """Return every adaptive limit in force in this process, by the name of its owner and its key.

        for name, status in rb.calls.adaptive_limits().items():
            print(name, status.at_once, status.waiting)

    There is none before the first refusal, and none ten minutes after the last one. If two have the
    same name, the later ones are numbered: `app.search #2`.
    """
    world, found = CURRENT.get().world, dict[str, LimitStatus]()
    for owner in _owners(world):
        for known, status in _of(owner, world):
            name, number = known, 1
            while name in found:
                number += 1
                name = f"{known} #{number}"
            found[name] = status
    return MappingProxyType(found)


def calls_waiting() -> dict[str, int]:
    """Return how many calls wait for the limits of each owner that has one in force, by its name."""
    world, found = CURRENT.get().world, dict[str, int]()
    for owner in _owners(world):
        limits = owner.in_use(world.monotonic())
        if limits:
            waiting = sum(len(limit.queue) for limit in limits)
            found[owner.key] = found.get(owner.key, 0) + waiting
    return found


def _owners(world: World) -> list[Limits]:
    """Return the limits of every owner that go by the clock of this world, by name."""
    here = [owner for owner in made() if owner.clock is world.monotonic]
    return sorted(here, key=lambda each: each.key)


def described(owner: Limits) -> tuple[str, ...]:
    """Return a line about each limit of an owner that is in force at this moment."""
    world = CURRENT.get().world
    return tuple(
        f"limited now: {name}: {status.at_once:.3g} at once, {status.running} running, "
        f"{status.waiting} waiting, {status.refused} refused"
        f"{f', {status.throttled} throttled' if status.throttled else ''}; {status.state}"
        for name, status in _of(owner.of(world.monotonic), world)
    )


def _of(owner: Limits, world: World) -> list[tuple[str, LimitStatus]]:
    now = world.monotonic()
    return [(owner.name_of(limit.key), _status(limit, now)) for limit in owner.in_use(now)]


def _status(limit: Limit, now: float) -> LimitStatus:
    seconds = limit.remaining_wait(now)
    return LimitStatus(
        state="exhausted" if limit.is_exhausted else "paused" if seconds else "limited",
        at_once=limit.at_once,
        per_second=1 / limit.spacing if limit.spacing else inf,
        running=limit.running,
        waiting=len(limit.queue),
        refused=limit.refused,
        seconds=seconds,
        last=limit.last,
        throttled=limit.throttled,
    )
