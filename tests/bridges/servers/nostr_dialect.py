"""A dialect for a Nostr relay (NIP-01), as a user would write one: about fifty lines over the public names of `rb.dialects`.

A relay replays the newest first and names the end (EOSE), so what is stored is held until then and handed on in the order of its times.
Events of one second have no order among each other; they are known by their ids, so the second that was asked for may come again.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import resilient_bridge as rb
from tests.bridges.servers.nostr import PUBLISHER_KEY, public_key, signed_event


d = rb.dialects
SUBSCRIPTION = "numbers"


class _Relay:
    """The functions of one client's dialect, and what they remember of a connection."""

    def __init__(self, topic: str, since: int) -> None:
        self.topic, self.since = topic, since
        self.stored: list[Any] | None = None  # of the replay that runs

    def resume(self, record: Any) -> Any:
        after = record.after()
        self.stored = []
        since = self.since if after is None else after
        wanted = {
            "kinds": [1],
            "authors": [public_key(PUBLISHER_KEY)],
            "#t": [self.topic],
            "since": since,
        }
        return d.Resume(frames=(json.dumps(["REQ", SUBSCRIPTION, wanted]),))

    def decode(self, frame: str | bytes) -> tuple[Any, ...]:
        kind, *rest = json.loads(frame)
        if kind == "EVENT":
            return self._event(rest[1])
        if kind == "EOSE":
            found, self.stored = self.stored or [], None
            return (*sorted(found, key=lambda event: event.position), d.Replayed(complete=True))
        if kind == "OK":
            return (self._answer(rest),)
        return (d.Refused(raw=[kind, *rest], code=kind, text=str(rest[-1])),)  # NOTICE, CLOSED

    def _event(self, body: dict[str, Any]) -> tuple[Any, ...]:
        at = body["created_at"]
        event = d.Received(
            raw=body, type="note", payload=body, id=body["id"], timestamp=str(at), position=at
        )
        if self.stored is None:
            return (event,)
        self.stored.append(event)
        return ()

    def _answer(self, rest: list[Any]) -> Any:
        ident, is_stored, reason = rest
        if is_stored or reason.startswith("duplicate:"):
            return d.Acked(echo=ident)
        return d.Refused(raw=rest, echo=ident, code=reason.partition(":")[0], text=reason)

    def encode(self, intent: Any) -> str | None:
        if not isinstance(intent, d.Send):
            return None
        moment = int(datetime.fromisoformat(intent.timestamp).timestamp())
        return json.dumps(["EVENT", signed_event(intent.payload["content"], created_at=moment)])


def nostr(topic: str, *, since: int) -> rb.bridge.Dialect:
    """Notes of the publisher with this tag, from this second on. `send("EVENT", {"content": …})` signs an event, which the relay stores once."""
    relay = _Relay(topic, since)
    return rb.bridge.Dialect.envelopes(
        decode=relay.decode,
        encode=relay.encode,
        resume=relay.resume,
        positions=d.Positions(order="time", repeats=True, ends="stated"),
        confirms=True,
        echo=lambda frame: json.loads(frame)[1]["id"],  # how the relay names an event of ours
        dedupes=True,
    )
