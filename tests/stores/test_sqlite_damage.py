"""Bits turned over and files cut off: whatever happens to a database, what it still gives is true, and what is gone is said.

All headers are damaged in every run, bit by bit in the file and byte by byte in the log. Of the rest, the sweeps over "every 16th" and
"every 64th" byte, it is an evenly spread sample, the same in every run; `nox -s damage` (RB_DAMAGE=all) does every case.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.internals.stores import PAGE
from tests.samples import IS_ALL, some
from tests.stores.database_content import SIDES, checkpointed, crashed, look, never_copied
from tests.stores.database_damage import (
    ROOM,
    Damaged,
    answer,
    cut,
    files_of,
    flipped,
    sweep,
    write_out,
)


HEADER = range(108)  # the file's, and that of the tree on its first page
LOG_HEADER, FRAME_HEADER = 32, 24
FRAME = FRAME_HEADER + PAGE

pytestmark = [
    pytest.mark.crash,
    pytest.mark.requirement("C5"),
    pytest.mark.timeout(7200 if IS_ALL else 120),
]


@pytest.fixture(scope="module")
async def known():
    """The files of the known database, in its three conditions, and the truth of each."""
    room = Path(tempfile.mkdtemp(prefix="known-", dir=ROOM))
    found = {}
    try:
        for make in (checkpointed, crashed, never_copied):
            files = files_of(await make(room / make.__name__))
            whole = room / f"{make.__name__} whole"
            whole.mkdir(mode=0o700)
            truth, events = await look(write_out(Damaged("", files), whole))
            assert events == []
            found[make.__name__] = files, truth
    finally:
        shutil.rmtree(room)
    return found


def bit_of(write_out):
    """Another bit for each place."""
    return (write_out * 2_654_435_761 >> 16) % 8


# ---- bits ------------------------------------------------------------------------------------------------------------


async def test_the_known_content_is_read_whole(known):
    """The three conditions say the same, all of what was written: what the sweeps compare with is no accident."""
    for _, truth in known.values():
        assert len(truth.entries) == 31
        assert len(truth.outcomes) == 9
        assert (truth.taken, len(truth.tail), len(truth.answers)) == (100, 100, 5)
        assert [row[-2].value for row in truth.entries.values()] == ["written"] * 21 + [
            "queued"
        ] * 10
        assert (truth.last, truth.flags) == ("s1", (True, True, False, "e1"))
    assert known["checkpointed"][0]["-wal"] is None


@pytest.mark.parametrize("bit", some(range(8), 1))
@pytest.mark.parametrize("condition", ["checkpointed", "crashed"])
async def test_every_bit_of_the_headers(known, condition, bit):
    """The header of the file and of its first tree, all of it: exact or said, and never refused for good."""
    files, truth = known[condition]
    found, counts = await sweep((flipped(files, "", at, bit) for at in HEADER), truth)
    assert found == []
    assert counts["mended"] + counts["silent"] == len(HEADER)
    assert counts["mended"] >= 1
    assert counts["kept %"] >= (
        50 if condition == "checkpointed" else 90
    )  # the log has a first page, too


async def test_every_16th_byte_of_the_file(known):
    """One file: exact or said, and on average two rows of three are saved. Of these bytes some 200, unless all are asked for."""
    files, truth = known["checkpointed"]
    places = some(range(0, len(files[""]), 16), 200)
    found, counts = await sweep((flipped(files, "", at, bit_of(at)) for at in places), truth)
    assert found == []
    assert counts["mended"] >= 20
    assert counts["silent"] > 35
    assert counts["kept %"] >= 66


async def test_every_16th_byte_of_the_file_beside_its_log(known):
    """Half in the file, half in the log: exact or said. Of these bytes some 100, unless all are asked for."""
    files, truth = known["crashed"]
    places = some(range(0, len(files[""]), 16), 100)
    found, _ = await sweep((flipped(files, "", at, bit_of(at)) for at in places), truth)
    assert found == []


async def test_every_16th_byte_of_the_log(known):
    """Each is told: SQLite would drop what is behind it without a word. Of these bytes some 100, unless all are asked for."""
    files, truth = known["crashed"]
    places = some(range(LOG_HEADER, len(files["-wal"]), 16), 100)
    found, counts = await sweep((flipped(files, "-wal", at, bit_of(at)) for at in places), truth)
    assert found == []
    assert counts["silent"] == 0


@pytest.mark.parametrize("byte", some(range(LOG_HEADER), 5))
async def test_every_byte_of_the_headers_in_the_log(known, byte):
    """This byte of the header of the log, and of that of every page in it: each is told."""
    files, truth = known["crashed"]
    pages = range(LOG_HEADER, len(files["-wal"]), FRAME)
    places = [byte, *(start + byte for start in pages if byte < FRAME_HEADER)]
    found, counts = await sweep((flipped(files, "-wal", at, at % 8) for at in places), truth)
    assert found == []
    assert counts["mended"] == len(places)


async def test_every_page_made_zeros(known):
    """What is on the other pages is found from both ends: only without the first page, or the root of their tree, are all sends gone."""
    files, truth = known["checkpointed"]
    empty = 0
    for page in range(0, len(files[""]), PAGE):
        zeros = files[""][:page] + bytes(PAGE) + files[""][page + PAGE :]
        room = Path(tempfile.mkdtemp(dir=ROOM))
        try:
            answered = await answer(
                Damaged(f"page {page // PAGE}", {**files, "": zeros}), truth, room
            )
            content, _ = await look(room / "known.db")
        finally:
            shutil.rmtree(room)
        assert (page, answered.wrong, answered.is_silent) == (page, [], False)
        empty += not content.entries
    assert empty == 2


# ---- cut off ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", ["checkpointed", "crashed"])
async def test_the_file_cut_off_at_every_64th_byte(known, condition):
    """Also to nothing: it is told, and what the log has is used. Of these lengths some 40, unless all are asked for."""
    files, truth = known[condition]
    sizes = some(range(0, len(files[""]), 64), 40)
    found, counts = await sweep((cut(files, "", size) for size in sizes), truth)
    assert found == []
    if condition == "checkpointed":
        assert counts["silent"] == 0


@pytest.mark.parametrize("condition", ["crashed", "never_copied"])
async def test_the_log_cut_off_at_every_64th_byte(known, condition):
    """Each is told: to SQLite it is only older than it was. Of these lengths some 40, unless all are asked for."""
    files, truth = known[condition]
    sizes = some(range(64, len(files["-wal"]), 64), 40)
    found, counts = await sweep((cut(files, "-wal", size) for size in sizes), truth)
    assert found == []
    assert counts["silent"] == 0


async def test_a_log_without_its_note(known):
    """Cut off anywhere it is an older state, in silence, and nothing that never was. Of these lengths some 20, unless all are asked for."""
    files, truth = known["crashed"]
    sizes = some(range(0, len(files["-wal"]), 64), 20)
    cases = (cut({**files, "-end": None}, "-wal", size) for size in sizes)
    found, counts = await sweep(cases, truth, is_prefix_right=True)
    assert found == []
    assert counts["mended"] == 0


async def test_every_bit_of_the_note(known):
    """What it says of a sound log is not what the log is: all of it is there, and at most it is told. Of these bits some 60."""
    files, truth = known["crashed"]
    places = some(range(8 * len(files["-end"])), 60)
    found, counts = await sweep((flipped(files, "-end", at // 8, at % 8) for at in places), truth)
    assert found == []
    assert counts["kept %"] == 100


async def test_a_log_that_is_gone(known):
    """The file as it was copied last: older, sound, silent, because nothing in it says that there was a log."""
    files, truth = known["crashed"]
    found, counts = await sweep(
        [Damaged("no log", {**files, "-wal": None})], truth, is_prefix_right=True
    )
    assert (found, counts["silent"]) == ([], 1)


async def test_a_file_that_is_gone_beside_its_log(known):
    """The log alone holds everything since the last copy: that is used, and the loss is told."""
    files, truth = known["crashed"]
    room = Path(tempfile.mkdtemp(dir=ROOM))
    try:
        answered = await answer(Damaged("no file", {**files, "": None}), truth, room)
    finally:
        shutil.rmtree(room)
    assert answered.wrong == []
    assert not answered.is_silent
    assert answered.share > 0.2


# ---- other files in its place ----------------------------------------------------------------------------------------


OTHERS = {
    "nothing": b"",
    "zeros": bytes(20_000),
    "random bytes": bytes((at * at * 31 + at) % 251 for at in range(20_000)),
    "a text": b"dear diary\n" * 50,
    "the beginning of a database": b"SQLite format 3\0",
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("log", [None, "crashed"])
async def test_another_file_in_its_position(known, tmp_path, name, log):
    """Kept beside a new database, which holds what the log has; told, and never a silent empty start."""
    files, truth = known["crashed"]
    damaged = Damaged(name, {"": OTHERS[name], "-wal": log and files["-wal"]})
    tmp_path.chmod(0o700)
    answered = await answer(damaged, truth, tmp_path)
    assert answered.wrong == []
    assert not answered.is_silent
    assert (answered.share > 0.2) == bool(log)
    assert not [side for side in SIDES[1:] if Path(f"{tmp_path / 'known.db'}{side}").exists()]
