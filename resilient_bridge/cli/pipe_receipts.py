"""The receipts of `pipe --store`: a file with a line for each processed line of input, in order.

Rule: a receipt is written after the store has accepted the line and before the next line is read,
so a kill can come between at most one line and its receipt. That line, given again, gets the same
key again, by which the store knows it.

Every receipt has its line number and a checksum. A damaged file is reported, and kept under another
name. The number of receipts says where the input continues, so after damage none of the input is
read unless that number is certain.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

import attrs

from ..failure import Failure, StoreError, config_error
from ..files.file_changes import keep_copy, replace_atomically, set_aside, write_all
from ..files.identity import identity_at, leads_to
from ..files.portable import read_at
from ..files.private_files import (
    close_quietly,
    open_private,
    path_of,
    prepare_directory,
    read_private,
    typed_errors,
)
from ..world import current_world


if TYPE_CHECKING:
    from collections.abc import Iterable


_FIELD: Final = "--receipts"
_BEGIN: Final = b'{"receipts":1,"input":"'  # of the file and of each line; 1 is the version of both
_HEAD: Final = re.compile(re.escape(_BEGIN) + rb'([0-9a-f]{16})([0-9a-f]{8})"')
_LINE: Final = re.compile(rb'(.*?"line":([1-9][0-9]*),.*),"crc":"([0-9a-f]{8})"\}\n')

Dealt = Literal["accepted", "known", "refused", "empty"]


class Receipts:
    """The receipts file at `path`, continued if it exists.

    `lines` of input were processed, in all runs; `notice` is a problem with the file. The file
    begins with the name of the input, which is written before anything is accepted: the keys of
    lines without one of their own are made of this name, the line's number and its content. Its
    mode is 0600, and no symbolic link is followed.

    Raises ConfigError for a file of another kind, which stays unchanged, or one that others may
    read. Raises StoreError: SYS_STATE_DAMAGED if the file is damaged and its lines do not say where
    the input continues; then it was kept under another name, and the next run can use the path.
    SYS_STORE_UNAVAILABLE for what the system refuses.
    """

    def __init__(self, path: str) -> None:
        self._path = path_of(path, _FIELD)
        self.notice = ""
        prepare_directory(self._path, _FIELD)
        found = self._looked_at()
        if not (found.name and found.is_sound):
            found = self._mended(found)
        self._head = _head_of(found.name)
        self.lines = found.lines
        self._ends_in_head = not found.lines  # only the head is in the file
        self._handle = open_private(self._path, os.O_RDWR | os.O_APPEND, _FIELD)
        try:
            with typed_errors(self._path, "be written"):
                self._cut_to(found.size or len(self._head))
        except BaseException:
            self.close()
            raise

    def key_of(self, line: bytes) -> str:
        """Return the key of the next line of input.

        The same line at the same position of the same input always has the same key.
        """
        digest = sha256(line.rstrip(b"\r\n")).hexdigest()[:16]
        name = self._head[len(_BEGIN) : -1].decode()
        return f"{name}-{self.lines + 1}-{digest}"

    def add(self, state: Dealt, key: str | None = None) -> None:
        """Record that the next line was processed.

        A file that was removed or moved is written anew, and `notice` says so. Raises OSError, and
        StoreError if the file cannot be written again, or another file is at the path, which is
        left alone; what was recorded is kept beside it then.
        """
        line = _line(self._head, self.lines + 1, state, key)
        write_all(self._handle, line.removeprefix(self._head) if self._ends_in_head else line)
        self._ends_in_head = False
        self.lines += 1
        if not leads_to(self._path, self._handle):
            self._put_back()

    def close(self) -> None:
        close_quietly(self._handle)

    def _put_back(self) -> None:
        """Write all receipts, which are in the open file, into a new one at the path."""
        with typed_errors(self._path, "be read"):
            data = read_at(self._handle, os.fstat(self._handle).st_size, 0)
            is_other = identity_at(self._path) is not None
        if is_other:
            copy = keep_copy(self._path, data, "kept")
            text = f"{self._path}: wanted the file that was opened, got another; the receipts are in {copy.name}"
            hint = f"move the other file away, and {copy.name} to its path; then run again"
            raise StoreError(Failure.of("SYS_STATE_FOREIGN", text, suggestions=(hint,)))
        prepare_directory(self._path, _FIELD)
        replace_atomically(self._path, data)
        old, self._handle = self._handle, open_private(self._path, os.O_RDWR | os.O_APPEND, _FIELD)
        close_quietly(old)
        self.notice = (
            f"{self._path} was removed or moved; its {self.lines} receipts were written anew"
        )

    # ---- the file
    def _looked_at(self) -> _Found:
        try:
            handle = open_private(self._path, os.O_RDONLY, _FIELD)
        except FileNotFoundError:
            name = _new_name()
            # atomically, so that the file never exists without its head
            replace_atomically(self._path, _head_of(name))
            return _Found(name=name)
        with typed_errors(self._path, "be read"), os.fdopen(handle, "rb") as file:
            found = _found_in(file)
        if not found.is_ours:
            raise config_error(
                _FIELD, "a file of receipts, or none", f"{self._path}, which is something else"
            )
        return found

    def _mended(self, found: _Found) -> _Found:
        """Replace a damaged file by its valid lines, keeping a copy, and return its new content.

        Invalid lines get the state `lost`. Raises StoreError if the number of lines is not certain,
        also after replacing it; a file without a certain name is renamed instead.
        """
        if not found.name:
            copy = set_aside(self._path)
            raise self._damaged(
                f"cannot be read, and is kept as {copy.name}; no input was read, and the next run begins a new file: "
                "its lines are counted from 1, and those without a key of their own that were accepted before are sent again"
            )
        data = read_private(self._path, _FIELD) or b""
        sound = {
            line.number: row
            for row in data.splitlines(keepends=True)
            if (line := _parsed(row)).number
        }
        head, numbers = _head_of(found.name), range(1, found.lines + 1)
        mended = (
            b"".join(sound.get(number) or _line(head, number, "lost") for number in numbers) or head
        )
        copy = keep_copy(self._path, data)
        replace_atomically(self._path, mended)
        lost = [number for number in numbers if number not in sound]
        text = f"was damaged, and is kept as {copy.name}"
        if lost:
            text += f"; what became of line {', '.join(map(str, lost[:10]))}{' and others' * (len(lost) > 10)} is lost"
        if found.rows != found.lines:
            raise self._damaged(
                f"{text}; it seemed to have {found.rows} lines, and {found.lines} can be believed; no input was read: "
                f"give it from line {found.lines + 1} on, and what the store knows of it is not sent again"
            )
        self.notice = f"{self._path} {text}; every line has the key it had"
        return attrs.evolve(found, size=len(mended))

    def _cut_to(self, size: int) -> None:
        if os.fstat(self._handle).st_size > size:
            os.ftruncate(self._handle, size)
            self.notice = f"{self._path}: the last line is not whole, as a kill can leave it: line {self.lines + 1} of the input has no receipt yet"

    def _damaged(self, text: str) -> StoreError:
        return StoreError(
            Failure.of(
                "SYS_STATE_DAMAGED", f"{self._path} {text}", details={"path": str(self._path)}
            )
        )


@attrs.frozen(kw_only=True)
class _Found:
    """The content of a file.

    `name` is that of its input ("" if not certain), `lines` the number of the last valid line,
    `rows` the count of complete lines, and `size` their bytes. `is_sound`: all lines are valid and
    in order. `is_ours`: it is a file of receipts.
    """

    name: str = ""
    lines: int = 0
    rows: int = 0
    size: int = 0
    is_sound: bool = True
    is_ours: bool = True


@attrs.frozen(kw_only=True)
class _Parsed:
    """The content of one line: the name if the head is valid, the number if the whole line is.

    Else "" and 0.
    """

    name: str = ""
    number: int = 0


def _found_in(file: Iterable[bytes]) -> _Found:
    names: set[str] = set()
    lines = rows = size = 0
    is_sound = is_one = True
    first = b""
    for row in file:
        first = first or row
        line = _parsed(row)
        is_whole = row.endswith(b"\n")
        if line.name and (is_whole or not rows):
            names.add(line.name)
        if not is_whole:
            break  # cut off by a kill: its name counts only if it is the first line
        rows += 1
        size += len(row)
        is_sound = is_sound and line.number == rows
        is_one = is_one and (not line.number or line.number > lines)
        lines = max(lines, line.number)
    has_name = bool(names)
    return _Found(
        name=names.pop() if is_one and len(names) == 1 else "",
        lines=lines,
        rows=rows,
        size=size,
        is_sound=is_sound,
        is_ours=has_name or first.startswith(_BEGIN) or _BEGIN.startswith(first.strip(b"\0")),
    )


def _parsed(row: bytes) -> _Parsed:
    head = _HEAD.match(row)
    if head is None or _checksum(head[1]) != head[2]:
        return _Parsed()
    line = _LINE.fullmatch(row)
    is_whole = line is not None and _checksum(line[1]) == line[3]
    return _Parsed(
        name=(head[1] + head[2]).decode(), number=int(line[2]) if line and is_whole else 0
    )


# ---- steps
def _new_name() -> str:
    """Return a new name with a checksum: before the first receipt, no other checksum covers it."""
    name = current_world().new_token()
    return name + _checksum(name.encode()).decode()


def _head_of(name: str) -> bytes:
    return _BEGIN + name.encode() + b'"'


def _line(head: bytes, number: int, state: str, key: str | None = None) -> bytes:
    fields: dict[str, object] = {"line": number, "state": state}
    if key is not None:
        fields["key"] = key
    line = head + b"," + json.dumps(fields, separators=(",", ":")).encode()[1:-1]
    return line + b',"crc":"' + _checksum(line) + b'"}\n'


def _checksum(data: bytes) -> bytes:
    return b"%08x" % zlib.crc32(data)
