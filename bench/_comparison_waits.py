"""The rows of `comparison.py` that are about waiting, played in virtual time: a process of its own, because each library has to see that clock.

    python bench/_comparison_waits.py waits TRIALS       prints JSON: row -> library -> what was measured
    python bench/_comparison_waits.py quota RUN          the same for one run of the shared quota

Rule: the clock is replaced before any library is imported, and it moves only when nothing else is left to do. So an hour of waiting
takes no time, and every library waits by the same clock.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import selectors
import statistics
import sys
import time


class Clock(selectors.DefaultSelector):
    """Asked to wait for so many seconds, it lets them pass at once."""

    now = 1_000.0

    def select(self, timeout: float | None = None):
        found = super().select(0)
        if not found and timeout:
            Clock.now += timeout
        return found


time.monotonic = time.perf_counter = time.time = lambda: Clock.now

# Only now, so that whoever keeps a reference to the clock keeps this one.
import httpx  # noqa: E402
import hyx.retry  # noqa: E402
import nopanic  # noqa: E402
import stamina  # noqa: E402
import stamina.instrumentation  # noqa: E402
import tenacity  # noqa: E402
from httpx_retries import RetryTransport  # noqa: E402
from websockets.client import backoff as websockets_backoff  # noqa: E402

import resilient_bridge as rb  # noqa: E402


stamina.instrumentation.set_on_retry_hooks([])  # by default it logs each retry
logging.getLogger("resilient_bridge").setLevel(logging.CRITICAL + 1)
OURS = "resilient_bridge"
URL = "https://example.org/"
DEFAULTS = {  # decorators as they come
    OURS: rb.resilient(idempotent=True),
    "tenacity": tenacity.retry,
    "stamina": stamina.retry(on=Exception),
    "nopanic": nopanic.retry(),
    "hyx": hyx.retry.retry(),
}
BY_HAND = f"{OURS}, a limit by hand"
LIMITED = rb.Policy(rb.Retry(), rb.Breaker(), rb.Bulkhead(4, queue=320))
TRANSPORTS = {
    OURS: lambda inner: rb.HTTPTransport(inner=inner),
    BY_HAND: lambda inner: rb.HTTPTransport(LIMITED, inner=inner),
    "httpx-retries": lambda inner: RetryTransport(transport=inner),
}
NAMES = [*DEFAULTS, "httpx-retries"]
SHARED = {  # what each has for a server that says "too many": 5 attempts where there is a number to choose
    "tenacity": lambda: tenacity.retry(
        stop=tenacity.stop_after_attempt(5), wait=tenacity.wait_exponential_jitter(), reraise=True
    ),
    "stamina": lambda: stamina.retry(on=httpx.HTTPError),
    "nopanic": lambda: nopanic.compose(
        nopanic.retry(attempts=5), nopanic.adaptive_rate_limit(5, min_rate=0.5)
    ),
    "hyx": lambda: hyx.retry.retry(attempts=4),
}


async def first_wait(protect) -> float:
    """Return how many seconds after the failure the second attempt begins."""
    times: list[float] = []

    async def call() -> None:
        times.append(Clock.now)
        if len(times) == 1:
            raise ConnectionResetError

    await protect(call)()
    return times[1] - times[0]


async def first_wait_under_httpx(wrapped) -> float:
    """The same for a transport: a connection that is refused, then an answer."""
    times: list[float] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        times.append(Clock.now)
        if len(times) == 1:
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(200)

    async with httpx.AsyncClient(transport=wrapped(httpx.MockTransport(answer))) as client:
        await client.get(URL)
    return times[1] - times[0]


async def first_waits(trials: int) -> dict[str, float]:
    """Return the median for each library; websockets' loop and our link by their schedules."""
    found = {
        name: statistics.median([await first_wait(protect) for _ in range(trials)])
        for name, protect in DEFAULTS.items()
    }
    wrapped = TRANSPORTS["httpx-retries"]
    found["httpx-retries"] = statistics.median(
        [await first_wait_under_httpx(wrapped) for _ in range(trials)]
    )
    found["websockets"] = statistics.median(next(websockets_backoff()) for _ in range(trials))
    link, rng = rb.bridge.Reconnect().backoff, random.Random(1)
    found[f"{OURS}, a connection"] = statistics.median(
        link.next(1, None, rng) for _ in range(trials)
    )
    return found


async def asked_to_wait(library: str, seconds: int = 7) -> float:
    """Return how long it waits after a 429 whose Retry-After is `seconds`."""
    times: list[float] = []

    async def answer(_request: httpx.Request) -> httpx.Response:
        times.append(Clock.now)
        if len(times) == 1:
            return httpx.Response(429, headers={"Retry-After": str(seconds)})
        return httpx.Response(200)

    inner = httpx.MockTransport(answer)
    async with httpx.AsyncClient(
        transport=TRANSPORTS.get(library, lambda inner: inner)(inner)
    ) as client:

        async def call() -> None:
            (await client.get(URL)).raise_for_status()

        await (call if library in TRANSPORTS else DEFAULTS[library](call))()
    return times[1] - times[0]


class Quota:
    """A provider that serves four at once in two seconds each, and refuses the fifth with a 429 that says nothing."""

    def __init__(self) -> None:
        self.active = self.served = self.refused = 0

    async def answer(self, _request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.02)  # the way there
        if self.active == 4:
            self.refused += 1
            return httpx.Response(429)
        self.active += 1
        try:
            await asyncio.sleep(2)
            self.served += 1
            return httpx.Response(200)
        finally:
            self.active -= 1


async def shared_quota(library: str, agents: int = 16, calls: int = 20) -> dict[str, float]:
    """Return what becomes of the calls of agents that share a quota; one that lost a call goes on 5 s later."""
    quota, began, lost = Quota(), Clock.now, 0
    wrapped = TRANSPORTS.get(library, lambda inner: inner)
    async with httpx.AsyncClient(transport=wrapped(httpx.MockTransport(quota.answer))) as client:

        async def call() -> None:
            (await client.get(URL)).raise_for_status()

        protected = call if library in TRANSPORTS else SHARED[library]()(call)

        async def agent() -> None:
            nonlocal lost
            for _ in range(calls):
                try:
                    await protected()
                except Exception:  # noqa: BLE001 -- each library has its own
                    lost += 1
                    await asyncio.sleep(5)

        await asyncio.gather(*(agent() for _ in range(agents)))
    return {
        "lost": lost,
        "of": agents * calls,
        "refused": quota.refused,
        "seconds": Clock.now - began,
    }


async def waits(trials: int) -> dict[str, dict[str, float]]:
    """Return the rows about single calls."""
    obeyed = {name: await asked_to_wait(name) for name in NAMES}
    return {"first_wait": await first_waits(trials), "retry_after": obeyed}


async def quota(_run: int) -> dict[str, dict[str, float]]:
    """Return one run of the shared quota with each library."""
    return {name: await shared_quota(name) for name in (*NAMES, BY_HAND)}


if __name__ == "__main__":
    what, number = {"waits": waits, "quota": quota}[sys.argv[1]], int(sys.argv[2])
    random.seed(number)
    print(json.dumps(asyncio.SelectorEventLoop(Clock()).run_until_complete(what(number))))
