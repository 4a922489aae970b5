"""What the campaigns over HTTP share: faults by a seed, a server that counts what it did for each call, and the judgement.

Rule: the truth is what the server did and what each attempt met on its socket, never what the library under test says. What
happens to the n-th attempt of a call depends on the seed, the call and n alone, so that one call can be replayed without the rest.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import attrs

import resilient_bridge as rb
from tests.peers.faults import SOUND, Fault
from tests.peers.http_fault import HttpFault
from tests.peers.http_wire import Answer, Request


ATTEMPTS = 4
CALLERS = 8
REPORTED = {
    rb.errors.Executed.NO: "not run",
    rb.errors.Executed.MAYBE: "unknown",
    rb.errors.Executed.YES: "ran",
}
TRUE = {
    "not run": {0},
    "ran": {1},
    "done": {1},
    "unknown": {0, 1},
}  # how often a call ran of which that is told

FAULTS = [
    *(
        Fault.reset_unread(),
        Fault.reset_before(),
        Fault.reset_after(),
        Fault.reset_after(),
        Fault.cut(1),
    ),
    *(Fault.answer(status) for status in (408, 425, 429, 429, 503)),
    *(Fault.answer(status, x_should_retry="true") for status in (409, 503)),
    Fault.answer(429, x_should_retry="false"),
]
PROVES = {"refused", "425"}  # it did not run, and may the next time
OPENS = {*PROVES, "429"}  # what allows one more: a proof, or the convention
ENDS = {
    "200",
    "429 never",
}  # nothing more is due to whoever may repeat: it answered, or asks for no repeat


def outcome_of(outcome: object) -> str:
    """What the caller of a call is told by the error or the answer that it ended in."""
    return REPORTED[rb.classify(outcome).executed]


def worst_first(why: str) -> bool:
    """The order of what is wrong, of which only the beginning is shown: what ran twice, then the rest."""
    return not why.startswith("ran twice")


@attrs.define
class Call:
    """One call: whether it may run twice, what each of its attempts met, and what its caller was told."""

    key: str
    form: str
    may_repeat: bool
    met: list[str] = attrs.Factory(list)
    reported: str = ""

    def fault_of(self, ran: int) -> str:
        """What is wrong with how it went; empty if nothing is."""
        if not self.met:
            return "never tried"
        *before, last = self.met
        if ran > 1 and not self.may_repeat:
            return "ran twice"
        if ran not in TRUE.get(self.reported, ()) and (
            not self.may_repeat or (self.reported == "done" and not ran)
        ):
            return "told something false"
        if (
            self.reported != "done"
            and not self.may_repeat
            and (self.reported == "not run") != (last in PROVES)
        ):
            return "told something else than its last request proves"
        if len(self.met) > ATTEMPTS:
            return "too many attempts"
        if set(before) - OPENS and not self.may_repeat:
            return "repeated after what allows no repeat"
        must_go_on = last in OPENS or (self.may_repeat and last not in ENDS)
        if self.reported != "done" and must_go_on and len(self.met) < ATTEMPTS:
            return "not repeated"
        return ""


class Campaign:
    """Calls in rounds of eight at a time, against one server that fails by a seed, and refuses connections in some rounds.

    `ran` counts the effects by the key of a call, `faults` what went wrong with attempts, by kind.
    """

    def __init__(
        self, seed: int, replay: str, *, rate: float = 0.5, refusals: float = 0.15
    ) -> None:
        """So much of everything fails; `replay` is how to see it again."""
        self.server = HttpFault(self._run, decide=self._decide)
        self.seed, self.replay = seed, replay
        self.calls: dict[str, Call] = {}
        self.ran: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._rate, self._refusals = rate, refusals
        self._arrived: Counter[str] = Counter()
        self._refused = itertools.count(1)  # attempts, also of threads
        self._heals_at = 0
        self._loop = asyncio.get_running_loop()

    def rng(self, *what: object) -> random.Random:
        """What decides about something."""
        return random.Random(":".join(map(str, (self.seed, *what))))

    # ---- the server -----------------------------------------------------------------------------------------------

    def _decide(self, n: int, method: str, path: str) -> Fault:
        key = _key_in(path)
        self._arrived[key] += 1
        rng = self.rng(key, self._arrived[key])
        fault = rng.choice(FAULTS) if rng.random() < self._rate else SOUND
        if fault != SOUND:
            self.faults[f"{fault.kind} {fault.status or ''}".strip()] += 1
        return fault

    def _run(self, request: Request) -> Answer:
        key = _key_in(request.path)
        self.ran[key] += 1
        return Answer.of({"id": key, "data": [{"embedding": [1.0], "index": 0}]})

    # ---- the sockets ----------------------------------------------------------------------------------------------

    def watch(self, transport: Any, *, is_async: bool) -> Any:
        """Have what every attempt of a transport meets noted, below whatever repeats it."""
        handle = transport.handle_async_request if is_async else transport.handle_request

        async def seen_async(request: Any) -> Any:
            try:
                response = await handle(request)
            except Exception as error:
                if self._met_error(request, error):
                    await self.server.listen()
                raise
            return self._met(request, response)

        def seen(request: Any) -> Any:
            try:
                response = handle(request)
            except Exception as error:
                if self._met_error(request, error):
                    asyncio.run_coroutine_threadsafe(self.server.listen(), self._loop).result(20)
                raise
            return self._met(request, response)

        if is_async:
            transport.handle_async_request = seen_async
        else:
            transport.handle_request = seen
        return transport

    def _met(self, request: Any, response: Any) -> Any:
        reported = {"true": " again", "false": " never"}.get(
            response.headers.get("x-should-retry"), ""
        )
        self.calls[_key_in(str(request.url))].met.append(f"{response.status_code}{reported}")
        return response

    def _met_error(self, request: Any, error: Exception) -> bool:
        """Note it; return whether the server has refused often enough."""
        is_refused = type(error).__name__ == "ConnectError"
        self.calls[_key_in(str(request.url))].met.append("refused" if is_refused else "lost")
        if not is_refused:
            return False
        self.faults["refused"] += 1
        return next(self._refused) == self._heals_at

    # ---- the callers ----------------------------------------------------------------------------------------------

    async def run(self, calls: Iterable[Call], make: Callable[[Call], Awaitable[object]]) -> None:
        """Make them all; `make` raises, or gives what it got."""
        waiting = list(calls)
        self.calls = {call.key: call for call in waiting}
        async with asyncio.timeout(100):
            for start in range(0, len(waiting), CALLERS):
                rng = self.rng("round", start)
                if rng.random() < self._refusals:
                    self._refused, self._heals_at = (
                        itertools.count(1),
                        rng.randrange(1, 3 * CALLERS),
                    )
                    await self.server.refuse()
                await asyncio.gather(
                    *(self._one(call, make) for call in waiting[start : start + CALLERS])
                )
                await self.server.listen()

    async def run_refused(
        self, form: str, make: Callable[[Call], Awaitable[object]], *, may_repeat: bool = False
    ) -> None:
        """Make a call that finds nobody listening at first, and then a sound server: the rounds promise neither."""
        keys = (f"refused{n}" for n in itertools.count())
        key = next(key for key in keys if self.rng(key, 1).random() >= self._rate)
        call = self.calls[key] = Call(key, form, may_repeat=may_repeat)
        self._refused, self._heals_at = itertools.count(1), 1
        await self.server.refuse()
        await self._one(call, make)
        await self.server.listen()

    async def _one(self, call: Call, make: Callable[[Call], Awaitable[object]]) -> None:
        try:
            answer: Any = await make(call)
        except Exception as error:  # noqa: BLE001 -- of whichever library; what is told by it is judged
            call.reported = outcome_of(error)
        else:
            status = getattr(answer, "status_code", 200)
            call.reported = "done" if status == 200 else outcome_of(answer)

    def judge(self) -> None:
        """Hold what was told and what was tried against what ran; an AssertionError with every contradiction."""
        wrong = [
            f"{why}: {call}, which ran {self.ran[call.key]} times"
            for call in self.calls.values()
            if (why := call.fault_of(self.ran[call.key]))
        ]
        wrong.sort(key=worst_first)
        assert not wrong, "\n".join(
            [f"{len(wrong)} of {len(self.calls)} calls:", *wrong[:8], self.replay]
        )


def _key_in(address: str) -> str:
    return address.partition("key=")[2].partition("&")[0]
