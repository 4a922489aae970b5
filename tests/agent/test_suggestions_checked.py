"""Nothing is suggested that was not checked: what could once be made to say something false, on the disk and in texts."""

from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.agent.suggestions.suggest import suggest


def _made(root, *paths, content="x", mode=0o644):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
        (root / path).chmod(mode)


def _missing(path, **options):
    return suggest(FileNotFoundError(2, "No such file or directory", str(path)), **options)


def _raised(function, *args, **options):
    with pytest.raises(OSError) as caught:
        function(*args, **options)
    return caught.value


def _commands(reported):
    """What of suggestions is to be typed: after the colon."""
    words = ("cp ", "mkdir ", "touch ", "chmod ")
    return [line.partition(": ")[2] for line in reported if line.partition(": ")[2].startswith(words)]


# ---- backups and what is made ---------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.requirement("C4")
@pytest.mark.parametrize("path", ["app.json", "src/app.json", "a b/it's $x.json", "-d/-f.json"])
def test_each_command_works_as_it_stands(tmp_path, path):
    """Typed into a shell, what restores a backup restores it, and what creates makes something: quoted, and with its directory."""
    _made(tmp_path / "0", f"backups/{path}", content="kept")
    commands = _commands(_missing(path, directory=tmp_path / "0"))
    for number, line in enumerate(commands):  # each where nothing else was done
        folder = tmp_path / str(number)
        _made(folder, f"backups/{path}", content="kept")
        subprocess.run(line, shell=True, check=True, cwd=folder)
        assert len(list(folder.iterdir())) == 2
    assert (tmp_path / "0" / path).read_text() == "kept"
    assert len(commands) == 2


@pytest.mark.requirement("C4")
def test_a_backup_in_a_directory_that_is_missing_too(here):
    """It is made first, in the same line."""
    _made(here, "backups/src/app.json")
    assert _missing("src/app.json")[:2] == (
        "restore the backup backups/src/app.json: mkdir -p src && cp backups/src/app.json src/app.json",
        "create the directory first: mkdir -p src",
    )


@pytest.mark.requirement("C4")
def test_an_empty_backup_is_none(here):
    """Nor is it a near miss; one beside it that holds something is named."""
    _made(here, "x.json.bak", content="")
    assert _missing("x.json")[0] == "create it: touch x.json"
    _made(here, "x.json.orig")
    assert _missing("x.json")[0].startswith("restore the backup x.json.orig: cp ")


def test_a_backup_of_another_file_of_that_name(here):
    """What mirrors a file that is there is the backup of that one."""
    _made(here, "backups/app.json")
    assert "backup" in _missing("src/app.json")[0]
    _made(here, "app.json")
    assert not [line for line in _missing("src/app.json") if "restore" in line]


def test_what_cannot_be_written_to(here, monkeypatch):
    """A backup is named without a command where none would work; nothing is to be created there."""
    _made(here, "x.json.bak")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK | os.X_OK)
    assert _missing("x.json")[0] == "restore the backup x.json.bak"
    assert _commands(_missing("x.json")) == []
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    assert _missing("x.json")[0] == "restore the backup x.json.bak"


@pytest.mark.parametrize(
    "path",
    ["/proc/99999999/status", "/sys/x", "/dev/ttyNONE9", "x" * 300, "run/docker.sock", "nowhere/../x"],
)
def test_what_can_only_fail_is_not_to_be_created(here, path):
    """What the kernel makes, a name that no disk takes, a socket, a way through what is not there."""
    (here / "run").mkdir()
    assert _commands(_missing(path)) == []


def test_a_program_that_is_missing_is_not_made_of_nothing(here):
    """An empty file in its place would run, and do nothing; what cannot be run is no near miss of it."""
    _made(here, "scrpt.sh")
    reported = suggest(_raised(subprocess.run, ["./script.sh"]))
    assert _commands(reported) == []
    assert "scrpt" not in " ".join(reported)
    (here / "scrpt.sh").chmod(0o755)
    assert suggest(_raised(subprocess.run, ["./script.sh"]))[0] == "did you mean scrpt.sh?"


def test_a_command_that_is_too_long_to_be_shown_is_omitted(here):
    """A line that ends in the middle is no command."""
    long = "/".join(["d" * 100] * 2)
    _made(here, f"backups/{long}/x.json")
    reported = _missing(f"{long}/x.json")
    assert reported[0] == f"restore the backup backups/{long}/x.json"
    assert not [line for line in reported if line.endswith("…")]


def test_a_command_of_a_program_that_is_not_there(here, monkeypatch):
    """Is left out, what it would do is not."""
    monkeypatch.setenv("PATH", str(here))
    assert _missing("x.json")[0] == "create it"


# ---- ways that lead elsewhere -----------------------------------------------------------------------------------------


def test_a_link_to_nothing_on_the_way(here):
    """No directory can be made in its place."""
    (here / "link").symlink_to("nothing")
    reported = _missing("link/x.json")
    assert reported[0] == "link is a link to nothing: correct or remove it"
    assert _commands(reported) == []


def test_a_way_out_of_a_directory_that_is_not_there(here):
    """`a/../x` is not `x` where there is no `a`, and above a link is what is above its end."""
    _made(here, "x", "far/away/y")
    assert _missing("a/../x")[:2] == (
        "no directory a is seen, and a/../x goes through it: correct the path",
        "did you mean x?",
    )
    (here / "a").mkdir()
    assert _missing("a/../x")[0].startswith("a/../x is in ")
    (here / "link").symlink_to("far/away")
    assert not [line for line in _missing("link/../x") if "is in" in line]
    assert _missing("link/../away/y")[0].startswith("link/../away/y is in ")


def test_a_directory_is_wanted_where_one_was_named(here):
    """A file that is spelled alike cannot be worked in."""
    _made(here, "srcs")
    assert "did you mean" not in " ".join(suggest(_raised(subprocess.run, ["true"], cwd="src")))
    (here / "scr").mkdir()
    assert suggest(_raised(subprocess.run, ["true"], cwd="src"))[0] == "did you mean scr?"


def test_both_ends_of_a_rename(here):
    """The one that the refusal is about: not the file that is there, but the directory that is not."""
    _made(here, "a", "full/x")
    (here / "b").mkdir()
    moved = _raised(os.rename, "a", "no/new.bin")
    for error in (moved, RuntimeError(str(moved))):
        assert suggest(error)[0] == "create the directory first: mkdir -p no"
    text = "mv: cannot move 'a' to 'no/a': No such file or directory"
    assert (
        suggest(RuntimeError(text))[0] == "create the directory first: mkdir -p no"
    )  # the other end is no near miss
    assert suggest(_raised(os.link, "a", "full/x"))[0].startswith("full/x is there already")
    assert not [line for line in suggest(_raised(os.link, "a", "full/x")) if line.startswith("a is")]
    assert suggest(_raised(os.rename, "a", "b"))[0] == "b is a directory: name the file in it, b/a"
    _made(here, "b/a")
    assert suggest(_raised(os.rename, "a", "b"))[0] == "b is a directory: name a file"


def test_a_directory_that_was_to_be_empty(here):
    """What it holds; and when it is empty by now, that."""
    _made(here, "d/x", "d/y")
    error = _raised(os.rmdir, "d")
    assert suggest(error)[0] == "d is not empty, it holds x, y: see whether that can go"
    (here / "d/x").unlink()
    (here / "d/y").unlink()
    assert suggest(error)[0] == "d is empty now: repeat the call"


# ---- programs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "why"),
    [
        (b"#!/bin/sh\r\n", "the first line of x ends with a carriage return"),
        (b"#! /no/such/sh -e\n", "the first line of x asks for /no/such/sh, which is not there"),
    ],
)
def test_a_program_that_cannot_start(here, monkeypatch, begin, why):
    """It is there, and yet the system says that it is not: it is what it asks for, on the search path too."""
    (here / "x").write_bytes(begin)
    (here / "x").chmod(0o755)
    assert suggest(_raised(subprocess.run, ["./x"]))[0].startswith(why)
    monkeypatch.setenv("PATH", str(here))
    reported = suggest(_raised(subprocess.run, ["x"]))
    assert reported[0].startswith(why)
    assert "is at" not in " ".join(reported)


@pytest.mark.real
def test_a_program_without_its_loader(here):
    """One that was built for another system asks for a loader that is not here."""
    binary = Path("/bin/true").read_bytes()
    if (found := re.search(rb"\0(/[^\0]*/ld[^/\0]*\.so[^/\0]*)\0", binary[:4096])) is None:
        pytest.skip("its true has no loader")
    (here / "x").write_bytes(binary.replace(found[1], found[1][:-1] + b"X"))
    (here / "x").chmod(0o755)
    loader = os.fsdecode(found[1][:-1] + b"X")
    assert suggest(_raised(subprocess.run, ["./x"]))[0].startswith(f"the program x asks for {loader}, which")
    (here / "x").write_bytes(binary)
    error = FileNotFoundError(2, "no", "./x")
    assert suggest(error, arguments={"command": "./x"})[0].startswith("./x is in ")


def test_where_a_program_was_to_run(here):
    """A path is looked up where the call began, not where we are."""
    _made(here, "prog", mode=0o755)
    (here / "sub").mkdir()
    reported = suggest(_raised(subprocess.run, ["./prog"], cwd="sub"))
    assert reported[0] == "did you mean prog?"


@pytest.mark.parametrize(
    "command", ["cd /x && gerp", "FOO=1 gerp", "for x in y", "gerp | less", "sh x.sh", ["sh", "-c", "gerp"]]
)
def test_an_exit_code_alone_names_no_program(command):
    """127 of a line may be any of its commands, and of a program that is there what it called."""
    failure = rb.classify(subprocess.CalledProcessError(127, ["sh"]))
    assert suggest(failure, arguments={"command": command}) == failure.suggestions
    assert (
        suggest(failure, arguments={"script": "gerp pattern"}) == failure.suggestions
    )  # code, and no command line


def test_who_may_make_it_executable(here, monkeypatch):
    """Its owner; where the file system forbids it, nobody."""
    _made(here, "x", mode=0o600)
    error = _raised(subprocess.run, ["./x"])
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert suggest(error)[0] == "have its owner make x executable"
    flags = os.statvfs(here)
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((*flags[:8], 8, flags[9])))
    assert suggest(error)[0] == "nothing on the file system of x may be run: put it on another"


# ---- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(
    "text",
    [
        "no such file or directory",
        "open: No such file or directory",
        "psql: could not connect to server: No such file or directory",
        'connection to server on socket "/run/x/.s.PGSQL.5432" failed: No such file or directory',
        "dial unix /var/run/docker.sock: connect: no such file or directory",
        "tar: x.tar: Cannot open: No such file or directory",
        "fopen(x.txt): Failed to open stream: No such file or directory",
        "('aborted', FileNotFoundError(2, 'No such file or directory'), 'x')",
        "No such file or directory; see 'man open'",
        r"cp: cannot stat 'it'\''s.txt': No such file or directory",
        "scp: /remote/x.txt: No such file or directory",
        "x.c:1:10: fatal error: zlib.h: No such file or directory",
    ],
)
def test_prose_is_no_path(here, text):
    """Nothing is to be created of the words of a message, of a call's name or of a part of a quoted name."""
    failure = rb.classify(RuntimeError(text))
    assert suggest(failure) == failure.suggestions


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("error: could not open config file conf/x.json: No such file or directory", "conf/x.json"),
        ("cat: my file.txt: No such file or directory", "my file.txt"),
        ('[Errno 2] No such file or directory: "it\'s.txt"', "it's.txt"),
        ('cp: cannot stat "it\'s.txt": No such file or directory', "it's.txt"),
        ("[Errno 2] No such file or directory: b'x.txt'", "x.txt"),
        ("head: cannot open 'x.txt' for reading: No such file or directory", "x.txt"),
        ("mv: cannot move 'a.txt' to 'b.txt': No such file or directory", "a.txt"),
        ("Error: x.txt: No such file or directory (os error 2)", "x.txt"),
    ],
)
def test_a_path_within_prose(here, text, path):
    """As far as it can be told from the words before it; quotes as they belong together."""
    (here / "conf").mkdir()
    assert _commands(suggest(RuntimeError(text))) == [f"touch {shlex.quote(path)}"]


@pytest.mark.parametrize(
    "text",
    [
        "bash: line 1: cd: new: No such file or directory",
        "cd: no such file or directory: new",
        "ENOENT: no such file or directory, scandir 'new'",
        "chdir new: no such file or directory",
    ],
)
def test_a_file_is_not_made_where_a_directory_was_wanted(here, text):
    """As far as the text says which; where nothing does, and no ending either, no command is named."""
    assert suggest(RuntimeError(text))[0] == "create the directory: mkdir new/"
    assert (
        suggest(_raised(os.listdir, "new"))[0]
        == "create it, as the file or the directory that the call wants"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"mime": "application/json"},
        {"host": "example.com"},
        {"endpoint": "/v1/chat"},
        {"source": "web"},
        {"repo": "owner/name"},
    ],
)
def test_an_argument_that_is_no_path(here, arguments):
    """What begins with no directory that is there is not to be made, unless its name says that it is a path."""
    failure = rb.Failure.of("TOOL_EXECUTION_FAILED", "no such file or directory")
    assert suggest(failure, arguments=arguments) == failure.suggestions


def test_what_people_write_is_no_refusal(here):
    """A sentence with the words in it is not what the system says."""
    (here / "out").mkdir()
    for text in ("output_dir: wanted that it is a directory", "the file exists already"):
        failure = rb.classify(RuntimeError(text))
        assert suggest(failure, arguments={"output_dir": "out"}) == failure.suggestions


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "inotify watch limit reached", "x"),
        RuntimeError("ENOSPC: System limit for number of file watchers reached, watch '/x'"),
    ],
)
def test_watches_that_are_used_up_are_no_full_device(here, error):
    """The system reports both by the same number: how much is free on the disk says nothing."""
    reported = suggest(error)
    assert "are free" not in " ".join(reported)
    if Path("/proc/sys/fs/inotify/max_user_watches").exists():
        assert "raise fs.inotify.max_user_watches, which is " in reported[0]
