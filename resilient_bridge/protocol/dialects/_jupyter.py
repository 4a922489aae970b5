"""Jupyter Server: the channels of a kernel."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from ..facts import Acked, Received, Reply, Send
from ..policies.dialect import Dialect
from ._json import fields, framed, text, write


if TYPE_CHECKING:
    from ..facts import Fact, Intent
    from ._json import Body


def _decode(frame: str | bytes) -> tuple[Fact, ...]:
    body: Body = json.loads(frame)
    header, about = body["header"], text(fields(body.get("parent_header")).get("msg_id"))
    kind = str(header["msg_type"])
    event = Received(
        raw=body,
        type=kind,
        payload=body.get("content") or {},
        id=text(header.get("msg_id")),
        timestamp=text(header.get("date")),
    )
    if body.get("channel") == "shell" and kind.endswith("_reply") and about is not None:
        return (Reply(to=about, raw=body, type=kind, payload=event.payload),)
    if kind == "execute_input" and about is not None:
        return (Acked(ids=(about,)), event)  # the kernel has started to run it
    return (event,)


@attrs.frozen
class _Encode:
    session: str
    username: str

    def __call__(self, intent: Intent) -> str | None:
        if not isinstance(intent, Send):
            return None
        header = {
            "msg_id": intent.id,
            "msg_type": intent.type,
            "session": self.session,
            "username": self.username,
            "date": intent.timestamp,
            "version": "5.3",
        }
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": intent.payload}
        return write({**message, "channel": "shell", "buffers": []})


def jupyter(*, session: str, username: str = "", resend: bool = False) -> Dialect:
    """Return the dialect of `/api/kernels/{id}/channels?session_id={session}`.

    Give the token in the URL, or in a header.

    `request("execute_request", {"code": …, …})` runs code and returns the reply; what it prints
    comes as messages. The server buffers a kernel's messages only while it knows that no client is
    connected, and does not report what it dropped: each reconnection ends UNKNOWN. `resend`: a
    request that may have arrived goes out again, byte by byte the same, which a kernel that is
    still the same drops unread. It is off, because a kernel that was restarted meanwhile would run
    it twice.
    """

    return framed(
        decode=_decode,
        encode=_Encode(session, username),
        answers=True,
        confirms=True,
        dedupes=resend,
    )
