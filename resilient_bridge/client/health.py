"""A client's health at one glance: plain numbers, no secrets, cheap enough for a health endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..telemetry.events import BridgeState


if TYPE_CHECKING:
    from ..errors import Failure
    from ..protocol import Session
    from .health_check import HealthCheck

__all__ = ["Health", "health_of"]


@attrs.frozen(kw_only=True)
class Health:
    """`ready` is True while messages flow both ways. Counts: `queued` never sent, `unconfirmed` handed out and unanswered,
    `unread` accepted and not yet taken; `attempt` since the last stable link. `failure` is the fatal one, if any.

    Since the start: `rejected` frames that broke the protocol, `duplicates` dropped, `stray_acks` for nothing that we
    wait for; `failed_checks` runs of your health check that did not say yes, `check_errors` those of them that raised.
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
    rejected: int = 0
    duplicates: int = 0
    stray_acks: int = 0
    failed_checks: int = 0
    check_errors: int = 0


def health_of(session: Session, check: HealthCheck | None) -> Health:
    """The snapshot of this moment."""
    inbound, outbound = session.inbound, session.outbound
    return Health(
        ready=session.state is BridgeState.READY,
        state=session.state,
        reason=session.reason,
        session_id=session.session_id,
        queued=len(outbound.outbox.queued),
        unconfirmed=len(outbound.outbox.unconfirmed),
        unread=len(inbound.inbox),
        attempt=session.reconnection.attempt,
        failure=session.failure,
        rejected=inbound.rejected,
        duplicates=inbound.duplicates,
        stray_acks=outbound.stray_acks,
        failed_checks=check.failed if check is not None else 0,
        check_errors=check.errors if check is not None else 0,
    )
