"""What a loss means: whether a call that failed can have run, and whether the link tries again.

It does no I/O.

Rule: the cause of a connection's end proves nothing about a call; only the call's own error does.
An open connection is not yet a success. It counts as one once something came from the peer, or once
it has lasted `Reconnect.stable_after`; until then its end is a failed attempt.
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
from ...protocol.clock import Now
from ...protocol.policies.losses import is_programming_error, is_unreadable
from ...protocol.reconnection import Decision, Reconnection
from ...values.rule import most_specific
from ..mcp_wire import (
    is_afterthought,
    is_lost_text,
    is_mcp,
    is_session_lost,
    is_silent,
    never_sent_for,
)
from ..sdk_errors import package_of
from .link_credentials import sends_in_clear


if TYPE_CHECKING:
    import random

    from ...protocol.policies.reconnect import Reconnect
    from ..arguments import Call
    from ..mcp_wire import MCPWire
    from .connection import Connection, Ended


_SENDS_LATER: Final = frozenset({"mcp", "websockets"})
"""Clients that have sent nothing if a call fails before it first suspends.

mcp writes in another task, and websockets raises before it writes.
"""

_NOT_STARTED: Final = frozenset({-32700, -32601})

# seconds: a server that refuses credentials after the handshake closes sooner, often after a
# message with the reason
_ACCEPTED: Final = 1.0


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
        return is_session_lost(error, connection.client, wire) and not is_afterthought(error)
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
        text_of(error).startswith("Failed to parse") or is_afterthought(error) or wire.answers > 1
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


def ends_client(error: Exception, client: Any, wire: MCPWire) -> bool:
    """Return whether an error of one call, with its HTTP answers, means that its client is lost."""
    if is_mcp(client) and (wire.says_unknown or classify(error).code == "SESS_NOT_FOUND"):
        return is_session_lost(error, client, wire)
    if is_not_executed(error):
        return isinstance(error.__cause__, Exception) and is_loss(error.__cause__)
    return is_loss(error)


def sends_no_more(client: Any) -> bool:
    """Return whether a client can send nothing more: a websocket that is closing or closed."""
    state = getattr(getattr(client, "state", None), "name", "")
    return package_of(client) == "websockets" and state in {"CLOSING", "CLOSED"}


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
        answered |= not is_lost_text(text_of(error))
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


# ---- the end of a connection -----------------------------------------------------------------------------------------


class Losses:
    """The losses of one link so far, and the decision about each."""

    def __init__(self, policy: Reconnect, rng: random.Random) -> None:
        self._policy = policy
        self.reconnection = Reconnection(policy, rng, superseded=(), can_refresh=True)
        self._made: object = None  # what the factory returned the last time
        self._unreadable: object = None  # the close code after a message that could not be read

    def opened(self) -> None:
        self.reconnection.connected()
        self.reconnection.entered()

    def lost(self, connection: Connection, failure: Failure, now: Now) -> Decision:
        """Return the decision after the end of this connection, or of the attempt to make it."""
        if connection.opened_at is not None:
            lasted = now.mono - connection.opened_at
            is_stable = lasted >= self._policy.stable_after
            if is_stable:
                self._unreadable = None
            if connection.has_worked or is_stable:
                is_accepted = is_stable or lasted >= _ACCEPTED
                opened = Now(connection.opened_at, now.wall - lasted)
                self.reconnection.ready(opened, proves_credentials=is_accepted)
                self.reconnection.pong()  # for a link, received data is the proof of health
        elif is_programming_error(failure):
            failure = _factory_failure(f"raised {failure.message}", failure)
        elif (
            connection.made is not None
            and connection.made is self._made
            # as a client says that can be entered only once
            and failure.code == "SYS_INTERNAL_ERROR"
            and isinstance(failure.cause, RuntimeError)
        ):
            failure = _factory_failure(
                f"returned the same object again, which said: {failure.message}", failure
            )
        self._made = connection.made
        self.reconnection.sends_in_clear = sends_in_clear(connection.made)
        decision = self.reconnection.lost(failure, now)
        return decision._replace(retry=False) if self._is_stuck(failure) else decision

    def _is_stuck(self, failure: Failure) -> bool:
        """Return whether unreadable data has ended two connections with the same close code.

        None between them was stable. A rule of the policy for it takes precedence.
        """
        if not is_unreadable(failure):
            return False
        before, self._unreadable = self._unreadable, failure.details["close_code"]
        return self._unreadable == before and most_specific(self._policy.rules, failure) is None


def _factory_failure(what: str, failure: Failure) -> Failure:
    """Return a configuration error for a factory with a programming error: it ends the link."""
    return Failure.of(
        "SYS_CONFIG_INVALID",
        f"reconnecting.factory {what}",
        suggestions=("correct the factory: the next attempt would fail like this one",),
        cause=failure.cause,
    )
