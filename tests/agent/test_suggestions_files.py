"""Suggestions for missing files: each is true of the disk at that moment, whoever reported the failure."""

from __future__ import annotations

import shlex
import subprocess

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import suggest


def _tree(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")


def _raised(function, *args, **options):
    try:
        function(*args, **options)
    except (OSError, subprocess.SubprocessError) as error:
        return error
    raise AssertionError("wanted an error")


@pytest.mark.requirement("C4")
def test_the_example_of_the_specification(here):
    """A missing config.json: the near miss, the backup, its creation, and last what holds for any missing file."""
    _tree(here, "config/app.json", ".claude/backups/config.json")
    printed = RuntimeError("ENOENT: no such file or directory, open 'config.json'")
    for error in (printed, _raised(open, "config.json")):
        assert suggest(error) == (
            "did you mean config/app.json?",
            "restore the backup .claude/backups/config.json: cp .claude/backups/config.json config.json",
            "create it: touch config.json",
            "check the path's spelling and the working directory",
            "create what is missing",
        )


@pytest.mark.parametrize(
    "text",
    [
        "ENOENT: no such file or directory, open 'setings.json'",
        "[Errno 2] No such file or directory: 'setings.json'",
        "cp: cannot stat 'setings.json': No such file or directory",
        "cp: cannot stat \u2018setings.json\u2019: No such file or directory",
        "cat: setings.json: No such file or directory",
        "bash: line 1: setings.json: No such file or directory",
        "open setings.json: no such file or directory",
        "error\ncat: setings.json: No such file or directory\nmore",
    ],
)
@pytest.mark.requirement("C4")
def test_a_path_is_read_from_what_was_printed(here, text):
    """As node, python, cp, cat, bash and go write it, from stderr or from an error that is only its text."""
    _tree(here, "settings.json")
    ended = subprocess.CalledProcessError(1, ["x"], stderr=text)
    for failure in (ended, RuntimeError(text)):
        assert suggest(failure)[:2] == (
            "did you mean settings.json?",
            "create it: touch setings.json",
        )


def test_a_path_is_read_from_the_arguments(here):
    """Only one that is missing, by its name or its looks; and never an argument that holds a secret."""
    _tree(here, "settings.json", "there.json")
    failure = rb.Failure.of("TOOL_EXECUTION_FAILED", "no such file or directory")
    for arguments in (
        {"filePath": "setings.json"},
        {"path": here / "setings.json"},
    ):
        assert suggest(failure, arguments=arguments)[0] == "did you mean settings.json?"
    for arguments in (
        {"token": "setings.json"},
        {"path": "there.json"},
        {"url": "http://host/setings.json"},
        {"n": 3},
    ):
        assert suggest(failure, arguments=arguments) == failure.suggestions


def test_the_error_behind_the_error_is_read(here):
    """A group of errors, and one raised from another."""
    _tree(here, "settings.json")
    missing = FileNotFoundError(2, "no", "setings.json")
    wrapped = rb.BridgeError(rb.Failure.of("SYS_CONFIG_INVALID", cause=missing))
    assert suggest(ExceptionGroup("several", [missing]))[0] == "did you mean settings.json?"
    group = ExceptionGroup("several", [ConnectionRefusedError(111, "no"), missing])
    assert (
        suggest(group)[0] == "did you mean settings.json?"
    )  # of several the one that was classified
    assert suggest(wrapped)[0] == "did you mean settings.json?"


def test_a_path_below_a_parent_of_the_working_directory(here):
    """The same relative path above: the working directory is wrong."""
    _tree(here, "config/app.json", "sub/x")
    found = suggest(FileNotFoundError(2, "no", "config/app.json"), directory=here / "sub")
    assert found[0] == f"expected in {here}: the working directory is {here / 'sub'}"


@pytest.mark.parametrize(
    "backup",
    [
        "a/x.db.bak",
        "a/x.db.backup",
        "a/x.db~",
        "a/x.db.orig",
        "a/backups/x.db",
        "backups/a/x.db",
        ".claude/backups/x.db.bak",
    ],
)
@pytest.mark.requirement("C4")
def test_a_backup_that_exists_is_named(here, backup):
    """Beside the file or above it, in each of the usual places; one above the working directory is not."""
    _tree(here, "a/other", backup)
    (here.parent / "backups").mkdir()
    (here.parent / "backups" / "x.db").touch()
    found = [text for text in suggest(FileNotFoundError(2, "no", "a/x.db")) if "backup" in text]
    assert found == [f"restore the backup {backup}: cp {shlex.quote(backup)} a/x.db"]


@pytest.mark.parametrize("marker", [".git", "pyproject.toml", "package.json"])
def test_i06_the_search_ends_at_the_root_of_the_project(tmp_path, monkeypatch, marker):
    """What an ancestor of the project happens to hold is nobody's file of that name; inside of the project it is."""
    work = tmp_path / "project/src/deep"
    _tree(tmp_path, "fresh.bin", f"project/{marker}", "project/src/deep/main")
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    assert suggest(_raised(open, "fresh.bin"))[0] == "create it: touch fresh.bin"
    _tree(tmp_path, "project/fresh.bin")
    assert suggest(_raised(open, "fresh.bin"))[0].startswith(
        f"expected in {tmp_path / 'project'}: "
    )


def test_i06_the_search_ends_at_the_home_and_goes_one_level_up_without_either(
    tmp_path, monkeypatch
):
    """A script in a folder of nobody's project."""
    work = tmp_path / "home/scripts/deep"
    _tree(tmp_path, "fresh.bin", "home/scripts/deep/main")
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert suggest(_raised(open, "fresh.bin"))[0] == "create it: touch fresh.bin"
    _tree(tmp_path, "home/fresh.bin")
    assert suggest(_raised(open, "fresh.bin"))[0].startswith(f"expected in {tmp_path / 'home'}: ")
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    assert suggest(_raised(open, "fresh.bin"))[0] == "create it: touch fresh.bin"


def test_what_to_create(here):
    """The file where its directory is, else the directory; nothing below a file; a working directory is no file."""
    _tree(here, "file")
    (here / "file").chmod(0o755)
    assert suggest(_raised(open, "new.bin"))[0] == "create it: touch new.bin"
    assert suggest(_raised(open, "a/b/new.bin"))[0] == "create the directory first: mkdir -p a/b"
    assert suggest(FileNotFoundError(2, "no", "new/"))[0] == "create the directory: mkdir new/"
    assert (
        suggest(FileNotFoundError(2, "no", "file/new.bin"))
        == rb.classify(FileNotFoundError(2, "no")).suggestions
    )


def test_a_command_to_type_is_quoted(here):
    """A name that a shell would run is quoted, one with a dash in front is no option, one that is masked is not typed."""
    names = {
        "a; rm -rf x.c": "create it: touch 'a; rm -rf x.c'",
        "-rf.c": "create it: touch ./-rf.c",
        "sk-CANARYCANARY.txt": "create it",
        "a\nb.c": "create it",
    }
    for name, text in names.items():
        assert suggest(FileNotFoundError(2, "no", name))[0] == text


def test_a_file_that_is_there_after_all(here):
    """It came meanwhile, or the call ran elsewhere; a link to nothing is neither."""
    _tree(here, "x")
    (here / "link").symlink_to("nothing")
    assert (
        suggest(FileNotFoundError(2, "no", str(here / "x")))[0]
        == f"{here / 'x'} is there now: repeat the call"
    )
    assert suggest(FileNotFoundError(2, "no", "x"))[0].startswith(f"x is in {here}: run it there")
    hints = rb.classify(FileNotFoundError(2, "no")).suggestions
    assert suggest(FileNotFoundError(2, "no", "link")) == hints
