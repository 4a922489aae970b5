"""The end of a log is gone, or all of it: told, if the process that wrote it was killed and did not end with the machine.

And never told when nothing is gone: not after a kill at any system call, after a clean close, or after a power cut, when the files beside
the database are of different moments. What tells it is the note beside the database, written with each transaction.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from resilient_bridge.errors import StoreError
from tests.internals.files import Owner
from tests.internals.stores import PAGE, open_database
from tests.internals.stores import opening as sqlite_opening
from tests.samples import IS_ALL, some
from tests.stores.database_content import (
    checkpointed,
    done,
    entry,
    look,
    opened,
    write_first,
    write_second,
)
from tests.stores.database_damage import ROOM, Damaged, flipped, wrong_event, wrong_rows
from tests.stores.faulty_disk import CrashError, files_in


ROOT = Path(__file__).parents[2]
STRACE = shutil.which("strace")
ENDS = ("", "-wal", "-end", ".owner")
FRAME = 24 + PAGE
OTHER_BOOT = b"1\n00000000-0000-0000-0000-000000000000\n"

pytestmark = [
    pytest.mark.crash,
    pytest.mark.requirement("C5"),
    pytest.mark.timeout(7200 if IS_ALL else 120),
    pytest.mark.skipif(
        sys.platform != "linux", reason="no other system says which start of the machine it is"
    ),
]


@pytest.fixture
def room():
    """A private directory in memory."""
    made = Path(tempfile.mkdtemp(prefix="log-", dir=ROOM))
    yield made
    shutil.rmtree(made)


def written_by(path):
    """All files of a database, as a kill of its process at this moment leaves them."""
    return {end: Path(f"{path}{end}").read_bytes() for end in ENDS if Path(f"{path}{end}").exists()}


def put(files, room):
    """The same files somewhere else; where the database is."""
    path = Path(tempfile.mkdtemp(dir=room)) / "known.db"
    for end, data in files.items():
        Path(f"{path}{end}").write_bytes(data)
    return path


@pytest.fixture
async def killed(room):
    """Half of the known content in the file, half in the log, and the truth."""
    path = room / "alive.db"
    async with opened(path) as (store, _):
        await write_first(store)
    async with opened(path) as (store, _):
        await write_second(store)
        files = written_by(path)
    assert set(files) == set(ENDS)
    truth, events = await look(put(files, room))
    assert (len(truth.entries), events) == (31, [])
    return files, truth


def cut(files, size):
    """The same, the log cut off."""
    return files | {"-wal": files["-wal"][:size]}


def losses(events):
    return [event.lost for event in events]


# ---- told ------------------------------------------------------------------------------------------------------------


async def test_a_log_that_was_cut_anywhere(killed, room):
    """At every 64th byte, also to nothing: told once, the original is beside the new file, and what is left is true. Of these some 25."""
    files, truth = killed
    sizes = range(0, len(files["-wal"]), 64)
    wrong = []
    for size in some(sizes, 25):
        broken = cut(files, size)
        path = put(broken, room)
        content, events = await look(path)
        again, later = await look(path)
        wrong += (
            [] if "the end of its log" in "".join(losses(events)) else [f"{size}: {losses(events)}"]
        )
        sides = {end: data for end, data in broken.items() if end != ".owner"}
        wrong += [
            f"{size}: {one}"
            for event in events
            for one in wrong_event(event, Damaged("", sides), content)
        ]
        wrong += [f"{size}: {one}" for one in wrong_rows(content)]
        wrong += [] if (again, later) == (content, []) else [f"{size}: another answer"]
        shutil.rmtree(path.parent)
    assert wrong == []
    assert truth.taken == 100


@pytest.mark.parametrize("how", ["empty", "gone"])
async def test_a_store_that_was_never_copied_is_no_empty_start(room, how):
    """Everything was in its log, and that is empty or gone: a new beginning, but not a silent one."""
    async with opened(room / "alive.db") as (store, _):
        await write_first(store)
        files = written_by(room / "alive.db")
    if how == "empty":
        files["-wal"] = b""
    else:
        del files["-wal"]
    content, events = await look(put(files, room))
    assert (content.entries, losses(events)) == ({}, ["everything"])
    assert "the end of its log" in events[0].failure.message


async def test_a_log_with_one_send(room):
    """Its last page is bad: that is no write which its process did not finish."""
    await look(room / "alive.db")
    async with opened(room / "alive.db") as (store, _):
        await done(store.put(entry(1)))
        files = written_by(room / "alive.db")
    assert len(files["-wal"]) == 32 + 2 * FRAME  # the first is that of the owner
    bad = bytearray(files["-wal"])
    bad[-5] ^= 4
    _, events = await look(put(files | {"-wal": bytes(bad)}, room))
    assert len(events) == 1


async def test_every_send_of_it_may_have_moved(killed, room):
    """A mark may be among what is gone: nothing is sent that may have been, and the join has to end in a verdict."""
    files, _ = killed
    content, _ = await look(put(cut(files, 0), room))
    assert {row[4].value for row in content.entries.values()} == {"written"}
    assert content.flags[0] is True


async def test_a_cut_log_after_a_power_cut(killed, room):
    """The machine was started anew, and the log is the one that was noted: its end is gone for certain, and it is told."""
    files, _ = killed
    path = put(cut(files, len(files["-wal"]) - FRAME) | {".owner": OTHER_BOOT}, room)
    _, events = await look(path)
    assert len(events) == 1


# ---- not told --------------------------------------------------------------------------------------------------------


AFTER_A_POWER_CUT = {
    "an empty log": lambda files: files | {"-wal": b""},
    "no log": lambda files: {end: data for end, data in files.items() if end != "-wal"},
    "no lock": lambda files: {
        end: data for end, data in (files | {"-wal": b""}).items() if end != ".owner"
    },
    "a note of zeros": lambda files: cut(files, 4_000) | {"-end": bytes(len(files["-end"]))},
    "no note": lambda files: {
        end: data for end, data in cut(files, 4_000).items() if end != "-end"
    },
    "a note without bytes": lambda files: cut(files, 4_000) | {"-end": b""},
}


@pytest.mark.parametrize("name", AFTER_A_POWER_CUT)
async def test_what_a_power_cut_may_leave(killed, room, name):
    """Files of different moments: nothing follows from the note, and nothing is told; a log may have been emptied after it."""
    files, _ = killed
    path = put(
        {".owner": OTHER_BOOT} | AFTER_A_POWER_CUT[name](files | {".owner": OTHER_BOOT}), room
    )
    if name == "no lock":
        Path(f"{path}.owner").unlink()
    _, events = await look(path)
    assert events == []


async def test_a_machine_that_is_started_while_its_store_is_opened(killed, room):
    """Whoever fails to open it after a restart does not make the old note one of today."""
    files, _ = killed
    path = put(cut(files, 0) | {".owner": OTHER_BOOT}, room)
    for _ in range(2):
        owner = Owner(path).take()
        assert not owner.is_same_boot
        owner.release()
    _, events = await look(path)
    assert events == []


async def test_an_opening_that_fails_forgets_nothing(killed, room):
    """Within one start of the machine the next one knows what this one knew."""
    files, _ = killed
    path = put(cut(files, 0), room)
    for _ in range(2):
        owner = Owner(path).take()
        assert owner.is_same_boot
        owner.release()
    _, events = await look(path)
    assert len(events) == 1


async def test_the_note_of_a_database_that_was_taken_away(killed, room, monkeypatch):
    """A new store in its place has nothing to do with it, also if its process is killed before it uses what it made."""
    path = put({end: data for end, data in killed[0].items() if end in ("-end", ".owner")}, room)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_opening, "sync_directory", crash)
        with pytest.raises(CrashError):
            await look(path)
    assert path.exists()
    content, events = await look(path)
    assert (content.entries, events) == ({}, [])


def crash(*_):
    raise CrashError


async def test_a_clean_close(room):
    """One file and the lock: there is no log, and no word about it, in this process or the next."""
    path = await checkpointed(room)
    assert files_in(room) == ["known.db", "known.db.owner"]
    _, events = await look(path)
    assert events == []


async def test_every_condition_of_a_log(room):
    """Copied, emptied, begun anew, longer: at each moment between two transactions a kill leaves what is told as whole."""
    path = room / "alive.db"
    await look(path)
    async with opened(path) as (store, _):
        database = store._database
        for n in range(1, 41):
            await done(store.put(entry(n)))
            if n % 5 == 0:
                database.hold_log()
                database.copy_log()
            if n % 12 == 0:
                database.begin_log_anew()
            files = written_by(path)
            (room / str(n)).mkdir()
            _, events = await look(put(files, room / str(n)))
            assert (n, events) == (n, [])
            if files["-wal"]:
                for harm in (
                    cut(files, 0),
                    flipped(files, "-wal", len(files["-wal"]) // 2, 3).files,
                ):
                    _, events = await look(put(harm, room / str(n)))
                    assert (n, len(events)) == (n, 1)


CALLS = ["pwrite64", "ftruncate", "fdatasync", "unlink"]


@pytest.mark.real
@pytest.mark.skipif(STRACE is None, reason="strace is missing (apt-get install strace)")
@pytest.mark.parametrize("durability", ["process", "machine"])
@pytest.mark.parametrize("call", CALLS)
async def test_a_kill_at_every_system_call(killed, room, call, durability):
    """By SIGKILL at the k-th: silent, and what was accepted is there. Of these calls some twelve, evenly spread.

    With "process" it begins with what another kill has left, so that it dies while it opens that, too.
    """
    files = killed[0] if durability == "process" else {}

    def life(folder, *inject):
        trace = [STRACE, "-f", "-qq", "-o", room / "calls", "-e", f"trace={call}", *inject]
        program = [*trace, sys.executable, "-m", "tests.stores.log_worker", folder, durability]
        ended = subprocess.run(
            program, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
        )
        parts = [json.loads(line) for line in ended.stdout.splitlines()]
        return ended.returncode, {
            line["n"] for line in parts if line["op"] == "put" and not line["code"]
        }

    status, _ = life(put(files, room))
    assert status == 0
    by_thread = {}
    for line in (room / "calls").read_text().splitlines():
        if f" {call}(" in line:
            by_thread[line.split()[0]] = by_thread.get(line.split()[0], 0) + 1
    last = max(by_thread.values(), default=0)
    assert last
    deaths = 0
    for k in some(range(1, last + 1), 4):
        path = put(files, room)
        status, accepted = life(path, "-e", f"inject={call}:signal=SIGKILL:when={k}")
        deaths += status != 0
        content, events = await look(path)
        assert (k, events) == (k, [])
        accepted |= killed[1].entries.keys() if files else set()
        assert (k, accepted - content.entries.keys() - content.outcomes.keys()) == (k, set())
    assert deaths


async def test_a_transaction_that_begins_the_log_anew(killed, room):
    """All of the old log is in the database: a kill before the note is written leaves another log than the one noted, and that is right."""
    path = put(killed[0], room)
    database, _ = open_database(path, is_machine=False, is_same_boot=True)
    database.run([("DELETE FROM records", ())])
    database.begin_log_anew()
    note = Path(f"{path}-end").read_bytes()
    database.run([("DELETE FROM answers", ())])
    files = written_by(path) | {"-end": note}
    database.close()
    assert files["-wal"][:32] != note[:32] != bytes(32)
    _, events = await look(put(files, room))
    assert events == []


async def test_a_log_that_was_copied_goes_on(killed, room):
    """It begins anew only when we let it: until then the note is about the log that is there."""
    path = put(killed[0], room)
    database, _ = open_database(path, is_machine=False, is_same_boot=True)
    database.hold_log()
    database.copy_log()
    before = written_by(path)["-wal"]
    database.run([("DELETE FROM records", ())])
    assert written_by(path)["-wal"].startswith(before)
    database.begin_log_anew()
    assert written_by(path)["-wal"] == b""
    database.close()
    assert files_in(path.parent) == ["known.db", "known.db.owner"]


async def test_another_program_that_has_copied_the_log(killed, room):
    """The `sqlite3` shell, after the kill: its log is gone, which is all that can be seen; told, and every row is there."""
    files, truth = killed
    path = put(files, room)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM outbox").fetchone()
    content, events = await look(path)
    assert (len(events), content.entries.keys()) == (1, truth.entries.keys())


async def test_a_failed_transaction_leaves_nothing_and_the_log_is_followed(room):
    """Another one follows it; a kill after that leaves what is told as whole, and a bit in it is told."""
    path = room / "fresh.db"
    async with opened(path) as (store, _):
        await done(store.put(entry(1)))
        with pytest.raises(StoreError):
            store._database.run([("DELETE FROM outbox", ()), ("no SQL", ())])
        await done(store.put(entry(2)))
        files = written_by(path)
    content, events = await look(put(files, room))
    assert (set(content.entries), events) == ({1, 2}, [])
    _, events = await look(put(flipped(files, "-wal", len(files["-wal"]) - 9, 0).files, room))
    assert len(events) == 1
