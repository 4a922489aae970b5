"""A state that a later version of the program wrote: refused by everything, and not touched, because it would lose what is finished."""

from __future__ import annotations

import pytest

from resilient_bridge.errors import StoreError
from tests.agent.workflow.flows import Flow, damage, value_in, write_value
from tests.cli.calling_workflow import FLOW, call, forgotten_imports


FILE, BACKUP = "state.json", "state.json.bak"
VERBS = ("run", "resume", "skip", "abort", "status")


def later(root, *names, version=3):
    """Make these files ones of a later version, which knows more than we do."""
    for name in names:
        value = value_in(root / name)
        write_value(root / name, {**value, "what_we_do_not_know": 1}, version=version)


def snapshot(root):
    """Every file, with its content and the time of its last change."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.iterdir()}


async def _refused(flow, verb):
    """The failure with which it is refused."""
    with pytest.raises(StoreError) as caught:
        done = getattr(flow.flow, verb)()
        if verb != "status":
            await done
    return caught.value.failure


@pytest.mark.requirement("C5")
@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    ("names", "verb"),
    [
        *(((FILE,), verb) for verb in VERBS),
        *(((BACKUP,), verb) for verb in VERBS),
        ((FILE, BACKUP), "run"),
    ],
)
async def test_a_state_of_a_later_version_is_refused_and_not_touched(tmp_path, names, verb, heard):
    """Whichever copy is of it: SYS_STATE_FOREIGN with the file and both versions; nothing runs, and nothing on the disk has changed."""
    await Flow(tmp_path).build().flow.run()
    later(tmp_path, *names)
    before, heard[:] = snapshot(tmp_path), []
    flow = Flow(tmp_path).build()
    failure = await _refused(flow, verb)
    assert failure.code == "SYS_STATE_FOREIGN"
    assert (
        failure.message
        == f"{tmp_path / names[0]}: wanted version 2 of a state document, got version 3"
    )
    assert (flow.ran, snapshot(tmp_path), heard) == ([], before, [])


@pytest.mark.parametrize("verb", ["run", "status"])  # the others take the file as `run` does
@pytest.mark.parametrize("how", ["missing", "damaged", "stray"])
async def test_the_other_copy_is_no_way_around_it(tmp_path, verb, how):
    """The file is gone or broken and the backup is of a later version, or a file came from elsewhere without the lock beside it."""
    await Flow(tmp_path).build().flow.run()
    later(tmp_path, BACKUP, version=7)
    if how == "missing":
        (tmp_path / FILE).unlink()
    elif how == "damaged":
        damage(tmp_path / FILE)
    else:
        (tmp_path / BACKUP).rename(tmp_path / FILE)
        (tmp_path / f"{FILE}.owner").unlink()
    before = snapshot(tmp_path)
    failure = await _refused(Flow(tmp_path).build(), verb)
    assert (failure.code, "got version 7" in failure.message) == ("SYS_STATE_FOREIGN", True)
    assert snapshot(tmp_path) == before


async def test_the_later_version_goes_on_afterwards(tmp_path):
    """Refused, then put back: what was finished is finished, and no phase runs again."""
    await Flow(tmp_path).build().flow.run()
    saved = snapshot(tmp_path)
    later(tmp_path, FILE, BACKUP)
    await _refused(Flow(tmp_path).build(), "run")
    for name in (FILE, BACKUP):
        (tmp_path / name).write_bytes(saved[name][0])
    flow = Flow(tmp_path).build()
    report = await flow.flow.run()
    assert (report.is_completed, flow.ran, report.warnings) == (True, [], ())


@pytest.mark.requirement("C5")
async def test_a_number_in_a_damaged_file_is_no_version(tmp_path):
    """A flipped bit makes a 3 of the 2: the checksum says that it is damage, and the backup is used."""
    await Flow(tmp_path).build().flow.run()
    data = (tmp_path / FILE).read_bytes()
    assert b'"version":2' in data
    (tmp_path / FILE).write_bytes(data.replace(b'"version":2', b'"version":3'))
    flow = Flow(tmp_path).build()
    report = await flow.flow.run()
    assert (report.is_completed, flow.ran) == (True, [])
    assert any("the state was damaged" in text for text in report.warnings)


async def test_it_is_seen_again_when_the_lock_is_had(tmp_path, monkeypatch):
    """A later version wrote while this one waited for its turn."""
    await Flow(tmp_path).build().flow.run()
    flow = Flow(tmp_path).build()
    take = type(flow.flow._file._owner).take

    def slow(owner):
        later(tmp_path, FILE, BACKUP)
        return take(owner)

    monkeypatch.setattr(type(flow.flow._file._owner), "take", slow)
    assert (await _refused(flow, "run")).code == "SYS_STATE_FOREIGN"
    assert not list(tmp_path.glob("*foreign*"))


@pytest.mark.parametrize("verb", ["run", "status"])
def test_the_command_says_so_in_one_line(tmp_path, capsys, verb):
    """2, the file and both versions, and no report that would pass for one."""
    path = tmp_path / "flow.py"
    path.write_text(FLOW)
    with forgotten_imports():
        assert call(capsys, ("run", path))[0] == 1
        later(tmp_path, FILE, BACKUP)
        before = snapshot(tmp_path)
        code, out, err = call(capsys, (verb, path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path / FILE}: wanted version 2 of a state document, got version 3" in err
    assert snapshot(tmp_path) == before
