"""One simulated TCP connection: two ordered directions, to be cut or damaged at any byte.

Rule: it has TCP's guarantees (bytes in order, once, or an error) and no others: there are no
message boundaries, a vanished peer is not reported, and a reset loses bytes that were written but
not read. Each direction draws from its own random stream, so that traffic on one link never changes
the draws of another.
"""

from __future__ import annotations

import asyncio
import enum
import errno
import math
import random
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Final, Literal, Protocol

import attrs

from .timeline import Timeline, stream


Way = Literal["up", "down"]
"""A direction of a link: "up" is towards the server."""

RETRANSMIT: Final = 924.6
"""Seconds until unacknowledged bytes end a connection (ETIMEDOUT), as on Linux."""

_SPLIT: Final = 1 / 16  # the share of writes that arrive in two pieces


class Sign(enum.Enum):
    """A FIN or RST in the stream of bytes."""

    FIN = enum.auto()
    RESET = enum.auto()


class End(Protocol):
    """The interface to the sockets at the ends of a direction."""

    context: Context
    is_gone: bool

    def is_reading(self) -> bool: ...
    def is_closing(self) -> bool: ...
    def on_data(self, data: bytes) -> None: ...
    def on_sign(self, sign: Sign) -> None: ...
    def fail(self, error: OSError) -> None: ...
    def pump(self) -> None: ...
    def write_foreign(self, data: bytes) -> None: ...


@attrs.define
class Weather:
    """The present conditions of all links.

    They are seconds of latency (low, high), extra `lag`, bytes/s (0 = unlimited), and the window.
    """

    latency: tuple[float, float] = (0.001, 0.010)
    lag: float = 0.0
    rate: float = 0.0
    window: int = 65_536

    def draw(self, rng: random.Random) -> float:
        """Draw the present delay of a packet, in seconds."""
        low, high = self.latency
        return self.lag + low + (high - low) * rng.random()


class Direction:
    """One direction of a link: the bytes in both kernels' buffers and on the wire.

    `chunks` and `bytes` count what was delivered; nothing arrives before the instant
    `frozen_until`.
    """

    sender: End
    receiver: End

    def __init__(self, loop: Timeline, weather: Weather, rng: random.Random) -> None:
        self.weather = weather
        self.back = self  # the other direction, set by the link
        self.in_flight = 0
        self.chunks = 0
        self.bytes = 0
        self.frozen_until = 0.0
        self._loop = loop
        self._rng = rng
        self._queue: deque[tuple[float, bytes | Sign]] = deque()
        self._timer: asyncio.Handle | None = None
        self._last = 0.0
        self._marks: list[tuple[Literal["chunk", "byte"], int, Callable[[], None]]] = []
        self._cut: Literal["", "silent", "answered"] = ""
        self._is_doomed = False

    # -- the writing end ----------------------------------------------------------------------------------------

    def latency(self) -> float:
        """Draw the present delay of a packet, in seconds."""
        return self.weather.draw(self._rng)

    def send(self, data: bytes) -> None:
        """Send a write; after a cut it is lost without an answer, or answered with a reset."""
        if self._cut:
            if self._cut == "answered":
                self.back.sign(Sign.RESET)
            return
        size = len(data)
        if self._rng.random() < _SPLIT and size > 1:
            border = 1 + int(self._rng.random() * (size - 1))
            self._put(data[:border], border)
            data, size = data[border:], size - border
        self._put(data, size)
        if self.frozen_until == math.inf:
            self._doom()

    def sign(self, sign: Sign) -> None:
        """Send a FIN or RESET after the bytes in flight; after a cut, only the RESET that answers a
        late write.
        """
        if not self._cut or (self._cut == "answered" and sign is Sign.RESET):
            self._put(sign, 0)

    def _put(self, item: bytes | Sign, size: int) -> None:
        at = max(self._loop.time() + self.latency(), self._last)
        if self.weather.rate:
            at += size / self.weather.rate
        self._last = at
        self._queue.append((at, item))
        self.in_flight += size
        self.arm()

    def _doom(self) -> None:
        if not self._is_doomed and self.in_flight:
            self._is_doomed = True
            error = TimeoutError(errno.ETIMEDOUT, "Connection timed out")
            self._loop.call_later(RETRANSMIT, self.sender.fail, error)

    # -- the reading end ----------------------------------------------------------------------------------------

    def _is_wanted(self) -> bool:
        receiver = self.receiver
        return (
            receiver.is_reading()
            or receiver.is_gone
            or (receiver.is_closing() and self._ends_in_reset())
        )

    def _ends_in_reset(self) -> bool:
        return bool(self._queue) and self._queue[-1][1] is Sign.RESET

    def arm(self) -> None:
        """Schedule the next arrival, if its reader wants one."""
        if self._timer is None and self._queue and self._is_wanted():
            when = max(self._queue[0][0], self.frozen_until)
            if when != math.inf:
                self._timer = self._loop.call_on_arrival(when, self._deliver, self.receiver.context)

    def _rearm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.arm()

    def _is_due(self) -> bool:
        return bool(self._queue) and max(self._queue[0][0], self.frozen_until) <= self._loop.time()

    def _deliver(self) -> None:
        self._timer = None
        while self._is_due() and self._is_wanted():
            item = self._queue.popleft()[1]
            if isinstance(item, Sign):
                self.receiver.on_sign(item)
            elif self.receiver.is_reading():
                self._hand_over(item)
            else:
                self.in_flight -= len(item)
                if self.receiver.is_gone and not self._cut:
                    # the peer is gone: this write and every later one is answered with a reset
                    self._cut = "answered"
                    self.back.sign(Sign.RESET)
        self.arm()

    def _hand_over(self, data: bytes) -> None:
        queue, now = self._queue, self._loop.time()
        fire: Callable[[], None] | None = None
        arrived = 1
        if self._marks:
            data, fire = self._up_to_mark(data)
        else:
            while queue and queue[0][0] <= now and isinstance(more := queue[0][1], bytes):
                queue.popleft()
                data += more  # TCP preserves no border between two writes
                arrived += 1
        self.chunks += arrived
        self.bytes += len(data)
        self.in_flight -= len(data)
        if data:
            self.receiver.on_data(data)
        if fire is not None:
            fire()
        self.sender.pump()

    def _up_to_mark(self, data: bytes) -> tuple[bytes, Callable[[], None] | None]:
        """Split at the first mark in the chunk; the rest waits until the mark's action is done."""
        for mark in self._marks:
            unit, number, action = mark
            if unit == "chunk" and number <= self.chunks + 1:
                self._marks.remove(mark)
                return data, action
            if unit == "byte" and number <= self.bytes + len(data):
                self._marks.remove(mark)
                keep = max(number - self.bytes, 0)
                if keep < len(data):
                    self._queue.appendleft((self._loop.time(), data[keep:]))
                return data[:keep], action
        return data, None

    # -- faults -------------------------------------------------------------------------------------------------

    def when(self, unit: Literal["chunk", "byte"], number: int, action: Callable[[], None]) -> None:
        """Call `action` right after the n-th chunk is delivered, or between the n-th byte and the
        next.
        """
        self._marks.append((unit, number, action))

    def freeze(self, until: float) -> None:
        """Hold every arrival until that instant (infinity: for ever)."""
        self.frozen_until = max(self.frozen_until, until)
        if until == math.inf:
            self._doom()

    def clean(self) -> None:
        """Remove the marks, and end a freeze unless it is for ever."""
        self._marks.clear()
        if self.frozen_until != math.inf:
            self.frozen_until = 0.0
        self.hurry()

    def hurry(self) -> None:
        """Let the bytes that a lag or a throttle delays arrive within the normal latency."""
        soon = self._loop.time() + self.weather.latency[1]
        self._queue = deque((min(at, soon), item) for at, item in self._queue)
        self._last = min(self._last, soon)
        self._rearm()

    def end(self, sign: Sign, *, lose: bool) -> None:
        """Cut the direction: later writes are lost after a RESET, and answered with a reset after a
        FIN.
        """
        if lose:
            self._queue.clear()
            self.in_flight = 0
            self.frozen_until = 0.0
            self._queue.append((self._loop.time(), sign))
            self._rearm()
        else:
            self.sign(sign)
        self._cut = "silent" if sign is Sign.RESET else "answered"

    def holds_reset(self) -> bool:
        """Return whether a reset has arrived that a paused reader has not seen."""
        return (
            self._ends_in_reset()
            and max(self._queue[-1][0], self.frozen_until) <= self._loop.time()
        )

    def holds_data(self) -> bool:
        return self._is_due() and isinstance(self._queue[0][1], bytes)


class Link:
    """One connection: the client writes to `up`, the server to `down`; numbers count from 1."""

    def __init__(self, loop: Timeline, number: int, weather: Weather) -> None:
        self.number = number
        self.up = Direction(loop, weather, stream(loop.seed, f"link/{number}/up"))
        self.down = Direction(loop, weather, stream(loop.seed, f"link/{number}/down"))
        self.up.back, self.down.back = self.down, self.up
        self._loop = loop

    def __repr__(self) -> str:
        return f"<Link {self.number} up={self.up.bytes} down={self.down.bytes} {'open' if self.is_open else 'closed'}>"

    def join(self, client: End, server: End) -> None:
        self.up.sender = self.down.receiver = client
        self.down.sender = self.up.receiver = server

    @property
    def is_open(self) -> bool:
        return not (self.up.sender.is_gone and self.down.sender.is_gone)

    def directions(self, way: Way | Literal["both"]) -> tuple[Direction, ...]:
        return {"up": (self.up,), "down": (self.down,), "both": (self.up, self.down)}[way]

    def abort(self) -> None:
        """Reset both ends now; bytes in flight are lost."""
        self._loop.note(f"net abort {self.number}")
        for direction in self.directions("both"):
            direction.end(Sign.RESET, lose=True)

    def fin(self, *, lose: bool = False) -> None:
        """End the stream at both ends, as a proxy does; bytes in flight arrive unless `lose`."""
        self._loop.note(f"net fin {self.number}")
        for direction in self.directions("both"):
            direction.end(Sign.FIN, lose=lose)

    def blackhole(self, seconds: float, way: Way | Literal["both"] = "both") -> None:
        """Hold all bytes for that time; then they arrive, as TCP retransmits them."""
        self._loop.note(f"net blackhole {self.number} {way} {seconds:g}")
        for direction in self.directions(way):
            direction.freeze(self._loop.time() + seconds)

    def vanish(self) -> None:
        """Make the link half-open for ever: no end gets a reset; only bytes in flight time out."""
        self.blackhole(math.inf)

    def inject(self, data: bytes, way: Way = "down") -> None:
        """Insert foreign bytes after what was written so far, at the border between two writes."""
        self._loop.note(f"net inject {self.number} {way} {len(data)}")
        for direction in self.directions(way):
            direction.sender.write_foreign(data)

    def cut_after(
        self, count: int, how: Literal["abort", "fin"] = "abort", way: Way = "down"
    ) -> None:
        """Cut after `count` bytes of that direction; the rest is lost."""
        for direction in self.directions(way):
            direction.when(
                "byte", count, self.abort if how == "abort" else lambda: self.fin(lose=True)
            )
