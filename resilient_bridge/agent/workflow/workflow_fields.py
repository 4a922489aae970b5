"""Readers of the fields of a state file: texts, instants, names below a directory, commits.

Rule: each returns the value, or raises ValueError that begins with the path of the wrong field.
Does no I/O.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


T = TypeVar("T")

COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# another program may have written the beginning of its name
_ANY_COMMIT: Final = re.compile(r"[0-9a-f]{4,64}")


def is_inside(name: str) -> bool:
    """Return whether a name leads below a directory, and is in the form that is written."""
    path = PurePosixPath(name)
    return (
        bool(name)
        and "\0" not in name
        and "\\" not in name
        and not path.is_absolute()
        and ".." not in path.parts
        and str(path) == name
        and name != "."
        and _is_storable(name)
    )


def _is_storable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # from bytes that are not UTF-8: the file cannot hold it
        return False
    return True


# ---- reading: each returns the value, or raises ValueError ---------------------------------------------------------


def wrong(path: str, wanted: str, got: object) -> ValueError:
    """Return the error for a wrong value at `path`; it shows the start of a text, else the type."""
    return ValueError(
        f"{path}: wanted {wanted}, got {str(got)[:40] if isinstance(got, str) else type(got).__name__}"
    )


def mapping(value: Any, path: str, keys: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Read an object; with `keys`, one that has exactly these."""
    if type(value) is not dict:
        raise wrong(path, "an object", value)
    body = cast("dict[str, Any]", value)
    if keys and body.keys() != keys:
        text = ", ".join(sorted(keys ^ body.keys()))
        raise ValueError(
            f"{path}: wanted the fields of a checkpoint, missing or unknown: {text[:100]}"
        )
    return body


def items(value: Any, path: str) -> list[Any]:
    if type(value) is not list:
        raise wrong(path, "an array", value)
    return value  # pyright: ignore[reportUnknownVariableType]


def each(value: Any, read: Callable[[Any, str], T], path: str) -> tuple[T, ...]:
    """Read an array, each item of it with `read`."""
    return tuple(read(one, f"{path}[{index}]") for index, one in enumerate(items(value, path)))


def text(value: Any, path: str) -> str:
    if type(value) is not str or not value:
        raise wrong(path, "text", value)
    return value


def texts(value: Any, path: str) -> tuple[str, ...]:
    return each(value, text, path)


def count(value: Any, path: str) -> int:
    if type(value) is not int or value < 0:
        raise wrong(path, "a whole number from 0", value)
    return value


def flag(value: Any, path: str) -> bool:
    if type(value) is not bool:
        raise wrong(path, "true or false", value)
    return value


def moment(value: Any, path: str) -> datetime:
    """Read an instant with a zone, as UTC."""
    try:
        at = datetime.fromisoformat(text(value, path))
        if at.tzinfo is not None:
            return at.astimezone(UTC)
    # OverflowError: an instant of the year 1 or 9999 that is in another year in UTC
    except (ValueError, OverflowError):
        pass
    raise wrong(path, "an instant with its zone as ISO 8601", value)


def optional(value: Any, read: Callable[[Any, str], T], path: str) -> T | None:
    """Read null, or a value with `read`."""
    return None if value is None else read(value, path)


def check_names(names: Iterable[str], path: str) -> None:
    """Raise ValueError for a name that leads out of a directory."""
    for index, name in enumerate(names):
        if not is_inside(name):
            raise wrong(f"{path}[{index}]", "a path below the root", name)


def commits(value: Any, path: str) -> tuple[str, ...]:
    """Read an array of names of commits."""
    return each(value, _commit, path)


def _commit(value: Any, path: str) -> str:
    found = text(value, path)
    if not _ANY_COMMIT.fullmatch(found):  # it becomes an argument of git
        raise wrong(path, "the hexadecimal name of a commit", found)
    return found
