"""The metrics of the package, in one table for the exporters and the reference page.

Rule: names are in OpenTelemetry's spelling (dots, base units separate); Prometheus has underscores,
and the unit and `_total` at the end. Every label has few values: an enum, a code of ours, or a name
that the user gave.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import attrs


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
