"""A value in a file that survives crashes and damage, and reports every loss.

Rule: the original changes only when its backup is safe, and each in one step. A copy that cannot
be trusted is kept under another name before anything replaces it. What is used instead, and what is
lost, is reported by `Loaded`, by one event, and in the log.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from ... import events
from ...failure import Failure, StoreError, config_error, redact
from ...failure.teaching import taught
from ...files.file_changes import keep_copy, remove, remove_leftovers, replace_in_order
from ...files.private_files import path_of, prepare_directory, read_private
from ...locks import new_rlock
from ...telemetry import emit
from ...values.fields import is_count
from ...world import current_world
from .candidates import Candidate, Demands
from .copies import backup_of
from .document import ENVELOPE, Document, Form, instant


if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ...files.owner import Owner


Source: TypeAlias = Literal["file", "backup", "salvaged", "new"]
"""Where a loaded value is from."""

_FIELD: Final = "StateFile.path"


@attrs.frozen(kw_only=True)
class Loaded:
    """The result of `StateFile.load`.

        loaded = rb.stores.StateFile("state.json", version=1).load()
        print(loaded.value, loaded.source)      # None new

    `source`: "file", all is well; "backup", the file was missing, unusable or older; "salvaged", the value
    is what could be recovered from a damaged file; "new", there is no value (None). `saved_at`:
    when the value was saved. `lost`: what is gone, in words; empty if nothing is; it stays until
    the next save. `set_aside`: where the unusable file is kept.
    """

    value: Any
    source: Source
    saved_at: datetime | None = None
    lost: str = ""
    set_aside: Path | None = None


class StateFile:
    """One JSON value in a file, with a backup beside it.

        file = rb.stores.StateFile("state.json", version=1)
        file.save({"step": 3})
        print(file.load().value)      # {'step': 3}

    `path` is the file, `version` that of the value's meaning. `check` is called with a value and
    refuses it by raising, or by returning False: on `save`, where its error is raised, and on
    `load`, where such a value counts as damaged. `orphans` is called on `load`, after `check`: it
    returns the value without references to things that no longer exist, and a text about what it
    removed ("" for nothing), which becomes `Loaded.lost`. `migrations` maps a version to the
    function that turns its value into that of the next version.

    `copies=2`: the backup has each value too, not the one before it, so damage in one of the two
    files loses nothing that was saved. A save costs the same.

    Nothing is read or written before `load` or `save`. Both block until the disk has done it: in
    async code use `await asyncio.to_thread(file.save, value)`. Threads of one process may share the
    object; two processes, or two objects, must not share a path. Raises ConfigError for wrong
    arguments.
    """

    _form: Form = ENVELOPE  # a subclass may use another layout

    @taught
    def __init__(
        self,
        path: str | os.PathLike[str],
        /,
        *,
        version: int,
        check: Callable[[Any], object] | None = None,
        orphans: Callable[[Any], tuple[Any, str]] | None = None,
        migrations: Mapping[int, Callable[[Any], Any]] | None = None,
        copies: Literal[1, 2] = 1,
    ) -> None:
        self._path = path_of(path, _FIELD)
        self._backup = backup_of(self._path, self._form)
        self._demands = Demands(
            version=version,
            check=check,
            orphans=orphans,
            migrations=dict(migrations or {}),
            form=self._form,
        )
        if not is_count(copies) or copies > 2:
            raise config_error("StateFile.copies", "1 or 2", copies, write="copies=2")
        self._copies = copies
        self._lock = new_rlock()
        self._known: tuple[bytes, ...] = ()  # the digests that the file may have by this object
        self._saved_at: datetime | None = None  # the time of the last of these, if it has a value

    def __repr__(self) -> str:
        """A status line."""
        return f"<StateFile {self._path} version {self._demands.version}>"

    @property
    def path(self) -> Path:
        """The path of the value; its backup is beside it, as `<name>.backup`."""
        return self._path

    def save(self, value: Any) -> None:
        """Save the value: it then survives a crash and a power cut, and the old one is the backup.

        A predecessor that is damaged, or of a later version, does not become the backup but is set
        aside, with the event StateSetAside. So is one that somebody else has saved or put there
        since this object last loaded or saved; the event also reports a file that was removed.
        Raises ConfigError for a value that JSON cannot
        preserve (tuples become lists) or for a path that is not safe, what `check` raises, and
        StoreError (SYS_STORE_UNAVAILABLE): then the old value is still in the file, unless
        `failure.executed` is MAYBE.
        """
        at = current_world().now()
        data = self._document(value, at)
        self._refuse_unfit(data)
        parts: list[events.StateSetAside] = []
        try:
            with self._lock:
                prepare_directory(self._path, _FIELD)
                backup, replaced_at = self._replaced(parts)
                # by another thread, or the clock was set back
                if replaced_at is not None and replaced_at > at:
                    at = replaced_at
                    data = self._document(value, at)
                self._known += (_digest(data),)  # a save that fails may have replaced the file
                self._saved_at = None
                self._replace(data, backup, value)
                self._known = self._known[-1:]
                self._saved_at = at
        finally:
            _tell(parts)

    def load(self) -> Loaded:
        """Return the value, or what can be recovered of it, and its source.

        A file that is damaged, of another version or program, refused by `check`, or older than its
        backup, is kept beside the original. It is replaced by the backup; else by its own value, if only the checksum is
        wrong and `check` accepts it; else by nothing, and the next save starts again. File and
        backup are sound when this returns, and one event StateSetAside says what was lost; so does
        the log. A value of an older version is migrated, and written with the next save.

        Raises StoreError (SYS_STORE_UNAVAILABLE), with everything unchanged, if an existing file
        cannot be read, or nothing can be written; ConfigError for a path that is not safe; and what
        a migration raises.
        """
        parts: list[events.StateSetAside] = []
        try:
            with self._lock:
                return self._load(parts)
        finally:
            _tell(parts)

    def _refuse_unfit(self, data: bytes) -> None:
        """Raise what the check raises for the value as it will be read."""
        self._demands.refuse_unfit(self._form.read(data).value)

    def _replaced(
        self, reports: list[events.StateSetAside]
    ) -> tuple[bytes | None, datetime | None]:
        """Return the current content of the file, which becomes the backup, and its time.

        A damaged file is set aside instead, and no backup is written.
        """
        found = read_private(self._path, _FIELD)
        if found is None:
            if self._known:
                reports.append(_changed(self._path, []))
            return None, None
        if self._saved_at is not None and _digest(found) == self._known[-1]:
            return found, self._saved_at
        if (document := self._demands.known(found)) is not None:
            if self._is_changed(found):
                reports.append(_changed(self._path, [keep_copy(self._path, found, "replaced")]))
            return found if document.has_value else None, document.saved_at
        main = self._demands.examined(self._path, found)
        copy = keep_copy(main.path, found, main.label)
        reports.append(_event(main, [copy], "the value that is being saved", "what was there"))
        return None, None

    def _replace(self, data: bytes, backup: bytes | None, value: Any) -> None:
        """Replace the backup, if there is a new one, then the file by the document of a value."""
        del value  # a subclass writes it elsewhere too
        if self._copies == 2:  # the file first: until then the backup has what is replaced
            replace_in_order((self._path, data), (self._backup, data), counts_with=self._path)
            return
        changes = () if backup is None else ((self._backup, backup),)
        replace_in_order(*changes, (self._path, data))

    def _load(self, reports: list[events.StateSetAside]) -> Loaded:
        prepare_directory(self._path, _FIELD)
        remove_leftovers(self._path)
        main = self._examined(self._path)
        self._known = () if main.data is None else (_digest(main.data),)
        self._saved_at = None
        if main.is_sound and not main.is_over:
            second = read_private(self._backup, _FIELD)
            outdated = self._demands.outdated(main, second)
            if outdated is None:
                if self._copies == 2 and second != main.data:
                    self._mend_backup(main.data or b"")
                return Loaded(
                    value=main.value, source="file", saved_at=main.saved_at, lost=main.lost
                )
            main = outdated
        backup = self._examined(self._backup)
        if backup.data is None and (main.data is None or main.is_over):
            return Loaded(value=None, source="new", lost=main.lost)
        return self._recovered(main, backup, reports)

    def _mend_backup(self, data: bytes) -> None:
        """Make the backup what the file is, unless it is of a later version."""
        if self._examined(self._backup).failure.code != "SYS_STATE_FOREIGN":
            replace_in_order((self._backup, data))

    def save_as(self, owner: Owner, value: Any) -> None:
        """Save as the owner of the file.

        Raises what `save` does, and StoreError (SESS_SUPERSEDED) if another process is the owner
        now, or was it while the lock file was gone; then nothing was changed. Where lock and file are
        both gone, as with their directory, nobody has saved there: everything is written anew.
        """
        with self._lock:
            self.check_owner(owner)
            self.save(value)

    def check_owner(self, owner: Owner) -> None:
        """Raise StoreError if another process is the owner, or has saved while the lock was gone."""
        try:
            found = None if owner.check() else read_private(self._path, _FIELD)
            if found is not None and self._is_changed(found):
                raise owner.superseded()
        except StoreError as error:
            if error.failure.code == "SESS_SUPERSEDED":
                owner.release()  # it writes nothing any more, and must keep nobody else out
            raise

    def _is_changed(self, found: bytes | None) -> bool:
        """Return whether the file is not the one that this object wrote or loaded last."""
        return bool(self._known) and (found is None or _digest(found) not in self._known)

    def _examined(self, path: Path) -> Candidate:
        found = self._demands.examined(path, read_private(path, _FIELD))
        is_complete = self._copies == 2 and found.is_usable
        return attrs.evolve(found, is_complete=True) if is_complete else found

    def _recovered(
        self, main: Candidate, backup: Candidate, reports: list[events.StateSetAside]
    ) -> Loaded:
        source, best, used, lost = _choice(main, backup)
        lost = redact(lost)
        # What can be refused is refused first. Nothing is replaced before it is copied and its
        # successor is safe, so a crash at any point leaves the state before or after. What was lost
        # is written in the new files.
        now = current_world().now()
        fresh = self._document(
            best.value if best else None,
            max(now, best.saved_at or now) if best else now,
            has_value=best is not None,
            lost=lost,
        )
        copies = _with_copies(
            [one for one in (main, backup) if one.data is not None and not one.is_sound]
        )
        reports.append(_event(main, copies, used, lost))
        if best is None:
            remove(self._backup)
            replace_in_order((self._path, fresh))
        else:
            # A sound backup is the only sound copy, and stays untouched.
            is_intact = best is backup and best.is_sound
            self._replace(fresh, None if is_intact else fresh, best.value)
        self._known = (_digest(fresh),)
        return Loaded(
            value=best.value if best else None,
            source=source,
            saved_at=best.saved_at if best else None,
            lost=lost,
            set_aside=copies[0] if copies else None,
        )

    def _document(
        self, value: Any, at: datetime, *, has_value: bool = True, lost: str = ""
    ) -> bytes:
        """Return the document of a value that is saved at this time."""
        version = self._demands.version
        return self._form.write(
            Document(version=version, saved_at=at, value=value, has_value=has_value, lost=lost)
        )


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()


def _changed(path: Path, copies: list[Path]) -> events.StateSetAside:
    what = "replaced" if copies else "removed"
    return events.StateSetAside(
        path=str(path),
        set_aside=" and ".join(map(str, copies)),
        source="the value that is being saved",
        lost="what somebody else had put there" if copies else "nothing",
        failure=Failure.of("SYS_STATE_DAMAGED", f"{path.name} was {what} while it was in use"),
    )


def _choice(main: Candidate, backup: Candidate) -> tuple[Source, Candidate | None, str, str]:
    """Return what is used (as a source, as a candidate, in words), and what is lost by that."""
    if main.is_usable:
        return "salvaged", main, "the file without its orphans", _joined(main.dropped, main.lost)
    if backup.is_usable:
        time = "a time that cannot be read" if backup.saved_at is None else instant(backup.saved_at)
        is_all = main.is_outdated or backup.is_complete
        later = "" if is_all else f"what was saved after {time}"
        lost = _joined(later, backup.dropped, backup.lost)
        used = "the journal" if backup.is_from_journal else f"the backup of {time}"
        return "backup", backup, used, lost
    for one, name in ((main, "file"), (backup, "backup")):
        if one.is_salvageable:
            lost = "perhaps a part: the checksum is wrong, and the check lets the value pass"
            used = f"the value of the {name}, although its checksum is wrong"
            return "salvaged", one, used, _joined(lost, one.dropped, one.lost)
    return (
        "new",
        None,
        "nothing: it begins anew",
        "all of it: neither the file nor a backup can be used",
    )


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def _with_copies(ones: list[Candidate]) -> list[Path]:
    copies: list[Path] = []
    try:
        for one in ones:
            copies.append(keep_copy(one.path, one.data or b"", one.label))  # noqa: PERF401 -- known if the next fails
    except BaseException:
        for path in copies:
            with suppress(StoreError):
                remove(path)
        raise
    return copies


def _event(main: Candidate, copies: list[Path], used: str, lost: str) -> events.StateSetAside:
    return events.StateSetAside(
        path=str(main.path),
        set_aside=" and ".join(map(str, copies)),
        source=used,
        lost=lost,
        failure=main.failure,
    )


def _tell(reports: list[events.StateSetAside]) -> None:
    """Emit the events, outside of the lock, because a listener may do anything."""
    for event in reports:
        emit(event)
