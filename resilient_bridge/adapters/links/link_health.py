"""A snapshot of a link's health: plain numbers, no secrets, cheap enough for a health endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...telemetry.events import BridgeState


if TYPE_CHECKING:
    from ...failure import Failure


@attrs.frozen(kw_only=True)
class LinkHealth:
    """The health of a link at one moment. `ready` is True while there is a client to call.

        async with link as client:
            print(link.health().ready, link.health().reconnects)      # True 0

    `attempt` counts the attempts since the last stable connection, `reconnects` all reconnects, and
    `in_flight` the calls in progress. `retry_in` is seconds until the next attempt, None while none
    is planned. `failure` is the last loss, and in FAILED the final one.
    """

    ready: bool
    state: BridgeState
    reason: str
    attempt: int
    reconnects: int
    in_flight: int
    retry_in: float | None = None
    failure: Failure | None = None
