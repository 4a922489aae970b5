"""Assembles a sidecar: its server, its relay and its clients.

Rule: a front that is not used is not imported.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ...values.fields import read_seconds
from .event_log import EventLog
from .running import RunningRelay
from .upstream_child import ChildUpstream
from .upstream_eras import BothErasUpstream


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

    from ...stores import Effects
    from ...values.fields import Seconds
    from .options import Sidecar
    from .upstream import Receiver, Upstream


async def run_sidecar(
    sidecar: Sidecar, *, events: str | None = None, stderr: int | None = 2
) -> None:
    """Run the sidecar on standard input and output, until the client ends or a signal arrives.

        async def main() -> None:
            await rb.mcp.run_sidecar(rb.mcp.Sidecar(command=["uvx", "mcp-server-git"]))

    `events` is the path of a file that gets one JSON object per line, for each event of the server
    and each ended call. `stderr` is the descriptor for lines that people read, None for none. The
    server is ended before this returns. Raises ConfigError for a file that cannot be written.
    """
    from .front_stdio import serve_stdio

    log, effects = EventLog(events, stderr), effects_of(sidecar)
    try:
        await serve_stdio(running_relay(sidecar, log, effects=effects))
    finally:
        effects.close()
        await log.close()


def effects_of(sidecar: Sidecar) -> Effects:
    """Return what remembers the calls in doubt of all sessions: in its file, or in memory."""
    from ...stores import Effects

    return Effects(sidecar.effects)


def running_relay(
    sidecar: Sidecar,
    log: Callable[[Mapping[str, Any], str], None],
    *,
    is_shared: bool = False,
    effects: Effects | None = None,
) -> RunningRelay:
    """Return a relay that runs in this event loop.

    It connects to the sidecar's server at the first request of a client that needs it.
    """
    return RunningRelay(
        sidecar,
        lambda receiver: upstream_of(sidecar, receiver),
        log,
        is_shared=is_shared,
        effects=effects,
    )


def upstream_of(sidecar: Sidecar, receiver: Receiver) -> Upstream:
    """Return a new connection to the sidecar's server, which translates between eras if needed."""
    if sidecar.command:
        return BothErasUpstream(
            lambda inner: ChildUpstream(sidecar.command, inner, cwd=sidecar.cwd, env=sidecar.env),
            receiver,
        )
    from .upstream_http import HTTPUpstream

    return BothErasUpstream(
        lambda inner: HTTPUpstream(
            sidecar.url or "",
            headers=sidecar.headers,
            receiver=inner,
            allow_plaintext_credentials=sidecar.allow_plaintext_credentials,
        ),
        receiver,
    )


@asynccontextmanager
async def serve_sidecar(
    sidecar: Sidecar,
    *,
    token: str | None,
    host: str = "127.0.0.1",
    port: int = 0,
    shared: bool = False,
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    events: str | None = None,
    stderr: int | None = 2,
    connections: int = 400,
    sessions: int = 1_000,
    servers: int = 64,
    head_timeout: Seconds = 10,
    body_timeout: Seconds = 60,
) -> AsyncGenerator[str]:
    """Serve the sidecar over streamable HTTP while the block runs; it gets the URL for clients.

        async def main() -> None:
            sidecar = rb.mcp.Sidecar(command=["uvx", "mcp-server-git"])
            async with rb.mcp.serve_sidecar(sidecar, token=None, port=8080) as url:
                print(url)
                await asyncio.Event().wait()

    Each client session has a server of its own, which ends with it; requests without a session
    (2026-07-28) share one server. With `shared` all clients share one, and it cannot send requests
    to them.

    `token` is the bearer token that clients have to send. None admits every program of this
    machine, and is refused for an address that other machines can reach. `allowed_hosts` and
    `allowed_origins` are allowed besides this machine. `events` and `stderr` are as in
    `run_sidecar`.

    At most `connections` are open, and no more than half of the files that this process may open; a
    quarter of them is for clients that have not shown the token, and each of these is closed after
    `head_timeout` seconds, or when others come. At most `sessions` are open, and at most `servers`
    run: a session beyond that is answered with 503. The head of a request may take `head_timeout`
    seconds, its body `body_timeout`. What is refused is told once a minute for each reason.

    Needs the extra `mcp`: ConfigError names it, and each value that is not valid. Raises OSError if
    the port is not available.
    """
    from .front_http import serve_http
    from .front_http_limits import HttpLimits

    limits = HttpLimits(
        connections=connections,
        sessions=sessions,
        servers=servers,
        head_seconds=read_seconds("serve_sidecar.head_timeout", head_timeout),
        body_seconds=read_seconds("serve_sidecar.body_timeout", body_timeout),
    )

    log, effects = EventLog(events, stderr), effects_of(sidecar)
    try:
        async with serve_http(
            lambda: running_relay(sidecar, log, is_shared=shared, effects=effects),
            token=token,
            host=host,
            port=port,
            shared=shared,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
            limits=limits,
            on_note=log,
        ) as url:
            yield url
    finally:
        effects.close()
        await log.close()
