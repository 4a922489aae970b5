"""`resilient-bridge serve`: run the embedded bridge in a terminal.

Typed lines are sent to the client, and its messages are printed. In a dialect without positions a
line is a frame, and is sent as typed.

Rule: stdout begins with the address and then has one line for each message of the client; the rest
is on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any, Final, cast

from ..adapters.processes.signals import on_signals
from ..adapters.processes.standard_streams import LINE_TOO_LONG, Output, lines_of
from ..failure import ProtocolError
from ..testing.server import BridgeServer
from ..testing.server_log_bridge import LogBridge
from .dialects import FAMILIES, read_served
from .options import token_from
from .pipe_lines import parse_frame, parse_line, parse_object
from .printing import complain


if TYPE_CHECKING:
    from collections.abc import Mapping


_LOOK_EVERY: Final = 0.05  # seconds between two checks for received messages
_GOODBYE: Final = 2.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM, or until stdout is closed.

    Return 0 then, or 2 for wrong usage, or if it cannot listen at the address.
    """
    try:
        token = token_from(arguments.token_env)
        server = _server(arguments.dialect, arguments.host, arguments.port, token)
        return asyncio.run(_serve(server, arguments.host, is_open=token is None))
    except (LookupError, ValueError) as error:
        return complain("serve", str(error.args[0]))
    except (OSError, OverflowError) as error:
        return complain("serve", f"cannot listen on {arguments.host}:{arguments.port}: {error}")


#: What only the client needs to know, or what the embedded bridge does not do.
_OF_CLIENT: Final = ("start", "timestamp", "distinct", "volatile", "id_field", "ack", "dedupes")


def _server(
    dialect: str | None, host: str, port: int, token: str | None
) -> BridgeServer | LogBridge:
    name, arguments = ("recursor", {}) if dialect is None else read_served(dialect)
    if name == "recursor":
        return BridgeServer(host=host, port=port, token=token)
    for of_client in _OF_CLIENT:
        arguments.pop(of_client, None)
    position: Any = FAMILIES.get(name)
    return LogBridge(position=position, host=host, port=port, token=token, **arguments)


async def _serve(server: BridgeServer | LogBridge, host: str, *, is_open: bool) -> int:
    out, err = Output(1), Output(2)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    try:
        with on_signals(stop.set):
            async with server:
                out.put(server.url)
                if is_open and host not in _LOOPBACK:
                    err.put(f"anybody who reaches {host} can connect: --token-env asks for a token")
                tasks = [
                    loop.create_task(work) for work in (_push(server, err), _show(server, out, err))
                ]
                ends = [loop.create_task(event.wait()) for event in (stop, out.broken)]
                await asyncio.wait([*ends, tasks[1]], return_when=asyncio.FIRST_COMPLETED)
                for task in (*tasks, *ends):
                    task.cancel()
                await asyncio.wait([*tasks, *ends])
                for task in tasks:
                    if not task.cancelled():
                        task.result()
    finally:
        await out.aclose(_GOODBYE)
        await err.aclose(_GOODBYE)
    return 0


async def _push(server: BridgeServer | LogBridge, err: Output) -> None:
    number = 0
    async for line in lines_of(0):
        number += 1
        if line is LINE_TOO_LONG or not line.strip():
            continue
        try:
            if isinstance(server, LogBridge):
                await server.push(
                    _frame(line, number) if server.position is None else _event(line, number)
                )
            else:
                await server.push(*_read(line, number))
        except ProtocolError as error:
            err.put(f"refused: {error.failure}")
        except LookupError:
            err.put(f"refused: line {number}: nobody has joined yet")
        except (ValueError, RecursionError) as error:  # parsed, but not encodable as a frame
            err.put(f"refused: line {number}: {error}")


def _frame(line: bytes, number: int) -> str | bytes:
    """Return a frame as the line has it: text, or the bytes in `{"raw_base64": …}`."""
    if line.lstrip().startswith(b"{") and b'"raw_base64"' in line:
        payload = parse_frame(line, number, has_types=False).payload
        if isinstance(payload, bytes):
            return payload
    return _line(line)


def _event(line: bytes, number: int) -> dict[str, Any]:
    """Return the payload of an event: a JSON object, or other text.

    Raises ProtocolError for invalid JSON.
    """
    if not _is_json(line):
        return {"text": _line(line)}
    return parse_object(line, number)


def _read(line: bytes, number: int) -> tuple[str, dict[str, Any]]:
    """Return the message of a line: a JSON object describes it, other text is a `text_message`."""
    if not _is_json(line):
        return "text_message", {"text": _line(line)}
    outgoing = parse_line(line, number)
    return outgoing.type, dict(cast("Mapping[str, Any]", outgoing.payload))


def _is_json(line: bytes) -> bool:
    return line.lstrip().startswith(b"{")


def _line(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")


async def _show(server: BridgeServer | LogBridge, out: Output, err: Output) -> None:
    connections = 0
    while True:
        for message in server.received:
            out.put(_shown(message))
        server.received.clear()
        if isinstance(server, BridgeServer):
            server.frames.clear()
        if server.connections != connections:
            connections = server.connections
            session = f", session: {server.session}" if isinstance(server, BridgeServer) else ""
            err.put(f"connections: {connections}{session}")
        await asyncio.sleep(_LOOK_EVERY)


def _shown(message: Any) -> str:
    """Return a message of the client as a line of JSON; bytes as base64."""
    if isinstance(message, bytes):
        message = {"raw_base64": base64.b64encode(message).decode()}
    return json.dumps(message, separators=(",", ":"))
