"""A client's health at one glance: plain numbers, no secrets, cheap enough for a health endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs


if TYPE_CHECKING:
    from ..errors import Failure
    from ..telemetry.events import BridgeState

__all__ = ["Health"]


@attrs.frozen(kw_only=True)
class Health:
    """`ready` is True while messages flow both ways. Counts: `queued` never sent, `unconfirmed` handed out and unanswered,
    `unread` accepted and not yet taken; `attempt` since the last stable link. `failure` is the fatal one, if any.
    """

    ready: bool
    state: BridgeState
    reason: str
    session_id: str
    queued: int
    unconfirmed: int
    unread: int
    attempt: int
    failure: Failure | None = None
