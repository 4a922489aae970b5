"""OpenHands' agent-server.

The session socket has numbered events, the legacy socket events with times.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ..facts import Auth, Hello, Moved, Received, Refused, Replayed, Resume, Send
from ..policies.ends import End
from ..policies.positions import Positions
from ._json import fields, framed, items, own, text, write


if TYPE_CHECKING:
    from ..facts import Fact, Intent, Record
    from ._json import Body


_ENDS: Final = (
    End(close=4001, means="auth"),
    End(close=4004, means="misuse"),  # no such conversation, and none that a new session would be
    End(close=1013, means="busy"),
)


def _words(content: Any) -> str | None:
    """Return the text of a user's message.

    It is the same in the frame that is sent and in the event that is received.
    """
    if not isinstance(content, list):
        return None
    parts = [fields(each) for each in items(content) if isinstance(each, dict)]
    return write([each.get("text") for each in parts if each.get("type") == "text"])


def _echo(frame: str) -> str | None:
    return _words(fields(json.loads(frame)).get("content"))


def _event(body: Body, raw: Any, position: int | str | None) -> Received:
    kind, message = body.get("kind"), body.get("llm_message")
    is_ours = kind == "MessageEvent" and body.get("source") == "user"
    return Received(
        raw=raw,
        type=kind if isinstance(kind, str) else "",
        payload=body,
        id=text(body.get("id")),
        timestamp=text(body.get("timestamp")),
        position=position,
        echo=_words(fields(message).get("content")) if is_ours else None,
    )


def _decode(frame: str | bytes) -> tuple[Fact, ...]:
    body: Body = json.loads(frame)
    kind, event = body["type"], body.get("event")
    if kind == "sync":
        through = int(body.get("through_seq", -1))  # an empty log has none
        after = int(body.get("from_seq", through))  # a connection that asked for nothing has none
        window = Replayed(first=after + 1, through=through)
        # Nothing is replayed: what comes next follows here, also for a client that has had no event yet.
        return (Hello(), window, Moved(position=through)) if through == after else (Hello(), window)
    if kind == "durable" and isinstance(event, dict):
        return (_event(fields(event), body, int(body["seq"])),)
    if kind == "error":
        return (
            Refused(raw=body, code=str(body.get("code", "")), text=str(body.get("detail", ""))),
        )
    inner = fields(event) if isinstance(event, dict) else body
    return (_event(inner, body, None),)


def _encode(intent: Intent) -> str | None:
    if isinstance(intent, Auth) and intent.token is not None:
        return write({"type": "auth", "session_api_key": intent.token})
    return own(intent, None) if isinstance(intent, Send) else None


def _resume(record: Record) -> Resume:
    after = record.after()
    return Resume() if after is None else Resume(query={"after_seq": after})


openhands: Final = framed(
    decode=_decode,
    encode=_encode,
    login="first",
    waits_for_hello=True,
    positions=Positions(contiguous=True, overlap=1, ends="stated"),
    resume=_resume,
    confirms=True,
    echo=_echo,
    dedupes=False,
    ends=_ENDS,
)
"""The session socket, `/sockets/session/{id}`: each stored event has a number, and a replay has a first and a last one.

A cut loses nothing that the server stored (RECOVERED), and a log that restarted is noticed. Deltas
and states, which are not stored, come while you are connected and are not replayed. A message of
yours is confirmed when it comes back as an event; one that may have arrived is not sent again,
because this server would store it twice.
"""


_END: Final = "end_of_replay"
_QUESTION: Final = write({_END: True})
"""A frame that is no message. The server reads it after the replay, refuses it and quotes it: that is the end that it does not mark."""


def _decode_legacy(frame: str | bytes) -> tuple[Fact, ...]:
    body: Body = json.loads(frame)
    if body.get("kind") == "ServerErrorEvent":
        if _END in str(body.get("detail")):
            return (Replayed(),)
        return (
            Refused(raw=body, code=str(body.get("code", "")), text=str(body.get("detail", ""))),
        )
    # A fresh state is sent at each connection and never stored: it is newer than what is replayed behind it.
    is_state = (
        body.get("kind") == "ConversationStateUpdateEvent" and body.get("key") == "full_state"
    )
    if is_state:
        return (Hello(), _event(body, body, None))  # it also shows that we are accepted
    return (_event(body, body, text(body.get("timestamp"))),)


def _resume_legacy(record: Record) -> Resume:
    after = record.after()
    if after is None:
        return Resume()
    return Resume(query={"resend_mode": "since", "after_timestamp": after}, frames=(_QUESTION,))


openhands_legacy: Final = openhands.evolve(
    decode=_decode_legacy,
    positions=Positions(order="time", repeats=True, ends="stated", interleaves=True),
    resume=_resume_legacy,
)
"""The legacy socket, `/sockets/events/{id}`: a replay since a time, which begins with the event that you had.

A cut is RECOVERED if that event comes again, else UNKNOWN. The server does not mark the end of a
replay, and sends live events in between. So the client sends a frame that the server refuses after
the replay, and delivers what came until then in the order of its times.
"""
