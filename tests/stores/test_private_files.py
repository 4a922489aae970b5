"""Who may touch our files: links and strangers are refused, and what we make is ours alone."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from resilient_bridge.failure import ConfigError, StoreError
from tests.internals.files import (
    open_private,
    path_of,
    prepare_directory,
    private_files,
    read_private,
)
from tests.peers.processes import open_files
from tests.stores.faulty_disk import FaultyDisk, failing, insert


WRITE = os.O_RDWR | os.O_CREAT


@pytest.fixture
def directory(tmp_path):
    """A directory as the user makes one: 0755."""
    made = tmp_path / "given"
    made.mkdir(mode=0o755)
    made.chmod(0o755)
    return made


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def as_somebody_else(monkeypatch, user=12345):
    return insert(monkeypatch, FaultyDisk(geteuid=lambda: user))


# ---- paths -----------------------------------------------------------------------------------------------------------


def test_a_path_stays_where_it_was_when_the_directory_changes(tmp_path, monkeypatch):
    """A relative path is made absolute at once, and may be text or a Path."""
    monkeypatch.chdir(tmp_path)
    assert (
        path_of("state.json", "f")
        == path_of(tmp_path / "state.json", "f")
        == tmp_path / "state.json"
    )


@pytest.mark.requirement("V14")
def test_a_path_below_the_home_directory(tmp_path, monkeypatch):
    """`~/x` is there, as a text and as a path; another name with that letter stays where it is."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for path in ("~/.openviber/s1.jsonl", Path("~/.openviber/s1.jsonl")):
        assert path_of(path, "path") == tmp_path / "home/.openviber/s1.jsonl"
    for name in ("~backup", "a/~/b"):
        assert path_of(name, "path") == tmp_path / name


@pytest.mark.parametrize(
    "path", ["", ".", "..", "a/..", "/", "a\0b", "x" * 201, 5, None, b"x", "\ud800"]
)
def test_what_is_no_path_to_a_file_is_refused(path):
    """Empty, a directory by its name, NUL, too long for the names made from it, and what is no path."""
    with pytest.raises(ConfigError, match=r"StateFile\.path: wanted a path to a file"):
        path_of(path, "StateFile.path")


def test_a_path_in_a_working_directory_that_is_gone_is_typed(monkeypatch):
    """A relative path means nothing there, and says so."""
    monkeypatch.setattr(private_files.Path, "absolute", lambda path: (path / "gone").stat())
    with pytest.raises(StoreError, match="could not be found"):
        path_of("x", "f")


# ---- the directory ---------------------------------------------------------------------------------------------------


def test_a_directory_that_is_not_there_is_made_private(tmp_path):
    """Its parents too; a second time it is there already."""
    path = tmp_path / "a" / "b" / "c" / "state.json"
    for _ in range(2):
        prepare_directory(path)
    assert [mode_of(made) for made in (tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c")] == [
        0o700
    ] * 3


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o750, 0o1777, 0o1775])
def test_a_directory_where_no_other_user_can_swap_files_will_do(directory, monkeypatch, mode):
    """A home or a project that others may list, and /tmp, where the sticky bit keeps them from what is ours."""
    monkeypatch.setattr(private_files, "_is_ours_alone", lambda group: False)
    directory.chmod(mode)
    prepare_directory(directory / "x")
    assert mode_of(directory) == mode & 0o777 | mode & 0o1000


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o772])
def test_a_directory_that_others_may_write_to_is_refused(directory, monkeypatch, mode):
    """Threat 38: they could put another file in the place of ours; the error says which mode was found."""
    monkeypatch.setattr(private_files, "_is_ours_alone", lambda group: False)
    directory.chmod(mode)
    with pytest.raises(
        ConfigError, match=rf"f: wanted .* nobody else may write to, got '.*mode {mode:04o}'"
    ):
        prepare_directory(directory / "x", "f")


def test_a_group_of_one_is_the_user_alone(directory, monkeypatch):
    """With umask 002 and private groups every directory is 0775, and harmless."""
    monkeypatch.setattr(
        private_files, "_is_ours_alone", lambda group: group == directory.stat().st_gid
    )
    directory.chmod(0o775)
    prepare_directory(directory / "x")
    directory.chmod(0o777)
    with pytest.raises(ConfigError):
        prepare_directory(directory / "x")


@pytest.mark.parametrize(
    ("name", "members", "primary", "alone"),
    [("me", [], 7, True), ("me", ["me"], 7, True), ("me", ["you"], 7, False), ("all", [], 7, False), ("me", [], 8, False)],
)  # fmt: skip
def test_a_private_group_has_our_name_and_no_other_member(
    monkeypatch, name, members, primary, alone
):
    """Our primary group, named as we are, with nobody else in it."""
    import grp
    import pwd

    user = pwd.struct_passwd(("me", "x", os.geteuid(), primary, "", "/", "/bin/sh"))
    group = grp.struct_group((name, "x", 7, members))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    monkeypatch.setattr(grp, "getgrgid", {7: group}.__getitem__)
    assert private_files._is_ours_alone(7) is alone


def test_a_group_that_is_unknown_is_not_ours(monkeypatch):
    """Neither is ours when the user has no name, as in a container."""
    as_somebody_else(monkeypatch, 4_000_000_000)
    assert not private_files._is_ours_alone(4_000_000_000)


@pytest.mark.parametrize("owner", [0, 999, 12345])
def test_a_directory_of_somebody_else_is_refused(directory, monkeypatch, owner):
    """Threat 38: its owner could put another file in the place of ours. Root could anyway, and we may."""
    real = directory.stat()
    owned = os.stat_result((*real[:4], owner, *real[5:]))
    insert(monkeypatch, FaultyDisk(geteuid=lambda: 12345, stat=lambda path: owned))
    if owner != 999:
        prepare_directory(directory / "x")
        return
    with pytest.raises(
        ConfigError,
        match=r"f: wanted a path in a directory of ours or of root, got '.*of user 999'",
    ):
        prepare_directory(directory / "x", "f")


@pytest.mark.parametrize("below", ["x", "deep/x", "deeper/still/x"])
def test_a_path_below_a_file_is_refused(directory, below):
    """A file is no directory, whatever is wanted in it."""
    (directory / "file").write_text("")
    with pytest.raises(ConfigError, match="wanted a path in a directory"):
        prepare_directory(directory / "file" / below)


def test_a_file_that_replaces_a_directory_is_seen(tmp_path, monkeypatch):
    """Somebody was faster, and made something else of that name."""

    def faster(path, mode):
        path.write_text("")
        raise FileExistsError(errno.EEXIST, "file exists")

    insert(monkeypatch, FaultyDisk(mkdir=faster))
    with pytest.raises(ConfigError, match="wanted a path in a directory"):
        prepare_directory(tmp_path / "new" / "x")


@pytest.mark.parametrize("kind", ["stat", "mkdir", "open", "fsync"])
def test_a_directory_that_cannot_be_made_is_typed(tmp_path, monkeypatch, kind):
    """StoreError with the path, and the system's error as its cause."""
    insert(monkeypatch, FaultyDisk(1, failing("EROFS"), kinds={kind}))
    with pytest.raises(
        StoreError, match="new could not be made or looked at: read-only file system"
    ) as caught:
        prepare_directory(tmp_path / "new" / "x")
    assert caught.value.failure.code == "SYS_STORE_UNAVAILABLE"
    assert caught.value.failure.details["errno"] == errno.EROFS
    assert isinstance(caught.value.__cause__, OSError)


# ---- one file --------------------------------------------------------------------------------------------------------


def test_a_new_file_is_ours_alone(directory, monkeypatch):
    """0600, whatever the umask, and from the first moment on."""
    monkeypatch.setattr(
        private_files, "sys", SimpleNamespace(platform="win32")
    )  # so that nobody makes it so afterwards
    before = os.umask(0)
    try:
        os.close(open_private(directory / "x", WRITE))
    finally:
        os.umask(before)
    assert mode_of(directory / "x") == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o666, 0o640, 0o700])
def test_an_old_file_is_made_private(directory, mode):
    """What others could read or write, they cannot any more."""
    path = directory / "x"
    path.write_text("kept")
    path.chmod(mode)
    os.close(open_private(path, WRITE))
    assert not mode_of(path) & 0o077
    assert path.read_text() == "kept"


def test_a_private_file_stays_as_it_is(directory, monkeypatch):
    """Also one that its owner may only read."""
    path = directory / "x"
    path.write_text("kept")
    path.chmod(0o400)
    disk = insert(monkeypatch, FaultyDisk())
    assert read_private(path) == b"kept"
    assert "fchmod" not in disk.calls


def test_the_descriptor_is_not_inherited(directory):
    """No child process gets it."""
    handle = open_private(directory / "x", WRITE)
    assert not os.get_inheritable(handle)
    os.close(handle)


def _link(path, target):
    target.write_text("theirs")
    path.symlink_to(target)


def _dangling(path, target):
    path.symlink_to(target)


def _second_name(path, target):
    target.write_text("theirs")
    path.hardlink_to(target)


def _directory(path, target):
    path.mkdir()


def _pipe(path, target):
    os.mkfifo(path)


def _socket(path, target):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(os.path.relpath(path))


@pytest.mark.parametrize(
    "flags", [os.O_RDONLY, WRITE, WRITE | os.O_TRUNC, os.O_WRONLY | os.O_APPEND]
)
@pytest.mark.parametrize("make", [_link, _dangling, _second_name, _directory, _pipe, _socket])
@pytest.mark.timeout(10)
def test_what_is_no_plain_file_is_refused_and_not_touched(directory, make, flags):
    """Threat 38: a link is not followed, a pipe not waited for, a file with two names not changed; the error names the path."""
    path, target = directory / "x", directory / "target"
    make(path, target)
    with pytest.raises(
        ConfigError, match=r"SessionLog\.path: wanted a regular file of ours .*given[\\/]+x, "
    ):
        open_private(path, flags, "SessionLog.path")
    assert not target.exists() or target.read_text() == "theirs"
    assert make is not _dangling or not target.exists()


def test_a_directory_that_the_system_only_refuses_is_one(directory, monkeypatch):
    """Windows says no more than that: a wrong path is a wrong setting there too, and no store that may come back."""

    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(private_files, "disk", SimpleNamespace(open=refused))
    with pytest.raises(ConfigError, match="a directory"):
        open_private(directory, os.O_RDONLY, "f")
    with pytest.raises(StoreError, match="permission denied"):
        open_private(directory / "x", os.O_RDONLY | os.O_CREAT, "f")


def test_a_link_is_refused_where_the_system_has_no_flag_for_that(directory, monkeypatch):
    """As on Windows: looked at before it is opened."""
    monkeypatch.setattr(private_files, "_NOFOLLOW", 0)
    _link(directory / "x", directory / "target")
    text = r"f: wanted a regular file of ours that has one name, or the path of a new one, got '.*x, a symbolic link'"
    with pytest.raises(ConfigError, match=text):
        open_private(directory / "x", os.O_RDONLY, "f")


def test_a_file_of_somebody_else_is_refused(directory, monkeypatch):
    """Threat 38: its owner could change what we believe we wrote."""
    path = directory / "x"
    path.write_text("theirs")
    path.chmod(0o666)
    as_somebody_else(monkeypatch)
    text = rf"f: wanted a regular file of ours that has one name, or the path of a new one, got '.*x, of user {os.geteuid()}'"
    with pytest.raises(ConfigError, match=text):
        open_private(path, WRITE | os.O_TRUNC, "f")
    assert mode_of(path) == 0o666
    assert path.read_text() == "theirs"


def test_truncation_is_possible(directory):
    """O_TRUNC does what it says, once it is known that the file is ours."""
    path = directory / "x"
    path.write_text("old")
    os.close(open_private(path, WRITE | os.O_TRUNC))
    assert path.read_text() == ""


def test_a_missing_file_is_the_callers_business(directory):
    """FileNotFoundError without O_CREAT, None from `read_private`; with O_CREAT it is the directory that is missing."""
    with pytest.raises(FileNotFoundError):
        open_private(directory / "x", os.O_RDONLY)
    assert read_private(directory / "x") is None
    with pytest.raises(StoreError, match="could not be opened"):
        open_private(directory / "none" / "x", WRITE)


@pytest.mark.parametrize(
    ("kind", "verb"),
    [("open", "opened"), ("fstat", "opened"), ("fchmod", "opened"), ("read", "read")],
)
def test_what_the_system_refuses_is_typed_and_leaves_nothing_open(
    directory, monkeypatch, kind, verb
):
    """StoreError with the path, the cause, and no descriptor left behind."""
    path = directory / "x"
    path.write_text("kept")
    path.chmod(0o644)
    before = open_files()
    insert(monkeypatch, FaultyDisk(1, failing("EIO"), kinds={kind}))
    with pytest.raises(StoreError, match=f"x could not be {verb}: input/output error") as caught:
        read_private(path)
    assert caught.value.failure.details["path"] == str(path)
    assert caught.value.failure.cause is caught.value.__cause__
    assert open_files() == before


def test_a_large_file_is_read_whole(directory):
    """Also what takes several reads."""
    path = directory / "x"
    path.write_bytes(os.urandom(3_000_000))
    assert read_private(path) == path.read_bytes()


def test_a_path_below_a_folder_that_may_not_be_searched_is_a_store_that_cannot_be_had(
    directory, monkeypatch
):
    """To ask what is there would be refused as well: that is no error of its own."""

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    insert(monkeypatch, FaultyDisk(open=refuse))
    monkeypatch.setattr(type(directory), "is_dir", refuse)
    with pytest.raises(StoreError) as caught:
        open_private(directory / "below", WRITE)
    assert caught.value.failure.code == "SYS_STORE_UNAVAILABLE"
