"""An instrumented client: it records its frames and the calls of its dialect, and can be cut.

Rule: frames are passed on unchanged and at once; only acknowledgements are not sent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from .. import events
from ..client import BridgeClient
from ..client.dialing import Dialer
from ..failure import Failure
from ..protocol.facts import Acknowledge, Auth, Intent, Record, Resume, Send
from ..protocol.policies import Dialect
from ..telemetry.events import BridgeState
from ..transports.contract import Transport
from ..world import current_world
from .doctor_journal import Entry, Kind, Reading


_MOST_BYTES: Final = 16 * 1024 * 1024  # of the frames of one connection in one direction
_MOST_FRAMES: Final = 20_000


class Journal:
    """The entries so far; the frames of each connection up to a bound.

    `is_full` is set once the bound was reached; `began` is our wall clock at the start; `failure`
    is why the client has given up.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.entries: list[Entry] = []
        self.reading = Reading(dialect)
        self.failure: Failure | None = None
        self.connection = 0
        self.is_full = False
        self.notes: list[str] = []
        self.transport: TappedTransport | None = None
        self.sent: str | bytes = (
            ""  # the frame of the last message, in a dialect that writes its own
        )
        self.number = 0
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self.began = current_world().wall()
        self._bytes, self._frames = Counter[Kind](), Counter[Kind]()
        self._changed = asyncio.Event()

    def moment(self) -> float:
        return self._loop.time() - self._start

    def add(self, kind: Kind, value: Any = None) -> None:
        """Add an entry for now, on the current connection."""
        size = len(value) if isinstance(value, (str, bytes)) else 0
        # A server can send frames without end, and pings that are answered. Each direction has a
        # bound of its own, so that a long replay does not hide what was sent. Other entries are few.
        if kind in {"came", "went"}:
            if self._bytes[kind] + size > _MOST_BYTES or self._frames[kind] >= _MOST_FRAMES:
                self.is_full = True
                return
            self._bytes[kind] += size
            self._frames[kind] += 1
        self.entries.append(Entry(self.moment(), self.connection, kind, value))
        self.reading.add(self.entries[-1])
        self._changed.set()

    def happened(self, event: events.Event) -> None:
        """Handle an event of the client; an attempt to connect begins another connection."""
        if isinstance(event, events.StateChanged) and event.state is BridgeState.CONNECTING:
            self.connection += 1
            self._bytes.clear()
            self._frames.clear()
            self.add("dialled")
        if isinstance(event, events.GaveUp):
            self.failure = event.failure
        self.add("happened", event)

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until it holds, checked after each entry, for at most so many seconds.

        Return whether it holds.
        """
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    while not holds():
                        self._changed.clear()
                        await self._changed.wait()
            except TimeoutError:
                pass
        return holds()


class TappedTransport:
    """A transport whose frames and pongs are recorded in a journal."""

    def __init__(self, inner: Transport, journal: Journal) -> None:
        self.inner, self.journal = inner, journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def send(self, *frames: str | bytes) -> None:
        for frame in frames:
            self.journal.add("went", frame)
        await self.inner.send(*frames)

    def send_now(self, *frames: str | bytes) -> bool:
        is_sent = self.inner.send_now(*frames)
        for frame in frames if is_sent else ():
            self.journal.add("went", frame)
        return is_sent

    async def receive(self) -> str | bytes:
        frame = await self.inner.receive()
        self.journal.add("came", frame)
        return frame

    def receive_now(self) -> str | bytes | None:
        frame = self.inner.receive_now()
        if frame is not None:
            self.journal.add("came", frame)
        return frame

    async def ping(self) -> Awaitable[Any] | None:
        """Send a WebSocket ping; when the answer has come, record how long it took."""
        ping = getattr(self.inner, "ping", None)
        started = self.journal.moment()
        answer: Awaitable[Any] | None = None if ping is None else await ping()
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(lambda done: self._ponged(done, started))  # pyright: ignore[reportUnknownMemberType, reportUnknownLambdaType]
        return answer

    def _ponged(self, done: asyncio.Future[Any], started: float) -> None:
        if not done.cancelled() and done.exception() is None:
            self.journal.add("ponged", self.journal.moment() - started)


class _TappedDialer:
    def __init__(self, inner: Dialer, journal: Journal) -> None:
        self.secrets = inner.secrets
        self._inner, self._journal = inner, journal

    @property
    def target(self) -> str:
        return self._inner.target

    async def __call__(
        self,
        address: tuple[str, int] | None,
        resolved: Callable[[tuple[str, int]], None],
        resume: Resume | None,
        *,
        is_doubtful: bool,
    ) -> tuple[Transport, str | None]:
        transport, token = await self._inner(address, resolved, resume, is_doubtful=is_doubtful)
        self._journal.transport = tapped = TappedTransport(transport, self._journal)
        self._journal.add("opened")
        return cast("Transport", tapped), token


class WatchedClient(BridgeClient):
    """A client whose connections are recorded in a journal.

    It drops what it receives, so nothing is acknowledged as read.
    """

    def __init__(self, url: str, journal: Journal, dialect: Dialect, **options: Any) -> None:
        """Raise what `BridgeClient` does for arguments that cannot work."""
        self._journal = journal
        super().__init__(url, dialect=_tapped(dialect, journal), receive=False, **options)

    def _observed(self, dial: Dialer) -> Dialer:
        return _TappedDialer(dial, self._journal)


def _tapped(dialect: Dialect, journal: Journal) -> Dialect:
    """Return the dialect with an `encode` and a `resume` that record their calls in the journal."""
    encode, resume = dialect.encode, dialect.resume
    if encode is None:
        return dialect

    def noted_encode(intent: Intent) -> str | bytes | None:
        if isinstance(intent, Acknowledge):
            return None  # unread messages are not acknowledged
        frame = encode(intent)
        if isinstance(intent, Send):
            journal.sent, journal.number = frame or "", intent.number
        elif frame is not None:
            journal.add("meant", type(intent).__name__)
            if isinstance(intent, Auth) and resume is None:
                journal.add("asked", (intent.record, None))
        return frame

    def noted_resume(record: Record) -> Resume:
        assert resume is not None  # noqa: S101 -- used only where the dialect has a `resume`
        asked = resume(record)
        journal.add("asked", (record, asked))
        return asked

    return dialect.evolve(encode=noted_encode, resume=None if resume is None else noted_resume)
