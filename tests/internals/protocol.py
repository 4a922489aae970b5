"""What tests use of `resilient_bridge.protocol` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.protocol",
    {
        "": "outbound positioned recovery rejoin replaying resuming",
        "border": "facts_of frame_of own_frame resume_of",
        "clock": "Identifiers Stamps",
        "doubt": "Doubt",
        "envelope_link": "EnvelopeLink",
        "event_stream": "EventStream Position",
        "frames": "Encoder InvalidFrameError canonical decode decode_json",
        "heartbeat": "Heartbeat",
        "inbox": "Inbox",
        "joining": "Joining read_replay",
        "merge": "Cut Item cut join_live without_repeats",
        "messages": "parse_timestamp print_like",
        "outbox": "Outbox",
        "policies.ends": "End",
        "policies.losses": "LossAction meaning reason_of wants_slow_start",
        "policies.positions": "Positions",
        "recognition": "FirstFrames fitting",
        "reconnection": "Reconnection",
        "rejoin": "Outcome Rejoin",
        "server_sent": "EventStreamParser",
        "session_records": "SNAPSHOT_BYTES SessionCheckpoint SessionOperation SessionRecord SessionState",
        "transitions": "EXPECTED LINKED SENDING TRANSITIONS",
    },
)
