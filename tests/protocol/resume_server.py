"""A bridge written from the specification alone: a log, a bounded buffer, six ways to answer. All drawn from a seed.

Every message carries its number where no comparison can see it: in the order of its payload's keys. So a repeated frame
without id is told from the one before it by the test and by nobody else. Rule: imports nothing of what it judges.
"""

from __future__ import annotations

import json
import random
from collections import deque
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import attrs


START = 1_774_000_000.0
ORDERS = ["".join(order) for order in permutations("abcdef")]
NUMBER = {order: n for n, order in enumerate(ORDERS)}
SPEAKING = {
    "inclusive",
    "exclusive",
    "verbatim",
}  # servers that answer request_replay with messages


@attrs.frozen
class Setting:
    """One kind of server and of client."""

    kind: str
    id_less: float
    resolution: int  # ms of its timestamps
    buffer: int
    overlap: float
    side: int
    pushes: str  # "", "before" or "after" the answer to the join: the whole buffer, unasked
    answers: int  # how often it sends each answer
    as_strings: bool
    answer_ids: bool
    pong_ids: bool
    says_joined: bool
    delayed: bool  # takes the snapshot at once and sends it after later live frames
    refuses_by_close: bool
    bursts: tuple[int, ...]  # how much happens between two frames of a join

    @classmethod
    def draw(cls, rng: random.Random) -> Setting:
        """Any combination, the plain ones more often."""
        kind = rng.choice(
            [
                "inclusive",
                "inclusive",
                "exclusive",
                "exclusive",
                "verbatim",
                "deaf",
                "silent",
                "empty",
            ]
        )
        return cls(
            kind=kind,
            id_less=rng.choice([0.0, 0.5, 0.95]),
            resolution=rng.choice([1, 1000]),
            buffer=rng.choice([4, 12, 10_000, 10_000]),
            overlap=rng.choice([2.0, 300.0]),
            side=rng.choice([3, 10_000, 10_000, 10_000]),
            pushes=rng.choice(["before", "after"])
            if kind == "verbatim"
            else rng.choice(["", "", "before", "after"]),
            answers=rng.choice([1, 1, 2]),
            as_strings=rng.random() < 0.5,
            answer_ids=rng.random() < 0.7,
            pong_ids=rng.random() < 0.5,
            says_joined=rng.random() < 0.8,
            delayed=rng.random() < 0.15,
            refuses_by_close=rng.random() < 0.3,
            bursts=rng.choice([(0, 0, 1), (0, 0, 1), (0, 1, 2), (0, 3)]),
        )


class Server:
    """The other side. `sent` is what is on its way to the client; a cut loses it."""

    def __init__(self, setting: Setting, rng: random.Random) -> None:
        self.setting, self._rng = setting, rng
        self.clock = START
        self.step = 0.0  # how far its clock has been set back
        self.log: list[bool] = []  # has the message an id?
        self.buffers: dict[str, deque[tuple[int, int, str]]] = {}
        self.attached: str | None = None
        self.session: str | None = None
        self.sent: deque[str] = deque()
        self.closing = False
        self._late: list[str] = []
        self._known_ids = 0

    def stamp(self) -> int:
        """Milliseconds of its clock, as far as it prints them."""
        now = int((self.clock + self.step) * 1000)
        return now - now % self.setting.resolution

    def print(self, stamp: int) -> str:
        """A timestamp in the server's format."""
        moment = datetime.fromtimestamp(stamp / 1000, UTC)
        spec = "milliseconds" if self.setting.resolution == 1 else "seconds"
        return moment.isoformat(timespec=spec).replace("+00:00", "Z")

    def emit(self) -> None:
        """Something happens in the session, whether or not somebody is attached."""
        if self.session is None or len(self.log) >= len(ORDERS):
            return
        n, stamp = len(self.log), self.stamp()
        has_id = self._rng.random() >= self.setting.id_less
        self.log.append(has_id)
        value = self._rng.randrange(2)
        payload = ",".join(f'"{key}":{value}' for key in ORDERS[n])
        identity = f'"id":"m{n}",' if has_id else ""
        type_ = "event" if has_id else "chunk"
        text = f'{{"type":"{type_}",{identity}"timestamp":"{self.print(stamp)}","payload":{{{payload}}}}}'
        buffer = self.buffers[self.session]
        buffer.append((n, stamp, text))
        if len(buffer) > self.setting.buffer:
            buffer.popleft()
        if self.attached is not None:
            self.sent.append(text)
        if self._late and self._rng.random() < 0.5:
            self.release()

    def release(self) -> None:
        """Delayed answers go out."""
        self.sent += self._late
        self._late.clear()

    def expire(self) -> None:
        """The session is forgotten."""
        self.buffers.clear()
        self.session = None

    def cut(self) -> None:
        """The connection is gone, with everything on it."""
        self.sent.clear()
        self._late.clear()
        self.attached, self.closing = None, False

    # ---- the dialogue -----------------------------------------------------------------------------------------

    def read(self, frame: dict[str, Any]) -> None:
        """One frame of the client, in order."""
        getattr(self, "_" + frame["type"])(frame)

    def _say(self, type_: str, payload: dict[str, Any], identity: str | None) -> None:
        body = {"type": type_, "timestamp": self.print(self.stamp()), "payload": payload}
        self.sent.append(json.dumps(body if identity is None else {**body, "id": identity}))

    def _auth(self, frame: dict[str, Any]) -> None:
        self._say("connection_ack", {"server_id": "srv"}, frame["id"])

    def _heartbeat_ping(self, frame: dict[str, Any]) -> None:
        self._say("heartbeat_pong", {}, frame["id"] if self.setting.pong_ids else None)

    def _session_join(self, frame: dict[str, Any]) -> None:
        name = frame["payload"]["session_id"]
        known = name in self.buffers
        if not known and frame["payload"]["resume"]:
            if self.setting.refuses_by_close:
                self.closing = True
            else:
                self._say("error", {"code": "SESS_NOT_FOUND", "message": "gone"}, frame["id"])
            return
        self.buffers.setdefault(name, deque())
        self.session = self.attached = name
        pushes = self.setting.pushes if known else ""
        if pushes == "before":
            self._answer(list(self.buffers[name]), None)
        if self.setting.says_joined:
            self._say("session_joined", {"session_id": name}, frame["id"])
        if pushes == "after":
            self._answer(list(self.buffers[name]), None)

    def _request_replay(self, frame: dict[str, Any]) -> None:
        setting = self.setting
        if setting.kind == "silent":
            return
        if setting.kind == "deaf":
            self._say("error", {"code": "UNKNOWN_TYPE", "request_type": "request_replay"}, None)
            return
        assert self.attached is not None
        held = [] if setting.kind == "empty" else list(self.buffers[self.attached])
        since = frame["payload"].get("since")
        if since is not None:
            held = [] if setting.kind == "verbatim" else self._filtered(held, since)
        for _ in range(setting.answers):
            self._answer(held, frame["id"] if setting.answer_ids else None, late=setting.delayed)

    def _filtered(self, held: list[tuple[int, int, str]], since: str) -> list[tuple[int, int, str]]:
        first = round(datetime.fromisoformat(since).timestamp() * 1000)
        if self.setting.kind == "exclusive":
            return [entry for entry in held if entry[1] > first]
        return [entry for entry in held if entry[1] >= first]

    def _answer(
        self, held: list[tuple[int, int, str]], identity: str | None, *, late: bool = False
    ) -> None:
        texts = [text for _, _, text in held]
        messages = texts if self.setting.as_strings else [json.loads(text) for text in texts]
        self._say("replay_buffer", {"messages": messages}, identity)
        if late:
            self._late.append(self.sent.pop())


def number(payload: Any) -> int:
    """Which message of the log this payload belongs to."""
    return NUMBER["".join(payload)]
