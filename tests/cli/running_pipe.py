"""`resilient-bridge pipe` as a child process of a test: lines in, lines out, and stderr as it comes. Rule: it is gone when the block ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os

from tests.peers.zygote import PYTHON


PIPE = ("-m", "resilient_bridge", "pipe")


class Child:
    """A running `pipe`: lines in, lines out, and stderr collected."""

    def __init__(self, process):
        self.process = process
        self.errors = []
        self._lines = asyncio.Event()
        self._watch = asyncio.create_task(self._collect())

    async def _collect(self):
        async for line in self.process.stderr:
            self.errors.append(line.decode().rstrip("\n"))
            self._lines.set()

    def say(self, *lines):
        for line in lines:
            text = line if isinstance(line, str) else json.dumps(line)
            self.process.stdin.write(text.encode() + b"\n")

    async def hear(self):
        return json.loads(await asyncio.wait_for(self.process.stdout.readline(), 20))

    async def reported(self, word):
        """Wait until a line of stderr begins so, and return it."""
        async with asyncio.timeout(20):
            while True:
                for line in self.errors:
                    if line.startswith(word):
                        return line
                self._lines.clear()
                await self._lines.wait()

    async def end(self, *, close=True):
        if close:
            self.process.stdin.close()
        code = await asyncio.wait_for(self.process.wait(), 40)
        await self._watch
        return code


@contextlib.asynccontextmanager
async def running(*argv, python=PYTHON, **environment):
    """The command as it runs; with `python=(sys.executable,)` it is our own child, killed as soon as we kill it."""
    process = await asyncio.create_subprocess_exec(
        *python,
        *PIPE,
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | environment,
    )
    child = Child(process)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await child._watch
        process.stdin.close()
        with contextlib.suppress(
            OSError
        ):  # what was written to one that was killed; unread, it is told as an error of the loop
            await process.stdin.wait_closed()
        process._transport.close()


def message(n, **more):
    return {"type": "tool_result", "payload": {"n": n}, **more}


def applied(server):
    return [frame["payload"]["n"] for frame in server.received]
