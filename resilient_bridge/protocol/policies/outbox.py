"""How much may wait to be sent, what happens when it is too much, and how long a resend is safe.

Rule: the sender of every message that is not delivered is informed, so no setting here drops one
silently.
"""

from __future__ import annotations

from typing import Literal

import attrs

from ...values.fields import Value, as_seconds, count, seconds, word


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Outbox(Value):
    """The queue of messages to send, bounded by `max_messages` and `max_bytes`.

        outbox = rb.bridge.Outbox(max_messages=50, overflow="drop_oldest")
        policy = rb.presets.default.evolve(outbox=outbox)
        bridge = rb.BridgeClient("wss://host/ws", policy=policy)

    `overflow` is what a full queue does with one more: "raise" (OutboxFullError), "block" (send
    waits), "drop_oldest", "drop_newest", or "coalesce" (the oldest unsent one of the same type
    makes room); a dropped message resolves its receipt and is an event. A message that may have
    arrived is sent again, under its own key, only within `resend_within` seconds: the peer's
    5-minute window less a margin. After that `on_unknown` says "report" (the outcome is unknown) or
    "resend". When the session is gone, `on_new_session` says "keep" (what was never sent goes to
    the new one) or "return" (back to the caller).
    """

    max_messages: int = attrs.field(default=1000, validator=count)
    max_bytes: int = attrs.field(default=8 * 1024 * 1024, validator=count)
    overflow: Literal["block", "raise", "drop_oldest", "drop_newest", "coalesce"] = attrs.field(
        default="raise",
        validator=word,
    )
    resend_within: float = attrs.field(default=270.0, converter=as_seconds, validator=seconds())
    on_unknown: Literal["report", "resend"] = attrs.field(default="report", validator=word)
    on_new_session: Literal["keep", "return"] = attrs.field(default="keep", validator=word)
