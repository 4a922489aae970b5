"""What tests use of `resilient_bridge.telemetry` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.telemetry",
    {
        "": "alert_events call_events debug_events hub work_events",
        "event": "sender_of sent_by",
        "events": (
            "AcknowledgementLate ClockJumped Closed Connected DeliveryUnknown Disconnected "
            "DuplicateConflict Event FeatureRefused GaveUp Joined LateReply MessageDropped "
            "MessageQuarantined MessageRejected OutboundInDoubt ReconnectScheduled ReplayIgnored Resumed SpendApproved "
            "SpendCancelled SpendPaused SpendWarned StateChanged StateSetAside StoreFailed "
            "StoreRecovered Suspended"
        ),
        "hub": "HUB listener_failures",
        "instruments": "INSTRUMENTS",
        "line_rate": "LineRate",
        "log": "muted",
        "log_fields": "log_fields",
        "measures": "Measures",
    },
)
