"""The "since" family: the servers that people make at home around a ring of events, and the options that tell them apart.

Frames: {"type": "event", <field>: position, "channel": …, "payload": {"number": …}}; a client's {"type": "message", "id",
"payload"} has an effect, {"type": "ping"} is answered {"type": "pong"}.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tests.bridges.doubles.base import START, Double, last
from tests.bridges.doubles.connection import Connection, decoded
from tests.bridges.doubles.socket import Socket


class _Client(Connection):
    live = False
    lag = 0  # so many of the next events do not reach it

    def __init__(self, socket: Socket) -> None:
        super().__init__(socket)
        self.missed: list[Any] = []  # their positions


class Homemade(Double):
    """A server with a ring of events, all channels in one order.

    field, kind       the name of the position in an event; an integer, an id without an order, or ISO time
    ask, since        the client asks in the URL's query or in its first frame {"type": `resume`, <since>: position}; there
                      live events follow that frame, too
    inclusive         the event at the position is said again
    contiguous        integers without holes; otherwise some are used for what this client may not see
    names             what an event has beside its position: "" nothing, "id" an id that no other log repeats, "timestamp" its time
    resolution        seconds between two times that differ: a coarse clock gives several events one time
    epoch, hello      the field of the hello frame that names the process, None for none; a hello at all
    end_marker        the type of the frame behind the replay, with `through`: the head; None: nothing marks it
    gap_frame         the type of the frame that tells of a loss: {requested, oldest, dropped}; None: it is silent
    unknown           what is replayed for a position that is not in the ring: "all" that is there, or "nothing"
    absent            what is replayed for no position: "nothing" or "all"
    ring, on_disk     how many events stay; whether they and the numbering survive a restart
    registers         "first": live events can overtake the replay; "last": those of the time between are not said
    replay_takes      seconds between reading the ring and sending what was read
    acks, dedupes     messages are answered {"type": "ack", "id"}; a repeated id has no second effect
    """

    connection_class = _Client

    def __init__(
        self,
        rng: random.Random,
        *,
        field: str = "seq",
        kind: Literal["integer", "id", "time"] = "integer",
        ask: Literal["url", "frame"] = "url",
        since: str = "last_seq",
        resume: str = "resume",
        inclusive: bool = False,
        contiguous: bool = True,
        names: Literal["", "id", "timestamp"] = "",
        resolution: float = 1e-6,
        epoch: str | None = None,
        hello: bool = False,
        end_marker: str | None = None,
        gap_frame: str | None = None,
        unknown: Literal["all", "nothing"] = "all",
        absent: Literal["all", "nothing"] = "nothing",
        ring: int = 1000,
        on_disk: bool = False,
        registers: Literal["first", "last"] = "first",
        replay_takes: float = 0.0,
        acks: bool = False,
        dedupes: bool = False,
        notices_after: float = 0.0,
    ) -> None:
        super().__init__(rng, notices_after=notices_after)
        self.field, self.kind, self.ask, self.since, self.resume = field, kind, ask, since, resume
        self.inclusive, self.contiguous, self.resolution, self.names = (
            inclusive,
            contiguous,
            resolution,
            names,
        )
        self.epoch, self.hello = epoch, hello or epoch is not None
        self.end_marker, self.gap_frame = end_marker, gap_frame
        self.unknown, self.absent, self.on_disk = unknown, absent, on_disk
        self.registers, self.replay_takes = registers, replay_takes
        self.acks, self.dedupes = acks, dedupes
        self.ring: deque[dict[str, Any]] = deque(maxlen=ring)
        self.dropped: Any = None  # the newest position that is not in the ring any more
        self._forget_position()
        self.process = self.token(8)
        self._seen: set[Any] = set()

    async def attend(self, connection: _Client) -> None:
        """Say hello, replay what is asked for, and take messages."""
        if self.hello:
            connection.say({"type": "hello"} | ({self.epoch: self.process} if self.epoch else {}))
        if self.ask == "url":
            await self._replay(connection, connection.query.get(self.since))
        async for frame in connection.frames():
            message = decoded(frame)
            if not isinstance(message, dict):
                connection.say({"type": "error", "message": "not a JSON object"})
            elif message.get("type") == self.resume and self.ask == "frame":
                await self._replay(connection, message.get(self.since))
            else:
                self._hear(connection, message)

    async def publish(self, number: int, channel: str | None = None) -> None:
        """An event enters the ring."""
        self.record(number, channel)
        event = {"type": "event", self.field: self._next_position(), "payload": {"number": number}}
        event |= {"channel": channel} if channel is not None else {}
        if self.names:
            event[self.names] = self.uuid() if self.names == "id" else self._stamp()
        if self.ring and len(self.ring) == self.ring.maxlen:
            self.dropped = self.ring[0][self.field]
        self.ring.append(event)
        for client in self._live():
            self._say(client, event)

    def lag(self, count: int) -> None:
        """The next events miss those who are connected; the one behind them follows a gap frame, if there is such a frame."""
        for client in self._live():
            client.lag = count

    def forget(self) -> None:
        """A new process; without a disk the ring is empty and the integers start at 1 again."""
        self.process = self.token(8)
        if not self.on_disk:
            self.ring.clear()
            self._seen.clear()
            self._forget_position()

    def trim(self, keep: int) -> None:
        """Let the oldest events go."""
        if len(self.ring) > keep:
            self.dropped = [*self.ring][len(self.ring) - keep - 1][self.field]
        self.ring = deque(last(self.ring, keep), self.ring.maxlen)

    def _forget_position(self) -> None:
        self._integer, self._time, self.dropped = 0, START, None

    def _next_position(self) -> Any:
        if self.kind == "id":
            return self.uuid()
        if self.kind == "integer":
            self._integer += 1 if self.contiguous else self.rng.randint(1, 3)
            return self._integer
        return self._stamp()

    def _stamp(self) -> str:
        steps = int((self.moment() - START).total_seconds() / self.resolution)
        time = START + timedelta(seconds=steps * self.resolution)
        return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _live(self) -> list[_Client]:
        return [
            client for client in self.connections if isinstance(client, _Client) and client.live
        ]

    def _say(self, client: _Client, event: dict[str, Any]) -> None:
        position = event[self.field]
        if client.lag:
            client.lag -= 1
            client.missed.append(position)
            return
        if client.missed and self.gap_frame:
            fields = {
                "requested": client.missed[0],
                "oldest": position,
                "dropped": len(client.missed),
            }
            client.say({"type": self.gap_frame, **fields})
        client.missed.clear()
        client.say(event)

    async def _replay(self, client: _Client, position: Any) -> None:
        events, gap = self._after(position)
        through = self.ring[-1][self.field] if self.ring else None
        client.live = client.live or self.registers == "first" or not self.replay_takes
        frames = [gap, *events] if gap else events
        if self.replay_takes:
            await asyncio.sleep(self.replay_takes)
        for frame in frames:
            client.say(frame)
        if self.end_marker:
            client.say({"type": self.end_marker, "through": through, "count": len(events)})
        client.live = not client.ended

    def _after(self, position: Any) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """Return the events to replay, and the frame that tells what is missing from them."""
        everything = [*self.ring]
        if position is None or position == "":
            return (everything if self.absent == "all" else []), None
        known = [self._comparable(event[self.field]) for event in everything]
        wanted = self._comparable(position)
        if self.kind == "id":
            if wanted in known:
                first = known.index(wanted)
                return everything[first if self.inclusive else first + 1 :], None
            missing = True
        else:
            dropped = None if self.dropped is None else self._comparable(self.dropped)
            missing = wanted is None or (dropped is not None and wanted < dropped)
        if missing:
            gap = self._gap(position, everything)
            return (everything if self.unknown == "all" else []), gap
        newer = [wanted <= one if self.inclusive else wanted < one for one in known]
        return [event for event, is_newer in zip(everything, newer, strict=True) if is_newer], None

    def _gap(self, position: Any, everything: list[dict[str, Any]]) -> dict[str, Any] | None:
        oldest = everything[0][self.field] if everything else None
        countable = self.kind == "integer" and self.contiguous and oldest is not None
        dropped = oldest - (self._comparable(position) or 0) - 1 if countable else None
        asked = self._comparable(position) if self.kind == "integer" else position
        fields = {"requested": asked, "oldest": oldest, "dropped": dropped}
        return {"type": self.gap_frame, **fields} if self.gap_frame else None

    def _comparable(self, position: Any) -> Any:
        """Return a position as what it is compared by; None if it cannot be read."""
        try:
            if self.kind == "integer":
                return int(position)
            if self.kind == "id":
                return position
            time = datetime.fromisoformat(str(position))
        except (TypeError, ValueError):
            return None
        return time if time.tzinfo else time.replace(tzinfo=UTC)

    def _hear(self, client: _Client, message: dict[str, Any]) -> None:
        identity = message.get("id")
        if message.get("type") == "ping":
            client.say({"type": "pong"})
        elif message.get("type") == "message":
            if not (self.dedupes and identity is not None and identity in self._seen):
                self.effects.append(message)
            self._seen.add(identity)
            if self.acks:
                client.say({"type": "ack", "id": identity})
        else:
            client.say({"type": "error", "message": f"unknown type {message.get('type')}"})
