"""The proxy of a link's client: calls go to the current client under the policy.

Other attributes are those of the client.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import partial, wraps
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import wrapt

from ...calls.ports import (
    States,
    bind,
    disprove,
    failure_in_call,
    leave_call,
    make_last,
)
from ...failure import (
    PLAIN_ANSWERS,
    BridgeError,
    Executed,
    Reading,
    Record,
    Severity,
    attach,
    error_for,
    failure_of_answer,
    failure_of_result,
    record_of,
    stays_here,
)
from ...world import current_world
from ..arguments import Call, check_bytes, named, permission
from ..mcp_wire import (
    CURRENT_WIRE,
    READS,
    MCPWire,
    is_command,
    is_mcp,
    is_refusal,
    is_session_lost,
    is_silent,
    listed_hints,
)
from ..sdk_errors import package_of
from .connection import CLOSING, close_cause, is_readable
from .loss_rules import (
    did_not_run,
    ending,
    ends_client,
    is_fatal,
    is_loss,
    is_marked,
    is_proof,
    native,
    sends_no_more,
)


if TYPE_CHECKING:
    from ...failure import Failure
    from ...presets.bridge_policy import BridgePolicy
    from ..arguments import Idempotent
    from ..mcp_wire import Hint
    from .connection import Connection, Ended
    from .link_supervisor import LinkSupervisor

    _ObjectProxy = wrapt.ObjectProxy[Any]
else:
    _ObjectProxy = wrapt.ObjectProxy  # takes no subscript before wrapt 2.2

_READS: Final[Mapping[str, frozenset[str]]] = {
    "mcp": READS,
    "websockets": frozenset({"ping", "recv"}),
}
"""Calls that change nothing on the server, by protocol."""

_RECEIVES: Final[Mapping[str, frozenset[str]]] = {"websockets": frozenset({"recv"})}
"""Calls that return received messages, some of which may be buffered after a loss."""

_LONGEST_PAUSE: Final = 5.0  # seconds between two repeats on a connection that is kept
_MOST_LOSSES: Final = 3  # connections that one call may lose: it may be their cause

# seconds for the cause from a client that only says "closed", and for a call made at once
_WORD_AFTER: Final = 1.0
_CLIENT_END: Final = (
    CLOSING + 1.0
)  # seconds: once its client has been left, an unwritten call has not run


class LinkCalls:
    """The calls of a link: which may be repeated, and what a loss during one means."""

    def __init__(
        self,
        link: LinkSupervisor,
        policy: BridgePolicy,
        idempotent: Idempotent | None,
        patience: float | None,
        max_bytes: Mapping[str, int],
        *,
        trust_hints: bool,
        answers: bool,
    ) -> None:
        self.link = link
        self.states = States("reconnecting")
        self._policy = policy.calls
        self._repeatable = frozenset(policy.idempotent)
        self._if_marked = frozenset(policy.idempotent_if_marked)
        self._idempotent = idempotent
        self._patience = patience
        self._max_bytes = max_bytes
        self._trusts = trust_hints
        self._answers = answers
        self._is_peer = False  # whether the client is a Peer, whose dicts are answers of a server
        self._writes = 0  # calls that may have changed something, as far as this link knows
        self._bound: dict[tuple[str, bool], Any] = {}
        # a policy that cannot be used raises here, not at a call
        self._protected("", is_idempotent=False)

    def link_ready(self) -> None:
        """The link is READY again: what opened the circuit of its calls is over."""
        now = current_world().monotonic()
        for circuit in self.states.circuits():
            circuit.link_ready(now)

    async def make(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the client, and repeat it if the policy allows that and it is safe."""
        self.link.check_loop()
        if self._max_bytes:
            method = getattr(self.link.current, name, None)
            check_bytes(self._max_bytes, kwargs if method is None else named(method, args, kwargs))
        call = Call(name, args, kwargs)
        is_idempotent = self._is_permitted(call)
        connection = None if is_idempotent else self.link.usable()
        if connection is not None:
            is_idempotent = await self._hint(connection, call) == "read"
        # Names in `idempotent_if_marked` need the mark on the error; without it `_answer` stops.
        is_free = is_idempotent or (
            self._idempotent is not False and _operation(call) in self._if_marked
        )
        return await self._protected(name, is_idempotent=is_free)(call, is_idempotent)

    def _protected(self, name: str, *, is_idempotent: bool) -> Any:
        key = name, is_idempotent
        if key not in self._bound:
            self._bound[key] = bind(
                self._policy,
                self._attempt,
                idempotent=is_idempotent,
                proofs="all",
                allowed_by="reconnecting(…, idempotent=…)",
                name=f"reconnecting.{name}" if name else "reconnecting",
                states=self.states,
                reading=Reading(PLAIN_ANSWERS, self._read),
                read=_arguments,
            )
        return self._bound[key]

    def _read(self, result: object) -> Failure | None:
        return (
            failure_of_answer(result)
            if self._answers or self._is_peer
            else failure_of_result(result)
        )

    def _heed(self, connection: Connection, result: object) -> None:
        """End the session if the answer, which the caller gets first, is a fatal failure."""
        failure = self._read(result)
        if failure is not None and failure.severity is Severity.FATAL:
            connection.end(error_for(failure))

    def _is_permitted(self, call: Call) -> bool:
        """Return whether the user, the protocol or the policy permits repeats of this call."""
        named_so = call.kwargs.get("idempotent")
        if self._idempotent is False or named_so is False:
            return False
        if named_so is True or permission(self._idempotent, call, _operation(call)):
            return True
        return _is_read(call, self.link.current) or _operation(call) in self._repeatable

    async def _hint(self, connection: Connection, call: Call) -> Hint:
        """Return the hint of this connection's server about the called tool, "" for other calls.

        Only the hints of the connection on which a call is sent count. They are requested when the
        first call needs them. A server that the user starts as a command is trusted about read-only
        tools; every other hint needs `trust_hints`.
        """
        if call.method != "call_tool" or self._idempotent is False:
            return ""
        client = connection.client
        if not hasattr(client, "list_tools") or not (self._trusts or is_command(client)):
            return ""
        if connection.hints is None:
            connection.hints = asyncio.ensure_future(listed_hints(partial(_page, connection)))
        # All calls share the request, so a cancelled caller must not cancel it.
        found: dict[str, Hint] | None = await asyncio.shield(connection.hints)
        if found is None:
            connection.hints = None  # the next call asks again
            return ""
        hint = found.get(_operation(call), "")
        return hint if self._trusts or hint == "read" else ""

    # ---- one attempt ------------------------------------------------------------------------------------------

    async def _attempt(self, call: Call, is_idempotent: bool) -> Any:
        """Make a call on the current client; after a loss, on the next one if a repeat is safe."""
        if _receives(self.link.current, call.method):
            return await self._receive(call)
        until = None if self._patience is None else self.link.loop.time() + self._patience
        losses, pauses = 0, count(1)
        while True:
            remaining = None if until is None else max(0.0, until - self.link.loop.time())
            connection = await self._awaited(self.link.connection(remaining))
            client, wire = connection.client, MCPWire(connection.client)
            self._is_peer = package_of(client) == "resilient_bridge"
            if _receives(client, call.method):  # the call was made before the first client existed
                return await self._receive(call)
            may_repeat = is_idempotent or (self._idempotent is not False and _is_read(call, client))
            hint = "" if may_repeat else await self._hint(connection, call)
            may_repeat |= hint == "read"
            self._writes += not may_repeat
            mine = self._writes
            is_shut = sends_no_more(client)
            ended = await connection.call(_begin(client, call, wire))
            if ended.error is None and not ended.is_lost:
                # A websocket's success only says that the system took the data, not the peer.
                connection.has_worked |= package_of(client) != "websockets"
                self._heed(connection, ended.result)
                return ended.result
            if ended.error is not None and not ends_client(ended.error, client, wire):
                is_away = is_refusal(ended.error) and await _is_away(connection, wire)
                losses += is_away is None or not connection.is_usable
                if may_repeat and is_away is not False:
                    if losses < _MOST_LOSSES and await self._pause(connection, until, pauses):
                        continue
                    make_last()
                if is_fatal(ended.error):
                    connection.end(ended.error)
                raise self._answer(ended.error, client, wire, call, may_repeat=may_repeat)
            losses += 1
            cause = await _cause_of(ended, connection, wire)
            is_unsent = is_shut or did_not_run(ended, connection, call, wire)
            # An idempotent write is not repeated after a later write, which it would undo.
            may_repeat |= hint == "idempotent" and self._writes == mine
            if losses >= _MOST_LOSSES or not (is_unsent or may_repeat) or self.link.is_over:
                if losses >= _MOST_LOSSES:
                    make_last()
                raise ending(
                    cause, call.method, client, is_idempotent=may_repeat, is_unsent=is_unsent
                ) from cause

    async def _pause(
        self, connection: Connection, until: float | None, pauses: Iterator[int]
    ) -> bool:
        """Wait longer each time before a repeat on the same connection.

        Returns False if the call has no patience left for it.
        """
        seconds = min(_LONGEST_PAUSE, 0.25 * 2.0 ** next(pauses)) if connection.is_usable else 0.0
        if until is not None and self.link.loop.time() + seconds >= until:
            return False
        await asyncio.sleep(seconds)
        return True

    def _answer(
        self, error: Exception, client: Any, wire: MCPWire, call: Call, *, may_repeat: bool
    ) -> Exception:
        """Return the error that answers a call. Without `is_proof`, Executed.NO becomes MAYBE."""
        failure = failure_in_call(error)
        if (
            failure is not None
            and failure.executed is Executed.NO
            and not is_proof(error, failure, client, wire)
        ):
            disprove(error, failure)
            # for code that classifies the error later
            attach(error, (record_of(error) or Record())._replace(crossed=2))
        if _operation(call) in self._if_marked and not may_repeat and not is_marked(error):
            make_last()
        return error

    async def _receive(self, call: Call) -> Any:
        """Receive from the connections in order: messages from before a loss come first."""
        while True:
            connection = await self._awaited(self.link.to_read(self._patience))
            begin = _begin(connection.client, call, MCPWire())
            if connection.is_usable:
                ended = await connection.call(begin)
                if ended.error is None and not ended.is_lost:
                    connection.took()
                    return ended.result
                if ended.error is not None and not is_loss(ended.error):
                    raise ended.error
                # then read again: a message may have come with the loss
                connection.end(ended.error)
                continue
            try:
                result = await _at_once(begin())
            except Exception:  # noqa: BLE001 -- no message is left; the cause is reported elsewhere
                self.link.drained(connection)
            else:
                connection.took()
                return result

    async def _awaited(self, connection: Awaitable[Connection]) -> Connection:
        try:
            return await connection
        except BridgeError:
            # It has waited as long as `patience` allows, so no attempt may follow.
            make_last()
            raise


async def _page(connection: Connection, **more: Any) -> Any:
    """Return a page of the list of tools; None if it was refused."""
    ended = await connection.call(partial(connection.client.list_tools, **more))
    return None if ended.is_lost or ended.error is not None else ended.result


def _is_read(call: Call, client: Any) -> bool:
    return call.method in _READS.get(package_of(client), ())


def _receives(client: Any, name: str) -> bool:
    return name in _RECEIVES.get(package_of(client), ()) and is_readable(client)


def _begin(client: Any, call: Call, wire: MCPWire) -> Callable[[], Coroutine[Any, Any, Any]]:
    """Return the function that makes a call in its own task; `wire` records its HTTP requests."""

    def begin() -> Coroutine[Any, Any, Any]:
        if is_mcp(client):
            # It makes its requests in this context, and hides their status from our Retry. So a
            # Retry in its HTTP client must not leave the repeats to ours.
            leave_call()
            CURRENT_WIRE.set(wire)
        return cast(
            "Coroutine[Any, Any, Any]", getattr(client, call.method)(*call.args, **call.kwargs)
        )

    return begin


def _arguments(args: tuple[Any, ...], _: dict[str, Any]) -> tuple[Any, Any]:
    """Return the arguments that the user gave, for a key function."""
    call: Call = args[0]
    return call.args, call.kwargs


def _operation(call: Call) -> str:
    """Return the name on the server: the tool of MCP, the method of a Peer; else `method`."""
    if call.method in ("call_tool", "request"):
        return str(call.args[0] if call.args else call.kwargs.get("name"))
    return call.method


async def _cause_of(ended: Ended, connection: Connection, wire: MCPWire) -> BaseException | None:
    """End the connection on which a call was lost, and return the cause."""
    if ended.error is None:
        return connection.cause
    # Only the call's own error describes it: what ended the connection may concern another call.
    loss = native(ended.error)
    if is_session_lost(ended.error, connection.client, wire):
        connection.retire(loss)  # other calls in progress get their own answers
        return loss
    connection.end(loss, is_silent=is_silent(loss))
    if not is_silent(loss):
        return loss
    await asyncio.wait([connection.lost], timeout=_CLIENT_END if wire.never_sent else _WORD_AFTER)
    return connection.cause


async def _is_away(connection: Connection, wire: MCPWire) -> bool | None:
    """Return whether the server of a client of mcp was away when a call was refused.

    None if it may have been: the status is not known, and a ping is answered. The ping is sent
    where a proxy says that it is away, and where the status is not known: some servers answer 400
    for a forgotten session. Until it is answered, calls wait. If it is refused, the client is lost.
    """
    session: Any = getattr(connection.client, "session", connection.client)
    is_sure = wire.is_answered and not wire.says_away
    if is_sure or not hasattr(session, "send_ping"):
        return False
    if connection.doubt is None:
        connection.doubt = asyncio.ensure_future(
            _probe(connection, session, is_away=wire.says_away)
        )
    # All calls share the ping, so a cancelled caller must not cancel it.
    is_back = await asyncio.shield(connection.doubt)
    return True if wire.says_away or not is_back else None


async def _probe(connection: Connection, session: Any, *, is_away: bool) -> bool:
    """Return whether a ping is answered.

    A connection is retired if its ping is refused, or late and a proxy says that the server
    `is_away`.
    """
    try:
        ended = await connection.call(lambda: _at_once(session.send_ping()))
    finally:
        connection.doubt = None
    error, is_late = ended.error, isinstance(ended.error, TimeoutError)
    if error is not None and (is_refusal(error) or (is_late and is_away)):
        connection.retire(error)  # other calls in progress get their own answers
    return connection.is_usable and not is_late


async def _at_once(work: Coroutine[Any, Any, Any]) -> Any:
    # Not `wait_for`: in Python 3.11 it swallows a cancellation that comes with the result.
    async with asyncio.timeout(_WORD_AFTER):
        return await work


# ---- the proxy ------------------------------------------------------------------------------------------------------


class _NotYet:
    """The placeholder before the first client."""


class Linked(_ObjectProxy):
    """A proxy that `isinstance` and attribute access see as the current client."""

    def __init__(self, calls: LinkCalls) -> None:
        super().__init__(calls.link.current or _NotYet())
        self._self_calls = calls

    def _self_current(self) -> Any:
        current = self._self_calls.link.current
        if current is not None and current is not self.__wrapped__:
            self.__wrapped__ = current
        return current

    def __getattr__(self, name: str) -> Any:
        current = self._self_current()
        if current is None:
            if name.startswith("_"):
                raise AttributeError(name)
            return _call(self._self_calls, name, None)
        value = getattr(current, name)
        if name.startswith("_") or not inspect.iscoroutinefunction(inspect.unwrap(value)):
            return value
        return _call(self._self_calls, name, value)

    def __reduce_ex__(self, *_: object) -> NoReturn:
        stays_here(self, name="Reconnecting")

    __copy__ = __deepcopy__ = __reduce_ex__  # wrapt has its own errors for these

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Iterate over the received messages, across reconnects."""
        link = self._self_calls.link
        link.check_loop()
        while True:
            connection = await link.to_read(None)
            try:
                async for item in connection.client:
                    connection.took()
                    yield item
            except Exception as error:
                if connection.is_usable and not is_loss(error):
                    raise
                connection.end(error)
            else:
                connection.end(close_cause(connection.client))
            link.drained(connection)


def _call(calls: LinkCalls, name: str, method: Any) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await calls.make(name, args, kwargs)

    return call if method is None else wraps(method)(call)
