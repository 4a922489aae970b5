"""Suggestions for paths that were not meant as they stand: nothing is suggested that would do harm."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import resilient_bridge as rb


def as_error_record(path, **options):
    """What there is to do about a missing path."""
    return rb.agent.suggest(FileNotFoundError(2, "no such file", path), **options)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with one file; the working directory is another one."""
    there = tmp_path / "home"
    there.mkdir()
    (there / "notes.txt").touch()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(there))
    return there


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("path", ["~/notes.txt", "~/a/b", "~root/no/such"])
def test_a_home_that_was_not_expanded_is_not_created(home, path):
    """A directory named `~` is a trap, for who creates it and for who removes it: nothing is to be made."""
    record = as_error_record(path)
    assert not [line for line in record if "mkdir" in line or "touch" in line]
    assert "~" in record[0]
    assert home.exists()


@pytest.mark.requirement("C4")
def test_the_path_that_was_meant_with_a_tilde_is_named(home):
    """If it is there, it is what was meant."""
    assert (
        as_error_record("~/notes.txt")[0]
        == f"did you mean {home / 'notes.txt'}? ~ was not expanded"
    )


@pytest.mark.requirement("C4")
@pytest.mark.usefixtures("home")
def test_a_name_that_only_begins_with_a_tilde_is_a_name():
    """Editors name files so; they may be created."""
    assert [line for line in as_error_record("~$report.docx") if line.startswith("create it")]


@pytest.mark.parametrize("piece", ["a/", "../", "x", "a.b-", "./", "ä/"])
def test_d05_a_path_of_any_depth_costs_time_linear_in_it(piece, tmp_path):
    """Eight times the path asks the system no more often, and takes not the sixty-four-fold of squares."""

    def cost(size):
        error = FileNotFoundError(
            2, "No such file or directory", f"{tmp_path}/{piece * (size // len(piece))}"
        )
        spent = []
        for _ in range(3):
            started = time.process_time()
            rb.agent.suggest(error)
            spent.append(time.process_time() - started)
        return min(spent)

    assert cost(24_000) < 28 * max(cost(3_000), 0.004)


def test_d05_how_often_the_system_is_asked_is_bounded(monkeypatch, tmp_path):
    """A path of ten thousand directories is followed as far as it is there, and no further."""
    asked = []
    stat = Path.stat
    monkeypatch.setattr(
        Path, "stat", lambda self, **options: asked.append(self) or stat(self, **options)
    )
    for piece in ("a/", "../", tmp_path.name + "/../"):
        asked.clear()
        rb.agent.suggest(
            FileNotFoundError(2, "No such file or directory", f"{tmp_path}/{piece * 10_000}x")
        )
        assert len(asked) < 1_000
