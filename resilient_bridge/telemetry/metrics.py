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
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import attrs

from ..failure import Category, Severity
from .event import LinkRecord, sender_of


if TYPE_CHECKING:
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
HEDGES: Final = Instrument(
    "resilient_bridge.hedges", "counter", "{request}", ("policy", "outcome"),
    "Requests sent beside a slow one, by whether one of them won the race or lost it.",
)  # fmt: skip
SHARED: Final = Instrument(
    "resilient_bridge.shared", "counter", "{call}", ("policy", "how"),
    "Calls that were given another call's answer: joined, fresh or stale.",
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
LIMIT_CHANGES: Final = Instrument(
    "resilient_bridge.limit.changes", "counter", "{change}", ("limit", "state"),
    "Changes of adaptive limits, by owner: began, lowered, exhausted, recovered, forgotten.",
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
LIMIT_WAITING: Final = Instrument(
    "resilient_bridge.limit.waiting", "gauge", "{call}", ("limit",),
    "Calls that wait for an adaptive limit, by owner; 0 while none waits for one in force. Read when scraped.",
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

INSTRUMENTS: Final = tuple(one for one in vars().values() if isinstance(one, Instrument))
"""All of them, in the order of the reference page."""

_BY_NAME: Final = {one.name.removeprefix("resilient_bridge."): one for one in INSTRUMENTS}


# ---- measurements ---------------------------------------------------------------------------------


_MOST_LINKS: Final = 10_000
_SERVERS: Final = frozenset({Category.UPSTREAM, Category.AUTH, Category.PROTOCOL})


class Measurement(NamedTuple):
    """One instrument changes by `value`; `labels` in the order of the instrument.

    Of an error also the id of its session, where it is known.
    """

    instrument: Instrument
    value: float
    labels: tuple[str, ...]
    session_id: str | None = None


class Measures:
    """Turns events into measurements, one event after the other. Not thread-safe.

    It is what an event writes to: `Counts` in event.py says what its methods are for.
    """

    def __init__(self) -> None:
        # By the identity of the link, because several have one name; without one by name and session.
        self._links: OrderedDict[object, LinkRecord] = OrderedDict()

    def of(self, event: Event) -> list[Measurement]:
        """Return the measurements of an event; empty for most events."""
        self._event = event
        self._found: list[Measurement] = []
        event.__counts__(self)
        return self._found

    def add(self, metric: str, value: float, *labels: str) -> None:
        """Change a metric, by its name without `resilient_bridge.`."""
        self._found.append(Measurement(_BY_NAME[metric], value, labels))

    def failure(self, failure: Failure | None) -> None:
        """Count a failure, unless its severity is info.

        `category` is the prefix of its code (`CONN_`). `source` is `hook` for a hook event that was
        not valid, `server` for an answer of the server, `client` for a failure found on this side:
        a lost link, a timeout, a call that our own layers refused.
        """
        if failure is None or failure.severity is Severity.INFO:
            return
        prefix = failure.code.partition("_")[0]
        source = "server" if failure.category in _SERVERS else "client"
        labels = (
            f"{prefix}_",
            failure.code,
            failure.severity.value,
            "hook" if prefix == "HOOK" else source,
        )
        known = getattr(self._event, "session_id", None) or failure.details.get("session_id")
        session = known if isinstance(known, str) else None
        self._found.append(Measurement(ERRORS, 1, labels, session))

    def link(self) -> LinkRecord:
        """Return the record of the link that sent the event."""
        links, event = self._links, self._event
        key = sender_of(event) or (event.bridge, getattr(event, "session_id", None))
        record = links.get(key)
        if record is None:
            record = links[key] = LinkRecord()
            if len(links) > _MOST_LINKS:
                links.popitem(last=False)
        else:
            links.move_to_end(key)
        return record
