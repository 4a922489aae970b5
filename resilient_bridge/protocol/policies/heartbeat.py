"""When to ask whether the peer is still there, and when to stop waiting for the answer.

Rule: numbers only. What a verdict means, and when it is suspended, belongs to the one that watches
the clock.
"""

from __future__ import annotations

import attrs

from ...values.fields import Value, as_seconds, short_seconds


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Heartbeat(Value):
    """A ping every `every` seconds; a peer without an answer in `timeout` is gone (15 and 10).

        policy = rb.presets.default.evolve(heartbeat=rb.bridge.Heartbeat(every=30, timeout=10))
        bridge = rb.BridgeClient("wss://host/ws", policy=policy)

    After a sleep or a jump of the clock, on `reconnect_now()`, and when your `health_check` does
    not say yes, a ping goes out at once and has only `probe_timeout`. Seconds or timedeltas above
    0, at most an hour; ConfigError names a bad field.
    """

    every: float = attrs.field(default=15.0, converter=as_seconds, validator=short_seconds)
    timeout: float = attrs.field(default=10.0, converter=as_seconds, validator=short_seconds)
    probe_timeout: float = attrs.field(default=1.5, converter=as_seconds, validator=short_seconds)
