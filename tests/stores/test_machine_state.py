"""The file of a MachineState: places, processes that end, interleavings of several owners, and files that cannot be used."""

from __future__ import annotations

import errno
import os
import pickle
import random
import stat
import sys
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import resilient_bridge as rb
from resilient_bridge.stores import MachineState
from tests.internals.calls import LimitShare, SharedLimits, Ticket
from tests.internals.files import Process, is_running, this_process
from tests.internals.stores import limit_file


NUMBERS = (1.0, 2.5, inf)
CLOCK = object()  # of all processes of a test


def share(running=1, *, first=inf, at=0.0):
    return LimitShare(running, 0, first, at)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "limits"


class Machine:
    """A machine whose processes end when a test says so."""

    def __init__(self, path, monkeypatch):
        self.path, self.ended = path, set()
        monkeypatch.setattr(limit_file, "is_running", lambda process: process not in self.ended)

    def process(self, number):
        state = MachineState(self.path)
        # as of another process: `is_running` is asked about it
        state._file._pid, state._file.process = os.getpid(), Process(number, 1, 0)
        return state


@pytest.fixture
def machine(path, monkeypatch):
    return Machine(path, monkeypatch)


# ---- one limit -------------------------------------------------------------------------------------


def test_the_others_are_seen_with_what_they_wrote_last(machine):
    first, second = (machine.process(number).limit("quota") for number in (1, 2))
    assert first.hold(0.0) == ((), ())
    first.write(NUMBERS, share(2, first=5.0), 600.0)
    view = second.hold(0.1)
    assert view == (NUMBERS, (share(2, first=5.0),))
    second.write((9.0,), share(1, at=0.1), 600.0)
    assert first.hold(0.2) == ((9.0,), (share(1, at=0.1),))  # its own are not among the others
    first.write((9.0,), share(0), 600.0)
    assert second.hold(0.3) == ((9.0,), ())  # who has nothing has no row
    second.release()


def test_limits_of_other_names_are_others(machine):
    state = machine.process(1)
    for number in range(700):  # more than there are slots
        line = state.limit(f"quota {number}")
        line.hold(0.0)
        line.write((float(number),), share(), 600.0 + number)
    last = machine.process(2).limit("quota 699")
    assert last.hold(1.0).numbers == (699.0,)
    last.release()


def test_a_limit_is_forgotten_after_its_time(machine):
    line = machine.process(1).limit("quota")
    line.hold(0.0)
    line.write(NUMBERS, share(), 600.0)
    other = machine.process(2)
    assert other.is_limited(599.0)
    assert not other.is_limited(600.0)
    line = other.limit("quota")
    assert line.hold(600.0) == ((), ())
    line.release()


def test_a_process_that_ended_gives_its_places_back(machine):
    dead, other = machine.process(1), machine.process(2).limit("quota")
    line = dead.limit("quota")
    line.hold(0.0)
    line.write(NUMBERS, share(3), 600.0)
    assert len(other.hold(0.5).others) == 1
    other.write(NUMBERS, share(0), 600.0)
    machine.ended.add(dead._file.process)
    assert other.hold(2.0).others == ()
    other.release()


def test_a_row_that_is_not_written_again_expires(machine):
    """A process of another container cannot be looked at."""
    line, other = machine.process(1).limit("quota"), machine.process(2).limit("quota")
    line.hold(0.0)
    line.write(NUMBERS, share(3), 5_000.0)
    assert len(other.hold(899.0).others) == 1
    other.release()
    assert other.hold(901.0).others == ()
    other.release()


def test_closing_gives_back_what_this_process_holds(machine):
    state, other = machine.process(1), machine.process(2).limit("quota")
    line = state.limit("quota")
    line.hold(0.0)
    line.write(NUMBERS, share(3), 600.0)
    state.close()
    assert other.hold(0.1) == (NUMBERS, ())
    other.release()
    assert line.hold(0.2) is None
    assert not line.is_up


def test_the_file_is_private_and_the_value_is_its_path(path):
    state = MachineState(path)
    line = state.limit("quota")
    line.hold(0.0)
    line.write(NUMBERS, share(), 600.0)
    if os.name != "nt":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert state == MachineState(str(path)) == pickle.loads(pickle.dumps(state))
    assert repr(state) == f"MachineState({str(path)!r})"
    with pytest.raises(rb.ConfigError, match=r"MachineState\.path"):
        MachineState("")


def test_the_name_of_a_limit_is_not_in_the_file(path):
    line = MachineState(path).limit("api.example.com sk-secret")
    line.hold(0.0)
    line.write(NUMBERS, share(), 600.0)
    assert b"example" not in path.read_bytes()
    assert b"secret" not in path.read_bytes()


# ---- files that cannot be used ---------------------------------------------------------------------


def away(path, now=0.0):
    """Hold a limit of a file that cannot be used; return the code of the failure that is reported."""
    state, seen = MachineState(path), []
    line = state.limit("quota")
    with rb.listen(seen.append):
        assert line.hold(now) is None
        assert line.hold(now + 0.5) is None  # and it is not tried again at once
        assert not line.is_up
        state.report()
    (event,) = seen
    assert (event.state, event.degraded, event.store) == ("failed", True, str(path))
    return event.failure.code


@pytest.mark.parametrize(
    "content", [b"SQLite format 3\0", b"x", b"resilient_bridge limits 1\n" + b"\0" * 100]
)
def test_a_file_of_another_program_or_version_is_never_written_to(path, content):
    path.write_bytes(content)
    assert away(path) == "SYS_STATE_FOREIGN"
    assert path.read_bytes() == content


def test_a_link_is_not_followed(path, tmp_path):
    (tmp_path / "other").write_bytes(b"")
    path.symlink_to(tmp_path / "other")
    assert away(path) == "SYS_CONFIG_INVALID"
    assert (tmp_path / "other").read_bytes() == b""


@pytest.mark.parametrize("step", ["open", "write", "lock"])
def test_an_error_of_the_system_is_typed(path, monkeypatch, step):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if step == "open":
        monkeypatch.setattr("resilient_bridge.files.private_files.disk.open", fail)
    else:
        monkeypatch.setattr(limit_file, f"{step}_{'at' if step == 'write' else 'now'}", fail)
    assert away(path) == "SYS_STORE_UNAVAILABLE"


def test_a_disk_that_fills_while_a_limit_is_held_is_away(path, monkeypatch):
    line = MachineState(path).limit("quota")
    line.hold(0.0)

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(limit_file, "write_at", fail)
        line.write(NUMBERS, share(), 600.0)
    assert not line.is_up
    assert line.hold(0.9) is None
    assert line.hold(1.1) == ((), ())
    assert line.is_up
    line.release()


@pytest.mark.parametrize("at", [5, 40, 4_096 + 40, 4_096 + 2])
def test_a_damaged_file_is_started_over(path, at, monkeypatch):
    monkeypatch.setattr(limit_file, "_SLOTS", 1)
    monkeypatch.setattr(limit_file, "_PROBED", 1)
    first = MachineState(path).limit("quota")
    first.hold(0.0)
    first.write(NUMBERS, share(), 600.0)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert away(path, 10.0) == ("SYS_STATE_FOREIGN" if at == 5 else "SYS_STATE_DAMAGED")
    if at != 5:
        second = MachineState(path).limit("quota")
        assert second.hold(20.0) is None
        assert second.hold(21.1) == ((), ())
        second.release()


def test_records_of_an_earlier_boot_are_ignored(path, monkeypatch):
    line = MachineState(path).limit("quota")
    line.hold(9_000.0)
    line.write(NUMBERS, share(), 9_600.0)
    monkeypatch.setattr(limit_file, "_boot", lambda: b"another start...")
    later = MachineState(path).limit("quota")
    assert later.hold(5.0) == ((), ())
    later.release()


def test_a_file_that_was_removed_is_made_again(path):
    first, second = MachineState(path).limit("quota"), MachineState(path).limit("quota")
    first.hold(0.0)
    first.write(NUMBERS, share(), 600.0)
    path.unlink()
    assert first.hold(1.5) == ((), ())
    first.write((7.0,), share(), 600.0)
    assert second.hold(1.6).numbers == (7.0,)
    second.release()


def test_who_holds_the_lock_and_does_not_go_on_is_not_waited_for(path):
    stuck, other = MachineState(path).limit("quota"), MachineState(path).limit("quota")
    stuck.hold(0.0)
    assert other.hold(0.0) is None
    assert other.is_up  # it decides from what it knows, and starts nothing
    assert other.hold(1.1) is None
    assert not other.is_up
    stuck.write(NUMBERS, share(), 600.0)
    assert other.hold(2.2).numbers == NUMBERS
    other.release()


# ---- processes -------------------------------------------------------------------------------------


def test_this_process_runs_and_another_start_of_its_id_does_not():
    me = this_process()
    assert is_running(me)
    if me.started:
        assert not is_running(me._replace(started=me.started - 1))
    assert is_running(me._replace(pid=2**22 + 7, space=me.space + 1))  # nobody can know


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_lock_and_places_of_its_own(path):
    line = MachineState(path).limit("quota")
    line.hold(0.0)
    line.write(NUMBERS, share(1), 600.0)
    pid = os.fork()
    if not pid:  # pragma: no cover -- in the child
        try:
            view = line.hold(0.1)
            line.write(view.numbers, share(2, at=0.1), 600.0)
            os._exit(0 if view.others == (share(1),) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert line.hold(5.0).others == ()  # it has ended
    line.release()


# ---- several owners --------------------------------------------------------------------------------


class Owner:
    """The limits of one process, as its calls use them."""

    def __init__(self, machine, number):
        self.state = machine.process(number)
        self.state_process = self.state._file.process
        self.limits = SharedLimits("quota", rb.AdaptiveLimit(), self.state)
        self.limits.clock = CLOCK
        self.running, self.waiting = [], []


@pytest.fixture
def owners(machine, monkeypatch):
    monkeypatch.setattr(MachineState, "is_common", lambda _, clock: clock is CLOCK)
    return [Owner(machine, number) for number in (1, 2, 3)]


def test_what_one_process_learnt_all_know(owners):
    first, second = owners[0].limits, owners[1].limits
    limit = first.first_refused((), 8, 0.0)
    first.refused(limit, Ticket(0.0), 0.1, None, 30.0, random.Random(0))
    other = second.find((), 1.0)
    assert (other.at_once, other.refused) == (limit.at_once, 1) == (4.0, 1)
    assert other.remaining_wait(1.0) >= 29.0
    assert second.find(("another",), 1.0) is None


@pytest.mark.parametrize("looks_at", [4.5, None])
def test_only_who_has_looked_within_a_second_is_waited_for(owners, looks_at):
    limits = [owner.limits for owner in owners]
    tickets = [Ticket(0.0), Ticket(0.1), Ticket(5.0)]
    for each in limits:
        each.configure(rb.AdaptiveLimit(start=1, most=1))
    first, second, third = (each.find((), 0.0) for each in limits)
    assert limits[0].enter(first, tickets[0], 0.0)
    assert not limits[1].enter(second, tickets[1], 0.1)
    limits[1].join(second, tickets[1], 0.1)
    if looks_at is not None:
        limits[1].advance(second, looks_at)
    limits[0].succeeded(first, tickets[0], 5.0)
    assert limits[2].enter(third, tickets[2], 5.0) is (looks_at is None)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "succeed", "refuse", "leave", "look", "wait", "die"]),
        st.integers(0, 2),
        st.integers(0, 5),
    ),
    max_size=60,
)
FAILURE = None


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_whatever_the_order_no_more_run_than_may_and_all_come_through(steps, tmp_path_factory):
    path = tmp_path_factory.mktemp("machine") / "limits"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MachineState, "is_common", lambda _, clock: clock is CLOCK)
        Interleaving(Machine(path, patched)).play(steps)


class Interleaving:
    """Three processes, what runs in each, and the time."""

    def __init__(self, machine):
        self.machine, self.now, self.rng = machine, 0.0, random.Random(0)
        self.owners = [Owner(machine, number) for number in (1, 2, 3)]
        first = self.owners[0].limits.first_refused((), 8, 0.0)
        first.refuse(Ticket(0.0), 0.0, 0.1, self.rng)
        with self.owners[0].limits._held(first, 0.0):
            first.earlier = first.other_earlier
        self.now = 1.0

    def limit(self, owner):
        return owner.limits.find((), self.now)

    def play(self, steps):
        for what, who, seconds in steps:
            if who >= len(self.owners):
                continue
            getattr(self, what)(self.owners[who], seconds)
            self.check()
        self.drain()

    def enter(self, owner, _):
        limit, ticket = self.limit(owner), Ticket(self.now)
        if limit is None:
            return
        if not owner.limits.enter(limit, ticket, self.now):
            owner.limits.join(limit, ticket, self.now)
        owner.waiting.append((limit, ticket))
        self.settle()

    def succeed(self, owner, _):
        if owner.running:
            limit, ticket = owner.running.pop(0)
            owner.limits.succeeded(limit, ticket, self.now)
            self.settle()

    def refuse(self, owner, _):
        if owner.running:
            limit, ticket = owner.running.pop(0)
            owner.limits.refused(limit, ticket, self.now, FAILURE, 0.1, self.rng)
            owner.limits.join(limit, ticket, self.now)
            owner.waiting.append((limit, ticket))
            self.settle()

    def leave(self, owner, _):
        if owner.waiting:
            limit, ticket = owner.waiting.pop()
            owner.limits.leave(limit, ticket, self.now)
            self.settle()

    def look(self, owner, _):
        if (limit := self.limit(owner)) is not None:
            owner.limits.advance(limit, self.now)
            self.settle()

    def wait(self, _, seconds):
        self.now += seconds / 2

    def die(self, owner, _):
        if len(self.owners) > 1:
            self.owners.remove(owner)
            self.machine.ended.add(owner.state_process)
            self.now += 1.1  # when it is looked at again

    def settle(self):
        for owner in self.owners:
            for pair in [pair for pair in owner.waiting if pair[1].ended]:
                owner.waiting.remove(pair)
                if pair[1].ended == "admitted":
                    owner.running.append(pair)

    def check(self):
        running = sum(len(owner.running) for owner in self.owners)
        for owner in self.owners:
            for limit in owner.limits.in_use(self.now):
                assert limit.running == running, "each process counts the calls of all"
                for _, ticket in owner.running:
                    assert ticket.has_permit

    def drain(self):
        """Everybody gets through, while nothing is refused any more."""
        for _ in range(600):
            self.now += 0.05
            for owner in self.owners:
                self.succeed(owner, 0)
                self.look(owner, 0)
            if not any(owner.waiting or owner.running for owner in self.owners):
                break
        assert not any(owner.waiting or owner.running for owner in self.owners)
        self.check()
