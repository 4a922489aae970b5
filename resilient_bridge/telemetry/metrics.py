"""The metrics of the package: what there is to measure, and how events become measurements.

Rule: exporters and alerts compute from measurements alone, and measurements come from events alone.
A failure is counted once, however many events report it. The remembered state (which link is up,
since when it is down) is small and bounded.

Names are in OpenTelemetry's spelling (dots, base units separate); Prometheus has underscores, and
the unit and `_total` at the end. Every label has few values: an enum, a code of ours, or a name
that the user gave. A session's id has one value per session: it is attached to a single event (an
exemplar, an attribute of a span, a line of a log), and is a label only on request.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, cast

import attrs

from ..failure import Category, Severity
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
from .work_events import AlertChanged, CallFinished, CallRejected, HookRejected, ToolFailed


if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ..failure import Failure
    from .event import Event


Sort: TypeAlias = Literal["counter", "histogram", "gauge"]

SECONDS: Final = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    30.0,
    60.0,
)
"""The bucket boundaries that OpenTelemetry advises for an HTTP client, and two more for calls with
retries.
"""


@attrs.frozen(eq=False)
class Instrument:
    """One metric. `unit` is a UCUM unit: `s`, `1`, or what is counted, in braces."""

    name: str
    sort: Sort
    unit: str
    labels: tuple[str, ...]
    text: str
    bounds: tuple[float, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """Return the name in Prometheus, without the `_total` of a counter."""
        return self.name.replace(".", "_") + ("_seconds" if self.unit == "s" else "")

    @property
    def scraped_name(self) -> str:
        """Return the name in a scrape; a histogram adds `_bucket`, `_sum` and `_count`."""
        return self.prometheus_name + ("_total" if self.sort == "counter" else "")


CALLS: Final = Instrument(
    "resilient_bridge.calls", "counter", "{call}", ("policy", "outcome"),
    "Calls that have ended: ok, ok_after_retry, failed, rejected, cancelled, fell_back.",
)  # fmt: skip
CALL_SECONDS: Final = Instrument(
    "resilient_bridge.call.duration", "histogram", "s", ("policy", "outcome"),
    "How long calls took, all attempts and the waits between them included.", SECONDS,
)  # fmt: skip
CALL_ATTEMPTS: Final = Instrument(
    "resilient_bridge.call.attempts", "histogram", "{attempt}", ("policy",),
    "How many attempts calls took; 0 for one that was rejected.", (1, 2, 3, 4, 6, 10),
)  # fmt: skip
RETRIES: Final = Instrument(
    "resilient_bridge.retries", "counter", "{retry}", ("policy", "code"), "Repeats, by the code of the failure before them."
)  # fmt: skip
REJECTIONS: Final = Instrument(
    "resilient_bridge.rejections", "counter", "{attempt}", ("policy", "by"),
    "Attempts that were not admitted: by circuit, bulkhead, rate_limit or budget.",
)  # fmt: skip
ERRORS: Final = Instrument(
    "resilient_bridge.errors", "counter", "{error}", ("category", "code", "severity", "source"),
    "Failures of attempts, calls, links, hooks and stores, from the severity warning on.",
)  # fmt: skip
TRANSITIONS: Final = Instrument(
    "resilient_bridge.circuit.transitions", "counter", "{transition}", ("circuit", "state"), "Changes of circuits, by the new state."
)  # fmt: skip
RECONNECTS: Final = Instrument(
    "resilient_bridge.reconnect.attempts", "counter", "{attempt}", ("bridge", "result"),
    "Attempts to connect that have ended: connected or failed.",
)  # fmt: skip
DOWN_SECONDS: Final = Instrument(
    "resilient_bridge.reconnect.duration", "histogram", "s", ("bridge", "verdict"),
    "From the loss of a connection to the verdict of the re-join: RECOVERED, GAP, UNKNOWN.", (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
)  # fmt: skip
DROPS: Final = Instrument(
    "resilient_bridge.session.drops", "counter", "{drop}", ("bridge", "code"), "Connections that were established and lost."
)  # fmt: skip
GAPS: Final = Instrument(
    "resilient_bridge.gaps", "counter", "{gap}", ("bridge", "verdict"), "Re-joins that are not known to be whole: GAP or UNKNOWN."
)  # fmt: skip
UNDELIVERED: Final = Instrument(
    "resilient_bridge.messages.undelivered", "counter", "{message}", ("bridge", "outcome"),
    "Messages that left the outbox undelivered: dropped, quarantined, or unknown.",
)  # fmt: skip
HOOKS: Final = Instrument(
    "resilient_bridge.hook.rejections", "counter", "{event}", (), "Hook events that were not valid."
)  # fmt: skip
ALERTS: Final = Instrument(
    "resilient_bridge.alerts", "counter", "{alert}", ("rule", "level"), "Alerts that `rb.telemetry.Alerts` has raised."
)  # fmt: skip
ALERT_ACTIVE: Final = Instrument(
    "resilient_bridge.alert.active", "gauge", "1", ("rule", "level"), "1 for each alert of `rb.telemetry.Alerts` that stands."
)  # fmt: skip
CIRCUIT_STATE: Final = Instrument(
    "resilient_bridge.circuit.state", "gauge", "1", ("circuit", "state"),
    "1 for the state that a circuit is in, 0 for the others; of `other`, how many are in it. Read when scraped.",
)  # fmt: skip
READY: Final = Instrument(
    "resilient_bridge.bridge.ready", "gauge", "1", ("bridge",), "1 while the client or link is READY. Read when scraped."
)  # fmt: skip
OUTBOX: Final = Instrument(
    "resilient_bridge.outbox.messages", "gauge", "{message}", ("bridge",), "Messages that were accepted and never sent."
)  # fmt: skip
UNCONFIRMED: Final = Instrument(
    "resilient_bridge.unconfirmed.messages", "gauge", "{message}", ("bridge",), "Messages that were sent and not yet confirmed."
)  # fmt: skip
INBOX: Final = Instrument(
    "resilient_bridge.inbox.messages", "gauge", "{message}", ("bridge",), "Messages that came in and were not yet read."
)  # fmt: skip
INFO: Final = Instrument(
    "resilient_bridge.info", "gauge", "1", ("version", "python", "user_agent"), "Always 1: what runs here."
)  # fmt: skip

INSTRUMENTS: Final = (
    CALLS, CALL_SECONDS, CALL_ATTEMPTS, RETRIES, REJECTIONS, ERRORS, TRANSITIONS, RECONNECTS, DOWN_SECONDS, DROPS, GAPS,
    UNDELIVERED, HOOKS, ALERTS, ALERT_ACTIVE, CIRCUIT_STATE, READY, OUTBOX, UNCONFIRMED, INBOX, INFO,
)  # fmt: skip


# ---- the labels of a failure ----------------------------------------------------------------------


ErrorSource: TypeAlias = Literal["client", "server", "hook"]

_SERVERS: Final = frozenset({Category.UPSTREAM, Category.AUTH, Category.PROTOCOL})


@attrs.frozen(kw_only=True)
class ErrorMetric:
    """The labels of one failure.

    `category` is the prefix of its code (`CONN_`), `code` the whole of it.

    `source` is `hook` for a hook event that was not valid, `server` for an answer of the server
    (UPSTREAM, AUTH, PROTOCOL), `client` for a failure found on this side: a lost link, a timeout, a
    call that our own layers refused.
    """

    category: str
    code: str
    severity: str
    source: ErrorSource
    session_id: str | None = None
    user_agent: str


def error_metric(
    failure: Failure, event: Event | None = None, *, user_agent: str = ""
) -> ErrorMetric:
    """Return the labels of a failure, with the session id of its event or its details, if they have
    one.

    `user_agent` names this package and its version.
    """
    prefix, _, _ = failure.code.partition("_")
    known = getattr(event, "session_id", None) or failure.details.get("session_id")
    return ErrorMetric(
        category=f"{prefix}_",
        code=failure.code,
        severity=failure.severity.value,
        source=_source(failure, prefix),
        session_id=known if isinstance(known, str) else None,
        user_agent=user_agent,
    )


def _source(failure: Failure, prefix: str) -> ErrorSource:
    if prefix == "HOOK":
        return "hook"
    return "server" if failure.category in _SERVERS else "client"


# ---- measurements ---------------------------------------------------------------------------------


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
            Measurement(CALLS, 1, labels),
            Measurement(CALL_SECONDS, event.seconds, labels),
            Measurement(CALL_ATTEMPTS, event.attempts, (event.name,)),
        )
        if event.failure is not None and outcome in ("failed", "rejected"):
            self._count(event.failure, event, found)

    def _retry_scheduled(self, event: Any, found: list[Measurement]) -> None:
        found.append(Measurement(RETRIES, 1, (event.name, event.failure.code)))
        self._count(event.failure, event, found)

    def _call_rejected(self, event: Any, found: list[Measurement]) -> None:
        found.append(Measurement(REJECTIONS, 1, (event.name, event.by)))

    def _tool_failed(self, event: Any, found: list[Measurement]) -> None:
        if event.failure.code in _TOOLS_OWN:
            self._count(event.failure, event, found)

    def _circuit(self, event: Any, found: list[Measurement]) -> None:
        state: str = event.state
        found.append(Measurement(TRANSITIONS, 1, (event.key, _TRANSITIONS.get(state, state))))

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
        found.append(Measurement(RECONNECTS, 1, (event.bridge, "connected")))

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
            found.append(Measurement(DROPS, 1, (event.bridge, failure.code)))

    def _reconnect_scheduled(self, event: Any, found: list[Measurement]) -> None:
        self._attempt_failed(event, found)

    def _gave_up(self, event: Any, found: list[Measurement]) -> None:
        if event.seconds is None:  # of a link: a call that gave up is counted when it has ended
            self._attempt_failed(event, found)

    def _attempt_failed(self, event: Any, found: list[Measurement]) -> None:
        record, failure = self._link(event), event.failure
        was_dropped, record.is_dropped = record.is_dropped, False
        if not was_dropped:  # the first one after a loss reports the loss, not a failed attempt
            found.append(Measurement(RECONNECTS, 1, (event.bridge, "failed")))
        if failure is not None and failure is not record.last:
            record.last = failure
            self._count(failure, event, found)

    def _resumed(self, event: Any, found: list[Measurement]) -> None:
        record = self._link(event)
        record.is_up = True
        verdict = str(event.verdict)
        if record.down_since is not None:
            seconds = max(0.0, (event.at - record.down_since).total_seconds())
            found.append(Measurement(DOWN_SECONDS, seconds, (event.bridge, verdict)))
            record.down_since = None
        if verdict != "RECOVERED":
            found.append(Measurement(GAPS, 1, (event.bridge, verdict)))

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def _undelivered(self, event: Any, found: list[Measurement]) -> None:
        found.append(Measurement(UNDELIVERED, 1, (event.bridge, event.outcome)))
        self._failed(event, found)

    def _hook_rejected(self, event: Any, found: list[Measurement]) -> None:
        found.append(Measurement(HOOKS, 1, ()))
        self._count(event.failure, event, found)

    def _alert(self, event: Any, found: list[Measurement]) -> None:
        if event.state == "raised":
            found.append(Measurement(ALERTS, 1, (event.rule, event.level)))

    def _failed(self, event: Any, found: list[Measurement]) -> None:
        failure = getattr(event, "failure", None)
        if failure is not None:
            self._count(failure, event, found)

    def _count(self, failure: Failure, event: Event, found: list[Measurement]) -> None:
        """Count a failure, unless its severity is info."""
        if failure.severity is not Severity.INFO:
            error = error_metric(failure, event, user_agent=self._user_agent)
            labels = (error.category, error.code, error.severity, cast("str", error.source))
            found.append(Measurement(ERRORS, 1, labels, error))

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
