"""A client that sends, a server that reads, and a link that is cut anywhere between: drawn from a seed.

The server does what the seed says: it reads in order, applies each key once, acknowledges or not, and answers pings. Rule:
every step is one of the few things that can really happen, and any of them can come next.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections import deque
from typing import Any

from resilient_bridge.bridge import Dialect, Outbox
from resilient_bridge.errors import OutboxFullError
from resilient_bridge.protocol import Entry, EntryState
from tests.protocol.driving import CUT, Rig


UNSENT = {EntryState.EXPIRED, EntryState.DROPPED, EntryState.WITHDRAWN}


class Peer:
    """Reads in order; what it applied, it applied once per key, and the first time counts."""

    def __init__(self, *, acks: bool, epoch: str = "srv") -> None:
        self.acks, self.epoch = acks, epoch
        self.applied: list[str] = []
        self.known: set[str] = set()
        self.up: deque[str] = deque()
        self.down: deque[dict[str, Any]] = deque()

    def read(self) -> None:
        """The next frame on the way here."""
        frame = json.loads(self.up.popleft())
        answer = getattr(self, "_" + frame["type"], self._message)(frame)
        if answer is not None:
            self.down.append(answer)

    def _auth(self, frame: dict[str, Any]) -> dict[str, Any]:
        return {"type": "connection_ack", "payload": {"server_id": self.epoch, "dedupes": True}}

    def _session_join(self, frame: dict[str, Any]) -> dict[str, Any]:
        return {"type": "session_joined", "payload": {}}

    def _heartbeat_ping(self, frame: dict[str, Any]) -> dict[str, Any]:
        return {"type": "heartbeat_pong", "payload": {}}

    def _ask(self, frame: dict[str, Any]) -> dict[str, Any]:
        return {"type": "answer", "id": frame["id"], "payload": {}}

    def _message(self, frame: dict[str, Any]) -> dict[str, Any] | None:
        key = frame["payload"]["idempotency_key"]
        new = key not in self.known
        if new:
            self.known.add(key)
            self.applied.append(key)
        status = "applied" if new else "already_processed"
        return (
            {"type": "message_ack", "payload": {"message_id": frame["id"], "status": status}}
            if self.acks
            else None
        )


class FlushWorld:
    """One run of many connections. `wrong` collects what should not have happened."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.peer = Peer(acks=rng.random() < 0.5)
        self.rig = Rig(
            seed=seed,
            dialect=Dialect(request_replay=None),
            outbox=Outbox(max_messages=rng.choice([6, 1000]), overflow=rng.choice(["raise", "drop_oldest", "drop_newest"])),
        )  # fmt: skip
        self.entries: list[Entry] = []
        self.requests: list[Entry] = []
        self.out: list[str] = []  # every frame that was handed out
        self.flushes = 0
        self.wrong: list[str] = []
        self.harsh = rng.random() < 0.3  # the epoch may change, and outages may outlast the window

    def play(self, connections: int) -> None:
        """Connections that are cut anywhere, and a last one that is not."""
        for _ in range(connections):
            self._connection(self.rng.randrange(1, 20))
            self._outage()
        self._connection(None)
        self._check()

    def _connection(self, steps: int | None) -> None:
        rig, rng = self.rig, self.rng
        rig.session.connecting(rig.now)
        rig.session.connection_made(None, rig.now)
        flushing = rng.random() < 0.8 and self._join()
        for _ in range(100 if steps is None else steps):
            if steps is not None:
                self._step(rng.random())
            elif not self._calm():
                break
            flushing |= rig.session.state in {"FLUSHING", "READY"}
        self.flushes += flushing
        rig.lose(CUT)
        self.peer.up.clear()
        self.peer.down.clear()

    def _join(self) -> bool:
        """The handshake without a hitch: what is cut is the flush."""
        while self.rig.session.state not in {"FLUSHING", "READY"}:
            self._pull()
            while self.peer.up:
                self.peer.read()
            while self.peer.down and self.rig.session.state not in {"FLUSHING", "READY"}:
                self._hear()
        return True

    def _calm(self) -> bool:
        """Everything arrives; False when nothing is left to happen."""
        self._pull()
        while self.peer.up:
            self.peer.read()
        while self.peer.down:
            self._hear()
        if (
            not self.rig.session.outbound.outbox.count
            and not self.rig.session.outbound.open_requests
            and self.rig.state == "READY"
        ):
            return False
        self._tick(1.0)
        return True

    def _step(self, dice: float) -> None:
        rig, rng = self.rig, self.rng
        if dice < 0.25:
            self._send(rng.random())
        elif dice < 0.45:
            self._pull()
        elif dice < 0.70:
            for _ in range(min(len(self.peer.up), rng.randrange(1, 4))):
                self.peer.read()
        elif dice < 0.90:
            for _ in range(min(len(self.peer.down), rng.randrange(1, 4))):
                self._hear()
        elif dice < 0.95:
            self._tick(rng.choice([0.01, 0.3, 0.95]))
        elif self.entries:
            entry = rng.choice(self.entries)
            was = entry.state
            if rig.session.outbound.outbox.withdraw(entry) is not (was is EntryState.QUEUED):
                self.wrong.append(f"withdraw of a {was.value} entry")

    def _send(self, dice: float) -> None:
        options: dict[str, Any] = {}
        if dice < 0.1:
            options = {"coalesce": "c"}
        elif dice < 0.2:
            options = {"ttl": self.rng.choice([0.2, 5.0])}
        elif dice < 0.3:
            options = {"volatile": True}
        elif dice < 0.4:
            self.requests.append(self.rig.request("ask", idempotent=dice < 0.35))
            return
        with contextlib.suppress(OutboxFullError):
            self.entries.append(self.rig.send(**options))

    def _pull(self) -> None:
        frames = self.rig.session.frames_to_send(self.rig.now)
        self.peer.up += frames
        self.out += frames
        self.rig.after()

    def _hear(self) -> None:
        self.rig.session.receive(json.dumps(self.peer.down.popleft()), self.rig.now)
        self.rig.after()

    def _tick(self, seconds: float) -> None:
        self.rig.step(seconds)
        self.rig.session.handle_timer(self.rig.now)
        self.rig.after()

    def _outage(self) -> None:
        for _ in range(self.rng.randrange(3)):
            self._send(self.rng.random())
        long = self.harsh and self.rng.random() < 0.1
        self._tick(400.0 if long else self.rng.choice([0.1, 3.0]))
        if self.harsh and self.rng.random() < 0.1:
            self.peer = Peer(acks=self.peer.acks, epoch=f"srv{self.rng.random()}")

    def _check(self) -> None:
        settled = [entry for entry in self.rig.settled if not entry.is_request]
        if len(settled) != len(set(settled)):
            self.wrong.append("an entry was settled twice")
        out = {json.loads(frame)["id"] for frame in self.out}
        for entry in self.entries:
            self._check_entry(
                entry, handed_out=entry.id in out, arrived=entry.id in self.peer.known
            )
        for request in self.requests:
            if not request.is_settled and not self.rig.session.outbound.open_requests.get(
                request.id
            ):
                self.wrong.append(f"{request} is nowhere")
        mine = {entry.id: index for index, entry in enumerate(self.entries)}
        order = [mine[key] for key in self.peer.applied if key in mine]
        if order != sorted(order):
            self.wrong.append(f"out of order: {order}")
        outbox = self.rig.session.outbound.outbox
        if (outbox.count, outbox.bytes, len(outbox.queued), len(outbox.unconfirmed)) != (
            0,
            0,
            0,
            0,
        ):
            self.wrong.append("the outbox is not empty")

    def _check_entry(self, entry: Entry, *, handed_out: bool, arrived: bool) -> None:
        repeatable = not self.harsh and not entry.volatile and entry.expires is None
        for is_wrong, why in (
            (not entry.is_settled, "has no outcome"),
            (entry.state in UNSENT and arrived, "arrived"),
            (entry.state is EntryState.UNKNOWN and not handed_out, "never left"),
            (entry.state is EntryState.UNKNOWN and repeatable, "inside the window, same epoch"),
            (
                entry.state is EntryState.CONFIRMED and not self.harsh and not arrived,
                "never arrived",
            ),
        ):
            if is_wrong:
                self.wrong.append(f"{entry} {why}")
