"""Plans of faults: reproducible, in time or by progress, on links, network and bridge, and over when they say."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import WebSocketException

from resilient_bridge.failure import ConfigError
from resilient_bridge.testing import Faults, ScriptedFault
from tests.internals.testing import FaultRun, SimulatedLoop
from tests.rows import each_row


SEEDS = range(300)
LASTING = {"blackhole", "delay", "throttle", "refuse", "syn_blackhole", "accept_close"}


class Server:
    """Notes what it is told to do, and when that ended."""

    def __init__(self, loop):
        self.loop = loop
        self.calls = []

    async def restart(self, *, lose_sessions):
        await asyncio.sleep(2)
        self.calls.append(("restart", lose_sessions, self.loop.time()))

    def expire_sessions(self):
        self.calls.append(("expire", self.loop.time()))

    async def truncate_replay(self, keep):
        self.calls.append(("truncate", keep))

    def step_clock(self, seconds):
        self.calls.append(("step", seconds))


def strike(script, main=None, server=Server, until=60.0):
    """Run a script of faults against an echo server; gives what fired, the bridge's calls, and main's result."""
    loop = SimulatedLoop()

    async def scenario():
        async def echo(ws):
            async for message in ws:
                await ws.send(message)

        async with serve(echo, "127.0.0.1", 0, ping_interval=None, close_timeout=1) as listening:
            bridge = server(loop)
            faults = FaultRun(Faults(script=tuple(script), until=until), loop, bridge)
            url = f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            result = await main(loop, url) if main else await asyncio.sleep(until + 10)
            await faults.finish()
            return dict(faults.fired), getattr(bridge, "calls", []), result

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        found = runner.run(scenario())
    assert loop.errors == []
    return found


async def talk(loop, url, until=80):
    """Echo once a second, reconnecting by hand; gives how each connection went."""
    story = []
    while loop.time() < until:
        try:
            async with connect(url, ping_interval=None, open_timeout=5, close_timeout=1) as ws:
                story.append("open")
                while loop.time() < until:
                    await ws.send("x" * 50)
                    await asyncio.wait_for(ws.recv(), 5)
                    story.append("echo")
                    await asyncio.sleep(1)
        except (OSError, TimeoutError, WebSocketException) as error:
            story.append(type(error).__name__)
            await asyncio.sleep(1)
    return story


def test_one_line_brings_a_plan_back():
    """repr is an expression that makes the same plan; another seed makes another."""
    for seed in SEEDS:
        faults = Faults(seed=seed, rate=0.2)
        again = eval(repr(faults))
        assert again == faults
        assert again.plan == faults.plan
        script = Faults(script=faults.plan, until=30)
        assert eval(repr(script)) == script
    assert repr(Faults(seed=7)) == "Faults(seed=7, rate=0.1)"
    assert repr(Faults(seed=7, rate=1, until=5)) == "Faults(seed=7, rate=1, until=5)"
    assert (
        repr(ScriptedFault("abort", link=2, after=5)) == "ScriptedFault('abort', link=2, after=5)"
    )
    assert len({Faults(seed=seed).plan for seed in SEEDS}) == len(SEEDS)


def test_every_fault_heals():
    """Nothing that is keyed to time begins or goes on after `heals_at`."""
    for seed in SEEDS:
        faults = Faults(seed=seed, rate=0.3, until=40)
        for fault in faults.plan:
            if fault.at is not None:
                assert 0 <= fault.at < faults.heals_at
                assert fault.at + fault.seconds <= faults.heals_at + 1e-9
            if fault.kind in LASTING:
                assert fault.seconds > 0


def test_plans_mix_everything():
    """Over some seeds every kind comes up, half of the faults on links wait for progress, and the rate is kept."""
    faults = [fault for seed in SEEDS for fault in Faults(seed=seed, rate=0.1).plan]
    kinds = Counter(fault.kind for fault in faults)
    assert len(kinds) == 15
    assert min(kinds.values()) > 10
    on_links = [
        fault
        for fault in faults
        if fault.kind in {"abort", "fin", "blackhole", "vanish", "garbage"}
    ]
    by_progress = [fault for fault in on_links if fault.at is None]
    assert 0.4 < len(by_progress) / len(on_links) < 0.6
    assert {fault.unit for fault in by_progress} == {"chunk", "byte"}
    assert {fault.side for fault in by_progress} == {"up", "down"}
    assert len(faults) / len(SEEDS) == pytest.approx(6, rel=0.1)


def test_the_clock_never_steps_further_than_an_overlap():
    """Clock steps keep the bridge within 2 minutes of the truth, so no sequence of them exceeds 4 minutes."""
    for seed in SEEDS:
        offset = 0.0
        for fault in Faults(seed=seed, rate=1).plan:
            if fault.kind == "step_clock":
                offset += fault.amount
                assert abs(offset) <= 120.01


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ScriptedFault("flood", at=1), "kind"),
        (lambda: ScriptedFault("abort"), "at"),
        (lambda: ScriptedFault("abort", at=1, link=1), "at"),
        (lambda: Faults(rate=-1), "rate"),
        (lambda: Faults(until=float("inf")), "until"),
    ],
)
def test_what_makes_no_plan_is_refused(make, field):
    """A wrong setting is a ConfigError that names it."""
    with pytest.raises(ConfigError, match=f"{field}: wanted"):
        make()


@each_row(
    ("fault", "seen"),
    [
        (ScriptedFault("abort", at=10), "ConnectionClosedError"),
        (ScriptedFault("fin", at=10), "ConnectionClosedError"),
        (ScriptedFault("vanish", at=10), "TimeoutError"),
        (ScriptedFault("blackhole", at=10, way="up", seconds=20), "TimeoutError"),
        (ScriptedFault("garbage", at=10, way="down"), "ConnectionClosedError"),
        (ScriptedFault("garbage", at=10, way="up"), "ConnectionClosedError"),
        (ScriptedFault("delay", at=10, seconds=20, amount=10), "TimeoutError"),
        (ScriptedFault("throttle", at=10, seconds=20, amount=2), "TimeoutError"),
        (ScriptedFault("abort", link=1, after=7, side="up"), "ConnectionClosedError"),
        (ScriptedFault("fin", link=1, after=100, unit="byte"), "InvalidMessage"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value),
)
def test_faults_on_links(fault, seen):
    """Each fault ends the first connection in its own way, counts once, and the next connection works."""
    fired, _, story = strike([fault], talk)
    assert fired == {fault.kind: 1}
    assert seen in story
    assert story[-1] == "echo"


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("refuse", "ConnectionRefusedError"),
        ("syn_blackhole", "TimeoutError"),
        ("accept_close", "InvalidMessage"),
    ],
)
def test_faults_at_the_door(kind, seen):
    """While a door is shut, connects fail in its way; then they work."""
    fired, _, story = strike(
        [ScriptedFault("abort", at=5), ScriptedFault(kind, at=5, seconds=15)], talk
    )
    assert fired == {"abort": 1, kind: 1}
    assert story.count(seen) >= 2
    assert story[-1] == "echo"


def test_a_fault_strikes_after_the_kth_chunk_of_the_nth_connection():
    """Progress-keyed faults wait for their connection and leave the others alone."""

    async def main(loop, url):
        ends = []
        for number in range(4):
            got = 0
            with contextlib.suppress(WebSocketException, OSError):
                async with connect(
                    url, ping_interval=None, compression=None, close_timeout=1
                ) as ws:
                    for _ in range(10):
                        await ws.send("x")
                        await ws.recv()
                        got += 1
            ends.append((number, got))
        return ends

    fired, _, ends = strike(
        [
            ScriptedFault("abort", link=2, after=150, unit="byte"),
            ScriptedFault("abort", link=4, after=5),
        ],
        main,
    )
    assert fired == {"abort": 2}
    assert [got for _, got in ends if got == 10] == [10, 10]
    assert ends[1][1] < 10
    assert ends[3][1] < 10


def test_progress_that_comes_too_late_meets_no_fault():
    """After `heals_at` a fault that still waits for progress is called off, and one that lasts is ended."""

    async def main(loop, url):
        loop.network.shut("refuse", 1_000)
        await asyncio.sleep(61)
        return await talk(loop, url, until=90)

    fired, _, story = strike(
        [
            ScriptedFault("abort", link=1, after=3),
            ScriptedFault("blackhole", link=1, after=3, seconds=99),
        ],
        main,
    )
    assert fired == {}
    assert story == ["open"] + ["echo"] * (len(story) - 1)


def test_the_bridge_is_called_by_name():
    """Faults of the bridge are its own methods, one after the other, and waited for."""
    script = [
        ScriptedFault("restart", at=1),
        ScriptedFault("lose_sessions", at=1.5),
        ScriptedFault("expire_sessions", at=2),
        ScriptedFault("truncate_replay", at=20, amount=3),
        ScriptedFault("step_clock", at=30, amount=-90),
    ]
    fired, calls, _ = strike(script)
    assert fired == {fault.kind: 1 for fault in script}
    assert calls == [
        ("restart", False, 3.0),
        ("restart", True, 5.0),
        ("expire", 5.0),
        ("truncate", 3),
        ("truncate", None),
        ("step", -90),
    ]


def test_a_bridge_without_a_method_is_spared():
    """A server that cannot do it is not asked, and the fault does not count."""
    fired, _, _ = strike(
        [ScriptedFault("restart", at=1), ScriptedFault("step_clock", at=2)],
        server=lambda _: object(),
    )
    assert fired == {}


def test_finish_waits_for_the_bridge():
    """A restart under way when the program ends is waited for, not cut."""

    async def main(loop, _):
        await asyncio.sleep(1.5)

    _, calls, _ = strike([ScriptedFault("restart", at=1)], main)
    assert calls == [("restart", False, 3.0)]


def test_a_fault_without_a_link_does_not_count():
    """`fired` counts what happened: a reset with nothing to reset did not."""
    fired, _, _ = strike([ScriptedFault("abort", at=5)])
    assert fired == {}
