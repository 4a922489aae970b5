"""How much may wait to be read, and what happens when the reader is slower than the server.

Rule: no received message is dropped; a full inbox stops the source instead.
"""

from __future__ import annotations

from typing import Literal

import attrs

from ...values.fields import Value, count, word


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Inbox(Value):
    """The queue of messages waiting for the reader, bounded by `max_messages` and `max_bytes`.

        policy = rb.presets.default.evolve(inbox=rb.bridge.Inbox(overflow="resync"))
        bridge = rb.BridgeClient("wss://host/ws", policy=policy)

    `overflow` is what happens when it is full: "pause" stops reading from the link, "resync" drops
    the link and has the messages replayed. ConfigError names a bad field.
    """

    max_messages: int = attrs.field(default=1000, validator=count)
    max_bytes: int = attrs.field(default=8 * 1024 * 1024, validator=count)
    overflow: Literal["pause", "resync"] = attrs.field(default="pause", validator=word)
