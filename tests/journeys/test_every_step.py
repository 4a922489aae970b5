"""A link that dies at every step of the protocol, in every way: nothing is lost in silence, repeated or reordered."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import simulate
from tests.internals.testing import Link
from tests.internals.testing import faults_GARBAGE as GARBAGE
from tests.samples import IS_ALL

from .journey import Journey


CLOSE_FRAME = b"\x88\x02\x03\xe9"  # 1001, going away
DEATHS: dict[str, Any] = {
    "abort": Link.abort,
    "fin": Link.fin,
    "fin_lost": lambda link: link.fin(lose=True),
    "blackhole": lambda link: link.blackhole(35.0),
    "vanish": Link.vanish,
    "close": lambda link: link.inject(CLOSE_FRAME),
    "garbage": lambda link: link.inject(GARBAGE),
}
BRIDGES: dict[str, dict[str, Any]] = {
    "correct": {"push_buffer": False},
    "seed": {"replay": "verbatim_seed", "acks": "none", "replay_ids": False},
    "late": {"replay_delay": 0.05, "push_buffer": False, "timestamps": "s"},
}
ALL_PAIRS = list(itertools.product(BRIDGES, DEATHS))
PAIRS = list(
    zip(itertools.cycle(BRIDGES), DEATHS)
)  # each death, and each bridge twice at least; `nox -s damage` plays all
POLICY = rb.presets.default.evolve(
    reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.5), connect_burst=10)
)


async def traffic(journey: Journey, size: int) -> None:
    """Both directions, with and without ids, before, during and after a loss."""
    await journey.ready()
    await journey.push(1, 2)
    await journey.push(3, type="stream_chunk")
    await journey.send(1, 2, 3)
    await asyncio.sleep(0.5)
    await journey.server.cut("abort")
    await journey.send(4, 5, size=size)
    await journey.push(4)
    await journey.push(5, type="stream_chunk")
    await journey.push(6)
    await asyncio.sleep(0.51)
    for n in range(6, 12):
        await journey.send(n, size=size)
        await journey.push(n + 1, type="tool_call" if n % 2 else "stream_chunk")
        await asyncio.sleep(0.003)


class Blow:
    """Strikes link `number` right after the n-th chunk or byte of one side; `states`: where the client stood then."""

    def __init__(self, number: int, side: str, unit: Any, after: int, how: str) -> None:
        self.number, self.side, self.unit, self.after, self.how = number, side, unit, after, how
        self.states: list[str] = []

    def __repr__(self) -> str:
        return f"{self.how} on link {self.number} after {self.unit} {self.after} {self.side}"

    async def run(self, server: Any, bridge: str, size: int = 0) -> bool:
        """One journey; False if the link never got that far."""
        server.behave(**BRIDGES[bridge])
        loop: Any = asyncio.get_running_loop()
        async with Journey(server, policy=POLICY) as journey:
            loop.network.on_link.append(lambda link: self.watch(link, journey.client))
            await traffic(journey, size)
            await journey.rest()
            assert await journey.client.aclose() == []
        journey.check()
        fields = {n: receipt.state for n, receipt in journey.receipts.items()}
        assert fields == dict.fromkeys(range(1, 12), "confirmed")
        return bool(self.states)

    def watch(self, link: Link, client: rb.BridgeClient) -> None:
        """Set the mark, if this is the link."""
        if link.number == self.number:
            (way,) = link.directions(self.side)  # type: ignore[arg-type]
            way.when(self.unit, self.after, lambda: self.strike(link, client))

    def strike(self, link: Link, client: rb.BridgeClient) -> None:
        """Now."""
        self.states.append(client.state.value)
        DEATHS[self.how](link)


def strike(blow: Blow, bridge: str, size: int = 0) -> bool:
    """Run one, and name it if it fails."""
    try:
        return simulate(lambda server: blow.run(server, bridge, size), seed=blow.after)
    except Exception as error:
        error.add_note(f"{blow!r}, bridge {bridge}")
        raise


def cut_everywhere(bridge: str, how: str, unit: str, step: int) -> list[str]:
    """Strike a first and a resumed link, both sides, at every `step` of them; returns where the client stood each time."""
    states: list[str] = []
    for number, side in itertools.product((1, 2), ("up", "down")):
        after = step
        while strike(blow := Blow(number, side, unit, after, how), bridge):
            states += blow.states
            after += step
    assert {"CONNECTING", "AUTHENTICATING", "JOINING", "READY"} <= set(states)
    assert (
        "REPLAYING" in states or bridge == "seed"
    )  # what it pushes unasked ends the replay before it is asked for
    return states


@pytest.mark.parametrize(("bridge", "how"), ALL_PAIRS if IS_ALL else PAIRS)
def test_a_link_that_dies_at_any_step_loses_nothing(bridge, how):
    """After every chunk, either way, of a first and a resumed link: all arrives, in order, once; every receipt says so."""
    assert len(cut_everywhere(bridge, how, "chunk", 1)) > 20


@pytest.mark.parametrize(
    ("bridge", "how", "every"),
    [("correct", "abort", 2), ("seed", "vanish", 2)]
    + [pytest.param(*pair, 1, marks=pytest.mark.simulation) for pair in ALL_PAIRS],
)
def test_a_link_that_dies_between_any_two_frames_loses_nothing(bridge, how, every):
    """Between all frames, or at every other place, and so within many: the same outcome."""
    assert (
        len(cut_everywhere(bridge, how, "byte", 79 * every)) > 60 / every
    )  # no frame is shorter than 79


@pytest.mark.parametrize("how", ["abort", "close", "vanish"])
def test_a_link_that_dies_during_the_flush_loses_nothing(how):
    """A flush that takes time (100 kB a message) is cut in its middle: what was handed out is repeated, in order, once."""
    states: list[str] = []
    for after in (*range(4_000, 260_000, 32_000), 320_000):
        blow = Blow(2, "up", "byte", after, how)
        assert strike(blow, "correct", size=100_000)
        states += blow.states
    assert states.count("FLUSHING") > 3


@pytest.mark.simulation
@pytest.mark.parametrize("how", ["abort", "fin_lost"])
@pytest.mark.parametrize("side", ["up", "down"])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("bridge", BRIDGES)
def test_a_link_cut_between_any_two_bytes_delivers_no_partial_frame(bridge, number, side, how):
    """Cut between every seventh byte and the next, or every 37th, either way: the same outcome as without a cut."""
    after = 1 + number + len(bridge)
    while strike(Blow(number, side, "byte", after, how), bridge):
        after += 7 if IS_ALL else 37
    assert after > 600
