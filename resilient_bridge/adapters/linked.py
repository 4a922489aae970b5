"""What stands for a client on a link: its calls go to whichever client is there, behind the policy; the rest is the client's."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

import wrapt

from ..classification import classify
from ..errors import (
    BridgeError,
    Category,
    Executed,
    Failure,
    NotConnectedError,
    OutcomeUnknownError,
)
from ..pipeline.attempt import CURRENT
from ..pipeline.protect import bind
from ..pipeline.states import States
from .limits import check_bytes
from .repeats import Call


if TYPE_CHECKING:
    import asyncio

    from ..pipeline.policy import Policy
    from .connection import Connection
    from .repeats import Idempotent

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

_MOST_LOSSES: Final = 3  # connections that one call may lose: it may be what kills them

_SENDS_LATER: Final = frozenset({"mcp", "websockets"})
"""Clients that have sent nothing, if a call of theirs fails before it waits: mcp writes in another task, websockets raises first."""


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


class Calls:
    """The calls of a link: which of them may be repeated, and what a loss in the middle of one means."""

    def __init__(
        self,
        link: Link,
        policy: Policy,
        idempotent: Idempotent,
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
        check_bytes(self._max_bytes, kwargs)
        is_idempotent = await self._may_run_twice(name, args, kwargs)
        return await self._protected(name, is_idempotent=is_idempotent)(name, args, kwargs, is_idempotent)

    def _protected(self, name: str, *, is_idempotent: bool) -> Any:
        key = name, is_idempotent
        if key not in self._bound:
            self._bound[key] = bind(
                self._policy,
                self._attempt,
                idempotent=is_idempotent,
                name=f"reconnecting.{name}" if name else "reconnecting",
                states=self.states,
            )
        return self._bound[key]

    async def _may_run_twice(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        told = self._idempotent
        if told is True or kwargs.get("idempotent") is True:
            return True
        if callable(told):
            if told(Call(name, args, kwargs)):
                return True
        elif told is not False and name in told:
            return True
        return name in _READS.get(_package_of(self.link.current), ()) or await self._is_harmless(
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
        return self._harmless.get(tool, False)

    # ---- one attempt ------------------------------------------------------------------------------------------

    async def _attempt(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], is_idempotent: bool
    ) -> Any:
        """Make a call on the client of the moment; and on the next one, if this one was lost and a repeat is safe."""
        until = self.link.loop.time() + self._patience
        for losses in count(1):
            connection = await self._connected(until)
            method = getattr(connection.client, name)
            ended = await connection.call(lambda: method(*args, **kwargs))  # noqa: B023 -- it is called before the next round
            if ended.error is not None and not _is_loss(ended.error):
                raise ended.error
            if ended.error is None and not ended.is_lost:
                return ended.result
            cause = connection.cause if ended.is_lost else ended.error
            is_unsent = not ended.has_started
            if ended.error is not None:
                connection.end(ended.error)
                # Only the call's own error speaks of it: what ended the connection may have happened to another one.
                is_unsent = classify(ended.error).executed is Executed.NO
                is_unsent |= not ended.has_suspended and _package_of(connection.client) in _SENDS_LATER
            if losses >= _MOST_LOSSES or not (is_unsent or is_idempotent) or self.link.is_over:
                raise _ending(cause, name, is_idempotent=is_idempotent, is_unsent=is_unsent) from cause
        raise AssertionError

    async def _connected(self, until: float) -> Connection:
        try:
            return await self.link.connection(max(0.0, until - self.link.loop.time()))
        except BridgeError:
            # It has waited as long as it may: there is no use in waiting more often.
            CURRENT.get().is_last = True
            raise


def _is_loss(error: Exception) -> bool:
    """Whether the error of one call means that no other call will work on this client either."""
    failure = classify(error)
    if not failure.session_valid or isinstance(error, NotConnectedError):
        return True
    if isinstance(error, BridgeError):  # of a client that is ours: it says itself what it has lost
        return isinstance(error, OutcomeUnknownError)
    answered = failure.details.get("http_status") is not None or getattr(error, "data", None) is not None
    return failure.category is Category.TRANSPORT and not answered


def _ending(cause: BaseException | None, name: str, *, is_idempotent: bool, is_unsent: bool) -> BridgeError:
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


def _package_of(client: object) -> str:
    return type(client).__module__.partition(".")[0]


# ---- the proxy ------------------------------------------------------------------------------------------------------


class _NotYet:
    """What stands for a client before the first one."""


class _Linked(wrapt.ObjectProxy[Any]):
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

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Iterate over what comes in, across reconnects."""
        link = self._self_calls.link
        while True:
            connection = await link.connection(None)
            try:
                async for item in connection.client:
                    yield item
            except Exception as error:
                if not _is_loss(error):
                    raise
                connection.end(error)
            else:
                connection.end(None)
            await connection.gone()


def _call(calls: Calls, name: str, method: Any) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await calls.make(name, args, kwargs)

    return call if method is None else wraps(method)(call)


def linked(calls: Calls) -> Any:
    """Return what stands for the client of a link."""
    return _Linked(calls)
