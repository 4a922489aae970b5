"""The outbox against a model of fifty lines that shares nothing with it: any order of verbs, the same queue."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from resilient_bridge.bridge import Outbox as Policy
from resilient_bridge.errors import OutboxFullError
from resilient_bridge.protocol import Entry, Now
from tests.internals.protocol import Outbox
from tests.protocol.driving import CUT


MAX, BYTES, WINDOW = 5, 60, 270.0


class OutboxAgainstModel(RuleBasedStateMachine):
    """`model` is a list of [entry, state, born, expires, name] in order of acceptance; what left it is in `ended`."""

    def __init__(self):
        super().__init__()
        self.settled: list[Entry] = []
        self.ended: dict[int, str] = {}
        self.model: list[list] = []
        self.mono, self.seq, self.generation, self.linked = 100.0, 0, 1, False
        self.sent: list[int] = []
        self.overflow = "raise"
        self.box = Outbox(Policy(max_messages=MAX, max_bytes=BYTES), self.settled)

    @property
    def now(self):
        return Now(self.mono, self.mono)

    @rule(overflow=st.sampled_from(["raise", "drop_oldest", "drop_newest"]))
    @precondition(lambda self: self.seq == 0)
    def choose(self, overflow):
        self.overflow = overflow
        self.box = Outbox(
            Policy(max_messages=MAX, max_bytes=BYTES, overflow=overflow), self.settled
        )

    # ---- the model --------------------------------------------------------------------------------------------

    def _end(self, row, state):
        self.model.remove(row)
        self.ended[row[0].seq] = state

    def _fits(self, size, but=()):
        others = [row for row in self.model if row not in but]
        return len(others) < MAX and sum(row[0].size for row in others) + size <= BYTES

    def _admit(self, entry):
        older = [
            row
            for row in self.model
            if row[1] == "queued" and entry.coalesce and row[4] == entry.coalesce
        ]
        if older and self._fits(entry.size, older):
            self._end(older[0], "dropped")
        if self._fits(entry.size):
            return "added"
        if self.overflow == "drop_oldest":
            for row in [
                *older,
                *(row for row in self.model if row[1] == "queued" and row not in older),
            ]:
                self._end(row, "dropped")
                if self._fits(entry.size):
                    return "added"
        return "refused" if self.overflow == "raise" else "dropped"

    # ---- the verbs --------------------------------------------------------------------------------------------

    @rule(
        size=st.integers(1, 30),
        ttl=st.sampled_from([None, None, 5.0, 400.0]),
        name=st.sampled_from([None, None, "a", "b"]),
    )
    def send(self, size, ttl, name):
        self.seq += 1
        expires = None if ttl is None else Now(self.mono + ttl, self.mono + ttl)
        entry = Entry(
            self.seq,
            f"i{self.seq}",
            f"i{self.seq}",
            "note",
            "x" * size,
            expires=expires,
            coalesce=name,
        )
        wanted = self._admit(entry)
        try:
            got = "added" if self.box.make_room(entry) else "dropped"
        except OutboxFullError:
            got = "refused"
        assert got == wanted
        if got == "added":
            self.box.add(entry)
            self.model.append(
                [entry, "queued", None, None if ttl is None else self.mono + ttl, name]
            )
        elif got == "dropped":
            self.ended[entry.seq] = "dropped"

    @rule(count=st.integers(1, 4))
    @precondition(lambda self: self.linked)
    def write(self, count):
        for _ in range(count):
            row = next((row for row in self.model if row[1] in {"queued", "again"}), None)
            assert self.box.may_hand_out is (row is not None)
            if row is None:
                return
            assert self.box.hand_out(self.now, self.generation) is row[0]
            self.sent.append(row[0].seq)
            row[1], row[2] = "written", row[2] or self.mono

    @rule(data=st.data())
    @precondition(lambda self: self.model)
    def withdraw(self, data):
        row = data.draw(st.sampled_from(self.model))
        assert self.box.withdraw(row[0]) is (row[1] == "queued")
        if row[1] == "queued":
            self._end(row, "withdrawn")

    @rule(data=st.data())
    @precondition(lambda self: any(row[1] != "queued" for row in self.model))
    def ack(self, data):
        row = data.draw(st.sampled_from([row for row in self.model if row[1] != "queued"]))
        self.box.confirm(row[0], "applied")
        self._end(row, "confirmed")

    @rule(data=st.data())
    @precondition(lambda self: self.linked and any(row[1] == "written" for row in self.model))
    def barrier(self, data):
        last = data.draw(st.sampled_from([row for row in self.model if row[1] == "written"]))[0].seq
        self.box.confirm_through(last, self.generation)
        for row in [row for row in self.model if row[1] == "written" and row[0].seq <= last]:
            self._end(row, "confirmed")

    @rule(seconds=st.sampled_from([1.0, 6.0, 100.0, 300.0]))
    def wait(self, seconds):
        self.mono += seconds
        for entry in self.box.deadlines.passed(self.now.mono):
            self.box.end_expired(entry)
        for row in list(self.model):
            if row[3] is not None and row[3] <= self.mono and row[1] != "written":
                self._end(row, "expired" if row[1] == "queued" else "unknown")

    @rule()
    @precondition(lambda self: self.linked)
    def lose(self):
        assert self.box.link_lost(CUT, self.generation) is None
        self.linked = False

    @rule(same_epoch=st.booleans())
    @precondition(lambda self: not self.linked)
    def join(self, same_epoch):
        self.linked, self.generation = True, self.generation + 1
        self.box.requeue(self.now, same_epoch=same_epoch)
        for row in [row for row in self.model if row[1] != "queued"]:
            stale = row[3] is not None and row[3] <= self.mono
            if same_epoch and not stale and self.mono - row[2] < WINDOW:
                row[1] = "again"
            else:
                self._end(row, "unknown")

    @rule()
    def close(self):
        remaining = self.box.end_all()
        assert remaining == [row[0] for row in self.model]
        for row in list(self.model):
            self._end(row, "dropped" if row[1] == "queued" else "unknown")
        self.linked = False

    # ---- what always holds ------------------------------------------------------------------------------------

    @invariant()
    def same_content(self):
        held = sorted((*self.box.queued, *self.box.unconfirmed), key=lambda entry: entry.seq)
        assert held == [row[0] for row in self.model]
        assert [entry.seq for entry in self.box.queued] == sorted(
            entry.seq for entry in self.box.queued
        )
        assert (self.box.count, self.box.bytes) == (len(held), sum(entry.size for entry in held))
        assert self.box.count <= MAX
        assert self.box.bytes <= BYTES

    @invariant()
    def same_outcomes(self):
        assert {entry.seq: entry.state.value for entry in self.settled} == self.ended
        assert len(self.settled) == len(self.ended)
        assert all(entry.is_settled for entry in self.settled)

    @invariant()
    def same_next_expiry(self):
        due = [row[3] for row in self.model if row[3] is not None and row[1] != "written"]
        expiry = self.box.deadlines.next()
        assert not due or (expiry is not None and expiry <= min(due))


TestOutbox = OutboxAgainstModel.TestCase
TestOutbox.__doc__ = "Every order of verbs leaves the outbox as the model says: content, order, bounds, one outcome each."
TestOutbox.settings = settings(
    max_examples=100, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
