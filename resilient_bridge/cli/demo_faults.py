"""The demo's faults: what each one does to the line or to the bridge, and what it means in plain words.

Rule: a fault leaves the stage as it found it, so that the next one is judged by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import attrs

from ..testing.proxy import FaultProxy
from ..testing.proxy_link import Fault
from ..testing.server import BridgeServer


_HEALTHY_REPLAY: Final = 100 * 1024  # bytes (R14)
_AWAY: Final = 0.8  # seconds in which a cut line refuses new connections


class Stage(Protocol):
    """What a fault may touch."""

    server: BridgeServer
    proxy: FaultProxy

    def say(self, text: str) -> None:
        """Tell the audience what happens behind the scenes."""
        ...

    def reconnect_now(self) -> None:
        """Tell the client that the other side is back."""
        ...

    def note_life(self) -> None:
        """The bridge forgot everything: what it applies from here on is another life."""
        ...

    async def missed(self, count: int, seconds: float) -> None:
        """Wait until so many messages were pushed that the client cannot see, or the time is up."""
        ...

    async def lost(self) -> None:
        """Wait until the client has noticed that its connection is gone (bounded)."""
        ...

    async def rejoined(self) -> None:
        """Wait until the client has joined again (bounded)."""
        ...


@attrs.frozen
class DemoFault:
    """`what` is told when it strikes; `strike` returns when the stage is as it was."""

    what: str
    strike: Callable[[Stage], Awaitable[None]]


async def _lose_and_rejoin(stage: Stage) -> None:
    await stage.lost()
    await stage.rejoined()


def _cut_off(stage: Stage) -> None:
    stage.proxy.refuse(_AWAY)
    stage.proxy.apply(Fault.abort())


async def _cut(stage: Stage) -> None:
    _cut_off(stage)
    await _lose_and_rejoin(stage)


async def _reset(stage: Stage) -> None:
    stage.proxy.apply(Fault.abort(after=137))
    await _lose_and_rejoin(stage)


async def _fin(stage: Stage) -> None:
    stage.proxy.apply(Fault.fin())
    await _lose_and_rejoin(stage)


async def _half_open(stage: Stage) -> None:
    stage.proxy.apply(Fault.black_hole())
    await _lose_and_rejoin(stage)


async def _restart(stage: Stage) -> None:
    await stage.server.restart(down=0.5)
    await stage.lost()
    stage.say("back, with its sessions; the application knows, and calls reconnect_now()")
    stage.reconnect_now()
    await stage.rejoined()


async def _restart_lost(stage: Stage) -> None:
    await stage.server.restart(lose_sessions=True, down=0.5)
    stage.note_life()
    await stage.lost()
    stage.say("back, without its sessions; the application knows, and calls reconnect_now()")
    stage.reconnect_now()
    await stage.rejoined()


async def _expire(stage: Stage) -> None:
    _cut_off(stage)
    await stage.lost()
    await stage.missed(5, _AWAY / 2)
    stage.server.expire_sessions()
    stage.say("the session has ended, as it does when a client stays away for 5 minutes")
    await stage.rejoined()


async def _truncate(stage: Stage) -> None:
    _cut_off(stage)
    await stage.lost()
    await stage.missed(5, _AWAY / 2)
    await stage.server.truncate_replay(2)
    stage.say("from now on it keeps the newest 2 messages for a replay, and no more")
    await stage.rejoined()
    await stage.server.truncate_replay(None)


async def _broken_buffer(stage: Stage) -> None:
    server = stage.server
    server.behave(replay="verbatim_seed", replay_bytes=64)
    stage.say("its replay buffer is too small, and what should trim it empties it")
    _cut_off(stage)
    await _lose_and_rejoin(stage)
    server.behave(replay="correct", replay_bytes=_HEALTHY_REPLAY)


FAULT_TABLE: Final[Mapping[str, DemoFault]] = {
    "cut": DemoFault("the connection is reset (RST), and for 0.8 s nothing answers there", _cut),
    "half-open": DemoFault(
        "the line swallows every byte in silence: only the heartbeat can notice", _half_open
    ),
    "reset": DemoFault("137 bytes from now the connection is reset, in the middle of a message", _reset),
    "fin": DemoFault("the stream just ends, without a close frame", _fin),
    "restart": DemoFault("the bridge restarts; it remembers its sessions", _restart),
    "restart-lost": DemoFault("the bridge restarts, and has forgotten everything", _restart_lost),
    "expire": DemoFault("the connection is cut, and the client stays away too long", _expire),
    "truncate": DemoFault("the connection is cut, and the bridge keeps too little for a replay", _truncate),
    "broken-buffer": DemoFault(
        "the connection is cut, and the replay buffer is as broken as in the specification", _broken_buffer
    ),
}
