"""The lines of `pipe` about the connection, on stderr.

Rule: each event is one line, which begins with its kind, and has no payload and no secret.
"""

from __future__ import annotations

import platform
from typing import Final

from .. import __version__, events
from ..failure import redact
from ..protocol import Gap
from ..telemetry.event import name_in_words


_SHOWN: Final = 80  # characters of a position
_NO_FIELDS: Final = frozenset({"at", "bridge", "unknown_keys", "reached_keys"})
_RARE: Final = (
    events.Suspended,
    events.MessageUndelivered,
    events.MessageRejected,
    events.ClockJumped,
    events.DuplicateConflict,
    events.OutboundInDoubt,
)


def started(command: str) -> dict[str, str]:
    """Return the first record of a run's event log: the program that wrote it."""
    return {
        "event": "Started",
        "version": __version__,
        "python": platform.python_version(),
        "command": command,
    }


def line_of(event: events.Event) -> str | None:
    """Return the line for an event; None if it is not shown."""
    if isinstance(event, events.StateChanged):
        return f"state: {event.state.value} ({event.reason})"
    if isinstance(event, events.Disconnected):
        return f"lost: {event.failure or event.reason}"
    if isinstance(event, events.ReconnectScheduled):
        return (
            f"retry: attempt {event.attempt} in {event.wait:.1f} s: {event.failure or event.reason}"
        )
    if isinstance(event, events.Joined):
        return f"joined: {event.session_id}"
    if isinstance(event, events.Resumed):
        return f"verdict: {event.verdict.value} ({event.reason}), {event.replayed} replayed"
    if isinstance(event, _RARE) and getattr(event, "outcome", "") != "unknown":
        return _line_of_fields(event)
    return _line_of_store(event)


def _line_of_fields(event: events.Event) -> str:
    """Return the event's name in words and its fields that are not None; a failure as its text."""
    fields = {name: value for name, value in vars(event).items() if name != event.__state__}
    failure = fields.pop("failure", None)
    shown = [
        f"{name}={value}"
        for name, value in fields.items()
        if name not in _NO_FIELDS and value is not None
    ]
    text = " ".join([name_in_words(event), *shown])
    return redact(f"event: {text}" if failure is None else f"event: {text}: {failure}")


def _line_of_store(event: events.Event) -> str | None:
    if isinstance(event, events.StateSetAside):
        return f"store: {event.failure}; set aside as {event.set_aside}, going on with {event.source}, lost: {event.lost}"
    if isinstance(event, events.StoreChanged):
        return (
            f"store: failed: {event.failure}" if event.state == "failed" else "store: works again"
        )
    return None


def line_of_gap(gap: Gap) -> str:
    """Return the line for a gap: messages are, or may be, missing from stdout."""
    since = gap.since.isoformat() if gap.since else "unknown"
    until = gap.until.isoformat() if gap.until else "unknown"
    after = "" if gap.after is None else f", after {redact(str(gap.after), limit=_SHOWN)}"
    return f"gap: {gap.verdict.value} ({gap.reason}), since {since}, until {until}{after}"
