"""Slack's Socket Mode: envelopes that want an acknowledgement, and come again without one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ..facts import Acknowledge, Closing, Hello, Received, Refused, Send
from ..policies.ends import End
from ._json import fields, framed, text, write


if TYPE_CHECKING:
    from ..facts import Fact, Intent
    from ._json import Body


def _decode(frame: str | bytes) -> tuple[Fact, ...]:
    body: Body = json.loads(frame)
    kind = str(body["type"])
    if kind == "hello":
        return (Hello(),)
    if kind == "disconnect":
        reason = str(body.get("reason", ""))
        return (Refused(raw=body, code=reason),) if reason == "link_disabled" else (Closing(),)
    payload = fields(body.get("payload"))
    name = fields(payload.get("event")).get("type")
    envelope = text(body.get("envelope_id"))
    return (
        Received(
            raw=body,
            type=name if isinstance(name, str) else kind,
            payload=payload,
            # One that is sent again may come in another envelope: its own id is what stays.
            id=text(payload.get("event_id")) or envelope,
            ack=envelope,
        ),
    )


def _encode(intent: Intent) -> str | None:
    if isinstance(intent, Acknowledge):
        return write({"envelope_id": intent.ack})
    return write(dict(intent.payload)) if isinstance(intent, Send) else None


slack_socket_mode: Final = framed(
    decode=_decode,
    encode=_encode,
    waits_for_hello=True,
    acknowledges="taken",
    acknowledge_within=3.0,
    dedupes=False,
    # A ticket that is refused was good for one attempt: the next one has its own.
    ends=(End(code="link_disabled", means="misuse"), End(status=(400, 499), means="passing")),
)
"""Give `url` as an async function that asks `apps.connections.open` for a ticket: each works once.

An event is acknowledged when your reader takes the next one. One that was not is sent again by Slack, and is not delivered twice; so a cut
loses nothing that Slack retries (three times in six minutes), but nothing proves that: a reconnection ends UNKNOWN. Where Slack announces the
end of a connection the next one is made before that. Proven on a scripted double, not on the service.
"""
