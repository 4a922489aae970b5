"""What stands for a client on a link: its calls go to whichever client is there, behind the policy; the rest is the client's."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, cast

import wrapt

from ..errors import BridgeError, stays_here
from ..pipeline.attempt import CURRENT, begun
from ..pipeline.protect import bind
from ..pipeline.states import States
from .call_endings import (
    ending,
    is_loss,
    is_refusal,
    is_silent,
    native,
    package_of,
    says_it_did_not_run,
    sends_no_more,
)
from .connection import close_cause, is_readable
from .limits import check_bytes, named
from .repeats import Call, permits


if TYPE_CHECKING:
    from ..pipeline.policy import Policy
    from .connection import Connection
    from .repeats import Idempotent

    _ObjectProxy = wrapt.ObjectProxy[Any]
else:
    _ObjectProxy = wrapt.ObjectProxy  # takes no subscript before wrapt 2.2
__all__ = ["Calls", "linked"]

_READS: Final[Mapping[str, frozenset[str]]] = {
    "mcp": frozenset(
        {
            "complete", "get_prompt", "list_prompts", "list_resource_templates", "list_resources", "list_tools",
            "read_resource", "send_ping",
        }
    ),
    "websockets": frozenset({"ping", "recv"}),
}  # fmt: skip
"""Calls that change nothing on the other side, by protocol."""

_RECEIVES: Final[Mapping[str, frozenset[str]]] = {"websockets": frozenset({"recv"})}
"""Calls that take what has come in, which may be there after the connection has gone."""

_MOST_LOSSES: Final = 3  # connections that one call may lose: it may be what kills them


_HIDES: Final = frozenset({"mcp"})
"""Clients that turn every answer with an HTTP status into one and the same error."""

_WORD_AFTER: Final = 1.0  # seconds in which a client that only says "closed" may say why


class Link(Protocol):
    """What calls see of their link."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that entered it."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether there will be no other client."""
        ...

    @property
    def current(self) -> Any:
        """The client in use, or the last one; None before the first."""

    def check_place(self) -> None:
        """Refuse another process or loop."""

    async def connection(self, seconds: float | None) -> Connection:
        """Return the connection in use, waiting for it."""
        ...

    async def to_read(self, seconds: float | None) -> Connection:
        """Return the first connection that may have something to read, waiting for one."""
        ...

    def read_up(self, connection: Connection) -> None:
        """There is nothing more to read from a connection."""


class Calls:
    """The calls of a link: which of them may be repeated, and what a loss in the middle of one means."""

    def __init__(
        self,
        link: Link,
        policy: Policy,
        idempotent: Idempotent | None,
        patience: float,
        max_bytes: Mapping[str, int],
        *,
        trust_annotations: bool,
    ) -> None:
        self.link = link
        self.states = States("reconnecting")
        self._policy = policy
        self._idempotent = idempotent
        self._patience = patience
        self._max_bytes = max_bytes
        self._trusts = trust_annotations
        self._harmless: dict[str, bool] = {}  # tools, by what their server says
        self._bound: dict[tuple[str, bool], Any] = {}
        self._protected("", is_idempotent=False)  # a policy that cannot be used is refused now, not at a call

    async def make(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the client, and again if the policy says so and it is safe."""
        self.link.check_place()
        if self._max_bytes:
            method = getattr(self.link.current, name, None)
            check_bytes(self._max_bytes, kwargs if method is None else named(method, args, kwargs))
        is_idempotent = await self._may_run_twice(name, args, kwargs)
        return await self._protected(name, is_idempotent=is_idempotent)(name, args, kwargs, is_idempotent)

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
            )
        return self._bound[key]

    async def _may_run_twice(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        told = self._idempotent
        if told is True or kwargs.get("idempotent") is True:
            return True
        if callable(told):
            if permits(told, Call(name, args, kwargs)):
                return True
        elif told is not None and told is not False and name in told:
            return True
        return name in _READS.get(package_of(self.link.current), ()) or await self._is_harmless(
            name, args, kwargs
        )

    async def _is_harmless(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether the server says of a tool that calling it twice does no harm, if we trust it."""
        if not self._trusts or name != "call_tool":
            return False
        tool = str(args[0] if args else kwargs.get("name"))
        if tool not in self._harmless:
            listed = await self.make("list_tools", (), {})
            for known in listed.tools:
                hints = known.annotations
                self._harmless[known.name] = bool(hints and (hints.read_only_hint or hints.idempotent_hint))
            self._harmless.setdefault(tool, False)
        return self._harmless.get(tool, False)

    # ---- one attempt ------------------------------------------------------------------------------------------

    async def _attempt(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], is_idempotent: bool
    ) -> Any:
        """Make a call on the client of the moment; and on the next one, if this one was lost and a repeat is safe."""
        if _receives(self.link.current, name):
            return await self._receive(name, args, kwargs)
        until = self.link.loop.time() + self._patience
        for losses in count(1):
            connection = await self._awaited(self.link.connection(max(0.0, until - self.link.loop.time())))
            if _receives(connection.client, name):  # it was called before there was a client
                return await self._receive(name, args, kwargs)
            is_shut = sends_no_more(connection.client)
            ended = await connection.call(_begin(connection.client, name, args, kwargs))
            if ended.error is not None and not is_loss(ended.error):
                is_served = not is_refusal(ended.error) or await _is_served(connection)
                if not is_served and is_idempotent and losses < _MOST_LOSSES:
                    continue
                raise ended.error
            if ended.error is None and not ended.is_lost:
                # What a websocket has sent is in the hands of the system: the peer need not be there.
                connection.has_worked |= package_of(connection.client) != "websockets"
                return ended.result
            is_unsent, loss = is_shut or not ended.has_started, None
            if ended.error is not None:
                # Only the call's own error speaks of it: what ended the connection may have happened to another one.
                is_unsent = is_shut or says_it_did_not_run(ended, connection.client, name)
                loss = native(ended.error)
                connection.end(loss, is_silent=is_silent(loss))
                if is_silent(loss):
                    await connection.gone(_WORD_AFTER)
            cause = connection.cause if loss is None or is_silent(loss) else loss
            is_idempotent |= name in _READS.get(package_of(connection.client), ())  # now there is a client
            is_last = losses >= _MOST_LOSSES
            if is_last or not (is_unsent or is_idempotent) or self.link.is_over:
                CURRENT.get().is_last |= is_last
                raise ending(cause, name, is_idempotent=is_idempotent, is_unsent=is_unsent) from cause
        raise AssertionError

    async def _receive(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Receive from the connections in their order: what came before a loss comes before what comes after it."""
        while True:
            connection = await self._awaited(self.link.to_read(self._patience))
            begin = _begin(connection.client, name, args, kwargs)
            if connection.is_usable:
                ended = await connection.call(begin)
                if ended.error is None and not ended.is_lost:
                    connection.took()
                    return ended.result
                if ended.error is not None and not is_loss(ended.error):
                    raise ended.error
                connection.end(ended.error)  # and once more: a message may have come with the loss
                continue
            try:
                result = await _at_once(begin())
            except Exception:  # noqa: BLE001 -- there is nothing left in it; why it was lost is told elsewhere
                self.link.read_up(connection)
            else:
                connection.took()
                return result

    async def _awaited(self, connection: Awaitable[Connection]) -> Connection:
        try:
            return await connection
        except BridgeError:
            # It has waited as long as it may: there is no use in waiting more often.
            CURRENT.get().is_last = True
            raise


def _receives(client: Any, name: str) -> bool:
    """Return whether a call takes what has come in."""
    return name in _RECEIVES.get(package_of(client), ()) and is_readable(client)


def _begin(
    client: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[], Coroutine[Any, Any, Any]]:
    """Return what makes a call, in the task that it has to itself."""

    def begin() -> Coroutine[Any, Any, Any]:
        if package_of(client) in _HIDES:
            # Their requests are made in this context. A Retry below would leave a failure to ours, which never gets to see it.
            around = CURRENT.get()
            CURRENT.set(begun(None, None, around.env, around.started, around.deadline_at))
        return cast("Coroutine[Any, Any, Any]", getattr(client, name)(*args, **kwargs))

    return begin


async def _is_served(connection: Connection) -> bool:
    """Return whether a client of mcp whose call was refused can still do anything; if not, it is lost.

    Some servers answer 400 for a session that they have forgotten, and mcp tells no status from another: ask once more.
    """
    session: Any = getattr(connection.client, "session", None)
    if not hasattr(session, "send_ping"):
        return True
    ended = await connection.call(lambda: _at_once(session.send_ping()))
    if ended.error is not None and is_refusal(ended.error):
        connection.end(ended.error)
    return connection.is_usable


async def _at_once(work: Coroutine[Any, Any, Any]) -> Any:
    # Not `wait_for`: that of Python 3.11 swallows a cancellation that comes together with the result.
    async with asyncio.timeout(_WORD_AFTER):
        return await work


# ---- the proxy ------------------------------------------------------------------------------------------------------


class _NotYet:
    """What stands for a client before the first one."""


class _Linked(_ObjectProxy):
    """The client of the moment, to `isinstance` and to everybody who reads its attributes."""

    def __init__(self, calls: Calls) -> None:
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
        stays_here(self._self_calls.link)

    __copy__ = __deepcopy__ = __reduce_ex__  # wrapt has refusals of its own for these

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Iterate over what comes in, across reconnects."""
        link = self._self_calls.link
        link.check_place()
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
            link.read_up(connection)


def _call(calls: Calls, name: str, method: Any) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await calls.make(name, args, kwargs)

    return call if method is None else wraps(method)(call)


def linked(calls: Calls) -> Any:
    """Return what stands for the client of a link."""
    return _Linked(calls)
