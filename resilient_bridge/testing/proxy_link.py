"""One connection through the fault proxy: two directions of bytes, their faults, and the end.

Rule: it does nothing that TCP would not do. Bytes in a black hole are held and never skipped, and a
cut may fall between any two bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Coroutine, Iterable
from typing import Final, Literal

import attrs


Way = Literal["up", "down"]
"""A direction: "up" is towards the target."""
Directions = Literal["up", "down", "both"]
"""One direction, or each for itself."""
_Ending = Literal["abort", "fin", "done"]

_CHUNK: Final = 65_536
# a held direction soon stops reading, so that its sender sees a full window
_QUEUED_CHUNKS: Final = 16
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close() sends RST


@attrs.frozen
class Fault:
    """One fault of a connection, which starts after this many bytes of one direction (0: at once).

        faults = [rb.testing.Fault.abort(after=100), rb.testing.Fault.delay(0.5)]
        print(faults[0].kind)      # abort

    "up" is towards the target, "down" towards the client; with "both" each direction counts for
    itself.
    """

    kind: Literal["abort", "fin", "black_hole", "delay", "throttle", "garbage"]
    direction: Directions = "both"
    after: int = attrs.field(default=0, kw_only=True, validator=attrs.validators.ge(0))
    seconds: float | None = attrs.field(
        default=None, kw_only=True, validator=attrs.validators.optional(attrs.validators.ge(0))
    )
    rate: int | None = attrs.field(
        default=None, kw_only=True, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    data: bytes = attrs.field(default=b"", kw_only=True)

    @classmethod
    def abort(cls, *, after: int = 0, direction: Way = "down") -> Fault:
        """Reset both sides (RST) after exactly `after` bytes in `direction`."""
        return cls("abort", direction, after=after)

    @classmethod
    def fin(cls, *, after: int = 0, direction: Way = "down") -> Fault:
        """End both sides in order (FIN) after `after` bytes in `direction`; drop later bytes."""
        return cls("fin", direction, after=after)

    @classmethod
    def black_hole(
        cls, direction: Directions = "both", *, seconds: float | None = None, after: int = 0
    ) -> Fault:
        """Pass no byte, FIN or RST for this time or until `heal()`; then all of it arrives."""
        return cls("black_hole", direction, after=after, seconds=seconds)

    @classmethod
    def delay(cls, seconds: float, direction: Directions = "both", *, after: int = 0) -> Fault:
        """Deliver every byte `seconds` later; at most 1 MiB is in flight at a time."""
        return cls("delay", direction, after=after, seconds=seconds)

    @classmethod
    def throttle(
        cls, bytes_per_second: int, direction: Directions = "both", *, after: int = 0
    ) -> Fault:
        """Pass at most this many bytes per second."""
        return cls("throttle", direction, after=after, rate=bytes_per_second)

    @classmethod
    def garbage(
        cls, data: bytes = b"\xff\xfe garbage \x00", *, after: int = 0, direction: Way = "down"
    ) -> Fault:
        """Insert bytes into the stream that neither side sent."""
        return cls("garbage", direction, after=after, data=data)


class _Pipe:
    """One direction of a connection: its waiting bytes, and the faults that delay them."""

    def __init__(self, name: Way) -> None:
        self.name: Way = name
        # None: a reset
        self.queue: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue(_QUEUED_CHUNKS)
        self.gate = asyncio.Event()
        self.gate.set()
        self.lifted = asyncio.Event()
        self.lock = asyncio.Lock()
        self.passed = 0
        self.delay = 0.0
        self.rate: int | None = None
        self.marks: list[tuple[int, Fault]] = []
        self.sink: socket.socket | None = None
        self.is_over = False
        self.is_broken = False
        self._hole: asyncio.TimerHandle | None = None

    def due(self) -> Fault | None:
        for index, (at, fault) in enumerate(self.marks):
            if at <= self.passed:
                del self.marks[index]
                return fault
        return None

    def room(self) -> int:
        """The most bytes of one piece: up to the next mark, and few under a throttle."""
        limit = _CHUNK if self.rate is None else max(1, self.rate // 20)
        return min([limit, *(at - self.passed for at, _ in self.marks)])

    def hold(self, seconds: float | None) -> None:
        self.gate.clear()
        if self._hole is not None:
            self._hole.cancel()
        self._hole = (
            None
            if seconds is None
            else asyncio.get_running_loop().call_later(seconds, self.gate.set)
        )

    async def pause_until(self, instant: float) -> None:
        """Wait, but no longer than until the delay is removed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(instant):
                await self.lifted.wait()

    def heal(self) -> None:
        self.marks.clear()
        self.delay, self.rate = 0.0, None
        if self._hole is not None:
            self._hole.cancel()
        self.gate.set()
        self.lifted.set()


class Link:
    """One connection through the proxy: two directions, and one decision how it ends."""

    def __init__(
        self, client: socket.socket, faults: Iterable[Fault], count: Callable[[Way, int], None]
    ) -> None:
        """Take the accepted socket; `run()` dials the target, `close()` closes the sockets."""
        self._count = count
        self._client = client
        self._server: socket.socket | None = None
        self._end: asyncio.Future[_Ending] = asyncio.get_running_loop().create_future()
        self._pipes: dict[Way, _Pipe] = {"up": _Pipe("up"), "down": _Pipe("down")}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_dialled = asyncio.Event()
        self._is_reset = True  # unless it ends in order
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.apply(faults)

    async def run(self, target: tuple[str, int]) -> None:
        try:
            if not self._end.done():
                await self._dial(target)
            ending = await self._end
            await self._stop_tasks()
            if ending == "fin":
                await self._finish_politely()
            self._is_reset = ending == "abort"
        finally:
            await self._stop_tasks()

    def close(self) -> None:
        """Close the sockets.

        This is not a part of `run()`, because a cancelled task may never have started it.
        """
        self.heal()  # no timer is left
        for end in (self._client, self._server):
            if end is not None:
                if self._is_reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                end.close()

    def apply(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            for name, pipe in self._pipes.items():
                if fault.direction in {name, "both"}:
                    pipe.marks.append((pipe.passed + fault.after, fault))
                    if garbage := self._strike(pipe):
                        self._start(self._inject(pipe, garbage))

    def heal(self) -> None:
        for pipe in self._pipes.values():
            pipe.heal()

    def _strike(self, pipe: _Pipe) -> bytes:
        """Start the faults that are due; return the garbage, which has to wait for the socket."""
        garbage = b""
        while (fault := pipe.due()) is not None:
            if fault.kind in {"abort", "fin"}:
                self._end_with("abort" if fault.kind == "abort" else "fin")
            elif fault.kind == "black_hole":
                pipe.hold(fault.seconds)
            elif fault.kind == "delay":
                pipe.delay = fault.seconds or 0.0
                pipe.lifted.clear()
            elif fault.kind == "throttle":
                pipe.rate = fault.rate
            else:
                garbage += fault.data
        return garbage

    async def _dial(self, target: tuple[str, int]) -> None:
        loop = asyncio.get_running_loop()
        self._server = server = socket.socket(
            socket.AF_INET6 if ":" in target[0] else socket.AF_INET, socket.SOCK_STREAM
        )
        server.setblocking(False)
        try:
            await loop.sock_connect(server, target)
        except OSError:
            self._end_with("abort")
            return
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, source, sink in (("up", self._client, server), ("down", server, self._client)):
            pipe = self._pipes["up" if name == "up" else "down"]
            pipe.sink = sink
            self._start(self._read(pipe, source))
            self._start(self._write(pipe, sink))
        self._is_dialled.set()

    async def _read(self, pipe: _Pipe, source: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        data: bytes | None = b"-"
        while data:
            try:
                data = await loop.sock_recv(source, _CHUNK)
            except OSError:
                data = None
            await pipe.queue.put((loop.time(), data))

    async def _write(self, pipe: _Pipe, sink: socket.socket) -> None:
        while True:
            arrived, data = await pipe.queue.get()
            if pipe.delay:
                await pipe.pause_until(arrived + pipe.delay)
            await pipe.gate.wait()
            if data is None:
                self._end_with("abort")
                return
            if not data:
                break
            await self._pass_on(pipe, sink, memoryview(data))
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        pipe.is_over = True
        if all(each.is_over for each in self._pipes.values()):
            self._end_with("done")

    async def _pass_on(self, pipe: _Pipe, sink: socket.socket, data: memoryview) -> None:
        while data and not self._end.done():
            await pipe.gate.wait()
            async with pipe.lock:
                piece = data[: pipe.room()] if pipe.gate.is_set() else data[:0]
                await self._send(pipe, sink, piece)
                pipe.passed += len(piece)
                self._count(pipe.name, len(piece))
                await self._send(pipe, sink, self._strike(pipe))
            data = data[len(piece) :]
            if pipe.rate is not None and piece:
                await asyncio.sleep(len(piece) / pipe.rate)

    async def _inject(self, pipe: _Pipe, garbage: bytes) -> None:
        await self._is_dialled.wait()
        async with pipe.lock:
            if pipe.sink is not None:
                await self._send(pipe, pipe.sink, garbage)

    async def _send(self, pipe: _Pipe, sink: socket.socket, data: bytes | memoryview) -> None:
        """Send, or drop the bytes if the peer is gone, which the other direction reports."""
        if data and not pipe.is_broken:
            try:
                await asyncio.get_running_loop().sock_sendall(sink, data)
            except OSError:
                pipe.is_broken = True

    async def _finish_politely(self) -> None:
        """Send FIN to both sides and keep reading: closing with unread bytes would be a reset."""
        loop = asyncio.get_running_loop()
        ends = [end for end in (self._client, self._server) if end is not None]
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_WR)
        for end in ends:
            with contextlib.suppress(OSError):
                while await loop.sock_recv(end, _CHUNK):
                    pass

    def _end_with(self, ending: _Ending) -> None:
        if not self._end.done():
            self._end.set_result(ending)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

    async def _stop_tasks(self) -> None:
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
