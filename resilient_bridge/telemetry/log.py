"""The default log: important events in the stdlib logger `resilient_bridge`, with or without
listeners.

The level of that logger switches it on and off.

One record per event, one line per record: text from a peer cannot forge a second line, and nothing
is logged that an event does not carry.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import WHY_STOPPED, Failure, Severity, redact, what_happened
from ..world import current_world
from .event import QUIET_WAIT, Event
from .events import GaveUp, ReconnectScheduled, RetryScheduled, Suspended
from .line_rate import PER, LineRate


if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Generator, Mapping


def log_event(event: Event) -> None:
    """Log an event if it is important; ignore every other event. Never raises.

    Warnings: waits over a second, suspensions, fallbacks, circuits that open, stores that fail,
    damaged state, sends in doubt, contexts that are nearly full, and work that is skipped,
    repeated or paused. A workflow that halts is an error. A call that gave up is logged at the
    level of its severity: info, warning, error, and critical for critical or fatal; an error that
    is not retryable and was called once at debug. A retry after a short wait is info, as is the
    success after it. A connection that is lost is logged at info if the wait is short; a failed
    attempt to connect then is not.
    """
    if isinstance(event, ReconnectScheduled):
        is_long, began = event.wait > QUIET_WAIT, _what_was_lost(event)
        if is_long or began == _LOST:
            why = _reason(event.reason, event.failure)
            level = "warning" if is_long else "info"
            say(level, f"{began}, attempt {event.attempt} in {event.wait:.3g} s: {why}", event)
    elif isinstance(event, Suspended):
        why = _reason(event.reason, event.failure)
        say("warning", f"disconnected after {event.attempts} attempts, still trying: {why}", event)
    elif isinstance(event, GaveUp):
        say(_level(event.failure), _gave_up(event), event)
    else:
        _log_call(event)


_LOST = "connection lost"
_NOT_REACHED = frozenset({"connect_refused", "connect_failed", "dns"})
_NOT_CONNECTED = frozenset(
    {"timeout", "tls", "upgrade_rejected", "rejected", "auth_expired", "auth_rejected"}
)


def _what_was_lost(event: ReconnectScheduled) -> str:
    """Say of an attempt that failed that it did: no connection was lost by it."""
    reason, failure = event.reason.partition("(")[0], event.failure
    # an attempt that took too long has an error; a server that does not answer a join has none
    is_dial = reason == "timeout" and failure is not None and failure.cause is not None
    if reason in _NOT_REACHED or is_dial:
        return "not reached"
    return "not connected" if reason in _NOT_CONNECTED else _LOST


def _log_call(event: Event) -> None:
    """Log an event by its row in `_CALLS`; its text is formatted only if the level is enabled."""
    name = type(event).__name__
    row = _CALLS.get(name)
    if row is None or (name in _BY_STRANGERS and not _has_room(name)):
        return
    level, text_of = row
    level = getattr(event, "level", level) if level == "alert" else level
    if isinstance(event, RetryScheduled) and event.wait > QUIET_WAIT:
        level = "warning"
    if _is_read(level):
        say(level, text_of(event), event)


def _level(failure: Failure) -> str:
    if failure.stopped == "not_retryable" and not failure.history:
        return "debug"
    return "critical" if failure.severity is Severity.FATAL else failure.severity.value


def _gave_up(event: GaveUp) -> str:
    """Return the decision: a call's is that of its policy, a link's that of what was lost."""
    failure, stopped = event.failure, event.failure.stopped
    name = redact(event.name)  # by itself: the words around it must not change how it is read
    if stopped is None or event.seconds is None:
        return f"gave up on {name}: {failure}"
    attempts = len(failure.history) + 1
    why = "" if stopped == "attempts" else f", {WHY_STOPPED[stopped]}"
    # of a failure that could have passed, the last attempt has made a lasting one
    end = "; escalated to permanent" if stopped == "attempts" and failure.retryable else ""
    return (
        f"gave up on {name} after {attempts} attempt{'s' if attempts > 1 else ''} "
        f"in {event.seconds:.1f} s{why}: {what_happened(failure)}{end}"
    )


def _retry_scheduled(event: Any) -> str:
    of = "" if event.attempts is None else f" of {event.attempts}"
    return (
        f"retrying {redact(event.name)} in {event.wait:.3g} s (attempt {event.attempt}{of}): "
        f"{what_happened(event.failure)}"
    )


def _retry_recovered(event: Any) -> str:
    retries = event.attempt - 1
    return f"{event.name} recovered after {retries} {'retry' if retries == 1 else 'retries'}"


def _circuit_opened(event: Any) -> str:
    after = "" if event.retry_after is None else f" for {event.retry_after:.3g} s"
    return f"circuit {event.key} opened{after}: {_reason(event.reason, event.failure)}"


def _in_doubt(event: Any) -> str:
    total = event.unknown + event.reached
    return (
        f"{total} send{'' if total == 1 else 's'} in doubt: the outcome of {event.unknown} is unknown, "
        f"{event.reached} left this machine and may be unread"
    )


def _tool_failed(event: Any) -> str:
    text = "failed" if event.required else "is optional and skipped"
    return f"tool {event.tool} {text}: {event.failure}"


def _state_set_aside(event: Any) -> str:
    where = f", kept as {event.set_aside}" if event.set_aside else ""
    return f"state unusable{where}: {event.failure}; used instead: {event.source}; lost: {event.lost}"


def _alert_raised(event: Any) -> str:
    why = "" if event.failure is None else f": {event.failure}"
    return f"alert {event.rule}, {event.level}: {event.value:.3g} is above {event.threshold:.3g}{why}"


# By class name, because `work_events` is imported only when one of its events is created.
_CALLS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    # As loud as RetryRecovered, so that no log shows a recovery without its retries; a warning, if the wait is long.
    "RetryScheduled": ("info", _retry_scheduled),
    "RetryRecovered": ("info", _retry_recovered),
    "CircuitOpened": ("warning", _circuit_opened),
    "CircuitHalfOpened": ("info", lambda event: f"circuit {event.key} lets a probe through: {event.reason}"),
    "CircuitClosed": ("info", lambda event: f"circuit {event.key} closed: {event.reason}"),
    "FellBack": ("warning", lambda event: f"{event.name} fell back to its way {event.rung}: {event.failure}"),
    "StoreFailed": (
        "warning",
        lambda event: (
            f"{event.store} failed, {'goes on in this process alone' if event.degraded else 'keeps nothing'}: {event.failure}"
        ),
    ),
    "StoreRecovered": ("info", lambda event: f"{event.store} works again"),
    "StateSetAside": ("warning", _state_set_aside),
    "DeliveryUnknown": (
        "debug",  # after a loss there may be many: OutboundInDoubt is the warning
        lambda event: f"{event.type} may or may not have arrived: {event.reason}; key {event.key}",
    ),
    "OutboundInDoubt": ("warning", _in_doubt),
    "ThreadLeftBehind": (
        "warning",
        lambda event: f"{event.name}: a thread runs on after {event.seconds:.3g} s",
    ),
    "TaskLeftBehind": (
        "warning",
        lambda event: f"{event.name}: a task that was cancelled runs on after {event.seconds:.3g} s",
    ),
    "ToolFailed": ("warning", _tool_failed),
    "HookRejected": ("warning", lambda event: f"hook event refused: {event.failure}"),
    "WorkflowStarted": (
        "info",
        lambda event: f"{event.workflow} began, {event.completed} of {event.total} phases are finished",
    ),
    "PhaseStarted": (
        "info",
        lambda event: f"{event.workflow}: phase {event.phase} began ({event.number} of {event.total})",
    ),
    "PhaseCompleted": (
        "info",
        lambda event: f"{event.workflow}: phase {event.phase} finished in {event.seconds:.3g} s",
    ),
    "PhaseSkipped": (
        "warning",
        lambda event: (
            f"{event.workflow}: skipping phase {event.phase}: {_reason(event.reason, event.failure)}"
        ),
    ),
    "PhaseUndone": (
        "warning",
        lambda event: f"{event.workflow}: phase {event.phase} will run again: {event.failure}",
    ),
    "WorkflowHalted": (
        "error",
        lambda event: f"{event.workflow} halted at phase {event.phase}: {event.failure}",
    ),
    "WorkflowCompleted": (
        "info",
        lambda event: (
            f"{event.workflow} completed{', without ' if event.skipped else ''}{', '.join(event.skipped)}"
        ),
    ),
    "WorkflowAborted": ("warning", lambda event: f"{event.workflow} was aborted"),
    "SpendWarned": ("warning", lambda event: f"{event.budget}: {event.spent} of {event.limit} are spent"),
    "SpendPaused": ("warning", lambda event: f"{event.budget}: {event.spent} of {event.limit} spent, paused"),
    "SpendApproved": ("info", lambda event: f"{event.budget}: goes on, up to {event.limit}"),
    "SpendCancelled": ("warning", lambda event: f"{event.budget}: cancelled at {event.spent}"),
    "ContextCompacted": (
        "info",
        lambda event: f"context compacted from {event.before} to {event.after} of {event.limit} tokens",
    ),
    "ContextNearlyFull": (
        "warning",
        lambda event: (
            f"context is nearly full: {event.tokens} of {event.limit} tokens: save what a new session needs"
        ),
    ),
    "AlertRaised": ("alert", _alert_raised),
    "AlertCleared": ("info", lambda event: f"alert {event.rule} is over, {event.level}: {event.value:.3g}"),
    "Degraded": (
        "warning",
        lambda event: (
            f"{event.feature}: {event.mode or 'given up'} instead of {event.previous}: {event.failure}"
        ),
    ),
}


# A retry is bounded by its call, a reconnect by its schedule; whoever sends these is not.
_BY_STRANGERS = frozenset({"HookRejected"})
_rate = LineRate()


def _has_room(name: str) -> bool:
    """Return whether a line for this event may be written, and tell how many were not."""
    now = current_world().monotonic()
    for kind, number in _rate.omitted(now):
        say("warning", f"{number} more lines of {kind} were omitted within {PER:g} s")
    return _rate.admits(name, now)


@contextmanager
def muted() -> Generator[None]:
    """Silence the log inside the block, for a command of ours that prints the events itself."""
    import logging

    logger = logging.getLogger("resilient_bridge")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def log_listener_failure(listener: Callable[..., Any], error: BaseException) -> None:
    """Log once that a listener raises.

    The error's text is omitted: it may contain data of the listener.
    """
    name = getattr(listener, "__qualname__", type(listener).__qualname__)
    say(
        "error",
        f"event listener {name} raised {type(error).__name__}, further failures of it are only counted",
    )


def _reason(reason: str, failure: Failure | None) -> str:
    return reason if failure is None else f"{reason}: {failure}"


def _is_read(level: str) -> bool:
    try:
        import logging

        return logging.getLogger("resilient_bridge").isEnabledFor(
            logging.getLevelNamesMapping()[level.upper()]
        )
    except Exception:  # noqa: BLE001 -- a broken logging set-up must not break a call
        return False


def say(level: str, text: str, event: Event | None = None) -> None:
    """Log a line, masked, with the fields of its event for formatters that print them. Never
    raises.
    """
    try:
        import logging

        logger: logging.Logger = logging.getLogger("resilient_bridge")
        number = logging.getLevelNamesMapping()[level.upper()]
        if logger.isEnabledFor(number):
            from .log_fields import log_fields

            logger.log(number, redact(text), extra=None if event is None else log_fields(event))
    except Exception:  # noqa: BLE001, S110 -- a broken log handler must not break a connection
        pass
