"""The artifacts of a phase: checksums of files and directories, and commits in the history.

Rule: a name leads to a path below the root only, and no link is followed out of it. Everything here
blocks and is called in a thread.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...failure import config_error, redact
from ...files.private_files import ALWAYS
from .workflow_fields import COMMIT, is_inside


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .checkpoint import PhaseCheckpoint


_CHUNK: Final = 1 << 20
_GIT_SECONDS: Final = 30.0
_ELSEWHERE: Final = frozenset(
    (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_COMMON_DIR",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_NAMESPACE",
    )
)


class ArtifactError(Exception):
    """An artifact or a commit is missing, or differs from its checkpoint; `str()` says which."""


def name_of(path: str | os.PathLike[str], root: Path, field: str) -> str:
    """Return the name of an artifact below the root.

    Raises ConfigError for a path that leads elsewhere. Does no I/O.
    """
    wanted = "a path below the root"
    try:
        found = Path(path)
    except TypeError:
        raise config_error(field, wanted, type(path).__name__) from None
    if found.is_absolute():
        try:
            found = found.relative_to(root)
        except ValueError:
            raise config_error(field, f"{wanted} {root}", str(path)) from None
    name = found.as_posix()
    if not is_inside(name):
        raise config_error(field, wanted, str(path))
    return name


class HiddenError(ArtifactError):
    """An artifact cannot be read now; it may still exist."""


class Measured:
    """Checksums, reused while size, times and inode of a file stay the same.

    `ours`: the state file, which a directory's checksum omits.
    """

    def __init__(self, root: Path, *, ours: Path | None = None) -> None:
        self._root = root
        self._ours = ours
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}

    def of(self, name: str) -> str:
        """Return the checksum of an artifact.

        Raises ArtifactError if it is missing, or is no regular file or directory.
        """
        path = self._root / name
        try:
            if not path.resolve(strict=True).is_relative_to(self._root.resolve()):
                raise ArtifactError(f"{name} leads out of {self._root}")
            found = path.lstat()
            if path.is_symlink():
                raise ArtifactError(f"{name} is a symbolic link")
            if path.is_dir():
                return _of_directory(path, self._ours)
            if not path.is_file():
                raise ArtifactError(f"{name} is no regular file")
            stamp = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            known = self._known.get(name)
            if known is None or known[0] != stamp:
                known = self._known[name] = stamp, _of_file(path)
        except FileNotFoundError:
            raise ArtifactError(f"{name} is missing") from None
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise HiddenError(f"{name} cannot be read: {reason.lower()}") from error
        return known[1]


def measure(measured: Measured, names: tuple[str, ...]) -> dict[str, str]:
    """Return the checksums of artifacts. Raises ArtifactError that names all missing ones."""
    sums: dict[str, str] = {}
    wrong: list[str] = []
    for name in names:
        try:
            sums[name] = measured.of(name)
        except ArtifactError as error:
            wrong.append(str(error))
    if wrong:
        raise ArtifactError("; ".join(wrong))
    return sums


def problems(
    measured: Measured, root: Path, checkpoint: PhaseCheckpoint, sums: Mapping[str, str]
) -> dict[str, str]:
    """Return the problems of a finished phase, by artifact or commit.

    `sums`: the wanted checksums; "" if it is enough that the artifact exists. Raises HiddenError
    for an artifact that cannot be read now.
    """
    found: dict[str, str] = {}
    for name in checkpoint.artifacts:
        if name not in sums:
            continue
        try:
            if measured.of(name) != sums[name] and sums[name]:
                found[name] = f"{name} has changed"
        except HiddenError:
            raise
        except ArtifactError as error:
            found[name] = str(error)
    for commit in checkpoint.commits:
        try:
            _git(root, "merge-base", "--is-ancestor", commit, "HEAD")
        except HiddenError:
            raise
        except ArtifactError as error:
            found[commit] = f"commit {commit[:12]} is not in the history: {error}"
    return found


def commit_of(root: Path, commit: str | None) -> str:
    """Return the full name of a commit (None: HEAD).

    Raises ArtifactError if there is no such commit.
    """
    wanted = "HEAD" if commit is None else commit
    if commit is not None and not re.fullmatch(r"[0-9a-f]{4,64}", commit):
        raise config_error(
            "Phase.committed.commit", "the hexadecimal name of a commit, or None for HEAD", commit
        )
    full = _git(root, "rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}").strip()
    if not COMMIT.fullmatch(full):
        raise ArtifactError(f"there is no commit {wanted}")
    return full


def _of_file(path: Path) -> str:
    digest = sha256()
    with os.fdopen(os.open(path, os.O_RDONLY | ALWAYS), "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ArtifactError(f"{path.name} is no regular file")
        while part := file.read(_CHUNK):
            digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _of_directory(path: Path, ours: Path | None) -> str:
    """Return the checksum of the names and contents below a directory.

    Our own files are left out; a link counts by its target.
    """
    digest = sha256()
    for directory, names, files in os.walk(path, onerror=_refuse):
        names.sort()
        has_ours = ours is not None and os.path.realpath(directory) == os.path.realpath(ours.parent)
        for name in sorted([*names, *files]):
            # Our own writes are no change. The lock's file is not even opened: to close it would
            # release the lock.
            if (
                has_ours
                and ours is not None
                and f"{name}.".startswith((f"{ours.name}.", f".{ours.name}."))
            ):
                continue
            one = Path(directory, name)
            if one.is_symlink():
                text = f"link {one.readlink()}"
            else:
                text = "directory" if one.is_dir() else _of_file(one)
            digest.update(
                f"{one.relative_to(path).as_posix()}\0{text}\0".encode("utf-8", "surrogateescape")
            )
    return f"tree-sha256:{digest.hexdigest()}"


def _refuse(error: OSError) -> None:
    """Raise the error of a directory that cannot be listed, which os.walk would skip."""
    raise error


def _git(root: Path, *words: str) -> str:
    """Run git in the root and return its output.

    Raises ArtifactError if it fails, HiddenError if it cannot run.
    """
    # No prompts and no optional locks: this only reads. The repository is that of the root, also
    # when a git hook runs this.
    environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(  # noqa: S603 -- words of ours, and commits that are hexadecimal
            ["git", "-C", str(root), *words],  # noqa: S607 -- the user's git
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=environment,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise HiddenError("git is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HiddenError(f"git did not answer: {type(error).__name__}") from error
    if done.returncode:
        reason = redact(
            done.stderr.decode("utf-8", "replace").strip() or "it is not there", limit=200
        )
        raise ArtifactError(reason)
    return done.stdout.decode("utf-8", "replace")
