"""What a phase leaves behind, and whether it still does: names, files, directories, commits in a real repository."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from resilient_bridge.failure import ConfigError
from tests.internals.agent import (
    ArtifactError,
    Measured,
    PhaseCheckpoint,
    measure,
    name_of,
    problems,
)


needs_posix = pytest.mark.skipif(os.name == "nt", reason="needs the files of POSIX")


@pytest.fixture
def measured(tmp_path):
    """What measures below tmp_path."""
    return Measured(tmp_path)


def _refused(measured, name):
    with pytest.raises(ArtifactError) as caught:
        measured.of(name)
    return str(caught.value)


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["", ".", "./", "/", "..", "../x", "a/../x", "a/..", "/etc/passwd", "a\0b", "a\\b", "..\\x", "caf\udce9.txt", b"x", 5, None],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused(tmp_path, path):
    """Before anything is looked up, and with the name of the field."""
    with pytest.raises(ConfigError, match=r"^Phase\.x"):
        name_of(path, tmp_path, "Phase.x")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.txt", "a.txt"), ("./a", "a"), ("a//b/", "a/b"), (Path("a/b"), "a/b"), ("...", "..."), ("..a", "..a"),
        (" ", " "), ("a\nb", "a\nb"), ("-rf", "-rf"), ("~", "~"), ("日本語", "日本語"), ("a:b", "a:b"),
    ],
)  # fmt: skip
def test_a_name_is_written_in_one_way(tmp_path, path, name):
    """Whatever a file can be called, also from an absolute path below the root."""
    assert name_of(path, tmp_path, "x") == name
    assert name_of(tmp_path / path, tmp_path, "x") == name


def test_an_absolute_path_out_of_the_root_is_refused(tmp_path):
    """Also of a directory whose name begins alike, and of the root itself."""
    for path in (tmp_path, tmp_path.parent, f"{tmp_path}-other/a", tmp_path / ".." / "a"):
        with pytest.raises(ConfigError):
            name_of(path, tmp_path, "x")


# ---- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C6")
def test_a_check_sum_is_that_of_the_content(tmp_path, measured):
    """SHA-256, also of no content and of more than one reading."""
    for content in (b"", b"text", b"x" * (3 << 20)):
        path = tmp_path / "a"
        path.write_bytes(content)
        assert (
            measured.of("a")
            == Measured(tmp_path).of("a")
            == f"sha256:{sha256(content).hexdigest()}"
        )


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("how", ["in place", "anew"])
def test_other_content_of_the_same_size_and_time_is_noticed(tmp_path, measured, how):
    """Who puts the times back does not hide it."""
    path = tmp_path / "a"
    path.write_text("one")
    before, found = measured.of("a"), path.stat()
    if how == "anew":
        (tmp_path / "b").write_text("two")
        (tmp_path / "b").rename(path)
    else:
        path.write_text("two")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (found.st_size, found.st_mtime_ns)
    assert measured.of("a") == Measured(tmp_path).of("a") != before


def test_a_file_that_stays_is_read_once(tmp_path, measured):
    """The second time the check sum is remembered; this is what makes many phases cheap."""
    path = tmp_path / "a"
    path.write_text("one")
    before = measured.of("a")
    reads = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resilient_bridge.agent.workflow.artifacts._of_file", reads.append)
        assert measured.of("a") == before
    assert reads == []


@pytest.mark.parametrize("name", ["a\nb", "-n", " ", "日本語", "a'b\"c", "%s", "x" * 255])
def test_odd_names_are_names(tmp_path, measured, name):
    """Measured like all others."""
    (tmp_path / name).write_text("x")
    assert measured.of(name).startswith("sha256:")
    (tmp_path / name).unlink()
    assert _refused(measured, name) == f"{name} is missing"


@needs_posix
def test_links_are_not_followed(tmp_path, measured):
    """Neither to a file inside, nor outside, nor to nothing, nor in a circle; and a linked parent that leads out is refused."""
    outside = tmp_path.with_name(f"{tmp_path.name}-outside")
    outside.mkdir()
    (outside / "secret").write_text("x")
    (tmp_path / "file").write_text("x")
    for name, target in {
        "inside": "file", "out": str(outside / "secret"), "nothing": "none", "circle": "circle",
        "parent": str(outside), "up": "..",
    }.items():  # fmt: skip
        (tmp_path / name).symlink_to(target)
    assert _refused(measured, "inside") == "inside is a symbolic link"
    assert "leads out of" in _refused(measured, "out")
    assert _refused(measured, "nothing") == "nothing is missing"
    assert _refused(measured, "circle")
    for name in ("parent", "up", "parent/secret", f"up/{outside.name}/secret"):
        assert "leads out of" in _refused(measured, name)


@needs_posix
def test_a_root_that_is_a_link_is_the_folder_that_it_leads_to(tmp_path):
    """As temporary directories are on some systems."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("x")
    (tmp_path / "root").symlink_to("real")
    assert Measured(tmp_path / "root").of("a") == Measured(tmp_path / "real").of("a")


@needs_posix
@pytest.mark.timeout(10)
def test_what_is_no_file_is_neither_read_nor_waited_for(tmp_path, measured):
    """A FIFO and a socket, by themselves or in a directory that is an artifact."""
    (tmp_path / "in").mkdir()
    for offset in ("", "in/"):
        os.mkfifo(tmp_path / offset / "pipe")
        assert "no regular file" in _refused(measured, f"{offset}pipe")
    assert "no regular file" in _refused(measured, "in")
    (tmp_path / "in" / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listening, pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path / "in")
        listening.bind("socket")
        assert "no regular file" in _refused(measured, "in/socket")
        assert _refused(measured, "in").startswith("in ")


@needs_posix
@pytest.mark.timeout(10)
def test_a_file_that_becomes_a_pipe_while_it_is_looked_at(tmp_path, monkeypatch):
    """It is opened without waiting, and refused once it is seen."""
    os.mkfifo(tmp_path / "a")
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    assert "no regular file" in _refused(Measured(tmp_path), "a")


def test_replaced_by_the_other_kind(tmp_path, measured):
    """A directory in the place of a file, and a file in that of a directory, have another check sum; a part of a file is not there."""
    path = tmp_path / "a"
    path.write_text("x")
    file = measured.of("a")
    path.unlink()
    path.mkdir()
    directory = measured.of("a")
    assert directory != file
    path.rmdir()
    path.write_text("x")
    assert measured.of("a") == file
    assert _refused(measured, "a/b").startswith("a/b ")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users")
def test_what_cannot_be_read_is_reported(tmp_path, monkeypatch, measured):
    """It counts as not there, and the system says why."""
    (tmp_path / "a").write_text("x")
    (tmp_path / "d" / "e").mkdir(parents=True)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("resilient_bridge.agent.workflow.artifacts.os.open", refuse)
        assert _refused(measured, "a") == "a cannot be read: permission denied"
    with monkeypatch.context() as patch:
        patch.setattr("os.scandir", refuse)
        assert _refused(measured, "d") == "d cannot be read: permission denied"
    assert "too long" in _refused(measured, "x" * 300)


# ---- directories ----------------------------------------------------------------------------------------------------


def _tree(root):
    """A directory with a bit of everything."""
    (root / "sub" / "empty").mkdir(parents=True)
    (root / "a").write_text("a")
    (root / "sub" / "b\nc").write_text("b")
    (root / "link").symlink_to("a")
    (root / "way").symlink_to("sub")
    return root


CHANGES = {
    "content": lambda root: (root / "sub" / "b\nc").write_text("c"),
    "new file": lambda root: (root / "sub" / "new").write_text(""),
    "new directory": lambda root: (root / "sub" / "empty" / "x").mkdir(),
    "gone": lambda root: (root / "a").unlink(),
    "empty directory gone": lambda root: (root / "sub" / "empty").rmdir(),
    "renamed": lambda root: (root / "a").rename(root / "z"),
    "moved": lambda root: (root / "a").rename(root / "sub" / "a"),
    "link elsewhere": lambda root: ((root / "link").unlink(), (root / "link").symlink_to("b")),
    "link by its content": lambda root: ((root / "link").unlink(), (root / "link").write_text("a")),
    "file by directory": lambda root: ((root / "a").unlink(), (root / "a").mkdir()),
}


@needs_posix
@pytest.mark.requirement("C6")
@pytest.mark.parametrize("change", CHANGES)
def test_any_change_in_a_directory_is_a_change_of_it(tmp_path, measured, change):
    """Names, contents, links, empty directories."""
    root = _tree(tmp_path / "d")
    before = measured.of("d")
    assert before.startswith("tree-sha256:")
    CHANGES[change](root)
    assert measured.of("d") != before


@needs_posix
def test_the_same_tree_has_the_same_check_sum(tmp_path, measured):
    """Wherever it is, in whatever order it was made; what a link leads to is not part of it."""
    _tree(tmp_path / "d")
    other = tmp_path / "e"
    other.mkdir()
    (other / "way").symlink_to("sub")
    (other / "link").symlink_to("a")
    (other / "sub").mkdir()
    (other / "sub" / "b\nc").write_text("b")
    (other / "a").write_text("a")
    (other / "sub" / "empty").mkdir()
    assert measured.of("d") == measured.of("e")


@needs_posix
def test_names_that_are_no_text_may_be_in_a_directory(tmp_path, measured):
    """Bytes that are no UTF-8, and names that look like others written down."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / os.fsdecode(b"caf\xe9")).write_text("x")
    before = measured.of("d")
    (tmp_path / "d" / os.fsdecode(b"caf\xe9")).rename(tmp_path / "d" / os.fsdecode(b"caf\xe8"))
    assert measured.of("d") != before


def test_our_own_files_are_no_part_of_a_directory(tmp_path):
    """State, backup, lock and what was set aside may change; a file that is called nearly so may not. Elsewhere the names are free."""
    (tmp_path / "d" / "sub").mkdir(parents=True)
    measured = Measured(tmp_path, ours=tmp_path / "d" / "state.json")
    before = measured.of("d")
    for name in (
        "state.json",
        "state.json.bak",
        "state.json.owner",
        ".state.json.0123.tmp",
        "state.json.damaged-1",
    ):
        (tmp_path / "d" / name).write_text("x")
    assert measured.of("d") == before
    for name in ("state.jso", "mystate.json", "sub/state.json"):
        (tmp_path / "d" / name).write_text("x")
        assert measured.of("d") != before
        (tmp_path / "d" / name).unlink()


# ---- together -------------------------------------------------------------------------------------------------------


def _finished(**passed):
    return PhaseCheckpoint(phase="p", completed_at=datetime.now(UTC), **passed)


def test_all_that_is_missing_is_named(tmp_path, measured):
    """Not only the first."""
    (tmp_path / "a").write_text("x")
    with pytest.raises(ArtifactError, match=r"^b is missing; c is missing$"):
        measure(measured, ("a", "b", "c"))
    assert list(measure(measured, ("a",))) == ["a"]


def test_problems_name_what_has_changed_and_what_is_gone(tmp_path, measured):
    """Nothing for what holds; what somebody else answers for by now has to be there, with whatever content."""
    for name in "abc":
        (tmp_path / name).write_text(name)
    sums = measure(measured, ("a", "b", "c"))
    one = _finished(artifacts=("a", "b", "c"), checksums=sums)
    assert problems(measured, tmp_path, one, sums) == {}
    (tmp_path / "a").write_text("other")
    (tmp_path / "b").unlink()
    assert problems(measured, tmp_path, one, sums) == {"a": "a has changed", "b": "b is missing"}
    assert problems(measured, tmp_path, one, {"c": sums["c"]}) == {}  # nobody asked for the others
