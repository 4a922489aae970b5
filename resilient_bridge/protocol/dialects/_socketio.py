"""socket.io, with its connection state recovery: text packets in one namespace."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from ..facts import Auth, Challenge, Closing, Hello, Ping, Pong, Received, Refused, Reply, Send
from ..policies.dialect import Dialect
from ..policies.positions import Positions
from ._json import fields, framed, items, text, write


if TYPE_CHECKING:
    from ..facts import Fact, Intent


_PACKET: Final = re.compile(r"4([0-6])(?:(\d+)-)?(?:(/[^,]*),)?(\d+)?(.*)", re.DOTALL)


class _Options(NamedTuple):
    namespace: str
    recovery: bool
    acks: bool

    @property
    def prefix(self) -> str:
        return "" if self.namespace == "/" else f"{self.namespace},"


def socketio(*, namespace: str = "/", recovery: bool = True, acks: bool = False) -> Dialect:
    """The dialect of a socket.io server, at `/socket.io/?EIO=4&transport=websocket`.

    `send("name", {"args": [...]})` emits an event; `request` waits for its acknowledgement. A
    message has the event's name as its type and `payload["args"]`. `recovery`: the server has
    `connectionStateRecovery`, so the last argument of each event is its offset. After a cut the
    same session means RECOVERED, another one GAP: the server forgot it, or has not noticed yet that
    the old connection is gone. `acks`: the server acknowledges each event, so each send is
    confirmed. Nothing is sent twice. Binary packets are refused.
    """
    options = _Options(namespace, recovery, acks)
    return framed(
        decode=_Decode(options),
        encode=_Encode(options),
        login="asked",
        waits_for_hello=True,
        positions=Positions(order="opaque", ends="stated", proof="session") if recovery else None,
        answers=True,
        confirms=acks,
        dedupes=False,
    )


@attrs.frozen
class _Decode:
    options: _Options

    def __call__(self, frame: str | bytes) -> tuple[Fact, ...]:
        if isinstance(frame, bytes):
            raise TypeError("a binary packet")
        if frame.startswith("0"):
            opened = fields(json.loads(frame[1:]))
            return (Challenge((opened["pingInterval"] + opened["pingTimeout"]) / 1000),)
        if frame == "2":
            return (Ping(),)
        found = _PACKET.fullmatch(frame)
        if frame != "1" and (found is None or found[2] is not None):
            raise ValueError("not a text packet")
        if found is None:
            return (Closing(),)
        kind, _, where, number, rest = found.groups()
        if (where or "/").partition("?")[0] != self.options.namespace:
            return ()
        return (_fact(self.options, kind, number, json.loads(rest) if rest else None),)


def _fact(options: _Options, kind: str, number: str | None, data: Any) -> Fact:
    match kind:
        case "0":
            return Hello(session=text(fields(data).get("pid")))
        case "1":
            return Closing()
        case "2":
            return _event(
                items(data), None if number is None else int(number), recovery=options.recovery
            )
        case "3":
            return Reply(to=int(number or 0), raw=data, type="ack", payload={"args": data})
        case "4":
            return Refused(
                raw=data, code="connect_error", text=str(fields(data).get("message", data))
            )
        case _:
            raise ValueError("a binary packet")


def _event(data: list[Any], number: int | None, *, recovery: bool) -> Received:
    name, *args = data
    # What wants an acknowledgement is not stored, and has no offset.
    offset = (
        args[-1] if recovery and number is None and args and isinstance(args[-1], str) else None
    )
    return Received(
        raw=data,
        type=str(name),
        payload={"args": args if offset is None else args[:-1]},
        position=offset,
        ack=number,
    )


@attrs.frozen
class _Encode:
    options: _Options

    def __call__(self, intent: Intent) -> str | None:
        options = self.options
        match intent:
            case Send():
                args: Any = intent.payload.get("args", [intent.payload] if intent.payload else [])
                number = str(intent.number) if intent.is_request or options.acks else ""
                return f"42{options.prefix}{number}{write([intent.type, *args])}"
            case Auth():
                named: dict[str, Any] = {} if intent.token is None else {"token": intent.token}
                session, position = intent.record.session, intent.record.position
                if options.recovery and session is not None and position is not None:
                    named |= {"pid": session, "offset": position}
                return f"40{options.prefix}{write(named) if named else ''}"
            case Pong():
                return "3"
            case _:
                return None
