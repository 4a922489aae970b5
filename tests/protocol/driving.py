"""A session driven by hand: the clocks, the wire and the consumer are plain variables, and nothing waits.

Rule: it does what the client's driver does (a frame is written when it is handed out, settled entries leave the store)
and decides nothing.
"""

from __future__ import annotations

import json
import random
from typing import Any

from resilient_bridge.bridge import BridgePolicy, BridgeState
from resilient_bridge.failure import Failure, classify_close
from resilient_bridge.protocol import Decision, Entry, Gap, Message, Now, Session
from resilient_bridge.stores import MemoryStore
from tests.internals.telemetry import Event


START = 1_774_000_000.0  # 2026-03-20T09:46:40Z

REFUSED = Failure.of("CONN_REFUSED")
CUT = classify_close(None, "", None)


def closed(code: int, text: str = "") -> Failure:
    """The peer's close frame with this code."""
    return classify_close(code, text, "peer")


def envelope(type_: str, payload: Any = None, **fields: Any) -> dict[str, Any]:
    """A message as a server sends it: an id and a timestamp only if they are given."""
    return {"type": type_, **fields, "payload": {} if payload is None else payload}


class Rig:
    """A session with everything around it. Parts of the policy are given by name: `Rig(outbox=Outbox(...))`."""

    def __init__(
        self, *, store: MemoryStore | None = None, seed: int = 1, can_refresh: bool = False,
        receives: bool = True, session_id: str | None = "s", mono: float = 100.0, **parts: Any,
    ) -> None:  # fmt: skip
        policy = BridgePolicy().evolve(**parts)
        self.mono, self.wall = mono, START
        self.store = MemoryStore() if store is None else store
        self.session = Session(
            reconnect=policy.reconnect, heartbeat=policy.heartbeat, outbox=policy.outbox, inbox=policy.inbox,
            replay=policy.replay, dialect=policy.dialect, store=self.store, session_id=session_id,
            rng=random.Random(seed), can_refresh=can_refresh, receives=receives,
        )  # fmt: skip
        self.policy = policy
        self.settled: list[Entry] = []
        self.events: list[Event] = []
        self.wire: list[dict[str, Any]] = []  # everything written on the current connection

    @property
    def now(self) -> Now:
        """Both clocks."""
        return Now(self.mono, self.wall)

    @property
    def state(self) -> BridgeState:
        """Where the session stands."""
        return self.session.state

    def after(self) -> None:
        """What a driver does after every verb."""
        for entry in self.session.outbound.take_settled(self.now):
            self.store.settle(entry)
            self.settled.append(entry)
        self.events += self.session.events
        self.session.events.clear()

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of one class so far."""
        self.after()
        return [event for event in self.events if type(event) is kind]

    # ---- time -------------------------------------------------------------------------------------------------

    def step(self, seconds: float) -> None:
        """Time passes, and nobody looks at a clock meanwhile."""
        self.mono += seconds
        self.wall += seconds

    def idle(self, seconds: float, *, write: bool = True) -> None:
        """Time passes, and timers are served when they are due, as an event loop serves them."""
        end = self.mono + seconds
        while True:
            due = self.session.next_timer()
            look = self.session.look_every
            if look is not None:
                due = self.mono + look if due is None else min(due, self.mono + look)
            if due is None or due > end:
                break
            self.step(max(due - self.mono, 0.0))
            self.session.handle_timer(self.now)
            if self.session.death is not None:
                self.after()
                return
            if write:
                self.write()
            self.after()
        self.step(end - self.mono)
        self.after()

    # ---- the wire ---------------------------------------------------------------------------------------------

    def connect(self, token: str | None = None) -> list[dict[str, Any]]:
        """An attempt that succeeds; what is written first."""
        self.wire = []
        self.session.connecting(self.now)
        self.session.connection_made(token, self.now)
        return self.write()

    def write(self) -> list[dict[str, Any]]:
        """Everything the session has to write now, decoded."""
        written: list[dict[str, Any]] = []
        while frames := self.session.frames_to_send(self.now):
            written += map(json.loads, frames)
        self.wire += written
        self.after()
        return written

    def hear(self, type_: str, payload: Any = None, **fields: Any) -> None:
        """The other side says something."""
        self.session.receive(json.dumps(envelope(type_, payload, **fields)), self.now)
        self.after()

    def last(self, type_: str) -> dict[str, Any]:
        """The last frame of this type written on the current connection."""
        return next(frame for frame in reversed(self.wire) if frame["type"] == type_)

    def authenticate(self, **payload: Any) -> list[dict[str, Any]]:
        """The server accepts us."""
        self.hear(
            "connection_ack",
            {"server_id": "srv", "dedupes": True, **payload},
            timestamp="2026-03-20T09:46:40Z",
        )
        return self.write()

    def pong(self) -> list[dict[str, Any]]:
        """The answer to the oldest ping, as the seed's server sends it: without an id."""
        self.hear("heartbeat_pong")
        return self.write()

    def pongs(self) -> None:
        """Every ping is answered."""
        link = self.session.link
        assert link is not None
        while link.wire.heartbeat is not None and link.wire.heartbeat._out:
            self.pong()

    def settle(self) -> Rig:
        """A second passes, the barrier goes out, and every ping is answered."""
        self.idle(1.0)
        self.pongs()
        return self

    def join(self) -> None:
        """Auth, join and its pong: a first join is over then, a later one has asked for the replay."""
        if self.state is BridgeState.AUTHENTICATING:
            self.authenticate()
        self.hear("session_joined", {"session_id": self.session.session_id})
        self.write()
        self.pong()

    def replay(self, *messages: Any, asked: bool = True, **fields: Any) -> None:
        """A replay answer, to our last request or unasked."""
        if asked:
            fields["id"] = self.last("request_replay")["id"]
        self.hear("replay_buffer", {"messages": list(messages)}, **fields)
        self.write()

    def up(self, *replayed: Any) -> Rig:
        """Connected and READY, whatever it takes; a later join is answered with `replayed`."""
        self.connect()
        self.join()
        while self.state is BridgeState.REPLAYING:
            self.replay(*replayed)
        self.pongs()
        assert self.state is BridgeState.READY, self.state
        return self

    def lose(self, failure: Failure = CUT) -> Decision:
        """The connection, or the attempt, ended."""
        decision = self.session.connection_lost(failure, self.now)
        self.after()
        return decision

    # ---- both users -------------------------------------------------------------------------------------------

    def send(self, type_: str = "note", payload: Any = None, **options: Any) -> Entry:
        """What `BridgeClient.send` does, without its waiting."""
        outbound = self.session.outbound
        entry = outbound.prepare(type_, {} if payload is None else payload, self.now, **options)
        if outbound.known.by_id.get(entry.id) is entry:
            return entry
        if options.get("volatile") and self.state is not BridgeState.READY:
            outbound.refuse(entry, "not connected")
        elif outbound.admit(entry):
            self.store.put(entry)
            outbound.outbox.add(entry)
        self.after()
        return entry

    def request(self, type_: str = "ask_request", *, idempotent: bool = False) -> Entry:
        """What `BridgeClient.request` does first."""
        return self.session.outbound.request(type_, {}, self.now, idempotent=idempotent)

    def take(self) -> list[Message | Gap]:
        """The consumer reads everything there is; the last message stays in his hands."""
        inbound = self.session.inbound
        taken: list[Message | Gap] = []
        while True:
            message = inbound.take()
            if message is not None:
                taken.append(message)
                continue
            gap = inbound.inbox.peek_gap()
            if gap is None:
                return taken
            inbound.inbox.pass_gap()
            taken.append(gap)
