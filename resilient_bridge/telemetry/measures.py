"""Turns events into measurements: the only module that knows which event changes which metric.

Rule: exporters and alerts compute from measurements alone, and measurements come from events alone.
A failure is counted once, however many events report it. The remembered state (which link is up,
since when it is down) is small and bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, cast

from ..failure import Severity
from . import instruments as known
from .alert_events import AlertChanged
from .call_events import CallFinished, CallRejected
from .error_metric import ErrorMetric, error_metric
from .event import sender_of
from .events import (
    CircuitChanged,
    Connected,
    Disconnected,
    GaveUp,
    Joined,
    MessageRejected,
    MessageUndelivered,
    ReconnectScheduled,
    Resumed,
    RetryScheduled,
    StateSetAside,
    StoreChanged,
)
from .work_events import HookRejected, ToolFailed


if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ..failure import Failure
    from .event import Event
    from .instruments import Instrument


_MOST_LINKS: Final = 10_000
_TOOLS_OWN: Final = frozenset(
    {"TOOL_NOT_FOUND", "TOOL_ARGUMENTS_INVALID"}
)  # no call was made, so no other event reports it

_TRANSITIONS: Final = {"isolated": "open", "disabled": "closed"}  # by hand; else the state itself


class Measurement(NamedTuple):
    """One instrument changes by `value`; `labels` in the order of the instrument.

    `error` is the full label set, for `errors`.
    """

    instrument: Instrument
    value: float
    labels: tuple[str, ...]
    error: ErrorMetric | None = None


class _LinkRecord:
    """The state of one link."""

    __slots__ = ("down_since", "is_dropped", "is_up", "last")

    def __init__(self) -> None:
        self.is_up = False
        self.is_dropped = False  # lost, and its first ReconnectScheduled or GaveUp has not come yet
        self.down_since: datetime | None = None
        self.last: Failure | None = None


class Measures:
    """Turns events into measurements, one event after the other. Not thread-safe."""

    def __init__(self, user_agent: str = "") -> None:
        self._user_agent = user_agent
        # By the identity of the link, because several have one name; without one by name and session.
        self._links: OrderedDict[object, _LinkRecord] = OrderedDict()

    def of(self, event: Event) -> list[Measurement]:
        """Return the measurements of an event; empty for most events."""
        found: list[Measurement] = []
        read = self._readers.get(type(event))
        if read is not None:
            read(self, event, found)
        return found

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _call_finished(self, event: Any, found: list[Measurement]) -> None:
        outcome = (
            "ok_after_retry" if event.outcome == "ok" and event.attempts > 1 else event.outcome
        )
        labels = (event.name, outcome)
        found += (
            Measurement(known.CALLS, 1, labels),
            Measurement(known.CALL_SECONDS, event.seconds, labels),
            Measurement(known.CALL_ATTEMPTS, event.attempts, (event.name,)),
        )
        if event.failure is not None and outcome in ("failed", "rejected"):
            self._count(event.failure, event, found)

    def _retry_scheduled(self, event: Any, found: list[Measurement]) -> None:
        found.append(Measurement(known.RETRIES, 1, (event.name, event.failure.code)))
        self._count(event.failure, event, found)

    def _call_rejected(self, event: Any, found: list[Measurement]) -> None:
        found.append(Measurement(known.REJECTIONS, 1, (event.name, event.by)))

    def _tool_failed(self, event: Any, found: list[Measurement]) -> None:
        if event.failure.code in _TOOLS_OWN:
            self._count(event.failure, event, found)

    def _circuit(self, event: Any, found: list[Measurement]) -> None:
        state: str = event.state
        found.append(Measurement(known.TRANSITIONS, 1, (event.key, _TRANSITIONS.get(state, state))))

    # ---- links ------------------------------------------------------------------------------------------------------

    def _link(self, event: Any) -> _LinkRecord:
        key = sender_of(event) or (event.bridge, getattr(event, "session_id", None))
        record = self._links.get(key)
        if record is None:
            record = self._links[key] = _LinkRecord()
            if len(self._links) > _MOST_LINKS:
                self._links.popitem(last=False)
        else:
            self._links.move_to_end(key)
        return record

    def _connected(self, event: Any, found: list[Measurement]) -> None:
        self._link(event).is_up = True
        found.append(Measurement(known.RECONNECTS, 1, (event.bridge, "connected")))

    def _joined(self, event: Any, found: list[Measurement]) -> None:  # noqa: ARG002 -- as the others
        self._link(event).is_up = True

    def _disconnected(self, event: Any, found: list[Measurement]) -> None:
        record, failure = self._link(event), event.failure
        was_up, record.is_up = record.is_up, False
        if failure is None:
            return
        record.last = failure
        self._count(failure, event, found)
        if was_up:
            record.is_dropped = True
            record.down_since = record.down_since or event.at
            found.append(Measurement(known.DROPS, 1, (event.bridge, failure.code)))

    def _reconnect_scheduled(self, event: Any, found: list[Measurement]) -> None:
        self._attempt_failed(event, found)

    def _gave_up(self, event: Any, found: list[Measurement]) -> None:
        if event.seconds is None:  # of a link: a call that gave up is counted when it has ended
            self._attempt_failed(event, found)

    def _attempt_failed(self, event: Any, found: list[Measurement]) -> None:
        record, failure = self._link(event), event.failure
        was_dropped, record.is_dropped = record.is_dropped, False
        if not was_dropped:  # the first one after a loss reports the loss, not a failed attempt
            found.append(Measurement(known.RECONNECTS, 1, (event.bridge, "failed")))
        if failure is not None and failure is not record.last:
            record.last = failure
            self._count(failure, event, found)

    def _resumed(self, event: Any, found: list[Measurement]) -> None:
        record = self._link(event)
        record.is_up = True
        verdict = str(event.verdict)
        if record.down_since is not None:
            seconds = max(0.0, (event.at - record.down_since).total_seconds())
            found.append(Measurement(known.DOWN_SECONDS, seconds, (event.bridge, verdict)))
            record.down_since = None
        if verdict != "RECOVERED":
            found.append(Measurement(known.GAPS, 1, (event.bridge, verdict)))

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def _undelivered(self, event: Any, found: list[Measurement]) -> None:
        found.append(Measurement(known.UNDELIVERED, 1, (event.bridge, event.outcome)))
        self._failed(event, found)

    def _hook_rejected(self, event: Any, found: list[Measurement]) -> None:
        found.append(Measurement(known.HOOKS, 1, ()))
        self._count(event.failure, event, found)

    def _alert(self, event: Any, found: list[Measurement]) -> None:
        if event.state == "raised":
            found.append(Measurement(known.ALERTS, 1, (event.rule, event.level)))

    def _failed(self, event: Any, found: list[Measurement]) -> None:
        failure = getattr(event, "failure", None)
        if failure is not None:
            self._count(failure, event, found)

    def _count(self, failure: Failure, event: Event, found: list[Measurement]) -> None:
        """Count a failure, unless its severity is info."""
        if failure.severity is not Severity.INFO:
            error = error_metric(failure, event, user_agent=self._user_agent)
            labels = (error.category, error.code, error.severity, cast("str", error.source))
            found.append(Measurement(known.ERRORS, 1, labels, error))

    _readers: ClassVar[dict[type[Event], Callable[[Measures, Any, list[Measurement]], None]]] = {
        AlertChanged: _alert,
        CallFinished: _call_finished,
        CallRejected: _call_rejected,
        CircuitChanged: _circuit,
        Connected: _connected,
        Disconnected: _disconnected,
        GaveUp: _gave_up,
        HookRejected: _hook_rejected,
        Joined: _joined,
        MessageRejected: _failed,
        MessageUndelivered: _undelivered,
        ReconnectScheduled: _reconnect_scheduled,
        Resumed: _resumed,
        RetryScheduled: _retry_scheduled,
        StateSetAside: _failed,
        StoreChanged: _failed,
        ToolFailed: _tool_failed,
    }
