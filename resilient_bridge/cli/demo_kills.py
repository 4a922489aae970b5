"""The moments at which `demo --crash` kills the client, and what each means in plain words.

Rule: what is done to the line before a kill is undone after it, so that the next process is judged by itself.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import attrs

from ..testing.proxy import FaultProxy
from ..testing.proxy_link import Fault


_SECONDS_PER_KILL: Final = 1.5


class Scene(Protocol):
    """What happens before a kill may touch."""

    proxy: FaultProxy

    async def pile(self, seconds: float) -> None:
        """Wait until a few messages were accepted that the bridge has not got, or the time is up."""
        ...


@attrs.frozen
class Kill:
    """`what` happens to the process; when `prepare` returns, it does."""

    what: str
    prepare: Callable[[Scene], Awaitable[None]]


async def _at_once(_: Scene) -> None:
    return


async def _cut(scene: Scene) -> None:
    scene.proxy.refuse()
    scene.proxy.apply(Fault.abort())
    await scene.pile(1.5)


async def _swallow(scene: Scene) -> None:
    scene.proxy.apply(Fault.black_hole())
    await scene.pile(0.8)  # less than the heartbeat needs to notice


KILL_TABLE: Final[Mapping[str, Kill]] = {
    "busy": Kill("is killed in the middle of its work", _at_once),
    "offline": Kill("is killed while the line is cut, and what it accepts has to wait", _cut),
    "unheard": Kill("is killed while the line swallows what it sends, and it does not know", _swallow),
    "starting": Kill("is killed while it starts", _at_once),
}


def kill_plan(count: int, duration: float, rng: random.Random) -> list[str]:
    """So many kills in the seed's order, each kind once before any comes twice; 0: as many as fit."""
    count = count or max(1, round(duration / _SECONDS_PER_KILL) - 1)
    plan: list[str] = []
    while len(plan) < count:
        plan += rng.sample(tuple(KILL_TABLE), len(KILL_TABLE))
    if plan[0] == "starting":  # the first process starts without anything to go on with
        plan[:2] = plan[1::-1]
    return plan[:count]
