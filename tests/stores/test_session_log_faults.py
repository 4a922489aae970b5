"""A session log on a disk that fails: the program goes on, lines are counted, and it is told once (V14, threat 36)."""

from __future__ import annotations

import errno
import itertools
import json
import logging
import os
import shutil
from datetime import UTC, datetime

import pytest

from resilient_bridge import events
from resilient_bridge.failure import ConfigError, Failure, StoreError
from resilient_bridge.stores import SessionLog
from resilient_bridge.telemetry import emit, has_listeners
from tests.internals.telemetry import hub
from tests.stores.faulty_disk import CODES, CrashError, FaultyDisk, failing, insert, open_files


AT = datetime(2026, 3, 20, 14, 32, tzinfo=UTC)
EVENT = events.Closed(at=AT, reason="user")
LINE = {"at": "2026-03-20T14:32:00.000Z", "event": "Closed", "reason": "user"}


@pytest.fixture
def path(tmp_path):
    """Where the log is, in a directory of its own."""
    return tmp_path / "logs" / "session.jsonl"


def lines(path):
    """The lines of a file, each of which has to be JSON."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.requirement("V14")
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("kind", ["write", "open", "fstat", "lseek", "read"])
def test_a_disk_that_fails_is_reported_once_and_breaks_nothing(
    path, monkeypatch, heard, kind, code
):
    """Threat 36: the emitter and other listeners do not notice; lines are counted; one StoreChanged each way."""
    with SessionLog(path) as log:
        emit(EVENT)
        with monkeypatch.context() as patch:
            insert(patch, FaultyDisk(1, failing(code), kinds={kind}, lasting=True))
            log._close()  # so that opening is tried too
            before = hub.listener_failures()
            for _ in range(5):
                emit(EVENT)
            log.write({"note": "lost too"})
            assert hub.listener_failures() == before
            assert (log.lost, repr(log)) == (6, f"<SessionLog {path} failing lost=6>")
        emit(EVENT)
        emit(EVENT)
    parts = [event for event in heard if event != EVENT]
    failed, recovered = parts
    assert (failed.store, failed.state, failed.degraded) == (f"SessionLog {path}", "failed", True)
    assert failed.failure.code == "SYS_STORE_UNAVAILABLE"
    assert failed.failure.details["errno"] == getattr(errno, code)
    assert recovered == events.StoreChanged(at=recovered.at, store=failed.store, state="working")
    assert [line["event"] for line in lines(path)] == ["Closed", "Closed", "StoreChanged", "Closed"]
    assert lines(path)[2]["lost"] == 6


def test_a_line_that_was_started_is_ended_when_it_works_again(path, monkeypatch):
    """The disk took seven bytes of it: a torn line, counted as lost, and whole ones behind it."""
    with SessionLog(path) as log:
        emit(EVENT)
        with monkeypatch.context() as patch:
            insert(patch, FaultyDisk(2, failing("ENOSPC"), kinds={"write"}, most=7))
            emit(EVENT)
        emit(EVENT)
        assert log.lost == 1
    text = path.read_text().splitlines()
    assert (text[1], len(text)) == ('{"at":"', 4)
    assert json.loads(text[2]) == LINE


def test_a_short_write_is_continued(path, monkeypatch):
    """Three bytes at a time make whole lines."""
    insert(monkeypatch, FaultyDisk(most=3))
    with SessionLog(path) as log:
        emit(EVENT)
    assert (lines(path), log.lost) == ([LINE], 0)


def test_a_directory_that_is_gone_is_not_made_again(path, heard):
    """It may be a disk that was taken out: lines are counted until it is back."""
    with SessionLog(path) as log:
        emit(EVENT)
        shutil.rmtree(path.parent)
        emit(EVENT)
        assert (log.lost, path.parent.exists()) == (1, False)
        path.parent.mkdir(mode=0o700)
        emit(EVENT)
    assert [line["event"] for line in lines(path)] == ["Closed", "StoreChanged"]


def test_a_link_in_its_position_takes_no_lines(path, heard):
    """Threat 38, while it runs: somebody's file is not written to, and that is told."""
    with SessionLog(path) as log:
        target = path.with_name("theirs")
        target.write_text("theirs\n")
        path.unlink()
        path.symlink_to(target)
        emit(EVENT)
        assert (log.lost, target.read_text()) == (1, "theirs\n")
    assert heard[-1].state == "failed"


def test_a_disk_that_comes_and_goes_ends_no_emit_in_a_loop(path, monkeypatch, heard):
    """Every second call fails: each event ends, and failures and recoveries are told in turn."""

    rounds = itertools.count()

    def write(handle, data):
        if next(rounds) % 2 == 0:
            raise failing("EIO")
        return os.write(handle, data)

    with SessionLog(path) as log:
        insert(monkeypatch, FaultyDisk(write=write))
        for _ in range(20):
            emit(EVENT)
    states = [event.state for event in heard if event != EVENT]
    assert states[:4] == ["failed", "working"] * 2
    assert log.lost < 40


def test_the_log_of_the_application_hears_of_a_failure_once(path, monkeypatch, caplog):
    """The log of the application says it once, as it says of every store that fails; a listener takes nothing from it (J02)."""
    with caplog.at_level(logging.DEBUG), SessionLog(path):
        insert(monkeypatch, FaultyDisk(1, failing("ENOSPC"), kinds={"write"}, lasting=True))
        emit(EVENT)
        emit(EVENT)
    ((name, level, line),) = caplog.record_tuples
    assert (name, level) == ("resilient_bridge", logging.WARNING)
    assert line.startswith(f"SessionLog {path} failed")
    assert f"{path} could not be appended to: no space left" in line


def test_another_store_s_failure_is_an_event_like_any_other(path):
    """Only its own failure is left out, because it cannot be written."""
    failure = Failure.of("SYS_STORE_UNAVAILABLE")
    with SessionLog(path):
        emit(events.StoreChanged(at=AT, store="sqlite", state="failed", failure=failure))
        emit(events.StoreChanged(at=AT, store="sqlite", state="working"))
    assert [line["state"] for line in lines(path)] == ["failed", "working"]
    assert "lost" not in lines(path)[1]


def test_an_interrupt_passes(path, monkeypatch):
    """Somebody who wants out gets out, and the next line is written."""
    with SessionLog(path):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            insert(patch, FaultyDisk(1, KeyboardInterrupt(), kinds={"write"}))
            emit(EVENT)
        emit(EVENT)
    assert lines(path) == [LINE]


@pytest.mark.parametrize("kind", ["open", "fstat", "lseek", "read", "write"])
def test_what_cannot_be_started_is_an_error_where_it_is_started(path, monkeypatch, kind):
    """Typed, nobody listens, and no descriptor stays open."""
    path.parent.mkdir(mode=0o700)
    path.write_text("torn")
    handles = open_files()
    insert(monkeypatch, FaultyDisk(1, failing("EIO"), kinds={kind}))
    with pytest.raises(StoreError, match=r"session\.jsonl could not be opened"), SessionLog(path):
        pass
    assert (has_listeners(), open_files()) == (False, handles)


def test_a_path_that_is_not_safe_is_refused_on_entering(path):
    """Threat 38: a link, as for every file of ours."""
    path.parent.mkdir(mode=0o700)
    path.symlink_to(path.with_name("theirs"))
    with pytest.raises(ConfigError, match=r"SessionLog\.path: .*a symbolic link"), SessionLog(path):
        pass


def test_a_crash_leaves_no_half_line_before_another(path, monkeypatch):
    """Whichever call was the last, the lines before it are whole, and nobody listens any more."""
    with SessionLog(path):
        emit(EVENT)
    for at in range(1, 8):
        with monkeypatch.context() as patch, pytest.raises(CrashError):
            insert(patch, FaultyDisk(at, CrashError(), lasting=True))
            with SessionLog(path) as log:
                log.write({"at": "x"})
                log.write({"at": "x"})
        assert not has_listeners()
    assert lines(path)[0] == LINE


def test_a_path_that_cannot_be_looked_at_loses_no_line(path, monkeypatch, heard):
    """Whether the file was moved is not known then; that it can be opened and written to is."""
    with SessionLog(path) as log:
        insert(monkeypatch, FaultyDisk(1, failing("EIO"), kinds={"lstat"}, lasting=True))
        emit(EVENT)
        emit(EVENT)
        assert (log.lost, len(heard)) == (0, 2)
    assert lines(path) == [LINE, LINE]
