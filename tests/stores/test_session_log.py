"""The session log: a line per event, appended, rotated, never in the way, and its own failures told once (V14)."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import subprocess
import threading
import time
from datetime import UTC, datetime

import pytest

import resilient_bridge as rb
from resilient_bridge import events
from resilient_bridge.failure import ConfigError, StoreError
from resilient_bridge.stores import SessionLog
from resilient_bridge.telemetry import emit, has_listeners
from tests.internals.stores import LONGEST_LINE
from tests.peers.zygote import PYTHON
from tests.stores.faulty_disk import FaultyDisk, failing, files_in, insert, open_files


AT = datetime(2026, 3, 20, 14, 32, tzinfo=UTC)
EVENT = events.Closed(at=AT, reason="user")
LINE = {"at": "2026-03-20T14:32:00.000Z", "event": "Closed", "reason": "user"}
SMALL = LONGEST_LINE


@pytest.fixture
def path(tmp_path):
    """Where the log is, in a directory of its own."""
    return tmp_path / "logs" / "session.jsonl"


def lines(path):
    """The lines of a file, each of which has to be JSON."""
    text = path.read_text()
    assert text.endswith("\n") or not text
    return [json.loads(line) for line in text.splitlines()]


def numbered(path, n):
    return path.with_name(f"{path.name}.{n}")


# ---- events and records ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("V14")
def test_events_become_lines_inside_the_block_only(path):
    """Each event of the process, in order, and none before or after; the file is ours alone."""
    log = SessionLog(path)
    emit(EVENT)
    assert not path.exists()
    with log as same:
        assert same is log
        for reason in ("one", "two"):
            emit(events.Closed(at=AT, reason=reason))
    emit(EVENT)
    assert [line["reason"] for line in lines(path)] == ["one", "two"]
    assert not has_listeners()
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (
        0o600,
        0o700,
    )


@pytest.mark.requirement("V14")
def test_a_log_is_only_appended_to(path, monkeypatch):
    """A second session goes on behind the first; what is there is neither read nor changed, a whole line not even added to."""
    with SessionLog(path):
        emit(EVENT)
    before = path.read_bytes()
    disk = insert(monkeypatch, FaultyDisk())
    with SessionLog(path) as log:
        emit(EVENT)
        log.write({"note": "mine"})
    assert disk.calls.count("read") == 1  # the one byte that tells whether the last line is whole
    assert path.read_bytes().startswith(before)
    assert lines(path)[:2] == [LINE, LINE]
    assert lines(path)[2]["note"] == "mine"


def test_lines_of_your_own_are_masked_too(path):
    """`write` puts the time in front, and treats what it is given as it treats events."""
    with SessionLog(path) as log:
        log.write(
            {
                "step": "plan\nERROR forged",
                "headers": {"X-Api-Key": "c4n4ry"},
                "payload": {"password": "c4n4ry"},
            }
        )
    assert "c4n4ry" not in path.read_text()
    ((at, step, *_),) = [line.values() for line in lines(path)]
    assert (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds() < 60
    assert "\n" not in step


@pytest.mark.parametrize("record", [None, "text", [("a", 1)], 5])
def test_what_is_no_record_is_refused(path, record):
    """A mistake of the program is an error where it is made; what it says is not repeated."""
    text = rf"SessionLog\.write\.record: wanted a mapping, got '{type(record).__name__}'"
    with SessionLog(path) as log, pytest.raises(ConfigError, match=text):
        log.write(record)


def test_outside_of_its_block_it_takes_no_lines(path):
    """Before and after: an error that says where to write."""
    log = SessionLog(path)
    for _ in range(2):
        with pytest.raises(
            StoreError, match="wanted one that is open, got one that is closed"
        ) as caught:
            log.write({})
        assert caught.value.failure.suggestions == ("write inside its `with` block",)
        with log:
            log.write({})
    assert len(lines(path)) == 2
    assert repr(log) == f"<SessionLog {path} closed lost=0>"


def test_one_object_is_one_log(path):
    """Entered twice at a time it is refused, and goes on as it was."""
    with SessionLog(path) as log:
        with pytest.raises(StoreError, match="got one that is open") as caught, log:
            pass
        assert caught.value.failure.code == "SYS_STORE_IN_USE"
        emit(EVENT)
        assert repr(log) == f"<SessionLog {path} open lost=0>"
    assert lines(path) == [LINE]


def test_an_event_under_way_when_it_closes_is_let_go(path):
    """Another thread's emit may still know the listener: no line, no loss, no file opened again."""
    log = SessionLog(path)
    with log:
        handles = open_files()
    log._hear(EVENT)
    assert (lines(path), log.lost, open_files()) == ([], 0, handles - 1)


def test_threads_do_not_mix_their_lines(path):
    """Four threads, one file, every line whole."""

    def work(number):
        for turn in range(100):
            emit(events.Closed(at=AT, reason=f"{number}.{turn}"))

    with SessionLog(path) as log:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(lines(path)), log.lost) == (400, 0)


@pytest.mark.real
@pytest.mark.requirement("V14")
def test_a_client_leaves_no_secret_in_its_log(path):
    """A real session, with a token in header and query, a payload, and an end: told from first to last, and no canary in it."""

    async def main():
        async with rb.testing.BridgeServer(token="c4n4ry") as server:
            url = f"{server.url}?api_key=c4n4ry"
            async with rb.BridgeClient(
                url, token="c4n4ry", headers={"X-Api-Key": "c4n4ry"}
            ) as bridge:
                await (await bridge.send("note", {"text": "c4n4ry"})).confirmed(timeout=10)
                await bridge.wait_ready(timeout=10)

    with SessionLog(path):
        asyncio.run(main())
    parts = [line["event"] for line in lines(path)]
    assert {"Connected", "Joined", "Closed"} <= set(parts)
    assert "c4n4ry" not in path.read_text()


# ---- rotation --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("V14")
def test_a_full_file_makes_room(path):
    """No file exceeds the bound, the newest lines are in the file, the numbers count backwards, and the oldest go."""
    text = [f"{n:03d} " + "x" * 400 for n in range(700)]
    with SessionLog(path, max_bytes=SMALL, keep=3) as log:
        for one in text:
            log.write({"text": one})
    names = [path, *(numbered(path, n) for n in range(1, 4))]
    assert files_in(path.parent) == sorted(name.name for name in names)
    assert all(SMALL - 500 < name.stat().st_size <= SMALL for name in names[1:])
    assert path.stat().st_size <= SMALL
    found = [line["text"] for name in reversed(names) for line in lines(name)]
    assert found == text[-len(found) :]
    assert {stat.S_IMODE(name.stat().st_mode) for name in names} == {0o600}


def test_a_line_that_just_fits_does_not_rotate(path):
    """The bound is the last byte that may be there."""
    with SessionLog(path, max_bytes=SMALL, keep=1) as log:
        log.write({"at": "", "x": "y"})
        length = path.stat().st_size
        path.write_bytes(b"x" * (SMALL - length - 1) + b"\n")
        log.write({"at": "", "x": "y"})
        assert path.stat().st_size == SMALL
        log.write({"at": "", "x": "y"})
    assert (path.stat().st_size, numbered(path, 1).stat().st_size) == (length, SMALL)


def test_a_file_that_is_full_already_is_put_aside_first(path):
    """Whoever wrote it."""
    path.parent.mkdir(mode=0o700)
    path.write_text("x" * SMALL + "\n")
    with SessionLog(path, max_bytes=SMALL):
        emit(EVENT)
    assert (lines(path), numbered(path, 1).stat().st_size) == ([LINE], SMALL + 1)


def test_ten_mebibytes_and_five_older_files_are_the_default(path):
    """What may be there at most, if nobody says anything else."""
    path.parent.mkdir(mode=0o700)
    for n in range(7):
        path.write_text(f"{n}\n" + "x" * (10 * 1024 * 1024 - 3 - (n == 6) * 10) + "\n")
        with SessionLog(path) as log:
            log.write({"at": ""})  # ten bytes
    assert files_in(path.parent) == [path.name, *(f"{path.name}.{n}" for n in range(1, 6))]
    assert [numbered(path, n).read_text()[0] for n in range(1, 6)] == ["5", "4", "3", "2", "1"]
    assert path.stat().st_size == 10 * 1024 * 1024


@pytest.mark.parametrize("at", range(1, 6))
def test_a_rotation_that_fails_half_way_loses_no_old_file(path, monkeypatch, at):
    """However often it is tried: what had been kept is kept, and the next that works goes on from there."""
    path.parent.mkdir(mode=0o700)
    for n in range(1, 6):
        numbered(path, n).write_text(f"{n}\n")
    path.write_text("0\n" * SMALL)
    with SessionLog(path, max_bytes=SMALL, keep=5) as log:
        with monkeypatch.context() as patch:
            insert(patch, FaultyDisk(at, failing("EACCES"), kinds={"replace"}, lasting=True))
            for _ in range(10):
                emit(EVENT)
        assert log.lost == 10
        emit(EVENT)
    saved = [numbered(path, n).read_text()[0] for n in range(1, 6)]
    assert saved == ["0", "1", "2", "3", "4"]
    assert lines(path)[0] == LINE


# ---- torn lines and moved files --------------------------------------------------------------------------------------


@pytest.mark.requirement("V14")
def test_a_torn_last_line_is_ended(path):
    """What a dying process began stands alone, and the next line is whole."""
    path.parent.mkdir(mode=0o700)
    path.write_text('{"at":"x"}\n{"at":"y","ev')
    for _ in range(2):
        with SessionLog(path):
            emit(EVENT)
    assert path.read_text().splitlines()[1] == '{"at":"y","ev'
    assert [json.loads(line) for line in path.read_text().splitlines()[2:]] == [LINE, LINE]


@pytest.mark.parametrize("how", ["deleted", "renamed"])
def test_a_file_that_is_moved_away_is_started_anew(path, how):
    """As other rotators do: the next line is where one looks for it, and not in a file without a name."""
    with SessionLog(path) as log:
        emit(EVENT)
        if how == "deleted":
            path.unlink()
        else:
            path.rename(numbered(path, 99))
        emit(events.Closed(at=AT, reason="after"))
        assert log.lost == 0
    assert [line["reason"] for line in lines(path)] == ["after"]


WRITER = """
import sys
from resilient_bridge.stores import SessionLog
with SessionLog(sys.argv[1]) as log:
    number = 0
    while True:
        number += 1
        log.write({"number": number, "text": "x" * 300})
        print(number, flush=True)
"""


@pytest.mark.real
@pytest.mark.requirement("V14")
def test_a_process_that_is_killed_tears_at_most_its_last_line(path):
    """SIGKILL, five times: every line that was acknowledged is there, and whole."""
    reported = 0
    for turn in range(5):
        writer = subprocess.Popen(
            [*PYTHON, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        try:
            writer.stdout.readline()
            time.sleep(0.01 * turn)
        finally:
            writer.send_signal(signal.SIGKILL)
            reported += 1 + len(writer.stdout.read().split())
            writer.wait()
            writer.stdout.close()
    text = path.read_text().splitlines()
    whole = [line for line in text if line.endswith("}") and json.loads(line)]
    assert len(text) - len(whole) <= 5
    assert len(whole) >= reported


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"max_bytes": SMALL - 1}, "max_bytes"), ({"max_bytes": 1e6}, "max_bytes"), ({"max_bytes": None}, "max_bytes"),
        ({"keep": 0}, "keep"), ({"keep": True}, "keep"), ({"keep": 1_001}, "keep"), ({"keep": "5"}, "keep"),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_meant_are_refused(path, arguments, field):
    """At once, with the name of the field."""
    with pytest.raises(ConfigError, match=rf"SessionLog\.{field}: wanted a whole number"):
        SessionLog(path, **arguments)
    SessionLog(path, max_bytes=SMALL, keep=1)
    SessionLog(path, keep=1_000)


def test_a_path_that_is_none_is_refused():
    """At once, as an argument; what is wrong with its directory, on entering."""
    with pytest.raises(ConfigError, match=r"SessionLog\.path: wanted a path"):
        SessionLog("")
    with (
        pytest.raises(ConfigError, match=r"SessionLog\.path: wanted a path in a directory"),
        SessionLog("/dev/null/x"),
    ):
        pass
