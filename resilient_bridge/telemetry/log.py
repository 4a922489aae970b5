"""The default log: important events in the stdlib logger `resilient_bridge`, with or without
listeners.

The level of that logger switches it on and off.

One record per event, one line per record: text from a peer cannot forge a second line, and nothing
is logged that an event does not carry.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..failure import redact
from ..world import current_world
from .line_rate import PER, LineRate


if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Generator

    from .event import Event


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
    level = event.__level__()
    if not level or (event.__by_strangers__ and not _has_room(type(event).__name__)):
        return
    say(level, event.__text__, event)


# A retry is bounded by its call, a reconnect by its schedule; what strangers cause is not.
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


def say(level: str, text: str | Callable[[], str], event: Event | None = None) -> None:
    """Log a line, masked, with the fields of its event for formatters that print them. Never
    raises.

    A `text` that is a function is called only if somebody reads that level.
    """
    try:
        import logging

        logger: logging.Logger = logging.getLogger("resilient_bridge")
        number = logging.getLevelNamesMapping()[level.upper()]
        if logger.isEnabledFor(number):
            from .log_fields import log_fields

            logger.log(
                number,
                redact(text if isinstance(text, str) else text()),
                extra=None if event is None else log_fields(event),
            )
    except Exception:  # noqa: BLE001, S110 -- a broken log handler must not break a connection
        pass
