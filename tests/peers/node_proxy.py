"""npm's http-proxy on a free loopback port, as a second real proxy beside nginx in front of a test's server.

Rule: where `npm ci` was not run in tests/node, tests that need it are skipped and say so: see `IS_THERE`.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.peers.ports import HOST


NODE = shutil.which("node")
FOLDER = Path(__file__).parents[1] / "node"

IS_THERE = NODE is not None and (FOLDER / "node_modules/http-proxy").is_dir()


@asynccontextmanager
async def node_proxy(upstream: int, seconds: float) -> AsyncIterator[str]:
    """Run it in front of a loopback port; its address. 502 where nobody listens there, 504 after so many seconds without an answer."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        str(NODE), str(FOLDER / "proxy.mjs"), str(upstream), str(seconds), stdin=pipe, stdout=pipe
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        async with asyncio.timeout(30):
            port = int(await process.stdout.readline())
        yield f"http://{HOST}:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
