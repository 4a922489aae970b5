"""Any sequence of crashes and damage, in one process: it ends completed with the right artifacts, or halted with a report; never silently.

A crash is an exception that nothing here catches, at the n-th step of a life: before or after a file is replaced or a line is appended,
inside of a phase. Nothing that the runner does on its way out reaches the disk then, as after SIGKILL.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st

from resilient_bridge.agent import Workflow, WorkflowStatus
from tests.agent.workflow.judge import Judge
from tests.internals.files import file_changes
from tests.internals.stores import journaled, state_file
from tests.samples import IS_ALL
from tests.stores.faulty_disk import FaultyDisk, insert


NAMES = ("a", "b", "c", "d")
FILES = (
    "state.json",
    "state.json.bak",
    "state.json.journal",
    "state.json.journal.bak",
    *(f"{name}.txt" for name in NAMES),
)


class CrashError(BaseException):
    """The process is gone."""


class World:
    """A directory, what has happened in it, and the step at which the next life ends."""

    def __init__(self, root):
        self.root = root
        self.effects = dict.fromkeys(NAMES, 0)
        self.finished = set()
        self.steps = 0
        self.crash_at = 0
        self.judge = Judge(root, root / "state.json", once=frozenset("c"))

    def step(self):
        self.steps += 1
        if self.steps == self.crash_at:
            raise CrashError

    @property
    def is_dead(self):
        return 0 < self.crash_at <= self.steps

    def flow(self):
        """Phase b changes what a makes, c must not run twice, d may be left out."""
        flow = Workflow(self.root / "state.json", root=self.root, name="flow")
        options = {
            "a": {"artifacts": ["a.txt"]},
            "b": {"artifacts": ["a.txt", "b.txt"]},
            "c": {"artifacts": ["c.txt"], "idempotent": False},
            "d": {"artifacts": ["d.txt"], "required": False},
        }
        for name in NAMES:
            flow.phase(name=name, **options[name])(self.phase(name))
        return flow

    def phase(self, name):
        async def run():
            self.step()
            self.effects[name] += 1
            if name == "b":
                text = (self.root / "a.txt").read_text()
                (self.root / "a.txt").write_text(text if text.endswith("+b") else text + "+b")
                self.step()
            (self.root / f"{name}.txt").write_text(name)
            self.step()

        return run

    def live(self, crash_at, *, resume=False):
        """One life; its report, which says what was lost and done again by then, or None if it crashed."""
        self.steps, self.crash_at = 0, crash_at
        self.judge.look(resumes=resume)
        flow = self.flow()
        try:
            report = asyncio.run(flow.resume() if resume else flow.run())
        except CrashError:
            return None
        finally:
            flow._file.release()
        assert not self.judge.missing(report.to_dict()), report.explain()
        return report


@pytest.fixture
def world(monkeypatch):
    """Makes worlds whose saves are steps."""
    insert(monkeypatch, FaultyDisk(fsync=lambda handle: None))
    made, current = [], []

    def stepped(function):
        def step(*positional, **named):
            if current[-1].is_dead:  # whatever is done on the way out
                raise CrashError
            current[-1].step()
            function(*positional, **named)
            current[-1].step()

        return step

    # a replacement of one file, because a crash may come between two of them
    replace = stepped(file_changes.replace_in_order)

    def in_steps(*changes, **_):
        for change in changes:
            replace(change)

    for module in (journaled, state_file):
        monkeypatch.setattr(module, "replace_in_order", in_steps)
    monkeypatch.setattr(journaled, "append", stepped(file_changes.append))

    def make():
        root = Path(tempfile.mkdtemp(prefix="flow-"))
        made.append(root)
        current.append(World(root))
        return current[-1]

    yield make
    for root in made:
        shutil.rmtree(root)


def harm(root, name, how):
    """Remove it, cut it, or flip a bit of it, if it is there."""
    path = root / name
    if not path.exists():
        return
    data = bytearray(path.read_bytes())
    if how == "remove":
        path.unlink()
    elif how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif data:
        data[len(data) // 3] ^= 4
        path.write_bytes(data)


HARMS = st.lists(
    st.tuples(st.sampled_from(FILES), st.sampled_from(["remove", "cut", "flip"])), max_size=2
)
LIVES = st.lists(st.tuples(st.integers(1, 60), HARMS), max_size=6)


@pytest.mark.crash
@pytest.mark.requirement("C5")
@pytest.mark.requirement("C6")
@pytest.mark.timeout(300)
@settings(
    max_examples=150 if IS_ALL else 60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(lives=LIVES)
@example(
    lives=[(20, []), (31, [("state.json", "remove")]), (1, [])]
)  # dies after a backup was used, before the first save
@example(
    lives=[
        (6, [("state.json.journal", "remove"), ("state.json.journal.bak", "flip")]),
        (1, [("state.json.journal.bak", "flip")]),
    ]
)  # the journal is damaged, and whole again
def test_any_sequence_of_crashes_and_damage(world, lives):
    """The state is readable after each life; at most one of completed and halted; what must not run twice does so only by a person's word.

    Never silently: whatever copy of the state was used instead of another, whatever does not hold, and wherever the process died, a report says
    it; tests/agent/workflow/judge.py has what needs no word.
    """
    one = world()
    words = 0  # how often a person let something run again
    for crash_at, harms in lives:
        report = one.live(crash_at)
        note(f"{crash_at}: {report}; {one.effects}")
        for name, how in harms:
            harm(one.root, name, how)
        if not any((one.root / name).exists() for name in FILES[:2]):
            words += (
                1  # without the file and its backup it begins anew: that is how a person says so
            )
    is_halted = False
    for _ in range(12):
        report = one.live(0, resume=is_halted)
        note(f"then {report}; {one.effects}")
        assert (report.status is WorkflowStatus.HALTED) is (report.failure is not None)
        if report.status is WorkflowStatus.COMPLETED:
            break
        assert report.status is WorkflowStatus.HALTED
        assert report.failure.suggestions
        assert "what failed" in report.explain()
        words, is_halted = words + 1, True
    else:
        pytest.fail("it never ended")
    assert one.effects["c"] <= 1 + words
    right = {"a": "a+b", "b": "b", "c": "c", "d": "d"}
    for skipped in report.skipped:  # optional, and the process died in it three times
        assert skipped.phase == "d"
        del right["d"]
    assert {name: (one.root / f"{name}.txt").read_text() for name in right} == right
    before = dict(one.effects)
    assert one.live(0).is_completed
    assert one.effects == before
