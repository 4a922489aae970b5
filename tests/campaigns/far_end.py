"""The far end of a campaign: a server that fails by a seed and counts what it did for each call, and what became of the calls.

Rule: the truth is the server's count. What happens to a request depends on the seed, its path and how often that came; so one call can
be looked at without the rest.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import attrs

import resilient_bridge as rb
from tests.adapters.campaigns import outcome_of
from tests.peers.faults import SOUND, Fault
from tests.peers.http_fault import HttpFault
from tests.peers.http_wire import Answer, Request
from tests.peers.ports import Port


QUICK = rb.Policy(rb.Retry(attempts=4, backoff=rb.Backoff.constant(0.001), budget=None))
CALLERS = 8
_ROUND = 64  # calls
FAULTS = [
    *(
        Fault.reset_unread(),
        Fault.reset_before(),
        Fault.reset_after(),
        Fault.reset_after(),
        Fault.cut(1),
    ),
    *(Fault.answer(429), Fault.answer(429), Fault.answer(503), Fault.answer(408)),
]
MODEL = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "data": [],
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}
    ],
}


@attrs.define
class Call:
    """One call: whether it may run again without proof, what its caller was told, and what may not be judged by that."""

    key: str
    may_repeat: bool
    reported: str = ""
    hears_of_all: bool = True  # the verdict speaks of the whole call, not of one request of several

    def wrong(self, ran: int) -> str:
        """What is wrong with how it went; empty if nothing is."""
        if ran > 1 and not self.may_repeat:
            return f"ran {ran} times without permission"
        if self.reported == "done" and not ran:
            return "told done, and never ran"
        if self.reported == "not run" and ran and self.hears_of_all and not self.may_repeat:
            return f"told not to have run, and ran {ran} times"
        return ""


@attrs.define
class Tally:
    """What a campaign came to; `wrong` names each contradiction."""

    calls: int = 0
    faulted: int = 0
    faults: int = 0
    repeated: int = 0
    wrong: list[str] = attrs.Factory(list)

    def __add__(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            *(
                getattr(self, name) + getattr(other, name)
                for name in ("calls", "faulted", "faults", "repeated", "wrong")
            )
        )


class Far:
    """`async with Far(seed) as far:`; `url()` is its address, `ran` counts effects by the key in `?key=`, `struck` faults."""

    def __init__(self, seed: int, *, rate: float = 0.5, faults: Sequence[Fault] = FAULTS) -> None:
        """So much of what arrives is struck."""
        self.seed, self.rate, self.faults = seed, rate, faults
        self.ran: Counter[str] = Counter()
        self.struck: Counter[str] = Counter()
        self.front = HttpFault(self._did, decide=self._decide)
        self._arrived: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        """Listen."""
        self._dead = Port()
        await self.front.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        await self.front.__aexit__(kind, error, trace)
        self._dead.close()

    def url(self, path: str = "/") -> str:
        """The address to give to a client."""
        return self.front.url(path)

    def rng(self, *what: object) -> random.Random:
        """What decides about something."""
        return random.Random(":".join(map(str, (self.seed, *what))))

    async def play(
        self,
        calls: Iterable[Call],
        make: Callable[[Call], Awaitable[Any]],
        *,
        callers: int = CALLERS,
    ) -> Tally:
        """Make the calls, eight at a time; `make` raises, or gives what it got."""
        all_of_them = list(calls)
        for start in range(0, len(all_of_them), _ROUND):
            waiting = iter(all_of_them[start : start + _ROUND])
            healing = asyncio.create_task(self._refuse_for_a_moment(start))
            await asyncio.sleep(0)
            await asyncio.gather(*(self._work(waiting, make) for _ in range(callers)))
            await healing
        tally = Tally(len(all_of_them), faults=self.struck.total())
        for call in all_of_them:
            tally.faulted += self.struck[call.key] > 0
            tally.repeated += self.ran[call.key] > 1
            if why := call.wrong(self.ran[call.key]):
                tally.wrong.append(f"seed {self.seed}, {call.key}: {why}")
        return tally

    async def _work(self, waiting: Iterator[Call], make: Callable[[Call], Awaitable[Any]]) -> None:
        for call in waiting:
            try:
                call.reported = _reported(await make(call))
            except Exception as error:  # noqa: BLE001 -- of whichever library; what is told by it is judged
                call.reported = outcome_of(error)

    async def _refuse_for_a_moment(self, start: int) -> None:
        """Before half of the rounds nobody listens; between two of them, so that no connection is just being accepted."""
        if self.rng("refuse", start).random() < 0.5:
            self.struck["refused"] += 1
            await self.front.refuse()
            await asyncio.sleep(0.003)
            await self.front.listen()

    def _decide(self, n: int, method: str, path: str) -> Fault:
        self._arrived[path] += 1
        rng = self.rng(path, self._arrived[path])
        fault = rng.choice(self.faults) if rng.random() < self.rate else SOUND
        if fault != SOUND:
            self.struck[key_in(path)] += 1
        return fault

    def _did(self, request: Request) -> Answer:
        key, path = key_in(request.path), request.path
        if path.startswith("/moved") and "/landed" not in path:
            return self._redirected(request, key)
        self.ran[key] += request.method != "GET" or "read=" not in path
        return Answer.of(MODEL)

    def _redirected(self, request: Request, key: str) -> Answer:
        rng = self.rng("moved", key)
        status = rng.choice([303, 303, 307, 308])
        host = rng.choice([f"http://127.0.0.1:{self._dead.number}", self.url("")])
        if status == 303:  # done here; what it leads to only shows it
            self.ran[key] += 1
            return Answer(status, b"", {"location": f"{host}/shown?of={key}"})
        return Answer(status, b"", {"location": f"{host}/landed?key={key}"})


def key_in(path: str) -> str:
    """The key of the call in the path of a request."""
    return path.partition("key=")[2].partition("&")[0]


def _reported(answer: Any) -> str:
    if isinstance(answer, rb.calls.Outcome):
        return "done" if answer.failure is None else outcome_of(answer.failure)
    status = getattr(answer, "status_code", 200)
    return "done" if status < 300 else outcome_of(answer)
