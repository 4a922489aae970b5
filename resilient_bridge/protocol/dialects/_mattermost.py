"""Mattermost, `/api/v4/websocket`: numbers for each connection, and silence as the answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ..facts import CONTROL, Auth, Hello, Moved, Ping, Pong, Received, Refused, Reply, Resume, Send
from ..policies.ends import End
from ..policies.positions import Positions
from ._json import fields, framed, text, write


if TYPE_CHECKING:
    from ..facts import Fact, Intent, Record
    from ._json import Body


def _decode(frame: str | bytes) -> tuple[Fact, ...]:
    body: Body = json.loads(frame)
    if "seq_reply" in body:
        to, data = body["seq_reply"], fields(body.get("data"))
        if body.get("status") != "OK":
            error = fields(body.get("error"))
            return (
                Refused(
                    raw=body,
                    to=to,
                    code=str(error.get("id", "")),
                    text=str(error.get("message", "")),
                ),
            )
        if data.get("text") == "pong":
            return (Pong(),)
        # The answer to what is no message of the user's: our authentication.
        return (
            (Hello(),) if to >= CONTROL else (Reply(to=to, raw=body, type="reply", payload=data),)
        )
    data, number = fields(body.get("data")), int(body["seq"])
    if body["event"] == "hello":
        return (Hello(session=text(data.get("connection_id"))), Moved(position=number))
    return (Received(raw=body, type=str(body["event"]), payload=data, position=number),)


def _encode(intent: Intent) -> str | None:
    match intent:
        case Send():
            return write(
                {"action": intent.type, "seq": intent.number, "data": dict(intent.payload)}
            )
        case Auth(token=str()):
            challenge = {
                "action": "authentication_challenge",
                "seq": intent.number,
                "data": {"token": intent.token},
            }
            return write(challenge)
        case Ping():
            return write({"action": "ping", "seq": intent.number})
        case _:
            return None


def _resume(record: Record) -> Resume:
    if record.session is None or not isinstance(record.position, int):
        return Resume()
    return Resume(query={"connection_id": record.session, "sequence_number": record.position + 1})


mattermost: Final = framed(
    decode=_decode,
    encode=_encode,
    login="first",
    waits_for_hello=True,
    pings=True,
    answers=True,
    positions=Positions(contiguous=True, ends="barrier", proof="barrier"),
    resume=_resume,
    dedupes=False,
    ends=(End(code="api.web_socket_router.not_authenticated.app_error", means="auth_expired"),),
)
"""It needs `token=`. After a cut, no greeting before the answer to a ping means RECOVERED; one with another connection means GAP.

The server holds 128 events of a connection that it has lost. After a GAP, load the posts of your channels by REST, in `on_gap`: they have no
numbers, so they are no part of this stream. Proven on a scripted double, not on the server.
"""
