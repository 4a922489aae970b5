"""A snapshot of a client's health: plain numbers, no secrets, cheap enough for a health endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ..failure import Failure
from ..telemetry.events import BridgeState


if TYPE_CHECKING:
    from ..failure import BridgeError
    from ..protocol import Now, Session
    from .driver import Driver
    from .health_check import HealthCheck


_PATIENCE: Final = 1.0  # seconds in which an answer is not yet late
_WAITS_FOR: Final = {
    BridgeState.CONNECTING: "the first attempt has no answer yet",
    BridgeState.FLUSHING: "what was queued is being sent",
}


@attrs.frozen(kw_only=True)
class Health:
    """The health of a client at one moment. `ready` is True while messages flow both ways.

        health = rb.BridgeClient("wss://host/ws").health()
        print(health.ready, health.state, health.queued)      # False IDLE 0

    Since the start: `rejected` frames that broke the protocol, `duplicates` dropped, `stray_acks`
    for nothing that we wait for; `failed_checks` runs of your health check that did not say yes,
    `check_errors` those of them that raised. `store`: the durable store in words, without its
    folder or its password, empty for none; `store_failed`: it refuses, and has not worked since.
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
    store_failed: bool = False
    store: str = ""


def obstacle(session: Session, now: Now | None, *, patience: float = _PATIENCE) -> Failure | None:
    """Return why the client is not READY.

    That is its end, an answer missing for `patience` seconds, or the last loss of the link.

    Without `now` a missing answer is not considered.
    """
    if session.failure is not None or session.state is BridgeState.READY:
        return session.failure
    link = session.link
    if link is None or now is None or link.joining.waits(now) < patience:
        return session.reconnection.last_loss
    return link.missing(now) or session.reconnection.last_loss


def not_ready(driver: Driver, timeout: object) -> BridgeError:
    """Return the error of a `wait_ready` that took too long.

    It says what the client waits for, or why the link was lost.
    """
    session, now = driver.session, driver.now()
    why = obstacle(session, now) or obstacle(session, now, patience=0)
    text = f"still {session.state.value} after {timeout} s"
    if why is None:
        waits_for = _WAITS_FOR.get(session.state, session.reason)
        return driver.error(Failure.of("SYS_TIMEOUT", f"{text}: {waits_for}"))
    shown = Failure.of(
        "SYS_TIMEOUT",
        f"{text}: {why.message}",
        suggestions=why.suggestions,
        cause=driver.error(why),
    )
    return driver.error(shown)


def health_of(driver: Driver, check: HealthCheck | None, now: Now | None) -> Health:
    """Return the snapshot of this moment.

    Without `now` (no running loop) it does not say what is waited for.
    """
    session = driver.session
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
        failure=obstacle(session, now),
        rejected=inbound.rejected,
        duplicates=inbound.duplicates,
        stray_acks=outbound.stray_acks,
        failed_checks=check.failed if check is not None else 0,
        check_errors=check.errors if check is not None else 0,
        store_failed=driver.has_failed_store,
        store=repr(driver.store) if driver.store.is_durable else "",
    )
