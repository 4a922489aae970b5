"""A server, a network and a consumer around one session, all drawn from a seed, and the list of what went wrong.

The server is written from the specification alone: a log, a bounded buffer, six ways to answer. Every message carries its
number where no comparison can see it: in the order of its payload's keys. So a repeated frame without id is told from the
one before it by the test and by nobody else. Rule: the world keeps the truth and only the truth.
"""

from __future__ import annotations

import json
import random
from collections import deque
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import attrs

from resilient_bridge.policies import Replay
from resilient_bridge.protocol import Gap, Message
from resilient_bridge.stores import MemoryStore
from resilient_bridge.telemetry.events import BridgeState, Resumed, Verdict
from tests.protocol.driving import CUT, START, Rig, closed


ORDERS = ["".join(order) for order in permutations("abcdef")]
NUMBER = {order: n for n, order in enumerate(ORDERS)}
SPEAKING = {"inclusive", "exclusive", "verbatim"}  # servers that answer request_replay with messages


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
        kind = rng.choice(["inclusive", "inclusive", "exclusive", "exclusive", "verbatim", "deaf", "silent", "empty"])
        return cls(
            kind=kind,
            id_less=rng.choice([0.0, 0.5, 0.95]),
            resolution=rng.choice([1, 1000]),
            buffer=rng.choice([4, 12, 10_000, 10_000]),
            overlap=rng.choice([2.0, 300.0]),
            side=rng.choice([3, 10_000, 10_000, 10_000]),
            pushes=rng.choice(["before", "after"]) if kind == "verbatim" else rng.choice(["", "", "before", "after"]),
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

    def _answer(self, held: list[tuple[int, int, str]], identity: str | None, *, late: bool = False) -> None:
        texts = [text for _, _, text in held]
        messages = texts if self.setting.as_strings else [json.loads(text) for text in texts]
        self._say("replay_buffer", {"messages": messages}, identity)
        if late:
            self._late.append(self.sent.pop())


def number(message: Message) -> int:
    """Which message of the log this is."""
    return NUMBER["".join(message.payload)]


class World:
    """One run. `wrong` collects what should not have happened."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.setting = Setting.draw(self.rng)
        self.server = Server(self.setting, self.rng)
        self.store = MemoryStore()
        self.stream: list[Message | Gap] = []  # what the consumer was handed, over all processes
        self.done: list[int] = []  # what he had done with, over all processes
        self.in_hand: int | None = None
        self.born = 0  # first message of the session that the server remembers
        self.merged: list[int] = []  # where in the stream each join's merge ended
        self.verdicts: list[Resumed] = []
        self.wrong: list[str] = []
        self.expired = False
        self.rig = self._process()

    def _process(self) -> Rig:
        replay = Replay(overlap=self.setting.overlap, max_messages=self.setting.side)
        self.seen = 0
        return Rig(
            store=self.store, session_id=None, seed=self.rng.randrange(2**30), replay=replay,
            mono=self.rig.mono if hasattr(self, "rig") else 100.0,
        )  # fmt: skip

    # ---- what happens -----------------------------------------------------------------------------------------

    def play(self, resumes: int) -> None:
        """A life: connect, live, lose; at the end everything that is still held is delivered."""
        for _ in range(resumes):
            self._join(cut_at=self.rng.choice([None, None, None, self.rng.randrange(16)]))
            self._live()
            self._loss()
            self._outage()
        self._join(cut_at=None)
        self.setting = attrs.evolve(self.setting, id_less=0.0)
        self.server.setting = self.setting
        for _ in range(3):
            self.server.emit()
        self._deliver(10**6)
        self._consume(10**6)

    def _pass(self, seconds: float) -> None:
        self.rig.step(seconds)
        self.server.clock += seconds

    def _deliver(self, count: int) -> None:
        """Frames go both ways; the client's are read in order."""
        session, server = self.rig.session, self.server
        for _ in range(count):
            for frame in session.frames_to_send(self.rig.now):
                server.read(json.loads(frame))
            if server.sent:
                session.receive(server.sent.popleft(), self.rig.now)
            elif not session.wants_to_send:
                return
            if self.rng.random() < 0.1:
                self._pass(0.05)

    def _join(self, cut_at: int | None) -> None:
        """One connection attempt after the other until READY, or until it is cut after so many steps."""
        rig, server = self.rig, self.server
        for _ in range(50):
            self._expected = self._predict()
            rig.session.connecting(rig.now)
            rig.session.connection_made(None, rig.now)
            steps = 0
            while rig.state is not BridgeState.READY and rig.session.death is None and not server.closing:
                if cut_at is not None and steps >= cut_at:
                    return
                steps += 1
                for _ in range(self.rng.choice(self.setting.bursts) if steps < 40 else 0):
                    server.emit()
                before = len(server.sent)
                self._deliver(1)
                if not before and not server.sent and not rig.session.wants_to_send:
                    self._unblock()
            if rig.state is BridgeState.READY:
                self._judge()
                return
            rig.lose(rig.session.death or closed(4404))
            server.cut()
            self._pass(1.0)
        self.wrong.append("50 attempts did not end in READY")

    def _unblock(self) -> None:
        if self.server._late:
            self.server.release()
        elif not self.server.closing:
            self._pass(10.0)
            self.rig.session.handle_timer(self.rig.now)

    def _live(self) -> None:
        if self.rig.state is not BridgeState.READY:
            return
        for _ in range(self.rng.randrange(12)):
            self.server.emit()
            self._pass(self.rng.choice([0.0, 0.0, 0.01, 0.3]))
            if self.rng.random() < 0.8:
                self._deliver(self.rng.randrange(1, 4))
            self._consume(self.rng.randrange(3))

    def _loss(self) -> None:
        rig = self.rig
        if rig.session.link is not None:
            rig.lose(CUT)
        self.server.cut()
        self._seen_events()
        if self.rng.random() < 0.15:
            self._restart()

    def _restart(self) -> None:
        """The process ends; what the consumer had not done with will come again."""
        self.in_hand = None
        self.merged = [min(end, len(self.stream)) for end in self.merged]
        self.rig = self._process()

    def _outage(self) -> None:
        rng, server = self.rng, self.server
        for _ in range(rng.choice([0, 2, 6, 15])):
            server.emit()
            self._pass(rng.choice([0.0, 0.0, 0.02, 0.7, 20.0]))
        if rng.random() < 0.2:
            server.step = -rng.random() * (self.setting.overlap - self.setting.resolution / 1000) * 0.99
        if rng.random() < 0.05:
            server.expire()
            self.expired = True
        self._pass(1.0)

    def _consume(self, count: int) -> None:
        inbound = self.rig.session.inbound
        for _ in range(count):
            message = inbound.take()
            if self.in_hand is not None:
                self.done.append(self.in_hand)
                self.in_hand = None
            if message is not None:
                self.stream.append(message)
                self.in_hand = number(message)
                continue
            gap = inbound.inbox.peek_gap()
            if gap is None:
                return
            inbound.inbox.pass_gap()
            self.stream.append(gap)

    # ---- what should have happened ----------------------------------------------------------------------------

    def _seen_events(self) -> list[Resumed]:
        self.rig.after()
        new = [event for event in self.rig.events if isinstance(event, Resumed)][self.seen :]
        self.seen += len(new)
        self.verdicts += new
        return new

    def _accepted(self) -> list[int]:
        """What this process counts as delivered, of the session that the server knows: handed out, or in the inbox."""
        inbox = self.rig.session.inbound.inbox._items
        held = [number(item[0]) for item in inbox if not isinstance(item, Gap)]
        in_hand = [] if self.in_hand is None else [self.in_hand]
        return [n for n in (*self.done, *in_hand, *held) if n >= self.born]

    def _predict(self) -> int | None:
        """The anchor that this join will look for."""
        return max((n for n in self._accepted() if self.server.log[n]), default=None)

    def _judge(self) -> None:
        """The verdict of the join that has just ended against what the server held."""
        setting, server = self.setting, self.server
        self.merged.append(len(self.stream) + len(self.rig.session.inbound.inbox))
        for event in self._seen_events():
            told = f"{event.verdict.value}({event.reason})"
            if event.reason == "new_session":
                if not self.expired:
                    self.wrong.append(f"{told} of a session that lives")
                self.expired = False
                self.born = len(server.log)
                continue
            anchor = self._expected
            held = server.session is not None and any(n == anchor for n, _, _ in server.buffers[server.session])
            reachable = held and (setting.kind in SPEAKING or bool(setting.pushes))
            overflow = event.reason == "side_buffer_full" and setting.side < 100
            if event.verdict is not Verdict.RECOVERED and reachable and not overflow:
                self.wrong.append(f"{told} although the server held everything from m{anchor} on")
            causes = {
                "no_replay": setting.kind == "deaf",
                "timeout": setting.kind == "silent",
                "no_anchor": anchor is None,
                "empty": setting.kind == "empty",
                "side_buffer_full": setting.side < 100,
            }
            if event.verdict is Verdict.UNKNOWN and not causes[event.reason]:
                self.wrong.append(f"{told} is not a cause here (anchor m{anchor})")
            if event.reason == "mismatch":
                self.wrong.append(f"{told} of an honest server")

    def check(self) -> None:
        """Nothing twice, nothing out of order, nothing lost without a word.

        A loss has to lie in a gap's place; on a server that snapshots late, anywhere in the merge that the gap began.
        """
        seen: dict[int, int] = {}
        last, covered = -1, 0
        gap_since = False
        for place, item in enumerate(self.stream):
            if isinstance(item, Gap):
                gap_since = True
                if self.setting.delayed:
                    covered = min((end for end in self.merged if end > place), default=0)
                continue
            n = number(item)
            if n in seen:
                if not (item.maybe_duplicate or item.redelivered):
                    self.wrong.append(f"m{n} twice without a flag, at {seen[n]} and {place}")
                continue
            seen[n] = place
            if n < last and not item.maybe_duplicate:
                self.wrong.append(f"m{n} after m{last}")
            if n > last + 1 and not gap_since and place > covered:
                self.wrong.append(f"m{last + 1} to m{n - 1} lost in silence")
            last, gap_since = max(last, n), False
        if last != len(self.server.log) - 1 and not gap_since:
            self.wrong.append(f"ends at m{last}, the log at m{len(self.server.log) - 1}")
