"""Parse the answers of a peer about an asynchronous command: its status, and its result or error.

Rule: a status is matched without regard to case, and with synonyms; an unknown one is an error. A
reported error is classified like that of any tool, with the hints for known execution errors. No
I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

import attrs

from ...failure import Failure, error_for, mapping_of
from ...failure.answers import tool_finding
from ...failure.payloads import EXECUTIONS


Answer: TypeAlias = Mapping[str, Any] | None
"""A peer's answer about a command. None from a poll: the peer does not know the command."""


class CommandStatus(StrEnum):
    """The last known status of a command.

        command = await commands.start("execute_js", {"script": "document.title"})
        print(command.status is rb.agent.CommandStatus.PENDING)      # True

    `COMPLETE`: it has ended, with a result or an error. `TIMEOUT`: the peer may still work on it.
    `EXPIRED`: its result is lost.
    """

    PENDING = "pending"
    COMPLETE = "complete"
    TIMEOUT = "timeout"
    EXPIRED = "expired"


_WORDS: Final[Mapping[str, CommandStatus]] = {
    **dict.fromkeys(("pending", "queued", "running", "processing"), CommandStatus.PENDING),
    **dict.fromkeys(
        ("complete", "completed", "success", "error", "failed"), CommandStatus.COMPLETE
    ),
    **dict.fromkeys(("timeout", "timed_out"), CommandStatus.TIMEOUT),
    **dict.fromkeys(("expired", "not_found", "unknown"), CommandStatus.EXPIRED),
}
_FAILED: Final = ("error", "failed")

HINTS: Final[Mapping[CommandStatus, str]] = {
    CommandStatus.PENDING: "the peer is still at it: wait, then look again",
    CommandStatus.COMPLETE: "the peer has done it: take the result",
    CommandStatus.TIMEOUT: "the peer goes on, so look again; next time allow it more (its timeout_ms) or ask for less at once",
    CommandStatus.EXPIRED: "the result was lost: run the command again, if it may run twice",
}
"""The hint for a command, by its status."""


@attrs.frozen
class Look:
    """One parsed answer; `value` and `failure` are set for a complete command only."""

    status: CommandStatus
    value: Any = None
    failure: Failure | None = None


def read_answer(answer: object) -> Look:
    """Parse a peer's answer; None means that the peer does not know the command.

    An answer is a mapping with a `status`, and a `result` or an `error` if it is complete. A result
    of the form {"success": false, "error": …} is an error too. Raises ProtocolError for anything
    else.
    """
    if answer is None:
        return Look(CommandStatus.EXPIRED)
    fields = mapping_of(answer)
    word = fields.get("status")
    word = word.lower() if isinstance(word, str) else word
    status = _WORDS.get(word) if isinstance(word, str) else None
    if status is None:
        raise error_for(_not_readable(word if fields else answer))
    if status is not CommandStatus.COMPLETE:
        return Look(status)
    value, error = fields.get("result"), fields.get("error")
    inner = mapping_of(value)
    if error is None and inner.get("success") is False:
        error = inner.get("error") or "not successful"
    if error is None and word in _FAILED:
        error = value or fields.get("message") or "failed"
    return Look(status, value) if error is None else Look(status, failure=_reported(error, fields))


def _reported(error: object, fields: Mapping[object, Any]) -> Failure:
    """Return the failure that the peer reports: `error` is a code, a text, or a mapping with `code`
    and `message`.
    """
    finding = dict(mapping_of(error)) or {"code": error, "message": fields.get("message")}
    code = finding.get("code")
    if isinstance(code, str) and code.upper() in EXECUTIONS:  # scripts write "csp_blocked"
        finding["code"] = code.upper()
    elif not mapping_of(error):
        return tool_finding(str(error), None).failure()
    return tool_finding(finding.get("message"), {"error": finding}).failure()


def _not_readable(received: object) -> Failure:
    shown = received if isinstance(received, str) else type(received).__name__
    wanted = f"one of {', '.join(CommandStatus)}"
    return Failure.of(
        "PROTO_INVALID_MESSAGE",
        f"answer about a command: status wanted {wanted}, got {shown!r}",
        details={"violations": ({"field": "status", "constraint": wanted, "received": shown},)},
    )
