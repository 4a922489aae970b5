"""Whether a path exists, which directories above it do, and where its project ends.

Rule: a path that cannot be reached counts as one that does not exist. The time is linear in the
path's length.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final


_MOST_STEPS: Final = 200  # directories of one path that are looked at
_MOST_PARENTS: Final = 7  # directories above one in which the root of its project is looked for
_SEP: Final = os.sep
_ROOT_NAMES: Final = (".git", ".hg", "pyproject.toml", "package.json", "Cargo.toml", "go.mod")


def status_of(path: str, *, is_link_followed: bool = True) -> os.stat_result | None:
    """Return the status of a path.

    None if it does not exist, cannot be reached or is no valid path.
    """
    try:
        return Path(path).stat(follow_symlinks=is_link_followed)
    except (OSError, ValueError):  # a NUL in a name is a ValueError
        return None


def is_directory(path: str) -> bool:
    """Return whether a directory exists, or a link to one."""
    status = status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def is_file(path: str) -> bool:
    """Return whether a regular file exists, or a link to one."""
    status = status_of(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def nearest_existing(path: str) -> str | None:
    """Return the path itself, or the nearest directory above it, that exists.

    None if a link to nothing is in its way.
    """
    nearest, end = _SEP, 0
    for _ in range(_MOST_STEPS):
        end = path.find(_SEP, end + 1)
        step = path if end < 0 else path[: max(end, 1)]
        if status_of(step, is_link_followed=False) is None:
            break  # nothing exists below a missing directory
        if status_of(step) is None:
            return None
        nearest = step
        if end < 0:
            break
    return nearest


def up_to_project_root(directory: Path) -> Iterator[Path]:
    """Yield a directory and those above it, up to the root of its project.

    The root is the first directory with a `.git`, `pyproject.toml` or the like, or the home of the
    user. If neither is found above, it is the parent of the directory.
    """
    line = [directory, *islice(directory.parents, _MOST_PARENTS)]
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 -- Path.home raises where there is none
    roots = (index for index, here in enumerate(line) if here == home or _is_root(here))
    yield from line[: next(roots, 1) + 1]


def _is_root(directory: Path) -> bool:
    return any(status_of(str(directory / name)) is not None for name in _ROOT_NAMES)
