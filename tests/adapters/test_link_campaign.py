"""Thousands of calls that must not run twice, over connections that fail by a seed: what each caller was told is held against
what really happened.

Rule: the truth is the server's ledger and the proxy's log, never what the client believes. A failure prints how to replay it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import attrs
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

import resilient_bridge as rb
from tests.adapters.link_peers import quick
from tests.adapters.link_servers import peer_of
from tests.peers.faults import Fault, seeded
from tests.peers.http_fault import HttpFault
from tests.peers.ports import HOST
from tests.peers.running import mcp_server
from tests.samples import IS_ALL, some


pytestmark = [pytest.mark.real, pytest.mark.sample, pytest.mark.timeout(180)]

PROVABLE = {
    425,
    429,
}  # by its specification, and by convention, such a call did not run: it must have been repeated
LOST_SESSION = 404  # known to mean that only where there are sessions
FAULTS = [
    *(Fault.answer(status) for status in (408, 429, 429, 404, 503)),
    *(Fault.reset_unread(), Fault.reset_before()),
    *(Fault.reset_after(), Fault.reset_after(), Fault.cut(), Fault.cut(9, reset=True)),
]


PROVABLE_FAULTS = [Fault.answer(status) for status in (425, 425, 429, 429)]
ONE_CALLER, MANY_CALLERS, REFUSED_CALLERS = (
    some([11, 12, 13, 14], 1),
    some([23, 22, 21], 1),
    some([51, 52], 1),
)
SEEDS: dict[int, dict[str, Any]] = {
    **{seed: {"calls": 250, "callers": 1} for seed in ONE_CALLER},
    **{seed: {"calls": 280, "callers": 8, "is_bare": seed > 21} for seed in MANY_CALLERS},
    **{
        seed: {"calls": 120, "callers": 8, "faults": PROVABLE_FAULTS, "rate": 0.5}
        for seed in REFUSED_CALLERS
    },
}


@attrs.define
class Outcomes:
    """What the callers were told: "done", "unknown" (it may have run), "not run", or "answered" with an error of mcp's."""

    reported: dict[str, str] = attrs.Factory(dict)

    async def of(self, key: str, client: Any) -> None:
        """Make one call, and keep what came of it."""
        try:
            answer = await client.call_tool("create_ticket", {"key": key})
            self.reported[key] = "done" if answer.content[0].text == f"created {key}" else "wrong"
        except rb.OutcomeUnknownError as error:
            self.reported[key] = (
                "unknown" if error.failure.executed is rb.errors.Executed.MAYBE else "wrong"
            )
        except rb.errors.RejectedError as error:
            self.reported[key] = (
                "not run" if error.failure.executed is rb.errors.Executed.NO else "wrong"
            )
        except MCPError:
            self.reported[key] = "answered"

    def judge(self, ran: Callable[[str], int], replay: str) -> None:
        """Hold it against the ledger; an AssertionError with every contradiction."""
        wrong = []
        for key, reported in self.reported.items():
            allowed = {"done": {1}, "not run": {0}, "unknown": {0, 1}, "answered": {0, 1}}.get(
                reported, set()
            )
            if ran(key) not in allowed:
                wrong.append(f"{key}: told {reported!r}, ran {ran(key)} times")
        assert not wrong, f"{wrong[:10]}; {replay}"


class Front(HttpFault):
    """The proxy, and what it did from one call to the next."""

    def faults_since(self, number: int) -> list[Fault]:
        """What went wrong with requests since that one."""
        return [exchange.fault for exchange in self.log[number:] if exchange.fault.kind != "sound"]


@pytest.fixture(scope="module")
async def server(tmp_path_factory):
    """One MCP server; it is the proxy before it that fails."""
    async with mcp_server(ledger=tmp_path_factory.mktemp("campaign") / "ledger") as server:
        yield server


def factory_of(url: str, mode: str, *, is_bare: bool) -> Callable[[], Any]:
    """Make clients of mcp, bare or with our transport below, which repeats what it knows to be safe."""
    if is_bare:
        return lambda: Client(url, mode=mode)
    retry = rb.Retry(attempts=100, backoff=rb.Backoff.constant(0.005, jitter="none"), budget=None)

    @asynccontextmanager
    async def made():
        async with (
            httpx2.AsyncClient(transport=rb.HTTPTransport(rb.Policy(retry))) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            yield client

    return made


_done: dict[int, Any] = {}


async def campaign(server, seed: int):
    """What came of one seed of SEEDS, which is played once."""
    if seed not in _done:
        mode = "legacy" if seed % 2 else "auto"
        _done[seed] = await play(server, seed, mode=mode, **SEEDS[seed])
    return _done[seed]


async def play(
    server,
    seed: int,
    calls: int,
    *,
    callers: int,
    mode: str,
    is_bare: bool = False,
    faults: Sequence[Fault] = FAULTS,
    rate: float = 0.12,
    **options,
):
    """So many calls over one link behind the failing proxy; what was told, and what the proxy did."""
    outcomes, numbers, rng = Outcomes(), iter(range(calls)), random.Random(seed)
    met: Counter[str] = Counter()  # the faults, by kind
    struck: dict[
        str, list[Fault]
    ] = {}  # all that went wrong while a call was made, and the call before it
    front = Front((HOST, server.port), decide=seeded(seed, faults, rate=rate, method="POST"))

    async def heal():
        while True:
            await asyncio.sleep(0.02)
            await front.listen()

    async with front:
        factory = factory_of(front.url("/mcp"), mode, is_bare=is_bare)
        link = rb.reconnecting(factory, quick(), patience=30, **options)
        async with link as client, asyncio.TaskGroup() as group:
            healer = group.create_task(heal())

            async def caller():
                before = last = 0
                for number in numbers:
                    if callers == 1 and rng.random() < 0.05:
                        await link.wait_ready(30)
                        met["refused"] += 1
                        await (
                            front.refuse()
                        )  # until it is healed; now, because no connection is being made
                    before, last = last, len(front.log)
                    await outcomes.of(key := f"s{seed}n{number}", client)
                    struck[key] = front.faults_since(before)

            await asyncio.gather(*(caller() for _ in range(callers)))
            healer.cancel()
    assert len(outcomes.reported) == calls
    met += Counter(fault.kind for fault in front.faults_since(0))
    return outcomes, struck, link, met


def replay(test: str, seed: int) -> str:
    """How to see it again."""
    return f"replay: pytest tests/adapters/test_link_campaign.py -k '{test} and {seed}'"


@pytest.mark.requirement("V8", "V9", "V13")
@pytest.mark.parametrize("seed", ONE_CALLER)
async def test_one_caller_at_a_time_hears_the_exact_truth(seed, server):
    """Nothing ran twice; and whatever met nothing but refusals that prove something was repeated until it ran."""
    mode = "legacy" if seed % 2 else "auto"
    outcomes, struck, link, _ = await campaign(server, seed)
    keys = server.ledger.keys
    outcomes.judge(keys.count, replay("one_caller", seed))
    provable = PROVABLE | ({LOST_SESSION} if mode == "legacy" else set())
    for key, reported in outcomes.reported.items():
        is_known = all(fault.kind == "answer" and fault.status in provable for fault in struck[key])
        if is_known and reported != "done":
            # it ran once, and what mcp asks for afterwards met a fault
            assert keys.count(key) == 1, (key, reported, struck[key], replay("one_caller", seed))
    assert set(outcomes.reported.values()) >= {"done", "unknown", "answered"}
    assert link.health().reconnects >= 5


@pytest.mark.requirement("V8", "V9", "V13")
@pytest.mark.parametrize("seed", MANY_CALLERS)
async def test_many_callers_at_once_hear_nothing_false(seed, server):
    """Eight callers share a link, and so its losses: what ended one call never proves anything about another."""
    outcomes, _, link, _ = await campaign(server, seed)
    outcomes.judge(server.ledger.keys.count, replay("many_callers", seed))
    parts = list(outcomes.reported.values())
    assert parts.count("done") > len(parts) / 4  # each loss is that of up to eight calls
    assert link.health().reconnects >= 5


@pytest.mark.requirement("V9")
@pytest.mark.parametrize("seed", REFUSED_CALLERS)
async def test_many_callers_at_once_have_everything_repeated_that_did_not_run(seed, server):
    """Eight callers, half of whose requests are refused in ways that prove it: every call is repeated until it ran, once."""
    outcomes, _, link, met = await campaign(server, seed)
    fields = {key: (fields, server.ledger.count(key)) for key, fields in outcomes.reported.items()}
    wrong = {key: ended for key, ended in fields.items() if ended != ("done", 1)}
    assert not wrong, f"{wrong}; {replay('everything_repeated', seed)}"
    assert met["answer"] > len(fields) / 2
    assert link.health().reconnects == 0


async def test_the_judge_notices_what_runs_twice(server):
    """A link that is told that every call may run twice repeats them, and the campaign finds keys that did."""
    outcomes, *_ = await play(server, 41, 80, callers=1, mode="auto", idempotent=True)
    with pytest.raises(AssertionError, match=r"ran 2 times.*replay: pytest"):
        outcomes.judge(server.ledger.keys.count, replay("judge", 41))


async def test_hundreds_of_faults_were_injected(server):
    """So many requests were really struck between mcp and its server, in every way."""
    met: Counter[str] = Counter()
    for seed in SEEDS:
        met += (await campaign(server, seed))[3]
    assert met.total() >= (500 if IS_ALL else 150), met
    assert set(met) == {"answer", "reset_unread", "reset_before", "reset_after", "cut", "refused"}
    assert min(met.values()) >= (20 if IS_ALL else 4), met


@contextmanager
def broken_pipes_unsaid():
    """Asyncio of Python 3.11.2 drops a future with the broken pipe of a killed child; what the collector then says of it is no failure of ours."""
    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()

    def stated(loop, context):
        if not isinstance(context.get("exception"), BrokenPipeError):
            handler(loop, context)

    loop.set_exception_handler(stated)
    try:
        yield
        gc.collect()
    finally:
        loop.set_exception_handler(handler)


@pytest.mark.requirement("V8", "G5")
@pytest.mark.parametrize("seed", [31])
async def test_children_that_are_killed_take_no_call_twice(seed, tmp_path):
    """stdio, six kills by a seed, between and during calls: the same truth, and every child is gone in the end."""
    rng = random.Random(seed)
    kills = {rng.randrange(20, 200): rng.choice([0.0, 0.0, 0.001, 0.002]) for _ in range(6)}
    outcomes = Outcomes()
    with broken_pipes_unsaid():
        async with peer_of("stdio", tmp_path) as peer:
            async with rb.reconnecting(peer.factory, quick(), patience=30) as client:
                loop = asyncio.get_running_loop()
                for batch in range(0, 220, 4):
                    for number in range(batch, batch + 4):
                        if number in kills:
                            loop.call_later(kills[number], kill, peer.ledger.lives[-1])
                    await asyncio.gather(
                        *(
                            outcomes.of(f"s{seed}n{number}", client)
                            for number in range(batch, batch + 4)
                        )
                    )
            outcomes.judge(peer.ledger.keys.count, replay("children", seed))
            assert "unknown" in outcomes.reported.values()
            assert len(peer.ledger.lives) >= 4
            for pid in peer.ledger.lives:
                with pytest.raises(ProcessLookupError):
                    os.kill(pid, 0)


def kill(pid: int) -> None:
    """Kill a child, unless it is gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
