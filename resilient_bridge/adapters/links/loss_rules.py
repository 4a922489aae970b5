"""Whether a link's call that failed has lost its client, whether it can have run, and its error.

Rule: the cause of a connection's end proves nothing about a call; only the call's own error does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...failure import (
    BridgeError,
    Category,
    Executed,
    Failure,
    Kind,
    NotConnectedError,
    OutcomeUnknownError,
    Severity,
    classify,
    mapping_of,
    record_of,
    text_of,
)
from ...failure.record import OWN_WORDS
from ..mcp_wire import is_command, never_sent_for
from ..sdk_errors import package_of


if TYPE_CHECKING:
    from ..idempotency import Call
    from ..mcp_wire import MCPWire
    from .connection import Connection, Ended


_SENDS_LATER: Final = frozenset({"mcp", "websockets"})
"""Clients that have sent nothing if a call fails before it first suspends.

mcp writes in another task, and websockets raises before it writes.
"""

_NOT_STARTED: Final = frozenset({-32700, -32601})

_MCP_CLOSED: Final = "Connection closed"

_MCP_REFUSED: Final = "Server returned an error response"  # for every status but 404

_MCP_LOST: Final = (_MCP_CLOSED, "SSE stream")


def did_not_run(ended: Ended, connection: Connection, call: Call, wire: MCPWire) -> bool:
    """Return whether a call that ended in an error, or with its client, provably did not run.

    A user's method may have done something before it raised, whatever the error: a refused
    connection in its second step proves nothing. So only three facts count: whether the method was
    started, whether it raised `NotExecutedError` itself, and for clients with one request per call
    (a `Peer`, mcp, websockets) what happened to the request.
    """
    error, client = ended.error, connection.client
    if not ended.has_started or (error is not None and is_not_executed(error)):
        return True
    package = package_of(client)
    if package in _SENDS_LATER and not ended.has_suspended:
        return True
    if package == "mcp":
        return _was_not_served(ended, connection, call, wire)
    is_ours = package == "resilient_bridge"
    return is_ours and error is not None and classify(error).executed is Executed.NO


def _was_not_served(ended: Ended, connection: Connection, call: Call, wire: MCPWire) -> bool:
    """Return whether the one request of an mcp call was never sent, or refused for its session."""
    error = ended.error
    if wire.is_seen:
        # Until the client has been left, its request may still be sent.
        return wire.is_session_unknown or (wire.never_sent and connection.lost.done())
    if error is not None and not is_silent(error):
        return is_session_lost(error, connection.client, wire) and not _is_afterthought(error)
    return ended.was_alone and never_sent_for(connection.cause, call)


def is_proof(error: Exception, failure: Failure, client: Any, wire: MCPWire) -> bool:
    """Return whether an answer to a call proves that it did not run, as its failure says.

    The JSON-RPC codes -32700 and -32601 prove it, unless mcp raised them itself after the answer.
    For a Peer, any failure without a JSON-RPC code that says so is a proof.
    """
    if is_not_executed(error):
        return True
    package, number = package_of(client), failure.details.get("rpc_code")
    if number is None:
        return package == "resilient_bridge"
    is_made_up = (
        text_of(error).startswith("Failed to parse") or _is_afterthought(error) or wire.answers > 1
    )
    return package in {"mcp", "resilient_bridge"} and number in _NOT_STARTED and not is_made_up


def is_marked(error: Exception) -> bool:
    """Return whether the peer's own error says that it may be retried."""
    if isinstance(error, BridgeError):  # of a Peer
        return error.failure.kind is Kind.TRANSIENT and error.failure.retryable
    return mapping_of(getattr(error, "data", None)).get("retryable") is True


def is_not_executed(error: Exception) -> bool:
    """Return whether an error states that the method itself had no effect.

    A statement by another protected function, called inside the method, does not count.
    """
    record = record_of(error)
    return classify(error).proof in OWN_WORDS and (record is None or record.crossed == 0)


def is_fatal(error: Exception) -> bool:
    """Return whether the peer's answer to a call ends the session, as its severity says.

    An error of another protected function, called inside the method, is about a session of its own.
    """
    record = record_of(error)
    return classify(error).severity is Severity.FATAL and (record is None or record.crossed == 0)


def is_session_lost(error: Exception, client: Any, wire: MCPWire) -> bool:
    """Return whether an error of mcp says that the server does not know the session.

    A server started as a command has no session.
    """
    if package_of(client) != "mcp":
        return False
    if wire.is_answered:
        return wire.says_unknown
    has_data = getattr(error, "data", None) is not None  # then it is a session of the application
    return classify(error).code == "SESS_NOT_FOUND" and not has_data and not is_command(client)


def ends_client(error: Exception, client: Any, wire: MCPWire) -> bool:
    """Return whether an error of one call, with its HTTP answers, means that its client is lost."""
    if package_of(client) == "mcp" and (
        wire.says_unknown or classify(error).code == "SESS_NOT_FOUND"
    ):
        return is_session_lost(error, client, wire)
    if is_not_executed(error):
        return isinstance(error.__cause__, Exception) and is_loss(error.__cause__)
    return is_loss(error)


def sends_no_more(client: Any) -> bool:
    """Return whether a client can send nothing more: a websocket that is closing or closed."""
    state = getattr(getattr(client, "state", None), "name", "")
    return package_of(client) == "websockets" and state in {"CLOSING", "CLOSED"}


def _is_afterthought(error: BaseException) -> bool:
    """Return whether mcp raised an error after a tool's first answer.

    It then lists the tools to validate the result, or sends the next round.
    """
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name in {"validate_tool_result", "run_input_required_driver"}:
            return True
        trace = trace.tb_next
    return False


def is_silent(error: Exception) -> bool:
    """Return whether an error only says "closed", as mcp does: the client may raise the cause."""
    return type(error).__name__ == "MCPError" and text_of(error) == _MCP_CLOSED


def is_refusal(error: Exception) -> bool:
    """Return whether an error is mcp's for an answer with any error status but 404."""
    return text_of(error) == _MCP_REFUSED


def is_loss(error: Exception) -> bool:
    """Return whether the error of one call by itself means that its client is lost."""
    if isinstance(error, BridgeError):  # one of our clients: it reports its own loss
        return isinstance(error, OutcomeUnknownError | NotConnectedError)
    failure = classify(error)
    if "close_code" in failure.details:
        return True
    has_data = getattr(error, "data", None) is not None
    if not failure.session_valid:
        # with data it is a session of the application, one of many on this connection
        return not has_data
    answered = has_data or failure.details.get("http_status") is not None
    # -32000 may be the server's own error, unless the text is one of mcp's.
    if failure.details.get("rpc_code") == -32000:
        answered |= not text_of(error).startswith(_MCP_LOST)
    return failure.category is Category.TRANSPORT and not answered


def native(error: Exception) -> Exception:
    """Return the cause of one of our clients' errors (such as an exit code), else the error."""
    below = error.__cause__ if isinstance(error, BridgeError) else None
    return below if isinstance(below, Exception) else error


def ending(
    cause: BaseException | None, name: str, client: Any, *, is_idempotent: bool, is_unsent: bool
) -> BridgeError:
    """Return the error of a call in progress whose client was lost."""
    try:
        failure = Failure.of("CONN_RESET") if cause is None else classify(cause)
    except BaseException:  # noqa: BLE001 -- a group of nothing but cancellations says nothing
        failure = Failure.of("CONN_RESET")
    if is_unsent:
        text = f"{name} did not run: {failure.message}"
        return NotConnectedError(Failure.of("CONN_NOT_CONNECTED", text, cause=cause))
    shown = ("exit_code", "stderr", "close_code", "http_status")
    rules = {key: value for key, value in failure.details.items() if key in shown}
    if package_of(client) == "resilient_bridge" and getattr(client, "returncode", None) is not None:
        rules["exit_code"] = client.returncode  # also 0, which is no error of the system
    if is_idempotent:
        return BridgeError(
            Failure.of(
                "CONN_RESET", f"lost during {name}: {failure.message}", details=rules, cause=cause
            )
        )
    text = f"outcome of {name} unknown: {failure.message}"
    return OutcomeUnknownError(Failure.of("SYS_OUTCOME_UNKNOWN", text, details=rules, cause=cause))
