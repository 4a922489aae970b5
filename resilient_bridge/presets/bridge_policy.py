"""The policy of a link: everything a bridge does about trouble, in one value.

Rule: it holds policies and nothing else; whoever needs one part takes that part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..policies.dialect import Dialect
from ..policies.fields import Value, instance_of
from ..policies.heartbeat import Heartbeat
from ..policies.inbox import Inbox
from ..policies.outbox import Outbox
from ..policies.reconnect import Reconnect
from ..policies.replay import Replay


if TYPE_CHECKING:
    from typing import Self, TypedDict, Unpack

    class _Parts(TypedDict, total=False):
        reconnect: Reconnect
        heartbeat: Heartbeat
        outbox: Outbox
        inbox: Inbox
        replay: Replay
        dialect: Dialect


__all__ = ["BridgePolicy"]


@attrs.frozen(kw_only=True, repr=False)
class BridgePolicy(Value):
    """How a bridge survives: immutable, equal by content, hashable, picklable; the repr evaluates to an equal value.

    A part left out is the recommended one. ConfigError names a part that is not of its class.
    """

    reconnect: Reconnect = attrs.field(default=Reconnect(), validator=instance_of(Reconnect))
    heartbeat: Heartbeat = attrs.field(default=Heartbeat(), validator=instance_of(Heartbeat))
    outbox: Outbox = attrs.field(default=Outbox(), validator=instance_of(Outbox))
    inbox: Inbox = attrs.field(default=Inbox(), validator=instance_of(Inbox))
    replay: Replay = attrs.field(default=Replay(), validator=instance_of(Replay))
    dialect: Dialect = attrs.field(default=Dialect(), validator=instance_of(Dialect))

    def evolve(self, **parts: Unpack[_Parts]) -> Self:
        """Return this policy with some parts replaced; the original stays as it was."""
        return attrs.evolve(self, **parts)
