"""Rows 20 and 21: half-open links, and cuts between any two bytes, by the book in virtual time and over real sockets.

Rule: whatever is cut, the ledger at the end is the bridge's own.
"""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import BridgeServer, Fault, FaultProxy
from tests.internals.testing import Simulation
from tests.samples import some
from tests.threats.watching import Watch, port_of, proxied, push, quick, until


HEARTBEAT = rb.bridge.Heartbeat(every=0.3, timeout=0.3, probe_timeout=0.3)


@pytest.mark.real
@pytest.mark.requirement("V13")
@pytest.mark.parametrize("direction", ["both", "down", "up"])
async def test_row_20_half_open(direction):
    """Silence in either direction, without FIN or RST: found within interval and timeout, and nothing is lost."""
    async with proxied(policy=quick(heartbeat=HEARTBEAT)) as (server, proxy, watch):
        loop = asyncio.get_running_loop()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1], 5)
        started = loop.time()
        proxy.apply(Fault.black_hole(direction))
        receipt = await watch.client.send("note", {"n": 7})
        await push(server, 2)
        await watch.until(lambda: watch.losses, 5)
        assert loop.time() - started < HEARTBEAT.every + HEARTBEAT.timeout + 0.25 + 0.5
        assert watch.losses == ["CONN_HEARTBEAT_TIMEOUT"]
        await watch.recovered(2, within=5)
        await push(server, 3)
        await watch.until(lambda: 3 in watch.ids, 5)
        assert watch.ids == [1, 2, 3]
        assert await receipt.confirmed(5) in {
            "applied",
            "read",
        }  # "read": it had been applied before the repetition
        assert [message["payload"]["n"] for message in server.received] == [7]


@pytest.mark.parametrize("way", ["both", "down", "up"])
@pytest.mark.requirement("V13")
def test_row_20_half_open_by_the_book(way):
    """With the recommended 15 and 10 seconds a half-open link is found within 25.5 s, at any moment of the interval."""
    for moment in range(0, 16, 3):

        async def main(server, moment=moment):
            loop = asyncio.get_running_loop()
            async with Watch(server.url) as watch:
                await watch.ready()
                await asyncio.sleep(moment + 0.37)
                started = loop.time()
                for link in loop.network.links:
                    link.blackhole(1e6, way)
                await watch.until(lambda: watch.losses, 60)
                assert loop.time() - started <= 25.5
                assert watch.losses == ["CONN_HEARTBEAT_TIMEOUT"]
                loop.network.heal()
                await watch.recovered(2)

        Simulation(moment).run(main)


# ---- row 21: between any two bytes ------------------------------------------------------------------------------


async def exchange(server, watch, proxy=None):
    """Ten pushed, ten sent, across whatever happens; what must hold at the end."""
    receipts = []
    for n in range(10):
        await push(server, n, type="stream_chunk" if n % 3 == 2 else "tool_call")
        receipts.append(await watch.client.send("note", {"n": n}))
        await asyncio.sleep(0.005)
    for receipt in receipts:
        assert await receipt.confirmed(20) in {"applied", "read"}
    await watch.until(lambda: set(range(10)) <= set(watch.ids), 20)
    applied = [message["payload"]["n"] for message in server.received]
    assert applied == [*range(10)]
    sure = [message.payload["n"] for message in watch.messages if not message.maybe_duplicate]
    assert sure == sorted(set(sure))
    if not watch.gaps:
        assert watch.ids == [*range(10)]
    for message in watch.messages:
        assert set(message.payload) == {"n"}  # never a part of a frame


def test_row_21_cut_between_any_two_bytes():
    """RST and FIN all over the bytes of a session's first 1,500 down and 1,200 up: no partial message, no loss, no repetition."""

    def cut(after, how, way):
        async def main(server):
            loop = asyncio.get_running_loop()
            while server.session is None:  # somebody has to own what is pushed
                async with Watch(server.url, session_id="s") as first:
                    await first.ready()
            loop.network.on_link.append(
                lambda link: link.cut_after(after, how, way) if link.number == 2 else None
            )
            async with Watch(server.url, session_id="s") as watch:
                await watch.until(
                    lambda: watch.client.state == "READY" or watch.losses or watch.waits, 60
                )
                await exchange(server, watch)

        Simulation(after).run(main)

    for after in some(range(1, 1_500), 42):
        cut(after, "abort" if after % 2 else "fin", "down")
    for after in some(range(1, 1_200), 21):
        cut(after, "fin" if after % 2 else "abort", "up")


@pytest.mark.real
@pytest.mark.parametrize("how", ["abort", "fin"])
@pytest.mark.parametrize("direction", ["down", "up"])
async def test_row_21_cut_between_bytes_of_real_sockets(how, direction):
    """The same over TCP, at seven places each: upgrade, handshake, messages."""
    async with BridgeServer() as server:
        for after in (1, 128, 129, 131, 333, 600, 1_200):
            async with FaultProxy("127.0.0.1", port_of(server.url)) as proxy:
                proxy.script(getattr(Fault, how)(after=after, direction=direction))
                session = f"{how}-{direction}-{after}"
                async with Watch(proxy.url("/ws"), policy=quick(), session_id=session) as watch:
                    await until(lambda: server.session == session, 5)  # noqa: B023 -- awaited at once
                    server.received.clear()
                    await exchange(server, watch)
