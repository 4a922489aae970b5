"""The policy of a link: all that a bridge does about failures, in one value.

Rule: it holds policies and nothing else; each part can be used alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import attrs

from ..calls.policy import Policy
from ..calls.recommended import resilient
from ..failure.source_text import shown
from ..lazy_names import public
from ..protocol.policies.dialect import Dialect
from ..protocol.policies.heartbeat import Heartbeat
from ..protocol.policies.inbox import Inbox
from ..protocol.policies.outbox import Outbox
from ..protocol.policies.reconnect import Reconnect
from ..protocol.policies.replay import Replay
from ..values.fields import Value, as_tuple, instance_of, path_of, refuse, tuple_of, wants
from ..values.rule import Table


if TYPE_CHECKING:
    from typing import Self

    from ..calls.policy import EnvironmentSource, SettingsSource


class Tools(Table[str, Policy]):
    """An immutable table of policies by name: equal by content, hashable, picklable."""

    __slots__ = ()


def _as_tools(tools: Any) -> Any:
    return Tools(cast("Mapping[str, Policy]", tools)) if isinstance(tools, Mapping) else tools


@wants("a table of policies by name")
def _check_tools(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    path = path_of(instance, attribute)
    if not isinstance(value, Tools):
        refuse(path, "a mapping of name to Policy", value)
    for name, policy in value.items():
        if not isinstance(cast("object", name), str) or not name:
            refuse(path, "names", name)
        if not isinstance(cast("object", policy), Policy):
            refuse(f"{path}[{shown(name)}]", "a Policy", policy)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class BridgePolicy(Value):
    """All policies of a bridge in one value: immutable, equal by content, hashable, picklable.

        policy = rb.bridge.BridgePolicy(
            reconnect=rb.bridge.Reconnect(attempts=8), outbox=rb.bridge.Outbox(max_messages=50)
        )
        bridge = rb.BridgeClient("wss://host/ws", policy=policy)

    A part that is not given is the recommended one. Beside the link, `calls` is the Policy for
    calls over it, and `tools` has one by name for tools or operations with other limits.
    `idempotent` names the operations that may always be repeated, for
    `@policy(idempotent=name in preset.idempotent)`; those in `idempotent_if_marked` only after an
    error that the peer marks `retryable: true`. `rb.reconnecting` obeys both.

    The repr evaluates to an equal value. ConfigError names a part that is not of its class.
    """

    reconnect: Reconnect = attrs.field(default=Reconnect(), validator=instance_of(Reconnect))
    heartbeat: Heartbeat = attrs.field(default=Heartbeat(), validator=instance_of(Heartbeat))
    outbox: Outbox = attrs.field(default=Outbox(), validator=instance_of(Outbox))
    inbox: Inbox = attrs.field(default=Inbox(), validator=instance_of(Inbox))
    replay: Replay = attrs.field(default=Replay(), validator=instance_of(Replay))
    dialect: Dialect = attrs.field(default=Dialect(), validator=instance_of(Dialect))

    calls: Policy = attrs.field(default=resilient, validator=instance_of(Policy))
    tools: Mapping[str, Policy] = attrs.field(
        default=Tools(), converter=_as_tools, validator=_check_tools
    )
    idempotent: tuple[str, ...] = attrs.field(
        default=(), converter=as_tuple, validator=tuple_of("the name of an operation", _is_name)
    )
    idempotent_if_marked: tuple[str, ...] = attrs.field(
        default=(), converter=as_tuple, validator=tuple_of("the name of an operation", _is_name)
    )

    @classmethod
    def from_config(
        cls,
        source: SettingsSource,
        /,
        *,
        names: Mapping[str, Any] | None = None,
        env: EnvironmentSource = False,
    ) -> BridgePolicy:
        """Return the link's policy from a file, a dict or the environment: `load(source).bridge`.

        Raises ConfigError with all that is wrong in the source.
        """
        made: BridgePolicy = public("load")(source, names=names, env=env).bridge
        return made

    if TYPE_CHECKING:  # the same method, with the names and types of the parts

        def evolve(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
            self,
            *,
            reconnect: Reconnect = ...,
            heartbeat: Heartbeat = ...,
            outbox: Outbox = ...,
            inbox: Inbox = ...,
            replay: Replay = ...,
            dialect: Dialect = ...,
            calls: Policy = ...,
            tools: Mapping[str, Policy] = ...,
            idempotent: tuple[str, ...] = ...,
            idempotent_if_marked: tuple[str, ...] = ...,
        ) -> Self:
            """Return a copy with these parts in the place of its own."""
            ...


def calls_of(policy: object, path: str) -> Policy:
    """Return the policy for calls: the given Policy, or the `calls` of a BridgePolicy.

    ConfigError names `path` for anything else.
    """
    if isinstance(policy, BridgePolicy):
        return policy.calls
    if not isinstance(policy, Policy):
        refuse(path, "a Policy or a BridgePolicy", policy)
    return policy
