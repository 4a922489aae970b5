"""D01 and D02 for state files: removed, moved or replaced between two saves, and a lock file that is gone."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import SpendBudget
from resilient_bridge.errors import StoreError
from resilient_bridge.stores import SessionLog, StateFile
from tests.internals.files import Owner, identity_at, leads_to
from tests.stores.states import ONE, THREE, TWO


pytestmark = pytest.mark.requirement("C7")


@pytest.fixture
def path(tmp_path):
    (tmp_path / "flow").mkdir(mode=0o700)
    return tmp_path / "flow" / "state.json"


def removed(path):
    path.unlink()


def moved(path):
    path.rename(path.with_name("moved.json"))


def folder_removed(path):
    shutil.rmtree(path.parent)


def folder_moved(path):
    path.parent.rename(path.parent.with_name("elsewhere"))


@pytest.mark.parametrize(
    "way", [removed, moved, folder_removed, folder_moved], ids=lambda way: way.__name__
)
def test_d01_a_state_file_that_is_gone_is_written_again(file, path, heard, way):
    """The value that is saved next is there, and the event says what had happened."""
    way(path)
    file.save(THREE)
    assert StateFile(path, version=1).load().value == THREE
    (event,) = heard
    assert "removed while it was in use" in str(event.failure)
    file.save(ONE)
    assert len(heard) == 1


def test_d01_what_somebody_else_has_saved_is_set_aside(file, path, heard):
    """Two processes and no lock: nothing of either is lost, and the event names the file that has the other's value."""
    file.save(ONE)
    StateFile(path, version=1).save(TWO)
    file.save(THREE)
    (event,) = heard
    assert "replaced" in str(event.failure)
    assert StateFile(path, version=1).load().value == THREE
    assert json.loads(Path(event.set_aside).read_text())["value"] == TWO


def test_d02_an_owner_that_was_replaced_saves_nothing(file, path, heard):
    """The lock file was removed, another process saved and ended: SESS_SUPERSEDED, and its value stays."""
    owner = Owner(path).take()
    file.save_as(owner, ONE)
    path.with_name("state.json.owner").unlink()
    file.save_as(owner, TWO)  # nobody came: the lock is taken again
    path.with_name("state.json.owner").unlink()
    StateFile(path, version=1).save(THREE)
    with pytest.raises(StoreError) as caught:
        file.save_as(owner, ONE)
    assert caught.value.failure.code == "SESS_SUPERSEDED"
    assert caught.value.failure.executed is rb.errors.Executed.NO
    assert StateFile(path, version=1).load().value == THREE
    assert heard == []
    owner.release()


def test_d02_a_budget_whose_lock_file_is_gone(path):
    """Another process has saved meanwhile: this budget admits no call any more, and overwrites nothing."""
    budget = SpendBudget(10, path=path)
    budget.spend(1)
    path.with_name("state.json.owner").unlink()
    budget.spend(1)  # nobody came
    path.with_name("state.json.owner").unlink()
    theirs = path.read_bytes().rstrip() + b" \n"
    path.write_bytes(theirs)
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            budget.spend(1)
        assert caught.value.failure.code == "SESS_SUPERSEDED"
    with pytest.raises(StoreError), budget.call():
        pytest.fail("it was admitted")
    assert path.read_bytes() == theirs
    assert (
        SpendBudget(10, path=path).status().spent == 2
    )  # the one that was replaced keeps nobody out


@pytest.mark.parametrize("way", [folder_removed, folder_moved], ids=lambda way: way.__name__)
def test_d01_a_budget_whose_folder_is_gone_is_written_anew(path, heard, way):
    """Lock and file went together, and nobody else came: nothing that was spent is lost, the event says what was."""
    budget = SpendBudget(10, path=path)
    budget.spend(2)
    way(path)
    budget.spend(2)
    (event,) = heard
    assert "removed while it was in use" in str(event.failure)
    budget.close()
    assert SpendBudget(10, path=path).status().spent == 4


def test_d01_a_workflow_whose_folder_is_gone_goes_on(path, tmp_path, heard):
    """Its folder is removed between two phases: both run once, and the next process finds both finished."""
    ran: list[str] = []

    def steps():
        flow = rb.agent.Workflow(path, root=tmp_path)

        @flow.phase
        def first():
            ran.append("first")
            shutil.rmtree(path.parent)

        @flow.phase
        def second():
            ran.append("second")

        return flow

    assert asyncio.run(steps().run()).status == "completed"
    assert asyncio.run(steps().run()).status == "completed"
    assert ran == ["first", "second"]
    assert heard


def test_d01_a_session_log_follows_its_path(tmp_path):
    """Its file is removed, then its folder is moved: the next line is in a new file, and no line is lost unsaid."""
    path = tmp_path / "logs" / "session.jsonl"
    with SessionLog(path) as log:
        log.write({"n": 1})
        path.unlink()
        log.write({"n": 2})
        assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == [2]
        path.parent.rename(tmp_path / "elsewhere")
        log.write({"n": 3})
        assert log.lost == 1
        path.parent.mkdir(mode=0o700)
        log.write({"n": 4})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["n"] for line in lines if "n" in line] == [4]


def test_a_path_leads_to_the_file_that_is_open_or_not(tmp_path):
    """Removed, moved, replaced, through a file as folder: no; there, and through a link if that is followed: yes."""
    path = tmp_path / "file"
    with path.open("w") as opened:
        assert leads_to(path, opened.fileno())
        (tmp_path / "link").symlink_to(path)
        assert not leads_to(tmp_path / "link", opened.fileno())
        assert leads_to(tmp_path / "link", opened.fileno(), follows=True)
        path.rename(tmp_path / "moved")
        assert not leads_to(path, opened.fileno())
        path.write_text("another")
        assert not leads_to(path, opened.fileno())
    assert identity_at(path / "below") is None
    assert identity_at(tmp_path / "none") is None
