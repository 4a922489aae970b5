"""The rows of `comparison.py` that pass in virtual time: a process of its own, because each library has to see that clock.

    python bench/_comparison_waits.py waits TRIALS       prints JSON: row -> library -> what was measured
    python bench/_comparison_waits.py quota RUN          the same for one run of the shared quota
    python bench/_comparison_waits.py share CALLERS      the same for a burst of calls of one key

The clock is _virtual.py's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import statistics
import sys

import _virtual  # first: it replaces the clock
import httpx
import hyx.retry
import nopanic
import quota as shared
import stamina
import stamina.instrumentation
import tenacity
from websockets.client import backoff as websockets_backoff

import resilient_bridge as rb


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
NAMES = [*DEFAULTS, "httpx-retries"]


async def first_wait(protect) -> float:
    """Return how many seconds after the failure the second attempt begins."""
    times: list[float] = []

    async def call() -> None:
        times.append(_virtual.Clock.now)
        if len(times) == 1:
            raise ConnectionResetError

    await protect(call)()
    return times[1] - times[0]


async def first_wait_under_httpx(wrapped) -> float:
    """The same for a transport: a connection that is refused, then an answer."""
    times: list[float] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        times.append(_virtual.Clock.now)
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
    wrapped = shared.TRANSPORTS["httpx-retries"]
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
        times.append(_virtual.Clock.now)
        if len(times) == 1:
            return httpx.Response(429, headers={"Retry-After": str(seconds)})
        return httpx.Response(200)

    inner = httpx.MockTransport(answer)
    async with httpx.AsyncClient(
        transport=shared.TRANSPORTS.get(library, lambda inner: inner)(inner)
    ) as client:

        async def call() -> None:
            (await client.get(URL)).raise_for_status()

        await (call if library in shared.TRANSPORTS else DEFAULTS[library](call))()
    return times[1] - times[0]


async def waits(trials: int) -> dict[str, dict[str, float]]:
    """Return the rows about single calls."""
    obeyed = {name: await asked_to_wait(name) for name in NAMES}
    return {"first_wait": await first_waits(trials), "retry_after": obeyed}


async def quota(_run: int) -> dict[str, dict[str, float]]:
    """Return one run of the shared quota with each library."""
    scene = next(scene for scene in shared.SCENES if scene.name == shared.SCENE_OF_THE_PAGE)
    return {name: (await shared.play(scene, name))._asdict() for name in NAMES}


SHARES = {
    OURS: rb.Policy(rb.calls.Share(key=lambda query: query))(idempotent=True),
    "nopanic": nopanic.cache(ttl=60),
}


async def reached(protect, callers: int, *, cancelled: bool) -> int:
    """Return how many calls reach the server of a burst; the first caller may be cancelled while the call is under way."""
    asked: list[str] = []

    async def search(query: str) -> str:
        asked.append(query)
        await asyncio.sleep(1)
        return query

    call = protect(search)
    tasks = [asyncio.create_task(call("news")) for _ in range(callers)]
    await asyncio.sleep(0.5)
    if cancelled:
        tasks[0].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[1:] == ["news"] * (callers - 1)
    return len(asked)


async def share(callers: int) -> dict[str, dict[str, list[int]]]:
    """Return the row of the calls that are shared: without and with a caller that is cancelled."""
    return {
        "share": {
            name: [await reached(protect, callers, cancelled=each) for each in (False, True)]
            for name, protect in SHARES.items()
        }
    }


if __name__ == "__main__":
    what = {"waits": waits, "quota": quota, "share": share}[sys.argv[1]]
    number = int(sys.argv[2])
    random.seed(number)
    print(json.dumps(_virtual.run(what(number))))
