"""Nothing is suggested that was not checked: what could once be made to say something false, on the disk and in texts."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import suggest


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
    return [
        line.partition(": ")[2] for line in reported if line.partition(": ")[2].startswith(words)
    ]


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
    [
        "/proc/99999999/status",
        "/sys/x",
        "/dev/ttyNONE9",
        "x" * 300,
        "run/docker.sock",
        "nowhere/../x",
    ],
)
def test_what_can_only_fail_is_not_to_be_created(here, path):
    """What the kernel makes, a name that no disk takes, a socket, a way through what is not there."""
    (here / "run").mkdir()
    assert _commands(_missing(path)) == []


def test_a_program_that_is_missing_is_not_made_of_nothing(here):
    """An empty file in its place would run, and do nothing."""
    _made(here, "scrpt.sh", mode=0o755)
    by_shell = subprocess.CalledProcessError(
        127, ["sh"], stderr="bash: ./script.sh: No such file or directory"
    )
    for error in (_raised(subprocess.run, ["./script.sh"]), by_shell):
        reported = suggest(error)
        assert _commands(reported) == []
        assert reported[0] == "did you mean scrpt.sh?"


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
    assert _commands(_missing("link/x.json")) == []


def test_a_way_out_of_a_directory_that_is_not_there(here):
    """`a/../x` is not `x` where there is no `a`, and above a link is what is above its end."""
    _made(here, "x", "far/away/y")
    assert _missing("a/../x")[0] == "did you mean x?"
    (here / "a").mkdir()
    assert _missing("a/../x")[0].startswith("a/../x is in ")
    (here / "link").symlink_to("far/away")
    assert not [line for line in _missing("link/../x") if "is in" in line]
    assert _missing("link/../away/y")[0].startswith("link/../away/y is in ")


def test_a_directory_is_wanted_where_one_was_named(here):
    """A file that is spelled alike cannot be worked in."""
    _made(here, "srcs")
    assert "did you mean" not in " ".join(_missing("src/"))
    (here / "scr").mkdir()
    assert _missing("src/")[0] == "did you mean scr?"


def test_a_rename_names_two_paths_and_either_may_be_missing(here):
    """Nothing is said about one that exists, and nothing is created in place of the other."""
    _made(here, "a")
    moved = _raised(os.rename, "a", "no/new.bin")
    text = "mv: cannot move 'a' to 'no/a': No such file or directory"
    for error in (moved, RuntimeError(str(moved)), RuntimeError(text)):
        assert suggest(error) == rb.classify(error).suggestions


@pytest.mark.parametrize(
    ("arguments", "options"), [(["./x"], {}), (["gerp"], {}), (["./prog"], {"cwd": "sub"})]
)
def test_a_program_that_exists_or_was_searched_for_is_no_missing_file(here, arguments, options):
    """Its interpreter is missing, or the search path has no such program, or it was to run elsewhere."""
    _made(here, "x", content="#!/no/such/python", mode=0o755)
    _made(here, "prog", "docs/grep", mode=0o755)
    (here / "sub").mkdir()
    error = _raised(subprocess.run, arguments, **options)
    assert suggest(error) == rb.classify(error).suggestions


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
        "error: could not open config file conf/x.json: No such file or directory",
        "cat: my file.txt: No such file or directory",
        "cat: settings: No such file or directory",
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
        ('[Errno 2] No such file or directory: "it\'s.txt"', "it's.txt"),
        ('cp: cannot stat "it\'s.txt": No such file or directory', "it's.txt"),
        ("[Errno 2] No such file or directory: b'x.txt'", "x.txt"),
        ("head: cannot open 'x.txt' for reading: No such file or directory", "x.txt"),
        ("Error: x.txt: No such file or directory (os error 2)", "x.txt"),
    ],
)
def test_a_path_within_prose(here, text, path):
    """Quotes are read in pairs, and may have words around them."""
    assert _commands(suggest(RuntimeError(text))) == [f"touch {shlex.quote(path)}"]


@pytest.mark.parametrize(
    "text",
    [
        "ENOENT: no such file or directory, scandir 'new'",
        "ENOENT: no such file or directory, chdir 'new'",
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
