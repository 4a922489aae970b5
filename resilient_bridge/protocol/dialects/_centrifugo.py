"""Centrifugo: channels with an offset and an epoch, recovered or not, as the server itself states."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from ...failure import config_error
from ..facts import (
    Auth,
    Hello,
    Moved,
    Ping,
    Pong,
    Received,
    Refused,
    Replayed,
    Reply,
    Resume,
    Send,
    Unreadable,
)
from ..policies.dialect import Dialect
from ..policies.ends import End
from ..policies.positions import Positions
from ._json import fields, framed, items, text, write


if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..facts import Fact, Intent, Record
    from ._json import Body


_SUBSCRIBES: Final = 1_500_000_000  # commands that subscribe: this, and the index of the channel
_ENDS: Final = (
    End(close=3014, means="position_gone"),
    End(close=3005, means="auth_expired"),
    End(close=3500, means="auth"),
    End(close=3507, means="auth"),
    End(close=(3501, 3999), means="misuse"),
    End(close=(4500, 4999), means="misuse"),
    End(code="101", means="auth"),
    End(code="103", means="auth"),
    End(code="109", means="auth_expired"),
)
_LATE: Final = 10.0  # seconds by which a server's ping may be late


def centrifugo(*channels: str) -> Dialect:
    """The dialect of `/connection/websocket?format=json`, subscribed to these channels.

    After a cut each channel has a verdict of its own, by the server's word: RECOVERED, or GAP where
    its history is too short or its epoch is another one. `send("channel", {…})` publishes; the
    answer confirms it, and one that may have arrived is not published again. Proven on a scripted
    double, not on the server.
    """
    if not channels or not all(name for name in channels):
        raise config_error("rb.dialects.centrifugo", "the names of channels", channels)

    return framed(
        decode=_Decode(channels),
        encode=_encode,
        login="first",
        waits_for_hello=True,
        positions=Positions(per_channel=True, repeats=True, ends="stated"),
        resume=_Subscriptions(channels),
        answers=True,
        confirms=True,
        dedupes=False,
        ends=_ENDS,
    )


@attrs.frozen
class _Decode:
    """Several JSON objects may share a frame, a line each."""

    channels: tuple[str, ...]

    def __call__(self, frame: str | bytes) -> list[Fact]:
        words = frame if isinstance(frame, str) else frame.decode()
        # at line feeds alone: JSON may hold what str.splitlines() takes for the end of a line
        return [
            fact
            for line in words.split("\n")
            if line.strip()
            for fact in _line(line, self.channels)
        ]


@attrs.frozen
class _Subscriptions:
    channels: tuple[str, ...]

    def __call__(self, record: Record) -> Resume:
        frames = tuple(_subscribe(record, *each) for each in enumerate(self.channels))
        return Resume(frames=frames, channels=self.channels)


def _subscribe(record: Record, index: int, name: str) -> str:
    wanted: Body = {"channel": name}
    if name in record.positions and name in record.epochs:
        wanted |= {"recover": True, "offset": record.positions[name], "epoch": record.epochs[name]}
    return write({"id": _SUBSCRIBES + index, "subscribe": wanted})


def _line(line: str, channels: Sequence[str]) -> list[Fact]:
    """Read one object; another that cannot be read does not take its neighbours with it."""
    try:
        body: Any = json.loads(line)
        if isinstance(body, dict):
            return _one(fields(body), channels)
        why, cause = type(body).__name__, None
    except (ValueError, TypeError, RecursionError) as error:
        why, cause = type(error).__name__, error
    return [
        Unreadable(
            f"expected an object of Centrifugo's protocol, got what cannot be read: {why}", cause
        )
    ]


def _one(body: Body, channels: Sequence[str]) -> list[Fact]:
    if not body:
        return [Ping()]
    if "push" in body:
        return _push(fields(body["push"]))
    number = body.get("id")
    index = number - _SUBSCRIBES if isinstance(number, int) else -1
    name = channels[index] if 0 <= index < len(channels) else None
    if "error" in body:
        error = fields(body["error"])
        if name is not None and error.get("code") == 112:
            return [Replayed(complete=False, channel=name)]
        return [
            Refused(
                raw=body,
                to=number,
                code=str(error.get("code", "")),
                text=str(error.get("message", "")),
            )
        ]
    if "connect" in body:
        every = fields(body["connect"]).get("ping")
        return [
            Hello(silence=every + _LATE if isinstance(every, (int, float)) and every > 0 else None)
        ]
    if "subscribe" in body and name is not None:
        return _subscribed(name, fields(body["subscribe"]))
    return [Reply(to=number or 0, raw=body, type="reply", payload=body)]


def _subscribed(name: str, answer: Body) -> list[Fact]:
    """Read the answer to a subscription, which contains what was missed.

    Its offset may lie after the last of these events, because some are not for us.
    """
    was_asked = bool(answer.get("was_recovering"))
    epoch, offset = text(answer.get("epoch")), answer.get("offset", 0)
    facts: list[Fact] = [
        Replayed(
            complete=bool(answer.get("recovered")) if was_asked else None, channel=name, epoch=epoch
        )
    ]
    facts += [
        _event(name, fields(each))
        if isinstance(each, dict)
        else Unreadable("expected a publication")
        for each in items(answer.get("publications"))
    ]
    return [*facts[1:], Moved(position=int(offset), channel=name), facts[0]]


def _push(push: Body) -> list[Fact]:
    name = str(push.get("channel", ""))
    if "pub" in push:
        return [_event(name, fields(push["pub"]))]
    return [
        Received(
            raw=push,
            type=next((key for key in push if key != "channel"), ""),
            payload=push,
            channel=name,
        )
    ]


def _event(name: str, publication: Body) -> Received:
    offset, data = publication.get("offset"), publication.get("data")
    return Received(
        raw=publication,
        type=name,
        payload=fields(data) if isinstance(data, dict) else {"data": data},
        channel=name,
        position=offset if isinstance(offset, int) and offset > 0 else None,
    )


def _encode(intent: Intent) -> str | None:
    match intent:
        case Send():
            return write(
                {
                    "id": intent.number,
                    "publish": {"channel": intent.type, "data": dict(intent.payload)},
                }
            )
        case Auth():
            fields = {} if intent.token is None else {"token": intent.token}
            return write({"id": intent.number, "connect": fields})
        case Pong():
            return "{}"
        case _:
            return None
