"""A server, a network and a consumer around one session, all drawn from a seed, and the list of what went wrong.

Rule: the world keeps the truth and only the truth; what the client should have known, it works out from what the client was
handed.
"""

from __future__ import annotations

import json
import random

import attrs

from resilient_bridge.bridge import BridgeState, Replay, Verdict
from resilient_bridge.protocol import Gap, Message
from resilient_bridge.stores import MemoryStore
from tests.internals.telemetry import Resumed
from tests.protocol.driving import CUT, Rig, closed
from tests.protocol.resume_server import SPEAKING, Server, Setting
from tests.protocol.resume_server import number as number_of


def number(message: Message) -> int:
    """Which message of the log this is."""
    return number_of(message.payload)


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
            while (
                rig.state is not BridgeState.READY
                and rig.session.death is None
                and not server.closing
            ):
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
            server.step = (
                -rng.random() * (self.setting.overlap - self.setting.resolution / 1000) * 0.99
            )
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
        """The anchor that this join will look for; `holed`: behind it the client's own tail has a gap."""
        anchor = max((n for n in self._accepted() if self.server.log[n]), default=None)
        held = [
            item if isinstance(item, Gap) else item[0]
            for item in self.rig.session.inbound.inbox._items
        ]
        read = [*self.stream, *held]
        gaps = [index for index, item in enumerate(read) if isinstance(item, Gap)]
        at = max(
            (
                i
                for i, item in enumerate(read)
                if isinstance(item, Message) and number(item) == anchor
            ),
            default=0,
        )
        buffer = self.server.buffers.get(self.server.session or "", ())
        accepted = set(self._accepted())
        #: What was lost under a gap is still on the server, before the anchor: found again it is delivered, as out of order.
        self.found_again = any(
            self.server.log[n] and n not in accepted
            for n, _, _ in buffer
            if anchor is not None and n < anchor
        )
        self.holed = bool(gaps) and at < (
            self._merge_end(gaps[-1]) if self.setting.delayed else gaps[-1]
        )
        return anchor

    def _merge_end(self, gap: int) -> int:
        """Where the merge that began with this gap ends in the stream."""
        return min((end for end in self.merged if end > gap), default=0)

    def _judge(self) -> None:
        """The verdict of the join that has just ended against what the server held."""
        setting, server = self.setting, self.server
        self.merged.append(len(self.stream) + len(self.rig.session.inbound.inbox))
        for event in self._seen_events():
            text = f"{event.verdict.value}({event.reason})"
            if event.reason == "new_session":
                if not self.expired:
                    self.wrong.append(f"{text} of a session that lives")
                self.expired = False
                self.born = len(server.log)
                continue
            anchor = self._expected
            held = server.session is not None and any(
                n == anchor for n, _, _ in server.buffers[server.session]
            )
            reachable = held and (setting.kind in SPEAKING or bool(setting.pushes))
            overflow = event.reason == "side_buffer_full" and setting.side < 100
            holed = event.reason == "mismatch" and self.holed
            again = event.reason == "order" and self.found_again
            if (
                event.verdict is not Verdict.RECOVERED
                and reachable
                and not (overflow or holed or again)
            ):
                self.wrong.append(f"{text} although the server held everything from m{anchor} on")
            causes = {
                "no_replay": setting.kind
                in {"deaf", "silent"},  # one that never answers is asked once
                "timeout": setting.kind == "silent",
                "no_anchor": anchor is None,
                "empty": setting.kind == "empty",
                "side_buffer_full": setting.side < 100,
                "order": self.found_again,
            }
            if event.verdict is Verdict.UNKNOWN and not causes[event.reason]:
                self.wrong.append(f"{text} is not a cause here (anchor m{anchor})")
            if event.reason == "mismatch" and not holed:
                self.wrong.append(f"{text} of an honest server")

    def check(self) -> None:
        """Nothing twice, nothing out of order, nothing lost without a word.

        A loss has to lie in a gap's place; on a server that snapshots late, anywhere in the merge that the gap began.
        """
        seen: dict[int, int] = {}
        last, latest, covered = -1, -1, -1
        gap_since = False
        for index, item in enumerate(self.stream):
            if isinstance(item, Gap):
                gap_since = True
                if self.setting.delayed:
                    covered = self._merge_end(index)
                latest = -1  # what lay under a gap may come later, new by its key or flagged
                continue
            n = number(item)
            if n in seen:
                if not (item.maybe_duplicate or item.redelivered):
                    self.wrong.append(f"m{n} twice without a flag, at {seen[n]} and {index}")
                continue
            seen[n] = index
            if n < latest and not (self.setting.delayed and item.maybe_duplicate):
                self.wrong.append(f"m{n} after m{latest}")
            if n > last + 1 and not gap_since and index > covered:
                self.wrong.append(f"m{last + 1} to m{n - 1} lost in silence")
            last, latest, gap_since = max(last, n), max(latest, n), False
        if last != len(self.server.log) - 1 and not gap_since:
            self.wrong.append(f"ends at m{last}, the log at m{len(self.server.log) - 1}")
