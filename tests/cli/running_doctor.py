"""`resilient-bridge doctor` as a child process of a test, and a double that says something while it runs. Rule: it is gone when the call returns."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time

import attrs

from tests.bridges.doubles.harness import serving_aiohttp
from tests.peers.zygote import PYTHON


COMMAND = (*PYTHON, "-m", "resilient_bridge", "doctor")


@attrs.define
class Done:
    """What a run printed, and how it ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def data(self):
        return json.loads(self.out)

    @property
    def rows(self):
        return {row["what"]: row["found"] for row in self.data["rows"]}

    @property
    def after(self):
        return self.data["findings"]["after"]


async def doctor(url, *arguments, seconds=10, **environment):
    """Run it to its end, which has to come in time."""
    started = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "--bridge", url, "--seconds", str(seconds), *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ | environment,
    )  # fmt: skip
    try:
        out, err = await asyncio.wait_for(process.communicate(), seconds + 20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return Done(process.returncode, out.decode(), err.decode(), time.monotonic() - started)


@contextlib.asynccontextmanager
async def publishing(double, *, channel=None, every=0.1, events=1_000):
    """A served double that says something again and again, until so many events; few of them wait until somebody listens."""

    async def publish():
        while events < 10 and not double.connections:
            await asyncio.sleep(0.01)
        for number in range(1, events + 1):
            await double.publish(number, channel)
            await asyncio.sleep(every)

    async with serving_aiohttp(double) as url:
        task = asyncio.ensure_future(publish())
        try:
            yield url
        finally:
            task.cancel()
