"""Suggestions for files and programs: each is true of the disk at that moment, whoever reported the failure."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess

import pytest

import resilient_bridge as rb
from resilient_bridge.agent.suggestions.suggest import suggest


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
    assert suggest(_raised(open, "config.json")) == (
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
        "zsh: no such file or directory: setings.json",
        "java.io.FileNotFoundException: setings.json (No such file or directory)",
        "error\ncat: setings.json: No such file or directory\nmore",
        "Error\n  code: 'ENOENT',\n  path: 'setings.json'\n}",
    ],
)
@pytest.mark.requirement("C4")
def test_a_path_is_read_from_what_was_printed(here, text):
    """As node, python, cp, cat, bash, go, zsh and java write it, from stderr or from an error that is only its text."""
    _tree(here, "settings.json")
    ended = subprocess.CalledProcessError(1, ["x"], stderr=text)
    for failure in (ended, RuntimeError(text)):
        assert suggest(failure)[:2] == ("did you mean settings.json?", "create it: touch setings.json")


def test_a_path_is_read_from_the_arguments(here):
    """Only one that is missing, by its name or its looks; and never an argument that holds a secret."""
    _tree(here, "settings.json", "there.json")
    failure = rb.Failure.of("TOOL_EXECUTION_FAILED", "no such file or directory")
    for arguments in (
        {"filePath": "setings.json"},
        {"x": ["a word", "./setings.json"]},
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
    """A group of errors, one raised from another, and a rename, of which the missing end counts."""
    _tree(here, "settings.json")
    missing = FileNotFoundError(2, "no", "setings.json")
    wrapped = rb.BridgeError(rb.Failure.of("SYS_CONFIG_INVALID", cause=missing))
    renamed = FileNotFoundError(2, "no", "settings.json", None, "new/settings.json")
    assert suggest(ExceptionGroup("several", [missing]))[0] == "did you mean settings.json?"
    group = ExceptionGroup("several", [ConnectionRefusedError(111, "no"), missing])
    assert suggest(group)[0] == "did you mean settings.json?"  # of several the one that was classified
    assert suggest(wrapped)[0] == "did you mean settings.json?"
    assert suggest(renamed)[0] == "create the directory first: mkdir -p new"


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
    assert suggest(_raised(open, "fresh.bin"))[0].startswith(f"expected in {tmp_path / 'project'}: ")


def test_i06_the_search_ends_at_the_home_and_goes_one_level_up_without_either(tmp_path, monkeypatch):
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
    assert suggest(_raised(subprocess.run, ["true"], cwd="new"))[0] == "create the directory: mkdir new/"
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
    assert suggest(FileNotFoundError(2, "no", "link"))[0] == "link is a link to nothing: correct or remove it"


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A search path of one directory."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name, mode in (("frobnicate", 0o755), ("frobnicatr", 0o644)):
        (folder / name).touch(mode)
        (folder / name).chmod(mode)
    return folder


@pytest.mark.parametrize(
    "stderr",
    [
        "bash: line 1: frobnicaet: command not found",
        "sh: 1: frobnicaet: not found",
        "/bin/sh: frobnicaet: not found",
        "zsh: command not found: frobnicaet",
        "env: 'frobnicaet': No such file or directory",
        "Error: spawn frobnicaet ENOENT",
        'exec: "frobnicaet": executable file not found in $PATH',
    ],
)
def test_a_program_spelled_alike(here, programs, stderr):
    """One on the search path that can be executed, as each shell reports the missing one."""
    found = suggest(subprocess.CalledProcessError(127, ["sh"], stderr=stderr))
    assert found[0] == f"did you mean frobnicate? It is at {programs / 'frobnicate'}"
    assert not any("frobnicatr" in text for text in found)


def test_a_program_that_could_not_be_started(here, programs):
    """subprocess raises the same for a program as for a file: where it was raised tells; so do the arguments."""
    by_call = _raised(subprocess.run, ["frobnicaet"])
    by_argument = FileNotFoundError(2, "no", "frobnicaet")
    silent = subprocess.CalledProcessError(127, ["sh"])
    arguments = {"command": "frobnicaet -v"}
    for error, value in ((by_call, {}), (by_argument, arguments), (silent, arguments)):
        assert suggest(error, arguments=value)[0].startswith("did you mean frobnicate?")


def test_a_program_here(here, programs):
    """The working directory is not searched: called by its path, and made executable first."""
    (here / "frobnicaet").touch()
    assert suggest(_raised(subprocess.run, ["frobnicaet"]))[0].endswith("and call it by its path")  # no chmod
    (programs / "chmod").symlink_to("/bin/chmod")
    assert suggest(_raised(subprocess.run, ["frobnicaet"]))[0].endswith(": chmod +x ./frobnicaet")
    (here / "frobnicaet").chmod(0o755)
    assert suggest(_raised(subprocess.run, ["frobnicaet"]))[0].startswith(
        "call it by its path: ./frobnicaet is here"
    )


def test_a_script_without_its_interpreter(here):
    """The file is there, and what its first line asks for is not."""
    (here / "x").write_text("#!/no/such/python -u\n")
    (here / "x").chmod(0o755)
    assert (
        suggest(_raised(subprocess.run, ["./x"]))[0]
        == "the first line of x asks for /no/such/python, which is not there: correct it"
    )


def test_a_file_that_may_not_be_executed(here):
    """Without the x bit: how to set it, and whose it is."""
    (here / "x").write_text("true")
    (here / "x").chmod(0o600)
    found = suggest(_raised(subprocess.run, ["./x"]))
    assert found[0] == "make it executable: chmod +x x"
    assert "mode -rw-------; this process runs as " in found[1]
    stated = subprocess.CalledProcessError(126, ["sh"], stderr="bash: ./x: Permission denied")
    assert suggest(stated)[0] == "make it executable: chmod +x x"
    assert not any("chmod" in text for text in suggest(PermissionError(13, "no", "x")))  # reading needs no x


def test_a_directory_that_forbids_it(here, monkeypatch):
    """The directory that may not be written to, or not be entered, with its owner and mode."""
    (here / "d").mkdir(mode=0o750)
    (here / "d").chmod(0o750)
    answers = {os.W_OK: False, os.X_OK: True}
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("/d") or answers[mode])
    assert suggest(PermissionError(13, "no", "d/new"))[0].startswith(
        "nothing can be created in the directory d: it belongs to "
    )
    answers[os.X_OK] = False
    assert suggest(PermissionError(13, "no", "d/new"))[0].startswith(
        "the directory d may not be entered: it belongs to "
    )


def test_a_file_system_that_is_read_only(here, monkeypatch):
    """Said only while it is."""
    error = OSError(errno.EROFS, "read-only", "x")
    assert suggest(error)[0] == f"the file system of {here} is not read-only now: repeat the call"
    flags = os.statvfs(here)
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((*flags[:8], 1, flags[9])))
    assert "read-only: write elsewhere" in suggest(error)[0]


def test_the_wrong_kind_of_thing(here):
    """A directory for a file, a file for a directory, and something in the way."""
    _tree(here, "d/a.txt", "f")
    (here / "f").write_text("12345")
    assert suggest(_raised(open, "d"))[0] == "d is a directory: name a file in it, as d/a.txt"
    assert suggest(_raised(os.listdir, "f"))[0] == "f is a file and no directory: correct the path"
    assert suggest(_raised(open, "f/x"))[0] == "f is a file and no directory: correct the path"
    assert (
        suggest(_raised(os.mkdir, "f"))[0]
        == "f is there already, a file of 5 bytes: use it, or take another name"
    )


def test_how_much_is_free(here, monkeypatch):
    """A full device says how much is left, or that it holds no more files."""
    found = list(os.statvfs(here))
    found[1:8] = [1_000, 9, 9, 1_500, 100, 50, 50]
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(found))
    assert (
        suggest(OSError(errno.ENOSPC, "full", "x"))[0]
        == f"1.5 MB are free on the device of {here}: free more, or write less"
    )
    found[7] = 0
    assert "can hold no more files" in suggest(OSError(errno.ENOSPC, "full"))[0]
