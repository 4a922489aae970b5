"""`reconnecting`: a client that is made again whenever it dies, and calls that know whether they may be made again with it.

Rule: a dead client is never repaired; a factory makes the next one. A call is repeated only if it provably did not run, or may
be run twice; every other call that was under way is reported as what it is, an unknown outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Generic, TypeVar

from ...calls.policy import Policy
from ...client.arguments import checked_name, checked_policy
from ...errors import config_error, stays_here
from ...presets import BridgePolicy, default
from ...values.fields import check_flag, optional_seconds
from ..idempotency import Idempotent, checked_idempotent
from ..limits import checked_bytes
from .link_credentials import guarded
from .link_supervisor import LinkSupervisor


if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType
    from typing import TypeAlias

    from ...client.streams import EventStream
    from ...telemetry.events import BridgeState
    from .link_health import LinkHealth

    Seconds: TypeAlias = float | timedelta


T = TypeVar("T")


def reconnecting(
    factory: Callable[[], AbstractAsyncContextManager[T]],
    policy: Policy | BridgePolicy = default,
    *,
    idempotent: Idempotent | None = None,
    trust_hints: bool = False,
    patience: Seconds = 30.0,
    max_bytes: Mapping[str, int] | None = None,
    allow_plaintext_credentials: bool = False,
    name: str = "",
) -> Reconnecting[T]:
    """Return a link over the clients that `factory` makes: `async with reconnecting(lambda: Client(url)) as client`.

    What comes out of the `async with` looks like the client, across all reconnects; state, events and health stay with the
    link. The policy's `reconnect` says when it is made again, its `calls` how calls are repeated. A call that was under way when
    the client died is repeated only if the link itself knows that it did not run (it was never started, the connection of its one MCP
    request was refused, the server does not know its session, the method raises NotExecutedError), or with permission:
    `idempotent=` True, names of methods, or a predicate on a `Call` (no async one). What a method raises proves nothing about it.
    False permits nothing. Left out, reads by protocol may be repeated (an MCP `list_tools`, a websocket's `recv`), what the policy
    names `repeatable`, and a tool that an MCP server calls read-only, if the server is a command that you start. `trust_hints` also
    believes a server at a URL, and a tool that is called idempotent, which is repeated while no other call was sent. Every other one
    fails with OutcomeUnknownError, from the cause. A call made while the client is away waits, for `patience` seconds at most, then
    fails with NotConnectedError: it was not sent. `name` is what events and metrics call the link. ConfigError names a bad argument.

    Of a `connect` of websockets, credentials (in its headers, or in its url before the @) do not cross a network in clear text, ws:// to
    another machine (CONN_INSECURE), unless `allow_plaintext_credentials`; and they follow no redirect to another origin, and nothing
    follows one from wss to ws (CONN_REDIRECT_REFUSED). Both end the link before anything was sent there.
    """
    if not callable(factory):
        raise config_error(
            "reconnecting.factory", "a callable that returns an async context manager", factory
        )
    check_flag("reconnecting.allow_plaintext_credentials", allow_plaintext_credentials)
    check_flag("reconnecting.trust_hints", trust_hints)
    supervisor: LinkSupervisor[T] = LinkSupervisor(
        guarded(factory, allow_plaintext_credentials=allow_plaintext_credentials),
        checked_policy(policy, path="reconnecting.policy"),
        idempotent=checked_idempotent(idempotent, "reconnecting.idempotent"),
        trust_hints=trust_hints,
        patience=optional_seconds("reconnecting.patience", patience) or 0.0,
        max_bytes=checked_bytes(max_bytes, "reconnecting.max_bytes"),
        name=checked_name(name, "reconnecting.name"),
    )
    return Reconnecting(supervisor)


class Reconnecting(AbstractAsyncContextManager[T], Generic[T]):
    """A link; `reconnecting` makes it. Entering waits for the first client, but not beyond one connection attempt.

    `state` is IDLE, CONNECTING, READY, BACKOFF, SUSPENDED (it goes on trying), FAILED or CLOSED. A loss that no new connection can
    help (a configuration, refused credentials) is raised by whatever is done next.
    """

    def __init__(self, supervisor: LinkSupervisor[T]) -> None:
        """See a link; made by `reconnecting` alone."""
        self._supervisor = supervisor

    __reduce__ = stays_here

    def __repr__(self) -> str:
        """Return a status line."""
        return repr(self._supervisor)

    async def __aenter__(self) -> T:
        """Start, wait for the first client or its failure, and return what stands for it."""
        return await self._supervisor.enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Close it."""
        await self._supervisor.aclose()

    @property
    def state(self) -> BridgeState:
        """How the link is at this moment."""
        return self._supervisor.state

    async def aclose(self) -> None:
        """Leave the client and end, in bounded time; calls under way learn that. May be called again."""
        await self._supervisor.aclose()

    def events(self) -> EventStream:
        """Return this link's events from now on, to iterate over."""
        return self._supervisor.events()

    def health(self) -> LinkHealth:
        """Return how the link is, in plain numbers; any thread of this process may ask."""
        return self._supervisor.health()

    async def wait_ready(self, timeout: Seconds | None = None) -> None:  # noqa: ASYNC109 -- the wait itself is the operation
        """Wait until there is a client. AttemptTimeoutError after `timeout` seconds; the final error, if there is one."""
        await self._supervisor.wait_ready(timeout)

    def reconnect_now(self) -> None:
        """Cut the wait before the next connection attempt."""
        self._supervisor.reconnect_now()

    def __circuit__(self) -> object | None:
        """Return the circuit of its calls, None where no layer has one: `rb.circuit(link)` is the handle."""
        return self._supervisor.circuit_state()
