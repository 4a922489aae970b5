"""`doctor --mcp URL`: how an MCP server over HTTP handles sessions, lost ones included.

Rule: it ends only sessions that it has opened.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..adapters.sidecar import message
from ..adapters.sidecar.upstream_http import HTTPUpstream
from ..adapters.sidecar.upstream_http_headers import POST, SESSION
from ..adapters.sidecar.upstream_http_wire import Sent, Wire
from ..failure import classify, redact
from ..failure.rpc import is_session_unknown
from .doctor_mcp_page import Page, describe_tools, look_around, look_for_modern, probe_tool, start
from .doctor_mcp_talk import LATEST, Talk, tools_of
from .mcp_options import headers_of


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping


FOUND_OUT, NOT_STARTED = 0, 1
_SECONDS: Final = 5.0  # for a connection and the status of a response together


async def examine_url(
    url: str, arguments: argparse.Namespace, probe: dict[str, Any], page: Page
) -> int:
    """Examine the server and what it does with sessions; return 0, or 1 if it does not start."""
    named = headers_of(arguments.header)
    async with Talk(lambda receiver: HTTPUpstream(url, receiver=receiver, headers=named)) as talk:
        if not await start(talk, page, "starts"):
            return NOT_STARTED
        describe_tools(await tools_of(talk), page, is_command=False)
        await look_around(talk, page)
        if arguments.probe_tool:
            await probe_tool(talk, arguments.probe_tool, probe, page)
    await _look_at_sessions(url, named, page)
    async with Talk(lambda receiver: HTTPUpstream(url, receiver=receiver, headers=named)) as modern:
        await look_for_modern(modern, page)
    return FOUND_OUT


async def _look_at_sessions(url: str, headers: Mapping[str, str], page: Page) -> None:
    """Open a session, continue it over another connection, and end it."""
    session = ""
    async with _wire(url, headers) as wire:
        with _seeing(page, "sessions", wire):
            client = {"name": "doctor", "version": "0"}
            params = {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": client}
            session = (await _post(wire, "initialize", 1, params)).session
            found = "has them" if session else "has none: every request stands alone"
            page.row("sessions", found, sessions=bool(session))
    if session:
        async with _wire(url, headers) as again:
            again.session, again.version = session, page.data["version"]
            again.secrets.learn(session)
            await _look_at_one(again, page)


async def _look_at_one(wire: Wire, page: Page) -> None:
    with _seeing(page, "new connection", wire):
        pong = await _post(wire, "ping", 2)
        survives = pong.status == 200
        page.row(
            "new connection",
            "the session goes on" if survives else f"answered {pong.status}",
            "" if survives else "a cut ends the session",
            session_survives_cut=survives,
        )
    with _seeing(page, "DELETE", wire):
        ended = (await _send(wire, "DELETE")).status
        page.row("DELETE", f"answered {ended}", ends_sessions=ended < 300)
    is_ended = page.data.get("ends_sessions")
    if is_ended is None:
        return
    with _seeing(page, "ended session", wire):
        gone = await _post(wire, "ping", 3)
        is_seen = gone.status >= 400 and is_session_unknown(gone.status, gone.content)
        more = ": recognised, so a new session is made and the call sent again" if is_seen else ""
        problem = (
            "a lost session is not told, so a client cannot know that it has to open a new one"
        )
        page.row(
            "ended session",
            f"answered {gone.status}{more}",
            "" if is_seen or not is_ended else problem,
            lost_session_status=gone.status,
            lost_session_is_recognised=is_seen,
        )


@asynccontextmanager
async def _wire(url: str, headers: Mapping[str, str]) -> AsyncGenerator[Wire]:
    """Yield a separate connection with the redirects, proxies and limits of the sidecar's own."""
    wire = Wire(url, headers, connect_timeout=_SECONDS, allow_plaintext_credentials=False)
    try:
        yield wire
    finally:
        await wire.close()


@contextmanager
def _seeing(page: Page, what: str, wire: Wire) -> Generator[None]:
    """If the block fails, report in the row `what` that it was not found out, and why."""
    try:
        yield
    except TimeoutError:
        page.row(what, f"not found out: no answer within {_SECONDS:g} s")
    except Exception as error:  # noqa: BLE001 -- whatever the client raises
        page.row(what, f"not found out: {redact(wire.secrets.text(classify(error).message))}")


async def _post(
    wire: Wire, method: str, number: int, params: Mapping[str, Any] | None = None
) -> _Seen:
    return await _send(wire, "POST", message.request(number, method, params).text.encode())


async def _send(wire: Wire, method: str, content: bytes | None = None) -> _Seen:
    """Send a request and return its response; the body is empty if it does not end in a second."""
    body = b""
    headers = {**(POST if content is not None else {}), **wire.session_headers()}
    async with asyncio.timeout(_SECONDS):
        response = await wire.send(method, headers, Sent(), content)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                body = await response.aread()
    finally:
        await response.aclose()
    return _Seen(response.status_code, response.headers.get(SESSION, ""), body)


class _Seen(NamedTuple):
    """A response: its status, the session id that it names, and its body if that ended in time."""

    status: int
    session: str
    content: bytes
