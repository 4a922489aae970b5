"""Messages over a link of the websockets library to a server that closes, cuts and refuses by a seed: none that may not arrives
twice, and what was made while the connection provably was gone arrives once.

Rule: the truth is what the server counted. A `send` is answered by nobody, so that in a round that breaks a connection under its
eight senders one that was handed out may be lost; in every other round it may not. A failure prints how to replay it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from socket import SO_RCVBUF, SO_SNDBUF, SOL_SOCKET

import attrs
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

import resilient_bridge as rb
from tests.adapters.campaigns import ATTEMPTS, CALLERS, outcome_of
from tests.adapters.link_peers import quick, quiet
from tests.peers.ports import HOST, Port
from tests.peers.running import until
from tests.samples import IS_ALL, some


pytestmark = [pytest.mark.real, pytest.mark.sample, pytest.mark.timeout(180)]

SEEDS = some([71, 72, 73], 1)
ROUNDS = 120
GONE = [
    "closed at rest",
    "closed unnoticed",
    "cut at rest",
    "refused",
    "handshake refused",
]  # before the round's calls are made
BROKEN = [
    "cut unnoticed",
    "cut before reading",
    "cut after reading",
    "closed while reading",
    "cut amid sending",
]
FILLER = "x" * 300_000  # more than two small buffers of sockets hold
CODES = [1000, 1001, 1011, 4000]  # 1012 and 1013 ask for a wait
STATUSES = [408, 500, 502, 503, 504]

_done: dict[int, Campaign] = {}


@attrs.define
class Call:
    """One message: what its round did, whether it may be sent twice, and what its sender was told."""

    key: str
    round: str
    may_repeat: bool
    reported: str = ""

    def fault_of(self, ran: int) -> str:
        """What is wrong with how it went; empty if nothing is."""
        if ran > 1 and not self.may_repeat:
            return "arrived twice"
        if self.reported not in {"done", "unknown"}:  # nothing refuses a message for good
            return "not repeated"
        if self.reported == "unknown":
            return "not repeated" if self.may_repeat or self.round not in BROKEN else ""
        return "lost" if not ran and self.round not in BROKEN else ""


class Campaign:
    """The server, the calls of one seed, and what went wrong with connections."""

    def __init__(self, seed: int, port: Port) -> None:
        """Not listening yet."""
        self.seed, self.port = seed, port
        self.rng = random.Random(seed)  # of the round
        self.calls: list[Call] = []
        self.ran: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._server = None
        self._statuses: list[int] = []
        self._victim, self._fault = "", ""  # the message at which it breaks, and how
        self._remaining_tries = 0  # connections to refuse
        self._is_enough = asyncio.Event()

    # ---- the server -----------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Accept connections."""
        self._server = await serve(
            self._attend,
            sock=self.port.listen(),
            process_request=self._answer,
            close_timeout=5,
            compression=None,
            max_size=None,
        )

    async def stop(self) -> None:
        """Close every connection, and refuse others from now on."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    def _answer(self, connection, request):
        if not self._statuses:
            return None
        self.faults["handshake refused"] += 1
        return connection.respond(self._statuses.pop(), "no\n")

    async def _attend(self, connection: ServerConnection) -> None:
        async for message in connection:
            key = message.partition(" ")[0]
            if key == self._victim:
                self._victim = ""
                self.faults[self._fault] += 1
                if self._fault == "cut before reading":
                    connection.transport.abort()
                    return
                if self._fault in {"cut after reading", "cut amid sending"}:
                    self.ran[key] += 1
                    connection.transport.abort()
                    return
                await connection.close(self.rng.choice(CODES))
                return
            self.ran[key] += 1

    def _client(self):
        """The next client; it is refused while nobody listens."""
        if self._server is None:
            self.faults["refused"] += 1
            self._remaining_tries -= 1
            if self._remaining_tries <= 0:
                self._is_enough.set()
        return connect(f"ws://{HOST}:{self.port.number}", compression=None)

    # ---- the callers ----------------------------------------------------------------------------------------------

    async def run(self, **options) -> None:
        """Make all calls, in rounds."""
        retry = rb.Retry(attempts=ATTEMPTS, backoff=rb.Backoff.constant(0), budget=None)
        policy = quick(calls=rb.Policy(retry), backoff=rb.Backoff.constant(0.001, jitter="none"))
        options.setdefault("idempotent", lambda call: "again" in call.args[0])
        await self.listen()
        try:
            link = rb.reconnecting(self._client, policy, **options)
            async with asyncio.timeout(100), link as ws:
                for number in range(ROUNDS):
                    await self._round(number, ws, link)
        finally:
            await self.stop()

    async def _round(self, number: int, ws, link: rb.links.Reconnecting) -> None:
        self.rng = rng = random.Random(f"{self.seed}:{number}")
        before = link._supervisor.current
        what = rng.choice([*GONE, *BROKEN, "", ""])
        calls = []
        for n in range(CALLERS):
            may_repeat = rng.random() < 0.2
            key = f"s{self.seed}r{number}c{n}{'again' if may_repeat else ''}"
            calls.append(Call(key, what, may_repeat))
        self.calls += calls
        await self._break(what, calls[rng.randrange(CALLERS)].key, link)
        filler = FILLER if what == "cut amid sending" else ""
        senders = asyncio.gather(*(self._one(ws, call, filler) for call in calls))
        if what == "refused":
            await asyncio.wait_for(self._is_enough.wait(), 20)
            await self.listen()
        if filler:  # all were begun before the first is read
            await until(
                lambda: (
                    link.health().in_flight + sum(bool(call.reported) for call in calls) == CALLERS
                )
            )
            next(iter(self._server.connections)).transport.resume_reading()
        await senders
        if what:  # the next round begins on a connection of its own
            await until(lambda: link._supervisor.current is not before and link.state == "READY")
        if what not in BROKEN:  # what was told to be sent is there, soon
            await until(
                lambda: all(self.ran[call.key] for call in calls if call.reported == "done")
            )

    async def _break(self, what: str, victim: str, link: rb.links.Reconnecting) -> None:
        rng, before = self.rng, link._supervisor.current
        here = list(self._server.connections)
        self._victim, self._fault = (victim, what) if what in BROKEN else ("", "")
        if what in {"closed at rest", "closed unnoticed", "cut at rest", "cut unnoticed"}:
            self.faults[what] += len(here)
        if what in {"closed at rest", "handshake refused"}:
            refusals = rng.randrange(1, 5) if what == "handshake refused" else 0
            self._statuses = [rng.choice(STATUSES) for _ in range(refusals)]
            # It returns when both sides have said it.
            await asyncio.gather(*(connection.close(rng.choice(CODES)) for connection in here))
        elif what == "closed unnoticed":  # the calls are made before the link can know
            await before.close()
        elif what == "refused":
            self._is_enough.clear()
            self._remaining_tries = rng.randrange(1, 7)
            await self.stop()
        elif what.startswith("cut"):
            await self._cut(what, here, link)

    async def _cut(
        self, what: str, here: list[ServerConnection], link: rb.links.Reconnecting
    ) -> None:
        before = link._supervisor.current
        if what in {"cut at rest", "cut unnoticed"}:
            for connection in here:
                connection.transport.abort()
        if what == "cut at rest":
            await until(lambda: link.state != "READY" or link._supervisor.current is not before)
        if what == "cut amid sending":
            here[0].transport.pause_reading()
            for transport, buffer in (here[0].transport, SO_RCVBUF), (before.transport, SO_SNDBUF):
                transport.get_extra_info("socket").setsockopt(SOL_SOCKET, buffer, 50_000)

    async def _one(self, ws, call: Call, filler: str) -> None:
        try:
            await ws.send(f"{call.key} {filler}")
            call.reported = "done"
        except rb.BridgeError as error:
            call.reported = outcome_of(error)

    def judge(self) -> None:
        """Hold what was told against what arrived; an AssertionError with every contradiction."""
        replay = f"replay: pytest tests/adapters/test_websockets_campaign.py -k {self.seed}"
        wrong = [
            f"{why}: {call}, which arrived {self.ran[call.key]} times"
            for call in self.calls
            if (why := call.fault_of(self.ran[call.key]))
        ]
        assert not wrong, "\n".join(
            [f"{len(wrong)} of {len(self.calls)} messages:", *wrong[:8], replay]
        )


async def campaign(seed: int, **options) -> Campaign:
    """The messages of one seed, sent once if there are no options."""
    if seed in _done and not options:
        return _done[seed]
    before = await quiet()
    with Port() as port:
        run = Campaign(seed, port)
        await run.run(**options)
    assert {name for name in await quiet() if "resilient_bridge" in name} <= before
    if not options:
        _done[seed] = run
    return run


@pytest.mark.requirement("V8", "V13")
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_message_arrives_twice_and_no_unsent_one_is_lost(seed):
    """Eight senders a round, hundreds of messages: each is told the truth, and what did not leave is sent on the next connection."""
    run = await campaign(seed)
    run.judge()
    reported = Counter(call.reported for call in run.calls)
    assert reported["done"] > len(run.calls) / 2
    assert reported["unknown"]


async def test_the_judge_notices_what_arrives_twice():
    """A link that is told that every message may be sent twice does so, and the campaign finds some that arrived twice."""
    run = await campaign(70, idempotent=True)
    with pytest.raises(AssertionError, match=r"(?s)arrived twice.*replay: pytest"):
        run.judge()


async def test_hundreds_of_faults_were_injected():
    """So many really happened to connections and handshakes, of every kind."""
    faults: Counter[str] = Counter()
    for seed in SEEDS:
        faults += (await campaign(seed)).faults
    assert faults.total() >= (300 if IS_ALL else 100), faults
    assert min(faults.values()) >= (5 if IS_ALL else 1), faults
    assert set(faults) == {*GONE, *BROKEN}
