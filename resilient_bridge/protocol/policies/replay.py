"""How a resume requests what was missed.

How far back, how long it waits, and how much it holds meanwhile.

Rule: the overlap decides how far the server's clock may step back without a silent loss, so it is
large by default.
"""

from __future__ import annotations

import attrs

from ...values.fields import Value, as_seconds, count, seconds, short_seconds


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Replay(Value):
    """The request for missed messages after a loss.

        policy = rb.presets.default.evolve(replay=rb.bridge.Replay(overlap=60, timeout=20))
        bridge = rb.BridgeClient("wss://host/ws", policy=policy)

    It asks from `overlap` seconds before the last delivered message, so that the answer holds one
    we know; a server clock that steps back by no more than that loses nothing. An answer has
    `timeout` seconds, and `max_seconds` while its bytes keep coming; one that takes longer, or is
    larger than `Dialect.max_frame_bytes`, is not requested again in the same way: the next request
    is from a later time, then there is none. Live messages that arrive meanwhile are held, up to
    `max_messages` and `max_bytes`. ConfigError names a bad field.
    """

    overlap: float = attrs.field(default=300.0, converter=as_seconds, validator=seconds())
    timeout: float = attrs.field(default=10.0, converter=as_seconds, validator=short_seconds)
    max_seconds: float = attrs.field(default=120.0, converter=as_seconds, validator=short_seconds)
    max_messages: int = attrs.field(default=10_000, validator=count)
    max_bytes: int = attrs.field(default=8 * 1024 * 1024, validator=count)
