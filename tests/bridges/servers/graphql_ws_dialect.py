"""A dialect for a graphql-ws server (`graphql-transport-ws`), as a user would write one over the public names of `rb.dialects`.

Each subscription is a log of its own: it is subscribed again on each connection, with a cursor in its query that lets the server begin with
the event that we had. The protocol marks no end of a replay and names no log, so that event is the only proof that nothing was lost. Its
number is given by whoever publishes it, and never twice (`distinct`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import resilient_bridge as rb


d = rb.dialects
ENDS = (
    d.End(close=4400, means="misuse"),
    d.End(close=4401, means="auth_expired"),
    d.End(close=4403, means="auth"),
    d.End(close=4409, means="misuse"),
    d.End(close=4429, means="misuse"),
)


class _Subscriptions(NamedTuple):
    """The functions of one client's dialect: its operation ids, and the number behind which they begin."""

    names: tuple[str, ...]
    start: int

    def resume(self, record: Any) -> Any:
        frames = []
        for name in self.names:
            after = record.after(name)
            query = f"subscription {{ ticks(after: {self.start if after is None else after}) }}"
            frames.append(_operation(name, query))
        return d.Resume(frames=tuple(frames), channels=self.names)

    def decode(self, frame: str | bytes) -> tuple[Any, ...]:
        body = json.loads(frame)
        kind, name, payload = body["type"], body.get("id"), body.get("payload")
        if kind == "next" and name in self.names:
            data = payload["data"]
            return (
                d.Received(
                    raw=body, type="ticks", payload=data, channel=name, position=data["ticks"]
                ),
            )
        if kind == "next":
            return (d.Reply(to=name, raw=body, type="next", payload=payload),)
        if kind == "error":
            return (d.Refused(raw=body, to=name, code="error", text=payload[0]["message"]),)
        if kind == "complete":
            return (d.Finished(name),) if name in self.names else ()
        return ({"connection_ack": d.Hello(), "ping": d.Ping(), "pong": d.Pong()}[kind],)


def _operation(name: str, query: str) -> str:
    return json.dumps({"id": name, "type": "subscribe", "payload": {"query": query}})


def _encode(intent: Any) -> str | None:
    match intent:
        case d.Auth():
            parameters = {} if intent.token is None else {"token": intent.token}
            return json.dumps({"type": "connection_init", "payload": parameters})
        case d.Send():
            return _operation(
                intent.id, f"mutation {{ {intent.type}(value: {intent.payload['value']}) }}"
            )
        case d.Ping():
            return json.dumps({"type": "ping"})
        case d.Pong():
            return json.dumps({"type": "pong"})
    return None


def graphql_ws(subscriptions: Sequence[str], *, start: int) -> rb.bridge.Dialect:
    """Subscriptions of `ticks`, each known by its operation id, from behind this number on. `send("do", {"value": N})` is a mutation.

    A mutation is confirmed by its result. It is not sent twice: the server would execute it again.
    """
    ours = _Subscriptions(tuple(subscriptions), start)
    return rb.bridge.Dialect.envelopes(
        subprotocols=("graphql-transport-ws",),
        decode=ours.decode,
        encode=_encode,
        resume=ours.resume,
        error=None,
        bearer=False,
        login="first",
        waits_for_hello=True,
        pings=True,
        positions=d.Positions(per_channel=True, overlap=1, ends="anchor", distinct=True),
        answers=True,
        confirms=True,
        dedupes=False,
        ends=ENDS,
    )
