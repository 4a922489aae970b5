"""What an editor shows over the most used names: every argument with its type. Read by mypy and pyright, never run.

Rule: an argument that is renamed, removed or hidden behind `**options` makes one of these assignments an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Protocol, TypeVar, assert_type

import resilient_bridge as rb


Client = TypeVar("Client")
Which = bool | Collection[str] | Callable[[rb.links.Call], bool]


class Wrap(Protocol):
    """`rb.wrap`."""

    def __call__(
        self,
        client: Client,
        policy: rb.Policy | rb.bridge.BridgePolicy | None = None,
        *,
        idempotent: Which | None = None,
        methods: Mapping[str, rb.Policy] | Collection[str] | None = None,
        max_bytes: Mapping[str, int] | None = None,
        allow_plaintext_credentials: bool = False,
        answers: bool = False,
    ) -> Client: ...


class Reconnects(Protocol):
    """`rb.reconnecting`."""

    def __call__(
        self,
        factory: Callable[[], AbstractAsyncContextManager[Client]],
        policy: rb.Policy | rb.bridge.BridgePolicy = ...,
        *,
        idempotent: Which | None = None,
        trust_hints: bool = False,
        patience: float | timedelta | None = 30.0,
        max_bytes: Mapping[str, int] | None = None,
        allow_plaintext_credentials: bool = False,
        answers: bool = False,
        name: str = "",
    ) -> rb.links.Reconnecting[Client]: ...


class Send(Protocol):
    """`BridgeClient.send`."""

    async def __call__(
        self,
        type: str,
        payload: Mapping[str, Any],
        /,
        *,
        idempotency_key: str | None = ...,
        ttl: float | timedelta | None = ...,
        coalesce: str | None = ...,
        volatile: bool = ...,
    ) -> rb.bridge.Receipt: ...


class Evolve(Protocol):
    """`BridgePolicy.evolve`."""

    def __call__(
        self,
        *,
        reconnect: rb.bridge.Reconnect = ...,
        heartbeat: rb.bridge.Heartbeat = ...,
        outbox: rb.bridge.Outbox = ...,
        inbox: rb.bridge.Inbox = ...,
        replay: rb.bridge.Replay = ...,
        dialect: rb.bridge.Dialect = ...,
        calls: rb.Policy = ...,
        tools: Mapping[str, rb.Policy] = ...,
        idempotent: tuple[str, ...] = ...,
        idempotent_if_marked: tuple[str, ...] = ...,
    ) -> rb.bridge.BridgePolicy: ...


class Protect(Protocol):
    """`Policy.__call__` without a function."""

    def __call__(
        self, /, *, idempotent: bool | None = ..., name: str | None = ...
    ) -> Callable[..., Any]: ...


wrap: Wrap = rb.wrap
reconnecting: Reconnects = rb.reconnecting
protect: Protect = rb.resilient


def of_a_client(bridge: rb.BridgeClient) -> Send:
    """The first of its two forms."""
    return bridge.send


def of_a_policy(policy: rb.bridge.BridgePolicy) -> Evolve:
    """Every part by its name."""
    return policy.evolve


assert_type(rb.Failure.of("SYS_TIMEOUT", retryable=True, details={"phase": "connect"}), rb.Failure)
assert_type(
    rb.presets.default.evolve(outbox=rb.bridge.Outbox(max_messages=5)), rb.bridge.BridgePolicy
)
