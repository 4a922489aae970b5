"""What the end of a call on a link means: whether the client is lost, whether the call can have run, and what its caller is told.

Rule: what ended a connection proves nothing about a call; only the call's own error does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..classification import classify
from ..errors import BridgeError, Category, Executed, Failure, NotConnectedError, OutcomeUnknownError, text_of


if TYPE_CHECKING:
    from .connection import Ended

__all__ = [
    "ending",
    "is_loss",
    "is_refusal",
    "is_silent",
    "native",
    "package_of",
    "says_it_did_not_run",
    "sends_no_more",
]

_SENDS_LATER: Final = frozenset({"mcp", "websockets"})
"""Clients that have sent nothing, if a call of theirs fails before it waits: mcp writes in another task, websockets raises first."""

_MCP_CLOSED: Final = "Connection closed"

_MCP_REFUSED: Final = "Server returned an error response"  # for every status but 404

_MCP_LOST: Final = (_MCP_CLOSED, "SSE stream")


def says_it_did_not_run(ended: Ended, client: Any, name: str) -> bool:
    """Return whether a call that ended in an error of its own provably did not run."""
    error = ended.error
    if error is None or (name == "call_tool" and _is_afterthought(error)):
        return False
    if classify(error).executed is Executed.NO:
        return True
    return not ended.has_suspended and package_of(client) in _SENDS_LATER


def sends_no_more(client: Any) -> bool:
    """Return whether a client sends nothing from now on: a websocket whose closing handshake has begun never opens again."""
    return package_of(client) == "websockets" and getattr(getattr(client, "state", None), "name", "") in {
        "CLOSING",
        "CLOSED",
    }


def _is_afterthought(error: BaseException) -> bool:
    """Return whether an error is about what mcp asks for when a tool has run: the list of tools, to check its answer with."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "validate_tool_result":
            return True
        trace = trace.tb_next
    return False


def is_silent(error: Exception) -> bool:
    """Return whether an error only says that the connection is closed, as mcp does: the reason comes out of the client, if at all."""
    return type(error).__name__ == "MCPError" and text_of(error) == _MCP_CLOSED


def is_refusal(error: Exception) -> bool:
    """Return whether it is what mcp makes of an answer with a status, whichever it was."""
    return text_of(error) == _MCP_REFUSED


def is_loss(error: Exception) -> bool:
    """Whether the error of one call means that no other call will work on this client either."""
    if isinstance(error, BridgeError):  # of a client that is ours: it says itself what it has lost
        return isinstance(error, OutcomeUnknownError | NotConnectedError)
    failure = classify(error)
    if "close_code" in failure.details:
        return True
    has_data = getattr(error, "data", None) is not None
    if (
        not failure.session_valid
    ):  # with data it is a session of the application, one of many on this connection
        return not has_data
    answered = has_data or failure.details.get("http_status") is not None
    if (
        failure.details.get("rpc_code") == -32000
    ):  # a server's own error, too, if it is not one of these texts of mcp's
        answered |= not text_of(error).startswith(_MCP_LOST)
    return failure.category is Category.TRANSPORT and not answered


def native(error: Exception) -> Exception:
    """Return what is below an error of a client of ours: an exit code, which says whether another child can help."""
    below = error.__cause__ if isinstance(error, BridgeError) else None
    return below if isinstance(below, Exception) else error


def ending(cause: BaseException | None, name: str, *, is_idempotent: bool, is_unsent: bool) -> BridgeError:
    """Return what a call ends in that was under way when its client was lost."""
    try:
        failure = Failure.of("CONN_RESET") if cause is None else classify(cause)
    except BaseException:  # noqa: BLE001 -- a group of nothing but cancellations says nothing
        failure = Failure.of("CONN_RESET")
    if is_unsent:
        text = f"{name} did not run: {failure.message}"
        return NotConnectedError(Failure.of("CONN_NOT_CONNECTED", text, cause=cause))
    kept = {
        key: value
        for key, value in failure.details.items()
        if key in ("exit_code", "stderr", "close_code", "http_status")
    }
    if is_idempotent:
        return BridgeError(
            Failure.of("CONN_RESET", f"lost during {name}: {failure.message}", details=kept, cause=cause)
        )
    text = f"outcome of {name} unknown: {failure.message}"
    return OutcomeUnknownError(Failure.of("SYS_OUTCOME_UNKNOWN", text, details=kept, cause=cause))


def package_of(client: object) -> str:
    return type(client).__module__.partition(".")[0]
