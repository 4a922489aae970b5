"""Drives presets as a user does: the real policies around a real function, in virtual time, without decisions of its own."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import httpx

import resilient_bridge as rb
from resilient_bridge.testing import inject, record, virtual_time


class Drive(NamedTuple):
    """The result of a call: how often the function ran, the waits in between, the outcome, and the events."""

    calls: int
    slept: list[float]
    outcome: rb.calls.Outcome[Any]
    events: list[rb.events.Event]

    @property
    def stopped(self) -> str | None:
        """Why the policy stopped, None for a success."""
        return None if self.outcome.failure is None else self.outcome.failure.stopped

    @property
    def event_names(self) -> list[str]:
        """The class names of the events."""
        return [type(event).__name__ for event in self.events]


def drive(policy: rb.Policy, *script: Any, idempotent: bool = True, seed: int = 0) -> Drive:
    """Call a function behind `policy` whose calls follow the script, and then succeed."""

    @policy(idempotent=idempotent)
    def ask() -> str:
        return "answer"

    with virtual_time(seed=seed) as time, inject(ask, *script) as injected, record() as events:
        outcome = rb.capture(ask)
    return Drive(injected.calls, time.slept, outcome, events)


def limits(policy: rb.Policy, wanted: list[float]) -> bool:
    """Return whether an async call that never ends times out exactly after each of `wanted` seconds, one attempt each."""
    starts: list[int] = []

    @policy(idempotent=True)
    async def hang() -> None:
        starts.append(1)
        await asyncio.Event().wait()

    async def main() -> bool:
        with virtual_time() as time:
            calling = asyncio.create_task(hang())
            for attempt, seconds in enumerate(wanted, 1):
                await _run_tasks()
                time.advance(seconds * 0.999)
                await _run_tasks()
                if calling.done() or len(starts) != attempt:
                    return False
                time.advance(seconds * 0.002)
                await _run_tasks()
            return isinstance(calling.exception(), rb.errors.AttemptTimeoutError)

    return asyncio.run(main())


async def _run_tasks() -> None:
    for _ in range(10):  # as often as a task may need to come to its next wait
        await asyncio.sleep(0)


def answer(status: int, **headers: str) -> httpx.HTTPStatusError:
    """Return the error that httpx raises for a status; header names have `_` for `-`."""
    request = httpx.Request("POST", "http://host/v1")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.HTTPStatusError(
        f"{status}",
        request=request,
        response=httpx.Response(status, headers=named, request=request),
    )
