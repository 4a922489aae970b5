"""The journal beside a state file: what has changed in its value since the file was saved.

It is a text of lines, each with a number and a checksum. The first is the whole value; each other
line is a change of it, so the journal alone says what the value is. A line also names the contents
of the file that the journal belongs to: what has another content was not written with it.

Rule: a line is whole or it is none. There are two copies of a journal, and a line counts that one
of them has: the loss of one, or damage in it, changes nothing. Pure: no I/O.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs

from .document import encoded, read_json


if TYPE_CHECKING:
    from collections.abc import Iterable, Sized


VERSION: Final = 1
"""The version of the form of a line; it stands in each."""
_SUM: Final = b',"crc":"'

Value: TypeAlias = dict[str, Any]


class LaterJournalError(Exception):
    """A line of another `version` than ours: a later program has written it."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


@attrs.frozen(kw_only=True)
class Entry:
    """One line: a whole `value`, or a `change` of the one before it, or neither.

    `files` identify contents of the file, written with this line or before it.
    """

    number: int
    value: dict[str, Any] | None = None
    change: SavedChange | None = None
    files: tuple[str, ...] = ()

    def to_line(self) -> bytes:
        """Return the line. Raises ConfigError for a value that JSON cannot hold."""
        fields: dict[str, Any] = {"journal": VERSION, "n": self.number}
        values: list[object] = []
        if self.value is not None:
            fields["value"] = self.value
            values.append(self.value)
        if self.change is not None:
            fields["set"], fields["add"] = self.change.fields, self.change.added
            values += [self.change.fields, *(items for _, items in self.change.added.values())]
        if self.files:
            fields["files"] = self.files
        text = encoded(fields, values)[:-1].encode()
        return text + _SUM + _checksum(text) + b'"}\n'


@attrs.frozen(kw_only=True)
class SavedChange:
    """A change of an object: `fields` have new values, and `added` lists another end.

    Of a list in `added` so many items stay, and these follow: `{"calls": (2, [...])}`.
    """

    fields: dict[str, Any] = attrs.field(factory=dict[str, Any])
    added: dict[str, tuple[int, list[Any]]] = attrs.field(factory=dict[str, tuple[int, list[Any]]])

    def __bool__(self) -> bool:
        """Return whether anything changes."""
        return bool(self.fields or self.added)

    def applied(self, value: Value) -> Value:
        """Return the changed value. Raises ValueError for one that it is no change of."""
        after = {**value, **self.fields}
        for name, (length, items) in self.added.items():
            before = after.get(name)
            if not isinstance(before, list) or len(cast("Sized", before)) < length:
                raise ValueError(f"{name}: wanted an array of at least {length} items")
            after[name] = [*before[:length], *items]
        return after


@attrs.frozen(kw_only=True)
class History:
    """What the copies of a journal say together.

    `value` is the last one, None without any. `files`: the contents that it belongs to. `last`: the
    number of the last line in any copy. `is_whole`: no line is missing in all of them. `is_even`:
    each copy has all of these lines and nothing else.
    """

    value: Value | None = None
    files: frozenset[str] = frozenset()
    last: int = 0
    is_whole: bool = True
    is_even: bool = True

    def is_of(self, identity: str) -> bool:
        """Return whether the journal was written with this content of the file."""
        return self.value is not None and identity in self.files


def history_of(copies: Iterable[bytes]) -> History:
    """Return what these copies say, `b""` for a missing one.

    Raises LaterJournalError for a line of another version.
    """
    read = [_entries_of(copy) for copy in copies]
    entries = {number: entry for found, _ in reversed(read) for number, entry in found.items()}
    numbers = sorted(entries)
    starts = [number for number in numbers if entries[number].value is not None]
    if not starts:
        return History(last=max(numbers, default=0), is_whole=not numbers, is_even=not numbers)
    value: Value = {}
    files: list[str] = []
    number = starts[-1]
    while (entry := entries.get(number)) is not None:
        try:
            value = dict(entry.value) if entry.value is not None else value
            value = entry.change.applied(value) if entry.change is not None else value
        except ValueError:
            break
        files += entry.files
        number += 1
    return History(
        value=value,
        files=frozenset(files),
        last=numbers[-1],
        is_whole=number > numbers[-1],
        is_even=all(is_sound and found.keys() == entries.keys() for found, is_sound in read),
    )


def _entries_of(data: bytes) -> tuple[dict[int, Entry], bool]:
    """Return the whole lines by their numbers, and whether there is nothing else."""
    *lines, rest = data.split(b"\n")
    entries = {entry.number: entry for line in lines if (entry := _entry_of(line)) is not None}
    return entries, not rest and len(entries) == len(lines)


def _entry_of(line: bytes) -> Entry | None:
    text, separator, checksum = line.rpartition(_SUM)
    if not separator or checksum != _checksum(text) + b'"}':
        return None
    try:
        body: dict[str, Any] = read_json(text + b"}")
        if (version := int(body["journal"])) != VERSION:
            raise LaterJournalError(version)
        change = None
        if "set" in body:
            added = {
                name: (int(length), list(items)) for name, (length, items) in body["add"].items()
            }
            change = SavedChange(fields=dict(body["set"]), added=added)
        return Entry(
            number=int(body["n"]),
            value=dict(body["value"]) if "value" in body else None,
            change=change,
            files=tuple(map(str, body.get("files", ()))),
        )
    except (KeyError, TypeError, ValueError, AttributeError):  # not a line that we have written
        return None


def _checksum(data: bytes) -> bytes:
    return b"%08x" % zlib.crc32(data)
