"""Agents that share a quota: what becomes of their calls, how long they take, and how often the server refuses.

    python bench/quota.py [RUNS [SCENE ...]]       the median of so many runs; all scenes, or those whose name begins so

Everything is played in virtual time (_virtual.py) with real libraries around a client of httpx: nothing sleeps. A server refuses
with a 429 and nothing else, unless the scene says more. An agent makes one call after the other; one that lost a call goes on 5 s
later. *By hand* is the limit that somebody would write who knew the server's numbers at every moment, which nobody does.

Goals: no call is lost; at least 0.85 of the throughput of the limit by hand; the longest call at most twice as long; refusals at
most three times as many, or, where the limit by hand is never refused, three times those of nopanic, which adapts as well; with 16
agents at four at once twice nopanic's throughput. Where every answer is a refusal all calls are lost, and what counts is how few were sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sys
from collections.abc import Awaitable, Callable
from math import inf
from typing import NamedTuple

import _virtual  # first: it replaces the clock
import httpx
import hyx.retry
import nopanic
import stamina
import stamina.instrumentation
import tenacity
from httpx_retries import RetryTransport

import resilient_bridge as rb


stamina.instrumentation.set_on_retry_hooks([])  # by default it logs each retry
logging.getLogger("resilient_bridge").setLevel(logging.CRITICAL + 1)
OURS, BY_HAND = "resilient_bridge", "by hand"
DECORATORS = {  # 5 attempts where there is a number to choose
    "tenacity": lambda: tenacity.retry(
        stop=tenacity.stop_after_attempt(5), wait=tenacity.wait_exponential_jitter(), reraise=True
    ),
    "stamina": lambda: stamina.retry(on=httpx.HTTPError),
    "nopanic": lambda: nopanic.compose(
        nopanic.retry(attempts=5), nopanic.adaptive_rate_limit(5, min_rate=0.5)
    ),
    "hyx": lambda: hyx.retry.retry(attempts=4),
}
TRANSPORTS = {
    OURS: lambda inner: rb.HTTPTransport(inner=inner),
    "httpx-retries": lambda inner: RetryTransport(transport=inner),
}
NAMES = (BY_HAND, OURS, "tenacity", "stamina", "nopanic")  # of the table
AFTER_A_LOSS = 5.0  # seconds
WAY = 0.02  # seconds, there and back
FORGETS_IN = 3_600.0  # seconds between two runs: longer than any library remembers a refusal


# ---- servers ------------------------------------------------------------------------------------


class AtOnce:
    """So many calls at once; the number may change with time."""

    def __init__(self, number: Callable[[float], int]) -> None:
        self.number, self.active = number, 0

    def take(self, now: float, _cost: float) -> bool:
        if self.active >= self.number(now):
            return False
        self.active += 1
        return True

    def free(self) -> None:
        self.active -= 1

    def hand(self) -> _Hand:
        return _HandAtOnce(self.number)


class Rate:
    """A bucket of `burst` that fills with `rate` a second: of calls, or of tokens."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst, self.level, self.at = rate, burst, burst, _virtual.Clock.now

    def take(self, now: float, cost: float) -> bool:
        self.level = min(self.burst, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level + 1e-9 < cost:
            return False
        self.level -= cost
        return True

    def free(self) -> None:
        """A turn is used up."""

    def hand(self) -> _Hand:
        return _HandRate(self.rate, self.burst)


class Unlimited(AtOnce):
    """Refuses nobody."""

    def __init__(self) -> None:
        super().__init__(lambda _now: 10**9)


class NoRoom(AtOnce):
    """Refuses everybody."""

    def __init__(self) -> None:
        super().__init__(lambda _now: 0)

    def hand(self) -> _Hand:
        return _HandNothing()


class Provider:
    """Answers requests: `limits` by path, "" for those that no other begins.

    A path that ends in /stream answers with a stream of `seconds`, which the server counts for `counted` seconds only.
    """

    def __init__(self, limits, seconds: float, refuses_in: float, counted: float = inf) -> None:
        self.limits, self.seconds, self.refuses_in = limits, seconds, refuses_in
        self.counted = counted
        self.refused = self.served = 0

    def limit(self, path: str):
        return next(limit for start, limit in self.limits.items() if path.startswith(start))

    async def answer(self, request: httpx.Request) -> httpx.Response:
        limit = self.limit(request.url.path)
        await asyncio.sleep(WAY / 2)
        if not limit.take(_virtual.Clock.now, float(request.headers.get("x-cost", 1))):
            self.refused += 1
            await asyncio.sleep(self.refuses_in - WAY / 2)
            return httpx.Response(429)
        if request.url.path.endswith("/stream"):
            return httpx.Response(200, stream=_Stream(self.seconds, self.counted, limit.free))
        try:
            await asyncio.sleep(self.seconds)
        finally:
            limit.free()
        self.served += 1
        return httpx.Response(200)


class _Stream(httpx.AsyncByteStream):
    def __init__(self, seconds: float, counted: float, free: Callable[[], None]) -> None:
        self.seconds, self.counted, self.free = seconds, counted, free

    async def __aiter__(self):
        asyncio.get_running_loop().call_later(min(self.counted, self.seconds), self.free)
        for _ in range(int(self.seconds)):
            yield b"x"
            await asyncio.sleep(1)


# ---- the limit by hand --------------------------------------------------------------------------


class _Hand:
    """A limit that knows the server's numbers: first come, first served."""

    def __init__(self) -> None:
        self.queue = asyncio.Lock()  # of asyncio: first come, first served

    async def enter(self, cost: float) -> None:
        raise NotImplementedError

    def ended(self) -> None:
        """A call has ended."""


class _HandAtOnce(_Hand):
    def __init__(self, number: Callable[[float], int]) -> None:
        super().__init__()
        self.number, self.active, self.freed = number, 0, asyncio.Event()

    async def enter(self, _cost: float) -> None:
        async with self.queue:
            while self.active >= self.number(_virtual.Clock.now):
                self.freed.clear()
                with contextlib.suppress(TimeoutError):  # the number may have changed
                    await asyncio.wait_for(self.freed.wait(), 1)
            self.active += 1

    def ended(self) -> None:
        self.active -= 1
        self.freed.set()


class _HandNothing(_Hand):
    """A limit of none: each call is tried once."""

    async def enter(self, _cost: float) -> None:
        pass


class _HandRate(_Hand):
    def __init__(self, rate: float, burst: float) -> None:
        super().__init__()
        self.bucket = Rate(rate, burst)

    async def enter(self, cost: float) -> None:
        async with self.queue:
            while not self.bucket.take(_virtual.Clock.now, cost):
                missing = cost - self.bucket.level
                await asyncio.sleep(max(1e-6, missing / self.bucket.rate))


# ---- scenes -------------------------------------------------------------------------------------


class Scene(NamedTuple):
    """What is played. `limits` by path: made anew for each run. `paths`: agent number → path of its calls."""

    name: str
    limits: Callable[[], dict]
    agents: int = 16
    calls: int = 20
    seconds: float = 2.0
    refuses_in: float = 0.1
    paths: tuple[str, ...] = ("/v1/messages",)
    costs: tuple[int, int] = (1, 1)  # a call costs something between them
    streams: int = 0
    counted: float = inf


def _one(limit: Callable[[], object]) -> Callable[[], dict]:
    return lambda: {"": limit()}


def _changing(now: float) -> int:
    """Eight at once, two after a minute, eight again after another two."""
    return 2 if 60 <= now - _virtual.Clock.began < 180 else 8


FOUR = _one(lambda: AtOnce(lambda _now: 4))
SCENE_OF_THE_PAGE = "16 agents, 4 at once"  # docs/reference/comparison.md
SCENES = [
    *(
        Scene(f"{agents} agents, {name}", limits, agents)
        for agents in (4, 16, 64)
        for name, limits in {
            "4 at once": FOUR,
            "1/s, burst 1": _one(lambda: Rate(1, 1)),
            "1/s, burst 8": _one(lambda: Rate(1, 8)),
            "8, 2, 8 at once": _one(lambda: AtOnce(_changing)),
        }.items()
    ),
    Scene("calls of 20 s", FOUR, seconds=20, calls=8),
    Scene("calls of 180 s", FOUR, agents=64, seconds=180, calls=2),
    Scene("refused in 20 ms", FOUR, refuses_in=WAY),
    Scene(
        "two routes, one limited",
        lambda: {"/v1/a": AtOnce(lambda _now: 2), "": Unlimited()},
        paths=("/v1/a", "/v1/b"),
    ),
    Scene("three routes, one quota", FOUR, paths=("/v1/a", "/v1/b", "/v1/c")),
    Scene("60,000 tokens a minute", _one(lambda: Rate(1_000, 60_000)), costs=(500, 4_000)),
    Scene("healthy, 1,000 at once", _one(Unlimited), agents=1_000, calls=1, seconds=0.1),
    Scene("eight open streams", FOUR, streams=8, counted=2, calls=10),
    Scene("every answer a refusal", _one(NoRoom), calls=3),
]


class Played(NamedTuple):
    """What became of the calls of a scene."""

    lost: int
    of: int
    refused: int
    seconds: float  # until the last one
    longest: float  # of the calls that were served
    unlimited: float  # until the last call of a route that is never refused


async def play(scene: Scene, library: str) -> Played:
    """Play a scene with one library."""
    began = _virtual.Clock.began = _virtual.Clock.now
    server = Provider(scene.limits(), scene.seconds, scene.refuses_in, scene.counted)
    hands = {id(limit): limit.hand() for limit in server.limits.values()}
    inner = httpx.MockTransport(server.answer)
    transport = TRANSPORTS[library](inner) if library in TRANSPORTS else inner
    costs, lost, longest, unlimited = random.Random(random.random()), 0, 0.0, 0.0
    async with httpx.AsyncClient(
        transport=transport, base_url="https://example.org", timeout=None
    ) as client:

        async def send(path: str, cost: int) -> None:
            answer = await client.get(
                path, headers={"x-cost": str(cost), "authorization": "Bearer k"}
            )
            answer.raise_for_status()

        async def by_hand(path: str, cost: int) -> None:
            hand = hands[id(server.limit(path))]
            await hand.enter(cost)
            try:
                await send(path, cost)
            finally:
                hand.ended()

        call: Callable[[str, int], Awaitable[None]] = (
            by_hand
            if library == BY_HAND
            else DECORATORS[library]()(send)
            if library in DECORATORS
            else send
        )

        async def agent(number: int) -> None:
            nonlocal lost, longest, unlimited
            path = scene.paths[number % len(scene.paths)]
            for _ in range(scene.calls):
                start = _virtual.Clock.now
                try:
                    await call(path, costs.randint(*scene.costs))
                except Exception:  # noqa: BLE001 -- each library has its own
                    lost += 1
                    await asyncio.sleep(AFTER_A_LOSS)
                else:
                    longest = max(longest, _virtual.Clock.now - start)
            if isinstance(server.limit(path), Unlimited):
                unlimited = max(unlimited, _virtual.Clock.now - began)

        async def stream() -> None:
            with contextlib.suppress(Exception):  # what counts is what becomes of the calls
                async with client.stream("GET", "/v1/stream") as answer:
                    async for _ in answer.aiter_raw():
                        pass

        server_seconds, server.seconds = server.seconds, 300.0
        streams = [asyncio.create_task(stream()) for _ in range(scene.streams)]
        if streams:
            await asyncio.sleep(WAY)
        server.seconds = server_seconds
        await asyncio.gather(*(agent(number) for number in range(scene.agents)))
        for task in streams:
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    return Played(
        lost,
        scene.agents * scene.calls,
        server.refused,
        _virtual.Clock.now - began,
        longest,
        unlimited,
    )


def median_of(scene: Scene, library: str, runs: int) -> Played:
    """Return the run with the median of the lost calls, and of the time."""
    played = []
    for run in range(runs):
        random.seed(run)
        _virtual.Clock.now += FORGETS_IN
        played.append(_virtual.run(play(scene, library)))
    played.sort(key=lambda one: (one.lost, one.seconds))
    return played[len(played) // 2]


def judged(scene: Scene, found: dict[str, Played]) -> str:
    """Return what a goal says of ours, "holds" if all do."""
    ours, hand, nopanic_ = found[OURS], found[BY_HAND], found["nopanic"]
    missed = []
    if scene.name == "every answer a refusal":
        if ours.refused > 2 * ours.of:
            missed.append(f"{ours.refused} refusals for {ours.of} calls")
        return ", ".join(missed) or "holds"
    if ours.lost:
        missed.append(f"{ours.lost} lost")
    if ours.seconds > hand.seconds / 0.85:
        missed.append(f"{hand.seconds / ours.seconds:.2f} of the throughput by hand")
    if ours.longest > 2 * hand.longest:
        missed.append(f"longest call {ours.longest / hand.longest:.1f} x")
    most = 3 * (hand.refused or nopanic_.refused)
    if ours.refused > most:
        missed.append(f"{ours.refused} refusals, wanted {most}")
    if ours.unlimited > hand.unlimited / 0.85:
        missed.append(f"the free route took {ours.unlimited / hand.unlimited:.1f} x")
    if scene.name == SCENE_OF_THE_PAGE and ours.seconds > nopanic_.seconds / 2:
        missed.append(f"{nopanic_.seconds / ours.seconds:.1f} x nopanic's throughput")
    return ", ".join(missed) or "holds"


def main(arguments: list[str]) -> None:
    """Print the table."""
    runs = int(arguments[0]) if arguments else 3
    scenes = [
        scene
        for scene in SCENES
        if not arguments[1:] or any(scene.name.startswith(start) for start in arguments[1:])
    ]
    print("lost / refused / seconds until the last call / longest call in seconds\n")
    print(f"{'scene':28}" + "".join(f"{name:>26}" for name in NAMES) + "  goal")
    misses = 0
    for scene in scenes:
        found = {name: median_of(scene, name, runs) for name in NAMES}
        cells = [
            f"{one.lost} / {one.refused} / {one.seconds:.0f} / {one.longest:.0f}"
            for one in found.values()
        ]
        verdict = judged(scene, found)
        misses += verdict != "holds"
        print(f"{scene.name:28}" + "".join(f"{cell:>26}" for cell in cells) + f"  {verdict}")
    print(f"\n{len(scenes) - misses} of {len(scenes)} scenes hold")


if __name__ == "__main__":
    main(sys.argv[1:])
