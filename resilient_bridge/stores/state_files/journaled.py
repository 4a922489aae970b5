"""A state file with a journal beside it: a step is appended, and the file changes now and then.

A save of the whole value costs the flush of two files and of their directory; a step costs the
flush of one line in each copy of the journal, or none. What both say together survives a crash, and
the loss of, or damage in, any one of the four files.

Rule: a line that names the new content of the file is written before the file is. So the journal is
never behind its file, and a file whose content it does not name was not written with it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs

from ...events import StateSetAside
from ...failure import Executed, Failure, StoreError
from ...files.file_changes import append, remove_leftovers, replace_in_order
from ...files.private_files import read_private
from .copies import later_version
from .document import InvalidDocumentError, identity_of, instant
from .journal import VERSION, Entry, LaterJournalError, SavedChange, history_of
from .state_file import StateFile


if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from ...files.owner import Owner
    from .candidates import Candidate
    from .journal import History
    from .state_file import Loaded


_FIELD: Final = "StateFile.path"
STATE: Final = "a state document"
_JOURNAL: Final = "a journal"
_LARGEST: Final = 1 << 18  # bytes of a journal that is begun anew with the next save of the file


class JournaledFile(StateFile):
    """A StateFile of an object, with a journal in two copies, `<name>.journal` and its backup.

    `load` returns the value with what was appended since it was saved. The journal belongs to its
    file: without it, the file has what it had when it was saved, and `load` reports the loss.
    """

    def __init__(self, path: str | os.PathLike[str], /, **options: Any) -> None:
        super().__init__(path, **options)
        first = self._path.with_name(f"{self._path.name}.journal")
        self._journal = first, first.with_name(first.name + self._form.backup)
        self._history: History | None = None  # what it says, during a load
        self._belongs: bool | None = None  # to the file; None: its program keeps no journal
        self._change: SavedChange | None = None  # of the save under way
        self._last = 0  # the number of the last line
        self._size = 0  # the bytes that were appended to a copy
        self._has_journal = False  # both copies are as this object has left them

    def append(self, owner: Owner, change: SavedChange, *, synced: int) -> bool:
        """Append a change of the value as the owner; return False if `save_as` has to be called.

        That is so before the first save, and after an error. `synced`: how many of the two copies
        are flushed, so that a power cut does not undo the step. Raises what `save_as` does; whether
        the change counts is then unknown.
        """
        with self._lock:
            self.check_owner(owner)
            return self._has_journal and self._write(
                Entry(number=self._last + 1, change=change), synced
            )

    def save_as(self, owner: Owner, value: Any, change: SavedChange | None = None) -> None:
        """Save as the owner; `change`: what is new in the value since the last step, if known.

        Raises what `StateFile.save_as` does. After an error of the file, the value may count.
        """
        with self._lock:
            self._change = change
            try:
                super().save_as(owner, value)
            finally:
                self._change = None

    def current(self, data: bytes) -> tuple[Any, str]:
        """Return the value of this content of the file with what was appended, and what is lost.

        Changes nothing, and may be called while another process is the owner. Raises
        InvalidDocumentError for content that is damaged, and StoreError for a later version.
        """
        document = self._form.read(data)
        if document.version > self._demands.version:
            raise later_version(self._path, self._demands.version, document.version, of=STATE)
        found = self._demands.examined(self._path, data)
        if found.is_usable:
            found = self._with_journal(found, self.history())
        elif not found.is_over:
            raise InvalidDocumentError(found.failure.message)
        return found.value, found.lost

    def history(self) -> History:
        """Return what the copies of the journal say. Raises StoreError for a later version's."""
        copies = [read_private(path, _FIELD) or b"" for path in self._journal]
        try:
            return history_of(copies)
        except LaterJournalError as error:
            raise later_version(self._journal[0], VERSION, error.version, of=_JOURNAL) from None

    # ---- what a StateFile leaves open -----------------------------------------------------------

    def _load(self, reports: list[StateSetAside]) -> Loaded:
        history = self._read_anew()
        try:
            loaded = super()._load(reports)
        finally:
            self._history = None
        if self._has_journal or loaded.source != "file":  # it was begun anew, or nothing is there
            return loaded
        for path in self._journal:
            remove_leftovers(path)
        if self._belongs:
            if not history.is_even:
                self._begin(loaded.value, history.files)
            self._has_journal = True
        elif self._belongs is False:
            reports.append(
                StateSetAside(
                    path=str(self._journal[0]),
                    set_aside="",
                    source="the file without its journal",
                    lost=loaded.lost,
                    failure=Failure.of(
                        "SYS_STATE_DAMAGED",
                        f"{self._path}: wanted its whole journal, got none, or a part",
                    ),
                )
            )
        return loaded

    def _read_anew(self) -> History:
        """Read the journal, for a load."""
        self._has_journal, self._belongs = False, None
        history = self.history()
        self._history, self._last, self._size = history, history.last, 0
        return history

    def _examined(self, path: Path) -> Candidate:
        found = super()._examined(path)
        history = self._history
        if history is None or found.is_usable:
            return found if history is None else self._with_journal(found, history)
        if path == self._backup and history.value is not None and history.is_whole:
            complete = self._demands.completed(found, history.value)
            if complete is not None:
                return attrs.evolve(complete, is_usable=True, is_from_journal=True)
        return found

    def _with_journal(self, found: Candidate, history: History) -> Candidate:
        """Return a usable copy of the state with what was appended since it was written."""
        time = "" if found.saved_at is None else f" after {instant(found.saved_at)}"
        lost = f"what was recorded{time}"
        if history.is_of(identity_of(found.data or b"")):
            complete = self._demands.completed(found, history.value)
            if complete is not None and history.is_whole:
                self._belongs = found.path == self._path or self._belongs
                return complete
            found, lost = complete or found, f"a part of {lost}"
        elif not found.is_current:  # its program keeps no journal
            return found
        if found.path == self._path:
            self._belongs = False
        return attrs.evolve(found, lost="; ".join(filter(None, (found.lost, lost))))

    def _refuse_unfit(self, data: bytes) -> None:
        """Take the value as it is: its owner has made it of one that was checked, step by step."""

    def _replace(self, data: bytes, backup: bytes | None, value: Any) -> None:
        identity = identity_of(data)
        change, has_journal, self._has_journal = self._change, self._has_journal, False
        if has_journal and change is not None and self._size < _LARGEST:
            # One flush: what this line says is in the file too.
            entry = Entry(number=self._last + 1, change=change, files=(identity,))
            if self._write(entry, 1):
                with _perhaps():
                    super()._replace(data, backup, value)
                self._has_journal = True
                return
        before = read_private(self._backup, _FIELD) if backup is None else backup
        files = {identity} if before is None else {identity, identity_of(before)}
        changes = () if backup is None else ((self._backup, backup),)
        self._begin(value, files, *changes, (self._path, data))
        self._has_journal = True

    # ---- the files of the journal ---------------------------------------------------------------

    def _write(self, entry: Entry, synced: int) -> bool:
        """Append a line to both copies; return False if one is gone."""
        line = entry.to_line()
        has_journal, self._has_journal = self._has_journal, False
        try:
            for index, path in enumerate(self._journal):
                with _perhaps(path != self._journal[0]):
                    append(path, line, _FIELD, is_synced=index < synced)
        except FileNotFoundError:
            return False
        self._last += 1
        self._size += len(line)
        self._has_journal = has_journal
        return True

    def _begin(self, value: Any, files: Iterable[str], *changes: tuple[Path, bytes]) -> None:
        """Begin both copies anew with the whole value, then make the other changes."""
        entry = Entry(number=self._last + 1, value=value, files=tuple(sorted(files)))
        line = entry.to_line()
        copies = ((path, line) for path in self._journal)
        replace_in_order(*copies, *changes, counts_with=self._journal[0])
        self._last += 1
        self._size = 0


@contextmanager
def _perhaps(has_changed: bool = True) -> Generator[None]:
    """Raise an error of a file as one after which the step may count: a copy of the journal has it."""
    try:
        yield
    except StoreError as error:
        if not has_changed:
            raise
        failure = attrs.evolve(error.failure, executed=Executed.MAYBE)
        raise StoreError(failure) from error.__cause__
