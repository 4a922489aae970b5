"""Numbered notes, and a link that comes back: what the tests of the outbox are written in."""

from __future__ import annotations

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Iterable

    from resilient_bridge.protocol import Entry
    from tests.protocol.driving import Rig


def notes(rig: Rig) -> list:
    """The `n` of the notes written on the current connection."""
    return [frame["payload"]["n"] for frame in rig.wire if frame["type"] == "note"]


def sends(rig: Rig, *numbers, **options) -> list[Entry]:
    """One send for each."""
    return [rig.send(payload={"n": n}, **options) for n in numbers]


def again(rig: Rig, seconds: float = 1.0, **epoch) -> Rig:
    """The next connection, as far as READY or as one entry at a time allows."""
    rig.step(seconds)
    rig.connect()
    rig.authenticate(**epoch)
    rig.join()
    while rig.state == "REPLAYING":
        rig.replay()
    return rig


def states(entries: Iterable[Entry]) -> list[str]:
    """What became of them."""
    return [entry.state.value for entry in entries]
