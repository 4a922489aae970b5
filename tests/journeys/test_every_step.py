"""A link that dies at every step of the protocol, in every way: nothing is lost in silence, repeated or reordered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import resilient_bridge as rb
from resilient_bridge.testing.faults import GARBAGE
from resilient_bridge.testing.link import Link
from resilient_bridge.testing.simulation import simulate

from .journey import Journey


CLOSE_FRAME = b"\x88\x02\x03\xe9"  # 1001, going away
DEATHS = {
    "abort": Link.abort,
    "fin": Link.fin,
    "fin_lost": lambda link: link.fin(lose=True),
    "blackhole": lambda link: link.blackhole(35.0),
    "vanish": Link.vanish,
    "close": lambda link: link.inject(CLOSE_FRAME),
    "garbage": lambda link: link.inject(GARBAGE),
}
POLICY = rb.presets.default.evolve(
    reconnect=rb.Reconnect(backoff=rb.Backoff.constant(0.5), connect_burst=10)
)


async def traffic(journey: Journey) -> None:
    """Both directions, with and without ids, before, during and after a loss."""
    await journey.ready()
    await journey.push(1, 2)
    await journey.push(3, type="stream_chunk")
    await journey.send(1, 2, 3)
    await asyncio.sleep(0.5)
    await journey.server.cut("abort")
    await journey.send(4, 5)
    await journey.push(4)
    await journey.push(5, type="stream_chunk")
    await journey.push(6)
    await asyncio.sleep(0.51)
    for n in range(6, 12):
        await journey.send(n)
        await journey.push(n + 1, type="tool_call" if n % 2 else "stream_chunk")
        await asyncio.sleep(0.003)


async def run(server: Any, number: int, side: str, k: int, how: str, behaviour: dict[str, Any]) -> bool:
    """One journey whose link `number` dies right after the k-th chunk of one side; False if there was no such chunk."""
    struck: list[Link] = []

    def watch(link: Link) -> None:
        if link.number == number:
            (way,) = link.ways(side)  # type: ignore[arg-type]
            way.when("chunk", k, lambda: (struck.append(link), DEATHS[how](link)))

    server.behave(**behaviour)
    loop: Any = asyncio.get_running_loop()
    loop.network.on_link.append(watch)
    async with Journey(server, policy=POLICY) as journey:
        await traffic(journey)
        await journey.rest()
    journey.kept()
    assert {receipt.state for receipt in journey.receipts.values()} == {"confirmed"}, journey.receipts
    return bool(struck)


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("side", ["up", "down"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_link_that_dies_at_any_step_loses_nothing(number, side, how):
    """After every chunk of a first link and of a resumed one: both directions complete, in order, once; all receipts told."""
    k = 0
    while True:
        k += 1
        try:
            if not simulate(lambda server, k=k: run(server, number, side, k, how, {}), seed=k):
                break
        except Exception as error:
            error.add_note(f"link {number}, after chunk {k} {side}, {how}")
            raise
    assert k > 12
