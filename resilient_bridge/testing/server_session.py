"""The bridge's memory: sessions with replay buffers, idempotency keys, a record of all messages.

Rule: nothing here uses a socket. A session outlives its link by the grace time and stores pushed
messages, whether or not a client is attached. A key is recorded only after its message was
processed.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs

from .server_faults import Behaviour
from .server_replay import Entry, ReplayBuffer, SeedBuffer, ordered
from .server_wire import ENCODE, Message, Stamps, new_id


class Outlet(Protocol):
    """The interface for sending to one connected client."""

    def send(self, text: str, /) -> None: ...

    def later(
        self, delay: float, text: str | Callable[[], str], then: Callable[[], None] | None = None, /
    ) -> None: ...

    def end(self, code: int, reason: str, /) -> None: ...


@attrs.define(eq=False)
class Session:
    """One session: open or closed, attached to one link or to none."""

    id: str
    buffer: ReplayBuffer = attrs.field(factory=ReplayBuffer)
    seed: SeedBuffer | None = None  # only while the bridge behaves like the seed's code
    link: Outlet | None = None
    is_closed: bool = False
    timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        self.disarm()
        self.is_closed = True

    def disarm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class BridgeMemory:
    """All state of a bridge; `forget()` leaves what a restart without persistence would."""

    def __init__(self, behaviour: Behaviour, wall: Callable[[], float], rng: random.Random) -> None:
        self.behaviour = behaviour
        self.stamps = Stamps(wall)
        self.rng = rng
        self.server_id = new_id(rng)
        self.token: str | None = None
        self.on_request: Callable[[Message], Mapping[str, Any] | None] | None = None
        self.sessions: dict[str, Session] = {}
        self.latest: str | None = None
        self.audience: dict[Outlet, None] = {}  # the connected and authenticated clients, in order
        self.frames: list[Message] = []
        self.received: list[Message] = []
        self.pushed: list[Message] = []
        self.queue: list[str] = []  # what a bridge without sessions has pushed
        self._owners: list[str] = []
        self._keys: OrderedDict[str, tuple[float, str | None]] = OrderedDict()
        self._last_id: str | None = None

    # ---- messages
    def message(self, kind: str, payload: Mapping[str, Any], ident: str | None) -> Message:
        """Return an envelope stamped now; id and stamp are left out if the bridge has none."""
        message: Message = {"type": kind}
        if ident is not None:
            message["id"] = ident
        stamp = self.stamps.show(self.stamps.now(), self.behaviour)
        if stamp is not None:
            message["timestamp"] = stamp
        if self.behaviour.flat:
            return {**payload, **message}
        message["payload"] = payload
        return message

    def push(
        self, kind: str, payload: Mapping[str, Any], ident: str | None, to: str | None
    ) -> Message:
        """Push a message to a session: into its buffer, and out if it is attached."""
        name = self._addressee(to)
        if (
            self.behaviour.duplicate_ids == "conflict"
            and ident is not None
            and self._last_id is not None
        ):
            ident = self._last_id
        message = self.message(kind, payload, ident)
        text = ENCODE(message)
        self.pushed.append(message)
        self._owners.append(name)
        self._last_id = ident
        for _ in range(2 if self.behaviour.duplicate_ids == "repeat" else 1):
            self._deliver(name, text)
        return message

    def pushed_to(self, session: str) -> list[Message]:
        return [
            message
            for message, owner in zip(self.pushed, self._owners, strict=True)
            if owner == session
        ]

    def _addressee(self, to: str | None) -> str:
        if self.behaviour.no_session_memory:
            return ""
        name = self.latest if to is None else to
        # the latest session may have expired: what is pushed to it is lost, and the ground truth
        # says so
        if name is None or (to is not None and to not in self.sessions):
            msg = f"a session that somebody joined expected, got {to!r}"
            raise LookupError(msg)
        return name

    def _deliver(self, name: str, text: str) -> None:
        if self.behaviour.no_session_memory:
            self.queue.append(text)
            for link in tuple(self.audience):
                link.send(text)
            return
        session = self.sessions.get(name)
        if session is not None and not session.is_closed:
            self.keep(session, text)
            if session.link is not None:
                session.link.send(text)

    # ---- replay
    def keep(self, session: Session, text: str) -> None:
        behaviour = self.behaviour
        if behaviour.replay == "verbatim_seed":
            self._seed(session).append(text, limit=behaviour.replay_bytes)
        else:
            session.seed = None
        step = 1000 if behaviour.timestamps == "s" else 1
        stamp = self.stamps.now()
        entry = Entry(text, len(text) + 1, stamp - stamp % step, step, self.now())
        session.buffer.append(entry, limit=behaviour.replay_bytes, age=behaviour.replay_age)

    def replay(self, session: Session, since: int | None) -> list[str]:
        """Return this bridge's answer to request_replay, by its behaviour."""
        behaviour = self.behaviour
        if behaviour.replay == "verbatim_seed":
            return self._seed(session).since(since)
        session.buffer.trim(self.now(), limit=behaviour.replay_bytes, age=behaviour.replay_age)
        texts = session.buffer.since(since, exclusive=behaviour.replay == "exclusive")
        if behaviour.replay == "silent_truncate":
            texts = texts[max(0, len(texts) - behaviour.truncate_to) :]
        return self._mixed(ordered(texts, behaviour.replay_order))

    def _mixed(self, texts: list[str]) -> list[str]:
        """Return the entries mixed with entries of other sessions."""
        for n in range(self.behaviour.foreign_entries):
            entry = self.message(
                "foreign_event", {"foreign": n}, None if n % 2 else new_id(self.rng)
            )
            texts.insert(self.rng.randrange(len(texts) + 1), ENCODE(entry))
        return texts

    def _seed(self, session: Session) -> SeedBuffer:
        if session.seed is None:  # the behaviour was changed in mid-session
            session.seed = SeedBuffer(session.buffer.since(None))
        return session.seed

    # ---- sessions
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def open(self, name: str | None) -> Session:
        """Return a new session; it gets a name from the bridge if the client sent none."""
        session = Session(new_id(self.rng) if name is None else name)
        self.sessions[session.id] = session
        return session

    def attach(self, session: Session, link: Outlet) -> None:
        """Attach the session to this link; the previous link gets 4409 and is closed."""
        session.disarm()
        old, session.link = session.link, link
        self.latest = session.id
        if old is not None and old is not link:
            old.end(4409, "superseded by a newer connection")

    def detach(self, session: Session, link: Outlet) -> None:
        """Detach a link that has ended: the session waits for the grace time and then ends."""
        if session.link is not link:
            return  # superseded: another link has the session
        session.link = None
        if self.sessions.get(session.id) is session and not session.is_closed:
            grace = self.behaviour.grace
            session.timer = asyncio.get_running_loop().call_later(grace, self.expire, session)

    def expire(self, session: Session) -> None:
        """End a session as the grace timer does.

        It gets SESS_NOT_FOUND from now on; a link attached to it gets 4404.
        """
        session.disarm()
        if self.sessions.get(session.id) is session:
            del self.sessions[session.id]
        link, session.link = session.link, None
        if link is not None:
            link.end(4404, "session expired")

    def forget(self) -> None:
        """Lose everything that a process without a disk loses; the record of all messages stays."""
        for session in self.sessions.values():
            session.disarm()
        self.sessions.clear()
        self._keys.clear()
        self.server_id = new_id(self.rng)

    # ---- idempotency
    def processed(self, key: str) -> tuple[str | None] | None:
        """Return the stored answer (or None) for this key in the window; None if the key is new."""
        known = self._keys.get(key) if self.behaviour.dedupes else None
        if known is None or self.now() - known[0] > self.behaviour.dedupe_window:
            return None
        return (known[1],)

    def record(self, key: str, answer: str | None) -> None:
        """Record a processed key; keys outside of the window are dropped."""
        now, keys = self.now(), self._keys
        keys.pop(key, None)  # to the end: the oldest come first
        keys[key] = (now, answer)
        while now - next(iter(keys.values()))[0] > self.behaviour.dedupe_window:
            keys.popitem(last=False)
