"""`resilient-bridge serve` as a child process of a test. Rule: it is gone when the block ends."""

from __future__ import annotations

import asyncio
import contextlib
import os

from tests.peers.zygote import PYTHON


COMMAND = (*PYTHON, "-m", "resilient_bridge", "serve")


@contextlib.asynccontextmanager
async def serving(*argv, **environment):
    """A running `serve` and its address."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | environment,
    )
    try:
        url = (await asyncio.wait_for(process.stdout.readline(), 20)).decode().strip()
        yield process, url
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
