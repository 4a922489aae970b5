"""Raw clients for the tests of the doubles: over loopback with `websockets`, and in memory under a virtual clock."""

from __future__ import annotations

import asyncio
import json
import selectors
from functools import partial

import websockets
from websockets.asyncio.client import connect

from tests.bridges.doubles.connection import encoded
from tests.bridges.doubles.reading import numbers_in
from tests.bridges.doubles.socket import Closed


dial = partial(connect, proxy=None, ping_interval=None, close_timeout=1)


async def say(socket, *frames):
    """Send frames; what is not text goes as JSON."""
    for frame in frames:
        await socket.send(encoded(frame))


async def hear(socket, count=1, *, raw=False):
    """The next frames, decoded from JSON unless they are wanted raw; fails after 5 s."""
    async with asyncio.timeout(5):
        frames = [await socket.recv() for _ in range(count)]
    return frames if raw else [json.loads(frame) for frame in frames]


def lines(frames):
    """The JSON values of frames that have one a line."""
    return [json.loads(line) for frame in frames for line in frame.split("\n") if line]


async def hear_lines(socket, count):
    """So many JSON values, in however many frames they come."""
    values = []
    while len(values) < count:
        values += lines(await hear(socket, raw=True))
    return values


async def hear_close(socket):
    """The code that the server closes with; what comes before it is dropped."""
    async with asyncio.timeout(5):
        try:
            while True:
                await socket.recv()
        except websockets.ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None


async def status(url, **options):
    """The HTTP status that refuses the upgrade."""
    try:
        async with dial(url, **options):
            return 101
    except websockets.InvalidStatus as refused:
        return refused.response.status_code


async def until(true):
    """Let the loop run until something is so; fails after 5 s."""
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.001)


async def publish(double, *numbers, channel=None):
    """Publish numbers, one after the other."""
    for number in numbers:
        await double.publish(number, channel)


def numbers(frames):
    """All numbers of `publish` in these frames."""
    return [number for frame in frames for number in numbers_in(frame)]


async def cut(url, double):
    """Cut all sockets, and wait until the double has noticed."""
    url.drop()
    await until(lambda: not double.connections)


class Pipe:
    """Both ends of a socket in memory: `client_*` for the test, the rest as a double sees it."""

    def __init__(self, path, **headers):
        self.path, self.headers = path, headers
        self.closed = None  # the code of the server's close frame
        self._in, self._out = asyncio.Queue(), asyncio.Queue()
        self._gone = asyncio.Event()
        self._why = ConnectionResetError("cut")
        self.blocked = False  # the client does not read: nothing can be sent

    async def recv(self):
        """The next frame of the client."""
        getting = asyncio.ensure_future(self._in.get())
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait((getting, gone), return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                return getting.result()
            raise self._why
        finally:
            getting.cancel()
            gone.cancel()

    async def send(self, frame):
        """A frame for the client."""
        if self.blocked:
            await self._gone.wait()
        if self._gone.is_set():
            raise ConnectionResetError("cut")
        self._out.put_nowait(frame)

    async def close(self, code=1000, reason=""):
        """The server closes."""
        self.closed = code
        self._gone.set()

    def client_says(self, *frames):
        """What the client sends."""
        for frame in frames:
            self._in.put_nowait(encoded(frame))

    async def client_hears(self, seconds=0.0, *, raw=False):
        """What has come after so many seconds."""
        await asyncio.sleep(seconds + 0.001)
        frames = [self._out.get_nowait() for _ in range(self._out.qsize())]
        return frames if raw else [json.loads(frame) for frame in frames]

    def client_cuts(self):
        """The connection is lost."""
        self._gone.set()

    def client_closes(self, code=1000):
        """The client says goodbye."""
        self._why = Closed(code)
        self._gone.set()


class _Jumping(selectors.SelectSelector):
    """Waits for no time: it moves the clock of its loop."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        """Jump to the next timer."""
        assert timeout is not None, "everything waits, and for nothing"
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose hours take no time."""

    def __init__(self):
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self):
        """Seconds since the loop was made."""
        return self._jumping.now


def virtually(main):
    """Run a coroutine function under a virtual clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())


def served(double, pipe):
    """Serve a pipe; the task, which the end of the loop cancels. None if the double refuses it."""
    if double.refuse(pipe.path, pipe.headers) is not None:
        return None
    return asyncio.ensure_future(double.serve(pipe))
