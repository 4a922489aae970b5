"""The faults of the embedded bridge: one frozen value with a field for each.

Rule: every default is the correct behaviour of the seed's protocol. A test assigns a changed copy
(`attrs.evolve`) to `server.behaviour` at any moment, and it applies from the next frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

import attrs


ReplayMode = Literal[
    "correct",  # inclusive and stable
    "exclusive",  # `timestamp > since`, as the seed prints it, on a buffer that works
    "verbatim_seed",  # the seed's buffer exactly as printed, bugs included
    "silent_truncate",  # only the newest `truncate_to` entries, and the others are not reported
    "none",  # request_replay is ignored and nothing is pushed unasked
    "pushed_only",  # request_replay is ignored, but a re-attached session gets its buffer pushed
    "unknown_type",  # request_replay is answered with error UNKNOWN_TYPE
]
"""How the bridge answers a request for missed messages."""
StampMode = Literal[
    "normal",
    "year_9999",
    "year_1970",
    "nanoseconds",  # nine digits after the point
    "leap_second",  # `:60`
    "plus_14",  # the right instant, written with the offset +14:00
    "year_1_plus_14",  # has no UTC form: one day before the calendar begins
]
"""What timestamps the bridge writes."""


@attrs.frozen(kw_only=True)
class Behaviour:
    """How the bridge behaves; without arguments, correctly.

        async with rb.testing.BridgeServer(grace=60, dedupes=False) as server:
            server.behaviour = rb.testing.Behaviour(reject_upgrade=503)

    The bounds are the seed's: sessions are kept 300 s after a drop, the replay buffer holds 100 KB
    and 30 minutes, idempotency keys are remembered for 300 s. Seconds are those of the event loop's
    clock.
    """

    # ---- bounds
    grace: float = 300.0
    replay_bytes: int = 100 * 1024
    replay_age: float = 1800.0
    dedupe_window: float = 300.0
    # larger frames end the connection with 1009; read when the bridge starts
    max_frame_bytes: int = 1 << 20
    starting_for: float = (
        0.0  # seconds after a start in which /health says "starting" and no link is taken
    )
    dedupes: bool = True  # False runs each copy of a message that arrives twice
    # whether session_joined says `dedupes`; a bridge that does not dedupe never does
    says_dedupes: bool = True
    record: bool = True  # False keeps no `frames` and `received`: for long throughput runs

    # ---- upgrade and handshake
    reject_upgrade: int | None = None  # an HTTP status instead of 101
    retry_after: str | None = None  # the Retry-After header of such an answer, verbatim
    reject_code: str | None = None  # with a code, the answer's body is the seed's JSON error (R9)
    accept_then_close: int | None = (
        None  # a close code; 1006 is a reset, 1005 a close frame without a code
    )
    close_at: Literal["accept", "auth", "join"] = (
        "accept"  # when: at once, or instead of that step's answer
    )
    auth_error: str | None = None  # the code of a connection_error, whatever the token
    # what becomes of the connection after a connection_error
    auth_refusal: Literal["closed", "open"] = "closed"
    # Types that it does not know, each with the code of its error, which has a fresh id and names
    # the type: real bridges refuse so.
    refused: Mapping[str, str] = attrs.field(factory=dict[str, str], hash=False)
    ignored: frozenset[str] = frozenset()  # types that are read and never answered
    slow: float = 0.0  # seconds before each answer

    # ---- confirmations and heartbeat
    acks: Literal["each", "none"] = "each"
    ack_beyond: bool = False  # each ack is followed by one for an id that was never sent
    ack_foreign: bool = False  # ... by one for a message of another session
    ack_backwards: bool = False  # ... by the previous ack again
    buffer_acks: bool = False  # whether confirmations enter the replay buffer too
    buffer_answers: bool = (
        True  # ... and answers to requests, which may be produced while the link dies
    )
    never_pong: bool = False
    pong_twice: bool = False

    # ---- replay
    replay: ReplayMode = attrs.field(
        default="correct", validator=attrs.validators.in_(get_args(ReplayMode))
    )
    replay_entries: Literal["objects", "strings"] = "objects"
    # "timestamp": sorted by it, newest first where it is equal, as ORDER BY may; "type": sorted by
    # timestamp and type
    replay_order: Literal["live", "timestamp", "type"] = "live"
    # entries of others that each answer holds besides, spread over it; never sent live
    foreign_entries: int = 0
    replay_ids: bool = True  # whether an answer carries the id of its request
    push_buffer: bool = (
        True  # the seed's server pushes the whole buffer when a session is re-attached
    )
    answer_twice: bool = False
    replay_delay: float = (
        0.0  # the snapshot is taken at once and sent later, so live frames come first
    )
    truncate_to: int = 1
    # the real bridge: no sessions, no replay, no acks, no server_id (see `refused`)
    no_session_memory: bool = False
    # ... which after each auth pushes so many of the newest messages again, as if they were live
    push_queue: int = 0

    # ---- messages
    flat: bool = False  # whether fields stand beside `type` and `id` and not in a payload
    timestamps: Literal["ms", "s", "none"] = "ms"  # their resolution
    timestamp_mode: StampMode = attrs.field(
        default="normal", validator=attrs.validators.in_(get_args(StampMode))
    )
    duplicate_ids: Literal["none", "repeat", "conflict"] = (
        "none"  # sent twice; or one id, other payload
    )
    poison: str | None = None  # a frame that contains this text ends the connection ...
    poison_code: int = 1011  # ... with this close code


GARBAGE: Mapping[str, str | bytes] = MappingProxyType(
    {
        "malformed": '{"type": "tool_call", "payload": {',
        "empty": "",
        "bom": '\ufeff{"type": "tool_call", "payload": {}}',
        "nan": '{"type": "tool_call", "payload": {"value": NaN}}',
        "infinity": '{"type": "tool_call", "payload": {"value": -Infinity}}',
        "overflow": '{"type": "tool_call", "payload": {"value": 1e400}}',
        "huge_integer": '{"type": "tool_call", "payload": {"value": ' + "9" * 5_000 + "}}",
        "deep": "[" * 100_000,
        "duplicate_keys": '{"type": "tool_call", "type": "tool_result", "payload": {}, "payload": {"a": 1}}',
        "id_list": '{"type": "tool_call", "id": [7], "payload": {}}',
        "null_payload": '{"type": "tool_call", "payload": null}',
        "lone_surrogate": '{"type": "tool_call", "payload": {"text": "\\ud800"}}',
        "not_an_object": '["tool_call", {}]',
        "binary": b"\x00\xff\xfe{}",
        "binary_json": b'{"type": "tool_call", "payload": {}}',
    }
)
"""Frames for `push_raw` that are no messages, by name."""
