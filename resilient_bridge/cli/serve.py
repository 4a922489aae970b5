"""`resilient-bridge serve`: the embedded bridge in a terminal. Lines typed here go to the client; what it sends is shown.

Rule: stdout begins with the address and then holds one line for each message the client sent; the rest is on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from contextlib import suppress
from typing import Any, Final

from ..errors import ProtocolError
from ..testing.server import BridgeServer
from .options import token_from
from .pipe_lines import parse_line
from .pipe_streams import LINE_TOO_LONG, Output, lines_of


_USAGE: Final = 2
_LOOK_EVERY: Final = 0.05  # seconds between two looks at what the bridge has received
_GOODBYE: Final = 2.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM, or until nobody reads stdout; 0 then, 2 if it cannot listen there."""
    try:
        token = token_from(arguments.token_env)
        return asyncio.run(_serve(arguments.host, arguments.port, token))
    except LookupError as error:
        print(f"resilient-bridge serve: {error.args[0]}", file=sys.stderr)
    except (OSError, OverflowError) as error:
        print(
            f"resilient-bridge serve: cannot listen on {arguments.host}:{arguments.port}: {error}",
            file=sys.stderr,
        )
    return _USAGE


async def _serve(host: str, port: int, token: str | None) -> int:
    out, err = Output(1), Output(2)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    with suppress(NotImplementedError):  # an event loop without signal handlers
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
    async with BridgeServer(host=host, port=port, token=token) as server:
        out.put(server.url)
        if token is None and host not in _LOOPBACK:
            err.put(f"anybody who reaches {host} can connect: --token-env asks for a token")
        tasks = [loop.create_task(work) for work in (_push(server, err), _show(server, out, err))]
        ends = [loop.create_task(event.wait()) for event in (stop, out.broken)]
        await asyncio.wait([*ends, tasks[1]], return_when=asyncio.FIRST_COMPLETED)
        for task in (*tasks, *ends):
            task.cancel()
        await asyncio.wait([*tasks, *ends])
        for task in tasks:
            if not task.cancelled():
                task.result()
    await out.flush(_GOODBYE)
    await err.flush(_GOODBYE)
    return 0


async def _push(server: BridgeServer, err: Output) -> None:
    number = 0
    async for line in lines_of(0):
        number += 1
        if line is LINE_TOO_LONG or not line.strip():
            continue
        try:
            kind, payload = _read(line, number)
            await server.push(kind, payload)
        except ProtocolError as error:
            err.put(f"refused: {error.failure}")
        except LookupError:
            err.put(f"refused: line {number}: nobody has joined yet")


def _read(line: bytes, number: int) -> tuple[str, dict[str, Any]]:
    """JSON goes out as the message it describes, anything else as the text of a `text_message`."""
    if not line.lstrip().startswith(b"{"):
        return "text_message", {"text": line.decode("utf-8", "replace").rstrip("\r\n")}
    outgoing = parse_line(line, number)
    return outgoing.type, dict(outgoing.payload)


async def _show(server: BridgeServer, out: Output, err: Output) -> None:
    connections = 0
    while True:
        for message in server.received:
            out.put(json.dumps(message, separators=(",", ":")))
        server.received.clear()
        server.frames.clear()
        if server.connections != connections:
            connections = server.connections
            err.put(f"connections: {connections}, session: {server.session}")
        await asyncio.sleep(_LOOK_EVERY)
