"""Suggestions for paths that were not meant as they stand: nothing is suggested that would do harm."""

from __future__ import annotations

import pytest

import resilient_bridge as rb


def told_of(path, **options):
    """What there is to do about a missing path."""
    return rb.suggest(FileNotFoundError(2, "no such file", path), **options)


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
def test_a_home_that_nobody_expanded_is_not_created(home, path):
    """A directory named `~` is a trap, for who creates it and for who removes it: nothing is to be made."""
    told = told_of(path)
    assert not [line for line in told if "mkdir" in line or "touch" in line]
    assert "~" in told[0]
    assert home.exists()


@pytest.mark.requirement("C4")
def test_the_path_that_was_meant_with_a_tilde_is_named(home):
    """If it is there, it is what was meant."""
    assert told_of("~/notes.txt")[0] == f"did you mean {home / 'notes.txt'}? ~ was not expanded"


@pytest.mark.requirement("C4")
@pytest.mark.usefixtures("home")
def test_a_name_that_only_begins_with_a_tilde_is_a_name():
    """Editors name files so; they may be created."""
    assert [line for line in told_of("~$report.docx") if line.startswith("create it")]
