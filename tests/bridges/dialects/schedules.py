"""One seeded run of the real client, in one dialect, against a double of its server, on a simulated network with faults.

The double is written by other hands than the client. What a run must show, whatever the server can do: nothing lost, doubled or
reordered without a gap that says so, in its place; nothing sent twice to a server that does not recognise it; RECOVERED while the server
held everything. `run(case, seed)` returns what was seen; its `problems` end with the command that repeats it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import resilient_bridge as rb
from resilient_bridge.testing import Faults
from tests.bridges.doubles.harness import serving_websockets
from tests.bridges.doubles.reading import numbers_in
from tests.internals.testing import Simulation


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EXCUSED = {
    "no_position",
    "timeout",
}  # nothing had come yet; the network was too slow for an answer
STRAY: tuple[str | bytes, ...] = (
    "", "no json", '{"type": "tool_call", "payload": {', "[" * 2_000, "17", "null", "[]", "[[]]", '{"unrelated": true}',
    '{"type": 7, "seq": "x", "id": [1], "payload": null}', '{"type": "x", "payload": {"text": "\\ud800"}}', b"\x00\xff\xfe{}", b"",
)  # fmt: skip
"""Frames that are no message of a dialect, or say nothing: the server puts one between its own now and then."""
CONVERGE = 90.0  # virtual seconds after the last fault in which everything must have come to rest
SENDS = 6


@dataclass
class Case:
    """A dialect and a server that speaks it.

    `message(n)` are the arguments of a send that carries the number n, `effect(x)` reads the number in an effect of the double, None
    where it is none of ours. `reorders`: the server itself sends again what came earlier. `exact`: the server numbers its events, so a gap has to name what is missing. `recovers`: while the server
    lives and holds everything, each reconnection has to end RECOVERED. `unordered_after_timeout`: behind an UNKNOWN(timeout) nothing has to
    be in order, as the dialect's page says; all of it has to come.
    """

    name: str
    double: Callable[[random.Random], Any]
    dialect: Callable[[Any], Any]
    path: str = "/"
    token: str | None = None
    channels: tuple[str | None, ...] = (None,)
    message: Callable[[int], tuple[Any, ...]] | None = None
    effect: Callable[[Any], int | None] = lambda effect: None
    on_connect: Callable[[Any], Any] | None = None
    is_ready: Callable[[Any], bool] = lambda double: True
    url: Callable[[Any, str], Any] | None = None
    exact: bool = False
    recovers: bool = False
    dedupes: bool = False
    reorders: bool = False
    unordered_after_timeout: bool = False
    server_faults: bool = True


@dataclass
class Seen:
    """What happened."""

    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    proofs: Counter[str] = field(default_factory=Counter)
    delivered: int = 0
    gaps: int = 0
    strays: int = 0
    problems: list[str] = field(default_factory=list)


class Served:
    """The double behind a listener, as the simulation's server: its faults are those of the process."""

    def __init__(self, double: Any, address: Any, *, has_faults: bool) -> None:
        self.double, self.address = double, address
        self.strays: list[str | bytes] = []  # what was put between
        self.lost = False  # has it lost something that a client may have missed?
        self._has_faults = has_faults

    async def restart(self, **_: Any) -> None:
        """The process dies, and a new one is there at once."""
        if self._has_faults:
            self.lost = True
            self.double.restart()
            self.address.drop()

    async def truncate_replay(self, keep: int | None) -> None:
        """Only the last events can be replayed."""
        if self._has_faults and keep is not None:
            self.lost = True
            self.double.trim(keep)

    def strew(self, rng: random.Random) -> None:
        """From the next connection on, each twentieth frame has a stray one before it."""
        strays = self.strays

        class Strewn(type(self.double).connection_class):  # type: ignore[misc]
            """Says more than it should."""

            def say(self, frame: Any) -> None:
                if rng.random() < 0.05:
                    strays.append(rng.choice(STRAY))
                    super().say(strays[-1])
                super().say(frame)

            def take(self) -> Any:
                """Take the next frame; a stray one shares none with others, where a server puts several messages into one."""
                count = next(
                    (at for at, frame in enumerate(self.waiting) if frame in STRAY),
                    len(self.waiting),
                )
                if count == 0:
                    return self.waiting.popleft()
                behind = [self.waiting.pop() for _ in range(len(self.waiting) - count)]
                try:
                    return super().take()
                finally:
                    self.waiting.extend(reversed(behind))

        self.double.connection_class = Strewn


def server_of(case: Case) -> Callable[..., Any]:
    """What a Simulation makes its server with."""

    @asynccontextmanager
    async def serve(*, wall: Any, rng: random.Random) -> Any:
        double = case.double(rng)
        async with serving_websockets(double) as address:
            yield Served(double, address, has_faults=case.server_faults)

    return serve


def run(
    case: Case,
    seed: int,
    *,
    rate: float = 0.15,
    until: float = 40.0,
    orders: Literal["seeded", "fifo"] = "seeded",
) -> Seen:
    """One schedule."""
    # Spoiled bytes end a client for good (1002), as they should. So garbage is played as frames: the connection is sound, and what is said is not.
    plan = Faults(seed=seed, rate=rate, until=until).plan
    is_strewn = any(fault.kind == "garbage" for fault in plan)
    faults = Faults(script=tuple(fault for fault in plan if fault.kind != "garbage"), until=until)
    seen = Seen()

    async def main(server: Served) -> None:
        if is_strewn:
            server.strew(random.Random(f"{seed}/strays"))
        await _scenario(case, server, random.Random(seed), until, seen)
        seen.strays += len(server.strays)

    try:
        Simulation(seed, faults, server=server_of(case), orders=orders).run(main)
    except Exception as error:  # noqa: BLE001 -- whatever ends a run early is what it has to show
        seen.problems.append(f"{type(error).__name__}: {error}")
    seen.problems = [f"{problem}  [run({case.name!r}, {seed})]" for problem in seen.problems]
    return seen


async def _scenario(
    case: Case, server: Served, rng: random.Random, until: float, seen: Seen
) -> None:
    double, stream = server.double, []
    url = (
        str(server.address) + case.path
        if case.url is None
        else case.url(double, str(server.address))
    )
    policy = rb.bridge.BridgePolicy().evolve(
        reconnect=rb.bridge.Reconnect(allow_plaintext_credentials=True, connect_timeout=5),
        replay=rb.presets.default.replay.evolve(timeout=8),
    )
    client = rb.BridgeClient(
        url, dialect=case.dialect(double), token=case.token, policy=policy, on_connect=case.on_connect and case.on_connect(double),
        on_gap=stream.append,
    )  # fmt: skip
    receipts: list[tuple[int, Any]] = []
    async with client as bridge:
        events = bridge.events()
        noting = asyncio.ensure_future(_note(events, seen, server, case, stream))
        reading = asyncio.ensure_future(_read(bridge, stream))
        await bridge.wait_ready(timeout=until + CONVERGE)
        async with asyncio.timeout(until + CONVERGE):
            while not case.is_ready(double):
                await asyncio.sleep(0.1)
        start = {channel: len(double.log.get(channel, ())) for channel in case.channels}
        number = 0
        loop = asyncio.get_running_loop()
        sends = (
            sorted(rng.uniform(0, until) for _ in range(SENDS)) if case.message is not None else []
        )
        while loop.time() < until:
            await asyncio.sleep(rng.choice((0.01, 0.2, 1.0, 3.0)))
            for _ in range(rng.choice((1, 1, 3))):
                number += 1
                await double.publish(number, rng.choice(case.channels))
            while sends and sends[0] < loop.time():
                sends.pop(0)
                receipts.append((len(receipts), await bridge.send(*case.message(len(receipts)))))
        last = await _come_to_rest(case, double, bridge, stream, number)
        reading.cancel()
        await bridge.aclose(drain=5)
        await asyncio.wait([reading, noting])
    _judge(case, double, stream, start=start, last=last, seen=seen)
    _judge_sends(case, double, receipts, seen)


async def _come_to_rest(
    case: Case, double: Any, bridge: Any, stream: list[Any], number: int
) -> dict[Any, int]:
    """Publish in each channel until what was published comes at once; by then everything has come, or was given up."""
    last: dict[Any, int] = {}
    async with asyncio.timeout(CONVERGE * (8 if case.reorders else 1)):
        while True:
            await bridge.wait_ready(timeout=CONVERGE)
            for channel in case.channels if not (last and case.reorders) else ():
                number += 1
                last[channel] = number
                await double.publish(number, channel)
            await asyncio.sleep(3)
            came = {
                each for item in stream if not isinstance(item, rb.bridge.Gap) for each in item[0]
            }
            due = set(last.values())
            if case.reorders:  # what is sent again later comes minutes later
                due = {each for log in double.log.values() for each in log} - set(double.abandoned)
            if due <= came:
                return last


async def _read(bridge: Any, stream: list[Any]) -> None:
    async for message in bridge:
        try:
            numbers = numbers_in(message.raw)
        except (ValueError, RecursionError):  # a stray frame
            continue
        if numbers:
            stream.append((numbers, message.maybe_duplicate))


def _had(stream: list[Any]) -> int:
    return sum(not isinstance(item, rb.bridge.Gap) for item in stream)


async def _note(events: Any, seen: Seen, server: Served, case: Case, stream: list[Any]) -> None:
    async for event in events:
        if isinstance(event, rb.events.Resumed):
            seen.verdicts[event.verdict] += 1
            seen.reasons[event.reason] += 1
            seen.proofs[event.proof] += 1
            if (
                case.recovers
                and not server.lost
                and event.verdict != rb.bridge.Verdict.RECOVERED
                and event.reason not in _EXCUSED
                # what an answer that timed out had not brought is in the next one, before what is known
                and not (event.reason == "order" and seen.reasons["timeout"])
                and (
                    event.reason != "no_anchor" or _had(stream) > event.replayed
                )  # nothing had come before
            ):
                seen.problems.append(
                    f"{event.verdict}({event.reason}), and the server held everything"
                )


def _judge(
    case: Case,
    double: Any,
    stream: list[Any],
    *,
    start: Mapping[Any, int],
    last: Mapping[Any, int],
    seen: Seen,
) -> None:
    seen.gaps += sum(isinstance(item, rb.bridge.Gap) for item in stream)
    for channel in case.channels:
        log = double.log[channel]
        reader = Reader(channel, log, start[channel], case, seen)
        for item in stream:
            if isinstance(item, rb.bridge.Gap):
                reader.gap(item)
            else:
                for number in item[0]:
                    reader.take(number, may_repeat=item[1])
        if reader.is_unordered:
            lost = [
                each
                for each in log[start[channel] :]
                if each not in reader.had and each not in getattr(double, "abandoned", ())
            ]
            seen.problems += [f"{lost} were lost"] if lost else []
        elif last[channel] not in reader.had:
            seen.problems.append(f"{last[channel]}, the last of {channel}, never came")


class Reader:
    """What came of one channel, held against its log."""

    def __init__(
        self, channel: str | None, log: list[int], start: int, case: Case, seen: Seen
    ) -> None:
        self.had: set[int] = set()
        self.is_unordered = case.reorders
        self._had_timeout = False
        self._channel, self._log, self._start, self._case, self._seen = (
            channel,
            log,
            start,
            case,
            seen,
        )
        self._index = {number: at for at, number in enumerate(log)}
        self._at = start - 1
        self._hole = self._is_late = False

    def gap(self, gap: rb.bridge.Gap) -> None:
        """Here something may be missing, or what was missing comes late."""
        self._is_late = gap.reason == "order" and self._had_timeout
        self._had_timeout |= gap.reason == "timeout"
        self._hole |= gap.channel in {None, self._channel}
        self.is_unordered |= self._case.unordered_after_timeout and gap.reason == "timeout"

    def take(self, number: int, *, may_repeat: bool) -> None:
        """This number came."""
        index = self._index.get(number)
        if index is None:
            return
        self._seen.delivered += 1
        if number in self.had:
            self._problem(f"{number} came twice", unless=may_repeat)
            return
        self.had.add(number)
        if self.is_unordered:
            return
        if index <= self._at:
            self._problem(
                f"{number} came after {self._log[self._at]}",
                unless=may_repeat or index < self._start or self._is_late,
            )
            return
        self._is_late = False
        missing = self._log[self._at + 1 : index]
        self._problem(f"{missing} were lost without a gap", unless=not missing or self._hole)
        self._at, self._hole = index, False

    def _problem(self, words: str, *, unless: bool) -> None:
        if not unless:
            self._seen.problems.append(f"{self._channel}: {words}")


def _judge_sends(case: Case, double: Any, receipts: list[tuple[int, Any]], seen: Seen) -> None:
    if case.message is None:
        return
    had = Counter(number for number in map(case.effect, double.effects) if number is not None)
    for number, receipt in receipts:
        if had[number] > 1 and not case.dedupes:
            seen.problems.append(f"send {number} had its effect {had[number]} times")
        if receipt.state == "confirmed" and not had[number]:
            seen.problems.append(f"send {number} was confirmed, and had no effect")
        if receipt.state in {"dropped", "expired", "withdrawn"} and had[number]:
            seen.problems.append(f"send {number} was {receipt.state}, and had an effect")
