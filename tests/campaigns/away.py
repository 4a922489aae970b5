"""An MCP server behind proxies that says for a while that it is away: killed, deployed anew, and hanging, under calls that are counted.

    python -m tests.campaigns.away [calls of each row]       prints the table of docs/reference/evidence.md

Rule: the server is the Python SDK's, its tool writes each effect to a file, and what callers were told is held against that file. The
same calls meet the same outages at the server's own port, with which the share of good answers is compared.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import attrs
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import resilient_bridge as rb
from bench.mcp_features.raw_client import Pipes
from tests.adapters.campaigns import TRUE, outcome_of
from tests.adapters.sidecar.standing_in import outcome_of as sidecar_outcome_of
from tests.adapters.sidecar.standing_in import stands_in_for
from tests.peers.nginx import Nginx, nginx
from tests.peers.node_proxy import node_proxy
from tests.peers.running import McpServer, mcp_server


CALLERS = 4
BETWEEN = 100  # calls from one outage to the next
LATE = 1.0  # seconds after which a proxy answers 504
LESS = 0.05  # of all calls: so many fewer good answers than at the server's own port are allowed
Make = Callable[
    [str, bool], Awaitable[str]
]  # a call by its key, which reads or writes; what its caller was told


@attrs.define
class Row:
    """What a run came to."""

    calls: int = 0
    outages: int = 0
    reported: Counter[str] = attrs.Factory(Counter)
    wrong: list[str] = attrs.Factory(list)
    seconds: float = 0.0

    @property
    def good(self) -> float:
        """The share of calls that were answered."""
        return self.reported["done"] / self.calls


# ---- the far end -------------------------------------------------------------------------------------------------------
async def _outage(server: McpServer, kind: str, rng: Random) -> None:
    """The server is killed, deployed anew, or hangs for longer than a proxy waits."""
    if kind == "hangs":
        os.kill(server.pid, signal.SIGSTOP)
        await asyncio.sleep(LATE + rng.uniform(0.3, 1.0))
        os.kill(server.pid, signal.SIGCONT)
        return
    await (server.kill() if kind == "killed" else server.stop())
    await asyncio.sleep(rng.uniform(0.5, 2.0) if kind == "killed" else rng.uniform(0.1, 0.5))
    await server.start()


@asynccontextmanager
async def _front(
    kind: str, server: McpServer, folder: Path
) -> AsyncIterator[tuple[str, Nginx | None]]:
    """The address to call, and nginx if its certificate is needed."""
    if kind == "its own port":
        yield server.url(), None
    elif kind == "http-proxy":
        async with node_proxy(server.port, LATE) as url:
            yield f"{url}/mcp", None
    else:
        timeouts = f"proxy_read_timeout {LATE:g}s; proxy_connect_timeout {LATE:g}s;"
        async with nginx(folder / "nginx", server.port, server=timeouts) as front:
            yield (
                (front.secure_url("/mcp"), front)
                if kind == "nginx, HTTP/2"
                else (front.url("/mcp"), None)
            )


# ---- the near end ------------------------------------------------------------------------------------------------------
@asynccontextmanager
async def through_sidecar(url: str, _: Nginx | None, seed: int) -> AsyncIterator[Make]:
    """A raw client of `resilient-bridge mcp URL`."""
    with Pipes(stands_in_for(url, "--trust-hints")) as client:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, client.initialize)

        async def make(key: str, is_read: bool) -> str:
            call = (
                {"name": "life"}
                if is_read
                else {"name": "create_ticket", "arguments": {"key": key}}
            )
            answer = await asyncio.wrap_future(client.begin("tools/call", call))
            outcome = sidecar_outcome_of(answer)
            return {"answered": "done", "not_executed": "not run"}.get(outcome, outcome)

        yield make


def _linked(*, over_ours: bool) -> Callable[..., Any]:
    @asynccontextmanager
    async def through_link(url: str, front: Nginx | None, seed: int) -> AsyncIterator[Make]:
        mode = "legacy" if seed % 2 else "auto"

        @asynccontextmanager
        async def connected() -> AsyncIterator[Any]:
            options = {"verify": front.trust, "http2": True} if front is not None else {}
            inner = httpx2.AsyncHTTPTransport(trust_env=False, **options)
            transport = rb.HTTPTransport(rb.presets.default.calls, inner) if over_ours else inner
            async with (
                httpx2.AsyncClient(transport=transport, timeout=30) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                yield client

        is_plain = front is None and not over_ours
        factory: Any = (lambda: Client(url, mode=mode)) if is_plain else connected
        async with rb.reconnecting(factory, trust_hints=True) as client:

            async def make(key: str, is_read: bool) -> str:
                name, arguments = ("life", {}) if is_read else ("create_ticket", {"key": key})
                try:
                    answer = await client.call_tool(name, arguments)
                except Exception as error:  # noqa: BLE001 -- what is told by it is judged
                    return outcome_of(error)
                return "failed" if answer.is_error else "done"

            yield make

    return through_link


NEAR: dict[str, Callable[..., Any]] = {
    "sidecar": through_sidecar,
    "reconnecting": _linked(over_ours=False),
    "reconnecting over HTTPTransport": _linked(over_ours=True),
}
FRONTS = ("its own port", "nginx, HTTP/1.1", "nginx, HTTP/2", "http-proxy")


def fronts_of(near: str) -> list[str]:
    """The sidecar speaks HTTP/1.1 only."""
    return [one for one in FRONTS if near != "sidecar" or one != "nginx, HTTP/2"]


# ---- a run -------------------------------------------------------------------------------------------------------------
async def play(near: str, front: str, seed: int, calls: int) -> Row:
    """Four callers, a third of whose calls read; after each hundred calls the next outage, in turn killed, deployed anew, hanging."""
    row, began = Row(), time.monotonic()
    rng = Random(seed)
    reported: dict[str, str] = {}
    keys = iter([f"s{seed}n{n}" for n in range(calls)])
    outages = itertools.cycle(("killed", "deployed", "hangs"))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await stack.enter_async_context(mcp_server(ledger=folder / "ledger"))
        url, proxy = await stack.enter_async_context(_front(front, server, folder))
        make: Make = await stack.enter_async_context(NEAR[near](url, proxy, seed))
        trouble: asyncio.Task[None] | None = None

        async def work() -> None:
            nonlocal trouble
            for key in keys:
                number = int(key.rpartition("n")[2])
                if number % BETWEEN == BETWEEN // 2:
                    if trouble is not None:
                        await trouble
                    row.outages += 1
                    trouble = asyncio.create_task(_outage(server, next(outages), rng))
                reported[key] = await make(key, number % 3 == 2)

        async with asyncio.timeout(60 + calls):
            await asyncio.gather(*(work() for _ in range(CALLERS)))
            if trouble is not None:
                await trouble
        ran = Counter(server.ledger.keys)
    for key, outcome in reported.items():
        row.calls += 1
        row.reported[outcome] += 1
        is_read = int(key.rpartition("n")[2]) % 3 == 2
        if is_read and outcome != "done":
            row.wrong.append(
                f"{near}, {front}, {key}: a read that may be repeated was reported {outcome}"
            )
        if not is_read and ran[key] not in TRUE.get(outcome, ()):
            row.wrong.append(f"{near}, {front}, {key}: reported {outcome}, ran {ran[key]} times")
    row.seconds = time.monotonic() - began
    return row


def main(calls: int) -> int:
    """Make all runs, and print the table; 1 if anything was wrong."""
    logging.disable(logging.CRITICAL)
    total, wrong, say = Counter[str](), list[str](), sys.stdout.write
    say(
        "| through | before the server | calls | outages | answered | unknown | not executed | wrong | in |\n"
    )
    say("|---|---|---|---|---|---|---|---|---|\n")
    for near in NEAR:
        own = 0.0
        for front in fronts_of(near):
            row = asyncio.run(play(near, front, 1, calls))
            own = own or row.good
            if row.good < own - LESS:
                wrong.append(f"{near}, {front}: {row.good:.1%} answered, at its own port {own:.1%}")
            wrong += row.wrong
            if others := set(row.reported) - {"done", "unknown", "not run"}:
                wrong.append(f"{near}, {front}: {others}")
            counts = [row.reported[one] for one in ("done", "unknown", "not run")]
            numbers = [row.calls, row.outages, *counts, len(row.wrong)]
            say(f"| {near} | {front} | {' | '.join(map(str, numbers))} | {row.seconds:.0f} s |\n")
            sys.stdout.flush()
            total += Counter(calls=row.calls, outages=row.outages)
    say(f"\n{total['calls']} calls, {total['outages']} outages\n")
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if sys.argv[1:] else 300))
