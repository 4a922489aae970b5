"""A server whose commands answer later, as its client's two functions see it; it says what its script says."""

from __future__ import annotations

import asyncio

from resilient_bridge.agent import Commands


PENDING = {"status": "pending"}
HANG = object()


class Peer:
    """A server with a buffer of results: it says the answers of its script, one a look, and then repeats the last one.

    An answer is a mapping, None, an exception to raise, or HANG. Looks are noted with the time they came at.
    """

    def __init__(self, *script, started=None) -> None:
        self.script = list(script) or [PENDING]
        self.started = started
        self.starts: list[tuple[str, dict, str]] = []
        self.looks: list[float] = []
        self.time = None
        self.began = 0.0

    async def start(self, name, params, correlation_id):
        self.starts.append((name, params, correlation_id))
        return await self._stated(self.started)

    async def poll(self, correlation_id):
        self.asked = correlation_id
        self.looks.append(self.time.now - self.began if self.time else 0.0)
        return await self._stated(self.script.pop(0) if len(self.script) > 1 else self.script[0])

    async def _stated(self, answer):
        if answer is HANG:
            await asyncio.get_running_loop().create_future()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def commands(self, time=None, **options) -> Commands:
        if time is not None:
            self.time, self.began = time, time.now
        return Commands(self.start, self.poll, **options)


def complete(result) -> dict:
    return {"status": "complete", "result": result}
