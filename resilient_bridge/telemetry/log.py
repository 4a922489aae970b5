"""The default log: what somebody without a listener still has to hear, in the stdlib logger `resilient_bridge`.

One record per event, one line per record: text that came from a peer cannot forge a second line, and nothing is logged that
an event does not carry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import Failure, redact
from .events import Event, GaveUp, ReconnectScheduled, Suspended


if TYPE_CHECKING:
    import logging
    from collections.abc import Callable


__all__ = ["QUIET_WAIT", "log_event", "log_listener_failure"]

QUIET_WAIT = 1.0
"""Seconds: a wait up to this is not worth a line."""


def log_event(event: Event) -> None:
    """Log waits over a second, suspensions and give-ups; leave every other event alone. Never raises."""
    if isinstance(event, ReconnectScheduled):
        if event.wait > QUIET_WAIT:
            why = _reason(event.reason, event.failure)
            _write("warning", f"connection lost, attempt {event.attempt} in {event.wait:.3g} s: {why}")
    elif isinstance(event, Suspended):
        why = _reason(event.reason, event.failure)
        _write("warning", f"disconnected after {event.attempts} attempts, still trying: {why}")
    elif isinstance(event, GaveUp):
        _write("error", f"{event.name} gave up: {event.failure}")


def log_listener_failure(listener: Callable[..., Any], error: BaseException) -> None:
    """Say once that a listener raises. The error's text is left out: it may hold what the listener was working on."""
    name = getattr(listener, "__qualname__", type(listener).__qualname__)
    _write(
        "error",
        f"event listener {name} raised {type(error).__name__}, further failures of it are only counted",
    )


def _reason(reason: str, failure: Failure | None) -> str:
    return reason if failure is None else f"{reason}: {failure}"


def _write(level: str, text: str) -> None:
    try:
        import logging

        logger: logging.Logger = logging.getLogger("resilient_bridge")
        logger.log(logging.ERROR if level == "error" else logging.WARNING, redact(text))
    except Exception:  # noqa: BLE001, S110 -- a broken log handler must not break a connection
        pass
