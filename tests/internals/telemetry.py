"""What tests use of `resilient_bridge.telemetry` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.telemetry",
    {
        "": "hub link_events=events metrics work_events",
        "alert_state": "AlertState",
        "debug": "debug_kind=kind_of",
        "event": "name_in_words sender_of sent_by",
        "events": (
            "AcknowledgementLate ClockJumped Closed Connected Disconnected DuplicateConflict Event FeatureRefused "
            "GaveUp Joined LateReply MessageRejected MessageUndelivered OutboundInDoubt ReconnectScheduled ReplayIgnored "
            "Resumed StateChanged StateSetAside StoreChanged Suspended"
        ),
        "hub": "HUB listener_failures log_fields muted",
        "line_rate": "LineRate",
        "metrics": "CIRCUIT_STATE INSTRUMENTS LIMIT_WAITING Measures",
    },
)
