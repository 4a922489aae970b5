"""`doctor --mcp URL`: what a server over HTTP makes of sessions, lost ones among them. Rule: it ends only sessions that it has opened."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..adapters.sidecar.secrets_in_headers import resolved
from ..adapters.sidecar.upstream import LostError
from ..adapters.sidecar.upstream_http import HTTPUpstream
from ..classification.mcp_sessions import is_session_unknown
from .doctor_mcp_page import Page, describe_tools, look_around, probe_tool, start
from .doctor_mcp_talk import LATEST, MODERN, Talk, tools_of
from .mcp_options import headers_of


if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx


FOUND_OUT, NOT_STARTED = 0, 1
_ACCEPT: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_SESSION: Final = "mcp-session-id"


async def examine_url(url: str, arguments: argparse.Namespace, probe: dict[str, Any], page: Page) -> int:
    """Open sessions and look what becomes of them."""
    try:
        headers = resolved(headers_of(arguments.header))
    except LostError as error:
        page.row("starts", f"no: {error.loss.reason}", "it does not start", starts=False)
        return NOT_STARTED
    async with Talk(lambda receiver: HTTPUpstream(url, receiver=receiver, headers=headers)) as talk:
        if not await start(talk, page, "starts"):
            return NOT_STARTED
        describe_tools(await tools_of(talk), page, is_command=False)
        await look_around(talk, page)
        if arguments.probe_tool:
            await probe_tool(talk, arguments.probe_tool, probe, page)
    await _look_at_sessions(url, headers, page)
    async with Talk(lambda receiver: HTTPUpstream(url, receiver=receiver, headers=headers)) as modern:
        answer = await modern.ask("server/discover", {"_meta": MODERN})
        is_modern = answer is not None and "supportedVersions" in (answer.get("result") or {})
        more = ", and 2026-07-28 without sessions" if is_modern else ""
        page.row("protocol", f"{page.data['version']}{more}", modern=is_modern)
    return FOUND_OUT


async def _look_at_sessions(url: str, headers: Mapping[str, str], page: Page) -> None:
    import httpx

    async with httpx.AsyncClient(headers={**_ACCEPT, **headers}, timeout=5.0) as client:
        opened = await _post(
            client,
            url,
            "initialize",
            1,
            {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": {"name": "doctor", "version": "0"}},
        )
        session = opened.session
        page.row(
            "sessions",
            "has them" if session else "has none: every request stands alone",
            sessions=bool(session),
        )
        if not session:
            return
        ours = {_SESSION: session, "MCP-Protocol-Version": LATEST}
    async with httpx.AsyncClient(headers={**_ACCEPT, **headers, **ours}, timeout=5.0) as again:
        pong = await _post(again, url, "ping", 2)
        survives = pong.status_code == 200
        page.row(
            "new connection",
            "the session goes on" if survives else f"answered {pong.status_code}",
            "" if survives else "a cut ends the session",
            session_survives_cut=survives,
        )
        ended = await again.delete(url)
        page.row("DELETE", f"answered {ended.status_code}", ends_sessions=ended.status_code < 300)
        gone = await _post(again, url, "ping", 3)
        body = gone.content
    is_seen = gone.status_code >= 400 and is_session_unknown(gone.status_code, body)
    found = f"answered {gone.status_code}" + (
        ": recognised, so a new session is made and the call sent again" if is_seen else ""
    )
    problem = (
        ""
        if is_seen or ended.status_code >= 300
        else "a lost session is not told, so a client cannot know that it has to open a new one"
    )
    page.row(
        "ended session",
        found,
        problem,
        lost_session_status=gone.status_code,
        lost_session_is_recognised=is_seen,
    )


async def _post(
    client: httpx.AsyncClient, url: str, method: str, number: int, params: Mapping[str, Any] | None = None
) -> _Posted:
    """Make a request and return what came of its answer within a second; a stream goes on for as long as it likes."""
    body = {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}
    content = b""
    async with client.stream("POST", url, json=body) as response:
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                content = await response.aread()
    return _Posted(response.status_code, response.headers.get(_SESSION), content)


class _Posted(NamedTuple):
    """An answer: its status, the session that it names, and its body as far as it came."""

    status_code: int
    session: str | None
    content: bytes
