"""`resilient-bridge doctor --mcp`: what an MCP server does on failures, found out by testing it.

Rule: it starts the server, or opens the sessions, itself, and ends only those. A tool is called
only if `--probe-tool` names it. It ends after about `--seconds`, whatever the server does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any, Final, cast

from ..failure import redact
from .doctor_mcp_page import Page, describe_tools, look_around, look_for_modern, probe_tool, start
from .doctor_mcp_talk import Talk, tools_of
from .doctor_rows import Row, page_width, table_of
from .mcp_options import server_of
from .options import FETCHING, SECONDS
from .printing import complain, show
from .status_line import status_on_stderr


FOUND_OUT, NOT_STARTED, RISKS = 0, 1, 3
_FETCHERS: Final = (
    "npx",
    "npm",
    "pnpm",
    "pnpx",
    "yarn",
    "bunx",
    "uvx",
    "uv",
    "pipx",
    "docker",
    "podman",
)
_GONE: Final = 6.0  # seconds for a child to end after its input was closed


def run(arguments: argparse.Namespace) -> int:
    """Examine the server and print the findings.

    Return 0 without problems; 1 if the server did not start or answer in time; 2 for wrong usage; 3
    with problems, or if a server that started was not examined to the end in time.
    """
    try:
        server = server_of(arguments.mcp or None, arguments.command)
        probe = _probe_of(arguments.probe_tool, arguments.probe_arguments)
    except ValueError as error:
        return complain("doctor", str(error))
    page = Page()
    try:
        code = asyncio.run(_bounded(server, arguments, probe, page))
    except TimeoutError:
        has_started = page.data.get("starts")
        reached = ""
        if not has_started:
            fetcher = _fetcher_of(arguments.command)
            perhaps = f"{fetcher} may be fetching the package; " if fetcher else ""
            reached = f": no answer to initialize; {perhaps}--seconds N gives it longer"
        page.row(
            "time", f"not done within {seconds_of(arguments):g} s{reached}", "it took too long"
        )
        code = RISKS if has_started else NOT_STARTED
    if code == FOUND_OUT and page.problems:
        code = RISKS
    text = (
        json.dumps({"exit_code": code, "problems": page.problems, **page.data})
        if arguments.json
        else _text(server, page)
    )
    return show("doctor", text) or code


def seconds_of(arguments: argparse.Namespace) -> float:
    """Return the seconds that the examination may take: longer for a program that fetches a package."""
    if arguments.seconds is not None:
        return float(arguments.seconds)
    return FETCHING if _fetcher_of(arguments.command) else SECONDS


def _fetcher_of(command: list[str] | None) -> str:
    """Return the program of a command if its first start fetches a package, else ""."""
    name = Path(command[0]).stem if command else ""
    return name if name in _FETCHERS else ""


def _probe_of(tool: str | None, text: str | None) -> dict[str, Any]:
    """Return the arguments of the tool call. Raises ValueError for text that is no JSON object."""
    if text is not None and tool is None:
        raise ValueError("--probe-arguments needs --probe-tool")
    try:
        found: object = json.loads(text) if text else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        wanted = f"--probe-arguments: a JSON object expected, got {redact(text or '', limit=60)!r}"
        raise ValueError(wanted)  # noqa: TRY004 -- wrong usage
    return cast("dict[str, Any]", found)


async def _bounded(
    server: dict[str, Any], arguments: argparse.Namespace, probe: dict[str, Any], page: Page
) -> int:
    with status_on_stderr(lambda seconds: f"looking at the server, {seconds:.0f} s"):
        async with asyncio.timeout(seconds_of(arguments)):
            if "command" in server:
                return await _examine_command(server["command"], arguments, probe, page)
            from .doctor_mcp_http import examine_url

            return await examine_url(server["url"], arguments, probe, page)


async def _examine_command(
    command: tuple[str, ...], arguments: argparse.Namespace, probe: dict[str, Any], page: Page
) -> int:
    async with Talk.with_command(command) as talk:
        if not await start(talk, page, "starts"):
            return NOT_STARTED
        before = await tools_of(talk)
        describe_tools(before, page, is_command=True)
        await look_around(talk, page)
        if arguments.probe_tool:
            await probe_tool(talk, arguments.probe_tool, probe, page)
        await _kill(talk, page)
    async with Talk.with_command(command) as again:
        if await start(again, page, "after a kill"):
            after = await tools_of(again)
            is_same = [tool.get("name") for tool in after] == [tool.get("name") for tool in before]
            page.row("tools after it", "the same" if is_same else "others", same_tools=is_same)
            await _leave(again, page)
    async with Talk.with_command(command) as modern:
        await look_for_modern(modern, page)
    return FOUND_OUT


async def _kill(talk: Talk, page: Page) -> None:
    talk.kill()
    loss = await talk.gone(5.0)
    page.row(
        "kill -9",
        f"between calls, by this command: {loss or 'it goes on'}",
        killed=loss is not None,
    )


async def _leave(talk: Talk, page: Page) -> None:
    seconds = await talk.leave(_GONE)
    slow = "it needs a signal to end: clients leave such servers behind" if seconds is None else ""
    found = "ends" if seconds is not None else f"still runs {_GONE:g} s later"
    page.row(
        "end of its input",
        found + (f" after {seconds:.2f} s" if seconds is not None else ""),
        slow,
        ends_on_eof=seconds is not None,
    )


def _text(server: dict[str, Any], page: Page) -> str:
    width = page_width()
    program, *rest = server.get("command", ()) or [redact(server["url"])]
    number = f"{len(rest)} argument{'s'[: len(rest) > 1]}"  # these may be secrets
    head = f"{program}, with {number}" if rest else program
    parts = [head, "", table_of(page.rows, width)]
    if page.data.get("starts"):
        parts += ["", table_of([Row("behind the sidecar", _promise(page))], width)]
    return "\n".join(parts)


def _promise(page: Page) -> str:
    reads: Any = page.data.get("read_only") if page.data.get("trusts_read_only") else []
    calls = (
        "calls that only read are repeated after a loss; any other call"
        if reads
        else "no call is repeated after a loss: one"
    )
    return f"the client's session lives on when this server ends; {calls} whose answer was lost is told as OUTCOME UNKNOWN."
