"""LogBridge: a real WebSocket bridge inside the test whose events have positions, and which sends
again what came after one.

With `position=None` its frames have no positions, and nothing is sent again.

Rule: as of BridgeServer: it shares no code with the client it judges, time comes from the running
loop and the given wall clock, ids from the given random source: under a simulated loop a run
repeats exactly.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from ..failure import config_error
from .server_listener import EmbeddedBridge
from .server_log import Log, Position
from .server_log_forms import Forms, has_position
from .server_log_link import LogDoor
from .server_wire import ENCODE, Stamps, new_id


_NAMES: Final[Mapping[Position, tuple[str, str]]] = {
    "number": ("seq", "last_seq"),
    "id": ("id", "last_event_id"),
    "time": ("timestamp", "since"),
}
_NO_QUESTION: Final[tuple[str, Mapping[str, Any]]] = ("", {})
"""The forms of a bridge without positions: no field, and no request frame."""


class LogBridge(EmbeddedBridge):
    """An embedded bridge of numbered events, at `server.url`.

        async with rb.testing.LogBridge(field="seq", ask="last_seq") as server:
            dialect = rb.dialects.sequence(field="seq", ask="last_seq")
            async with rb.BridgeClient(server.url, dialect=dialect) as bridge:
                await bridge.wait_ready()

    It speaks what `rb.dialects.sequence` ("number"), `last_event_id` ("id", a fresh UUID for each
    event) and `since` ("time", ISO in milliseconds, which several events may share) are for;
    arguments have the names of theirs. An event is `{"type": …, field: position, id: a fresh UUID,
    **payload}`, with `payload` the payload as an object at that path; `id=None`: events have none,
    so a client cannot tell a log that began again. Paths are dotted.

    `ask` is a field of the URL's query, or a frame in which the text "{position}" stands for the
    position: each frame with these fields is a question. The answer is the held events after the
    position, or from it on if `inclusive` (None: for times alone). `end` is the type of a frame
    behind each answer, `reset` that of one before it if the log cannot prove that the answer is
    complete: the position was dropped or is not one of this log; then everything held follows.
    Without `reset` it does not report that, and sends what fits. The log holds the newest `keep`
    events.

    `contiguous=False` skips one or two numbers at random. `hello` is the type of a first
    frame, with the log's name at `epoch`. A frame with the fields of `ping` is answered by one of
    type `pong`. With `token`, an upgrade without it (`Authorization: Bearer` or `?token=`) gets
    401. Other frames are noted in `received` and have no answer. ConfigError names a wrong
    argument.

    `position=None` is a bridge without positions, for `rb.dialects.plain` and other dialects
    without a replay: `push` sends any frame to everybody who is connected, and keeps nothing. It
    has `hello`, `ping` and `token`, and refuses what only a log has.
    """

    def __init__(
        self,
        *,
        position: Position | None = "number",
        field: str | None = None,
        ask: str | Mapping[str, Any] | None = None,
        contiguous: bool = True,
        inclusive: bool | None = None,
        keep: int = 1000,
        reset: str | None = None,
        end: str | None = None,
        hello: str | None = None,
        epoch: str | None = None,
        type: str = "type",
        payload: str | None = None,
        id: str | None = "id",
        ping: Mapping[str, Any] | None = None,
        pong: str | None = None,
        token: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        wall: Callable[[], float] = time.time,  # the default of an injected clock
        rng: random.Random | None = None,
    ) -> None:
        if position is not None and position not in _NAMES:
            raise config_error("LogBridge.position", '"number", "id", "time" or None', position)
        if keep < 0:
            raise config_error("LogBridge.keep", "a number of at least 0", keep)
        of_a_log = {"field": field, "ask": ask, "inclusive": inclusive, "reset": reset, "end": end}
        for name, value in of_a_log.items():
            if position is None and value is not None:
                raise config_error(f"LogBridge.{name}", "nothing with position=None", value)
        field_, ask_ = _NO_QUESTION if position is None else _NAMES[position]
        forms = Forms(
            field=field_ if field is None else field,
            ask=ask_ if ask is None else ask,
            type=type,
            payload=payload,
            id=id if position in {"number", "time"} else None,
            reset=reset,
            end=end,
            hello=hello,
            epoch=epoch,
            ping=ping,
            pong=pong,
        )
        _check(forms, asks=position is not None)
        stamps = Stamps(wall)
        self._rng = rng or random.Random()
        self._position: Position | None = position
        self._log = Log(
            position or "number",
            inclusive=position == "time" if inclusive is None else inclusive,
            contiguous=contiguous,
            keep=keep,
            stamps=stamps,
            rng=self._rng,
        )
        self._door = LogDoor(forms, self._log, stamps, token)
        super().__init__(self._door, host, port)
        self._pushed: list[Any] = []

    # ---- start and stop
    async def restart(
        self, *, lose_log: bool = False, lose_sessions: bool = False, down: float = 0.0
    ) -> None:
        """Close every connection with 1012, stop listening for `down` seconds, and listen on the
        same port again.

        With `lose_log` the process has forgotten its events: numbers begin at 1 again, and the log
        has another name. `lose_sessions` is what `Faults` calls the same. What is pushed meanwhile
        enters the log.
        """
        await self._restart(self._log.forget if lose_log or lose_sessions else None, down)

    # ---- actions of a test
    async def push(self, payload: Any, /, type: str | None = None) -> int | str:
        """Log an event, send it to everybody who is connected, and return its position.

        `payload` is an object, `type` "event" unless it is given. Without positions `payload` is a
        whole frame: text and bytes go out as they are, anything else as JSON; nothing is logged,
        and the number of pushes so far is returned. It never waits for a client. Raises TypeError
        or ValueError for a payload that is no JSON, or for a type of a frame; then nothing was
        pushed.
        """
        if self._position is None:
            if type is not None:
                raise ValueError(f"no type for a frame without positions expected, got {type!r}")
            frame = payload if isinstance(payload, (str, bytes)) else ENCODE(payload)
            self._pushed.append(payload)
            at: int | str = len(self._pushed)
        else:
            at = self._log.next_position()
            ident = new_id(self._rng) if self._door.forms.id is not None else None
            event = self._door.forms.event("event" if type is None else type, payload, at, ident)
            frame = ENCODE(event)
            self._pushed.append(event)
            self._log.append(at, frame)
        for link in tuple(self._listener.links):
            link.send_raw(frame)
        await self._listener.give_way(len(self._pushed))
        return at

    async def cut(
        self, how: Literal["abort", "fin", "blackhole"] = "abort", *, seconds: float = 0.0
    ) -> None:
        """Cut every link: a TCP reset, an end of stream, or silence in both directions.

        For `seconds` new connections are reset, or get no answer in a black hole. The black hole
        then ends and passes what it held (with 0 it lasts until the peer gives up). Returns without
        waiting for that. On a loop with `cut_links(how, seconds)` the simulated network does it.
        """
        await self._listener.cut(how, seconds)

    def trim(self, keep: int, /) -> None:
        """Drop all but the newest `keep` events from the log, once."""
        self._log.trim(keep)

    async def truncate_replay(self, keep: int | None, /) -> None:
        """Limit the log to this many events from now on; None removes the limit.

        Dropped events do not come back.
        """
        self._log.limit(keep)

    def expire_sessions(self) -> None:
        """Drop every event from the log, as if they were too old; numbers continue."""
        self._log.trim(0)

    def step_clock(self, seconds: float) -> None:
        """Step the wall clock, backwards if negative: times of later events, and HTTP dates."""
        self._door.stamps.offset += seconds

    # ---- settings of a test
    @property
    def token(self) -> str | None:
        """The token that an upgrade must carry; None accepts every client."""
        return self._door.token

    @token.setter
    def token(self, value: str | None) -> None:
        self._door.token = value

    # ---- observations of a test
    @property
    def position(self) -> Position | None:
        """The kind of an event's position, as given; None if events have none."""
        return self._position

    @property
    def url(self) -> str:
        """The address for clients, at any path but /health; known once the bridge was started."""
        return f"ws://{self._netloc()}/"

    @property
    def log_name(self) -> str:
        """The value at `epoch` in the greeting; another one after a restart that lost the log."""
        return self._log.name

    @property
    def received(self) -> list[Any]:
        """Every frame that a client sent, decoded, in order and with repeats, questions and pings
        too; one that is no JSON as it came.
        """
        return self._door.received

    @property
    def pushed(self) -> list[Any]:
        """Every event as it was sent, in order, held or not (without positions what `push` was
        given): the ground truth.
        """
        return self._pushed


def _check(forms: Forms, *, asks: bool) -> None:
    """Refuse arguments that do not fit together."""
    if asks and not isinstance(forms.ask, str) and not has_position(forms.ask):
        wanted = 'the name of a field of the query, or a frame with "{position}" in it'
        raise config_error("LogBridge.ask", wanted, forms.ask)
    if forms.epoch is not None and forms.hello is None:
        raise config_error("LogBridge.epoch", "a hello beside it", forms.epoch)
    if (forms.ping is None) != (forms.pong is None):
        raise config_error("LogBridge", "ping and pong, or neither", "one of them")
