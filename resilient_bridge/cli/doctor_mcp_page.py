"""The checks of `doctor --mcp` for both transports, and the page of their findings.

Rule: a row says what was observed, and if that is a problem, why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..adapters.sidecar.lists import hint_of
from ..adapters.sidecar.message import object_of
from ..failure import redact
from .doctor_mcp_talk import MODERN, Talk, greet
from .doctor_rows import Row


_SHOWN: Final = 12  # names in a row
_WHOLE: Final = 10.0  # seconds to wait for the result of a call


class Page:
    """The findings: the rows to print, the problems among them, and the same as data."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.problems: list[str] = []
        self.data: dict[str, Any] = {}

    def row(self, what: str, found: str, problem: str = "", **data: Any) -> None:
        """Add a finding; `problem` says why it is a problem, and is empty if it is none."""
        self.rows.append(Row(what, found + (f" (!: {problem})" if problem else "")))
        if problem:
            self.problems.append(f"{what}: {problem}")
        self.data |= data


async def start(talk: Talk, page: Page, what: str) -> bool:
    """Start and initialize the server, and report how fast that was; return whether it worked."""
    answer, seconds = await greet(talk)
    result = object_of(object_of(answer).get("result"))
    if answer is None or not isinstance(answer.get("result"), dict):
        words = f"; its last words: {talk.words}" if talk.words else ""
        why = talk.loss or (
            _why_not(answer) if answer else talk.unanswered or "no answer to initialize"
        )
        page.row(what, f"no: {redact(why)}{words}", "it does not start", starts=False)
        return False
    version: object = result.get("protocolVersion")
    info = object_of(result.get("serverInfo"))
    name = " ".join(str(info.get(part, "")) for part in ("name", "version")).strip() or "unnamed"
    noise = f"; {talk.noise} lines of noise on stdout" if talk.noise else ""
    page.row(
        what,
        f"after {seconds:.2f} s: {name}{noise}",
        "noise on stdout breaks other clients" if talk.noise else "",
    )
    if what == "starts":
        capabilities = sorted(object_of(result.get("capabilities")))
        page.data |= {
            "starts": True,
            "start_seconds": round(seconds, 3),
            "server": info,
            "version": version if isinstance(version, str) else "",
            "capabilities": capabilities,
            "noise": talk.noise,
        }
        page.row("capabilities", ", ".join(capabilities) or "none")
    else:
        page.data["restart_seconds"] = round(seconds, 3)
    return True


def describe_tools(tools: list[dict[str, Any]], page: Page, *, is_command: bool) -> None:
    """Report what the tools declare, and which calls are repeated after a loss."""
    trusted = "after a loss" if is_command else "after a loss with --trust-hints"
    page.data["trusts_read_only"] = is_command
    reads = [str(tool.get("name")) for tool in tools if hint_of(tool) == "read"]
    idempotent = [str(tool.get("name")) for tool in tools if hint_of(tool) == "idempotent"]
    others = [str(tool.get("name")) for tool in tools if not hint_of(tool)]
    page.row(
        "tools",
        str(len(tools)),
        tools=len(tools),
        read_only=reads,
        idempotent=idempotent,
        unsafe=others,
    )
    page.row("only read", _names(reads) + (f": repeated {trusted}" if reads else ""))
    page.row(
        "idempotent", _names(idempotent) + (": repeated with --trust-hints" if idempotent else "")
    )
    page.row(
        "anything else",
        _names(others)
        + (
            ": a repeat may do it twice, so none is made; --effects FILE holds a call in doubt that"
            " the model makes again"
            if others
            else ""
        ),
    )


async def look_around(talk: Talk, page: Page) -> None:
    """Send a ping, the cancellation of a request that does not exist, and an unknown method."""
    pong = await talk.ask("ping")
    page.row(
        "ping",
        "answered" if pong and "result" in pong else _silence(talk),
        "" if pong else "a hang cannot be told from work",
        ping=bool(pong),
    )
    talk.notify("notifications/cancelled", {"requestId": 987_654, "reason": "doctor"})
    unknown = await talk.ask("resilient-bridge/unknown")
    code = object_of(object_of(unknown).get("error")).get("code")
    found = (
        f"refused with {code}" if code is not None else "answered" if unknown else _silence(talk)
    )
    silent = "that is nothing a client can read" if talk.unanswered else "a client waits for ever"
    page.row("unknown method", found, "" if unknown else silent, unknown_method=code)


async def probe_tool(talk: Talk, name: str, arguments: dict[str, Any], page: Page) -> None:
    """Call a tool, cancel it at once, and report what comes; then call it and wait."""
    number = talk.begin("tools/call", {"name": name, "arguments": arguments})
    talk.notify("notifications/cancelled", {"requestId": number, "reason": "doctor"})
    late = await talk.answer(number, 2.0)
    page.row(
        "cancelled call",
        "answered all the same" if late else "not answered, as the protocol wants it",
        cancelled_is_answered=bool(late),
    )
    answer = await talk.ask("tools/call", {"name": name, "arguments": arguments}, seconds=_WHOLE)
    is_fine = answer is not None and "result" in answer
    if answer is None:
        why = talk.unanswered or f"no answer within {_WHOLE:g} s"
    else:
        why = _words_of(object_of(answer.get("error")))
    page.row(
        "called again",
        "answered" if is_fine else f"no result: {redact(why)}",
        "" if is_fine else "it gave no result",
        probe=is_fine,
    )


async def look_for_modern(talk: Talk, page: Page) -> None:
    """Check whether the server also supports protocol 2026-07-28, which has no sessions."""
    answer = await talk.ask("server/discover", {"_meta": MODERN})
    is_modern = "supportedVersions" in object_of(object_of(answer).get("result"))
    more = ", and 2026-07-28 without sessions" if is_modern else ""
    page.row("protocol", f"{page.data['version'] or 'no version named'}{more}", modern=is_modern)


def _why_not(opened: Mapping[str, Any]) -> str:
    """Return why an answer to initialize opens no session."""
    if opened.get("error") is None:
        return "its answer to initialize is no object"
    return _words_of(object_of(opened["error"]))


def _words_of(error: Mapping[str, Any]) -> str:
    code = error.get("code")
    return str(error.get("message") or "an error without words") + (
        "" if code is None else f" ({code})"
    )


def _silence(talk: Talk) -> str:
    """Return the text for an unanswered request, with the reason where that is known."""
    return f"not answered: {redact(talk.unanswered)}" if talk.unanswered else "not answered"


def _names(names: list[str]) -> str:
    if not names:
        return "none"
    return ", ".join(names[:_SHOWN]) + (
        f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    )
