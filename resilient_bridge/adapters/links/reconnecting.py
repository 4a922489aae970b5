"""`reconnecting`: a client that is created again after each loss, with calls repeated when safe.

Rule: a lost client is never used again; a factory makes the next one. A call is repeated only if it
provably did not run, or may be run twice; every other call in progress raises OutcomeUnknownError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ...calls import Policy
from ...client.arguments import checked_name, checked_policy
from ...client.streams import EventStream
from ...failure import NotConnectedError, config_error, stays_here
from ...failure.teaching import RefusedUse, TeachesNames, taught
from ...presets import default
from ...presets.bridge_policy import BridgePolicy
from ...telemetry.events import BridgeState
from ...values.fields import Seconds, check_flag, optional_seconds
from ..arguments import Idempotent, checked_bytes, checked_idempotent
from .link_credentials import guarded
from .link_proxy import LinkCalls, Linked
from .link_supervisor import LinkHealth, LinkSupervisor


if TYPE_CHECKING:
    from types import TracebackType


Client = TypeVar("Client")


@taught
def reconnecting(
    factory: Callable[[], AbstractAsyncContextManager[Client]],
    policy: Policy | BridgePolicy = default,
    *,
    idempotent: Idempotent | None = None,
    trust_hints: bool = False,
    patience: Seconds | None = 30.0,
    max_bytes: Mapping[str, int] | None = None,
    allow_plaintext_credentials: bool = False,
    answers: bool = False,
    name: str = "",
) -> Reconnecting[Client]:
    """Return a link over the clients that `factory` makes, one after each loss.

        async with rb.reconnecting(lambda: Client("https://host/mcp")) as client:
            print(await client.list_tools())      # ['search']

    The object of the `async with` looks like the client, across all reconnects; state, events and
    health are on the link. The policy's `reconnect` says when a new client is made, its `calls` how
    calls are repeated.

    A call in progress when the client is lost is repeated in two cases. Either the link knows that
    it did not run: it was never started, the connection of its one MCP request was refused, the
    server does not know its session, or the method raises NotExecutedError. Other errors of a
    method prove nothing. Or there is permission: `idempotent=` is True, a collection of names (of
    methods; for an MCP `call_tool`, of tools), or a predicate on a `Call` (not async). False permits nothing. By default these may be
    repeated: reads by protocol (an MCP `list_tools`, a websocket's `recv`), the policy's
    `idempotent` names, and a tool that an MCP server calls read-only, if you start the server as a
    command. `trust_hints` also trusts a server at a URL, and a tool that is called idempotent,
    which is repeated only if no later call that may write was sent. Every other call fails with
    OutcomeUnknownError, from the cause.

    What a call returns is its success, except a failure by its type, such as a result of MCP with
    `is_error`. The dicts that a Peer returns are answers of a server: one in a form of the
    specifications (`{"isError": true, …}`) is a failure, too. `answers=True` says the same of the
    dicts that any other client returns. A failure counts for the circuit, is repeated as any other,
    and is returned if it stays one.

    A call made while the client is disconnected waits, for `patience` seconds at most (None: no
    limit), then fails with NotConnectedError: it was not sent. A new client closes the circuit of
    the link's calls, if that is this process's own and not isolated. `name` is used in events and
    metrics. ConfigError names
    a bad argument.

    For a `connect` of websockets, credentials (in its headers, or in its url before the @) are not
    sent over ws:// to another machine (CONN_INSECURE), unless `allow_plaintext_credentials`. They
    follow no redirect to another origin, and nothing follows one from wss to ws
    (CONN_REDIRECT_REFUSED). Both errors end the link before anything is sent there.
    """
    if not callable(factory):
        raise config_error(
            "reconnecting.factory", "a callable that returns an async context manager", factory
        )
    check_flag("reconnecting.allow_plaintext_credentials", allow_plaintext_credentials)
    check_flag("reconnecting.answers", answers)
    check_flag("reconnecting.trust_hints", trust_hints)
    checked = checked_policy(policy, path="reconnecting.policy")
    supervisor = LinkSupervisor(
        guarded(factory, allow_plaintext_credentials=allow_plaintext_credentials),
        checked,
        checked_name(name, "reconnecting.name"),
    )
    calls = LinkCalls(
        supervisor,
        checked,
        checked_idempotent(idempotent, "reconnecting.idempotent"),
        optional_seconds("reconnecting.patience", patience),
        checked_bytes(max_bytes, "reconnecting.max_bytes"),
        trust_hints=trust_hints,
        answers=answers,
    )
    supervisor.on_ready_again = calls.link_ready
    return Reconnecting(supervisor, calls)


class Reconnecting(TeachesNames, AbstractAsyncContextManager[Client], Generic[Client]):
    """A link, as `reconnecting` returns it.

        link = rb.reconnecting(lambda: Client("https://host/mcp"))
        async with link as client:
            print(link.state)      # READY

    Entering waits for the first client, but not beyond one connection attempt.

    `state` is IDLE, CONNECTING, READY, BACKOFF, SUSPENDED (it keeps trying), FAILED or CLOSED. A
    permanent loss (a wrong configuration, refused credentials) is raised by the next operation.
    """

    def __init__(self, supervisor: LinkSupervisor, calls: LinkCalls) -> None:
        """Wrap a supervisor; created by `reconnecting` only."""
        self._supervisor = supervisor
        self._calls = calls

    __reduce__ = stays_here

    def __repr__(self) -> str:
        """Return a status line."""
        return repr(self._supervisor)

    async def __aenter__(self) -> Client:
        """Start, wait for the first client or its failure, and return the proxy of the client."""
        await self._supervisor.enter()
        return cast("Client", Linked(self._calls))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Close the link."""
        await self._supervisor.aclose()

    if not TYPE_CHECKING:
        __enter__ = __exit__ = RefusedUse(
            "reconnecting",
            "async with",
            "with",
            "async with rb.reconnecting(lambda: Client(url)) as client: ...",
        )

    @property
    def state(self) -> BridgeState:
        """The current state of the link."""
        return self._supervisor.state

    @taught
    async def aclose(self) -> None:
        """Close the link in bounded time; calls in progress fail. May be called again."""
        await self._supervisor.aclose()

    def events(self) -> EventStream:
        """Return this link's events from now on, to iterate over."""
        self._supervisor.check_loop()
        return EventStream(self._supervisor, self._supervisor.guard)

    def health(self) -> LinkHealth:
        """Return the health of the link in plain numbers; any thread of this process may ask."""
        return self._supervisor.health()

    @taught
    async def wait_ready(self, timeout: Seconds | None = None) -> None:  # noqa: ASYNC109 -- the wait itself is the operation
        """Wait until there is a client.

        Raises AttemptTimeoutError after `timeout` seconds, or the final error.
        """
        self._supervisor.check_loop()
        seconds = optional_seconds("wait_ready.timeout", timeout)
        try:
            await self._supervisor.connection(seconds)
        except NotConnectedError as error:
            if self.state is BridgeState.CLOSED or seconds is None:
                raise
            raise self._supervisor.late(seconds, error) from error

    def reconnect_now(self) -> None:
        """End the wait before the next connection attempt."""
        self._supervisor.reconnect_now()

    def __circuit__(self) -> object | None:
        """Return the circuit of the link's calls, None if there is none; for `rb.calls.circuit(link)`."""
        return self._calls.states.current
