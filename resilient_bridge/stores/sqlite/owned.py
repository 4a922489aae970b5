"""A database and its one owner: are its files still those at the path, and is the owner the last?

Two things can happen to an open file. It is taken away: removed, moved with or without its folder,
emptied, or replaced by a copy of itself; or only its log is. Then everything is written anew at the
path, from the open file and from what the store has in memory, before the transaction that noticed
it counts. Or something else is in its place, which is left alone: every transaction is refused, and
what the store has is kept in a file beside it.

Whoever removes the lock file lets a second owner in. Each owner writes a generation, greater than
the last. SQLite refuses the next transaction of an owner before, because somebody has written, and
that one then reads the generation. Rule: no transaction counts unless its file is at the path and
its owner is the last one.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from ...failure import Failure, StoreError
from ...files.file_changes import set_aside
from ...files.identity import HeldFiles
from ...files.owner import Owner
from ...files.private_files import prepare_directory, sync_directory
from ...world import current_world
from .database import GENERATION, Database, insert, make, store_error, summed
from .log_end import SIDES
from .salvage import read_table
from .versions import STORE


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .log_end import LogEnd
    from .versions import Kind, Rows


RENEWED: Final = ".renewed"
"""What the name of the new file ends with, once it is complete, until it has the name."""
_PART: Final = ".new"
_LOCK: Final = ".owner"
_OWN: Final = insert("marks", or_what="REPLACE")
_SET_ASIDE: Final = "replaced"


def generation_after(before: float) -> float:
    """Return a generation greater than this one, and than those of other databases before now."""
    return max(before + 1.0, float(int(current_world().wall() * 1e6)))


class Renewal(NamedTuple):
    """What was written anew: what had happened, what cannot be found, what was set aside ("")."""

    what: str
    lost: str
    set_aside: str


class _Change(NamedTuple):
    """What has happened to the files.

    `is_there`: a file of ours is at the path that has to be set aside; `is_foreign`: one of others.
    `was_overwritten`: the open file itself was changed.
    """

    what: str
    is_there: bool = False
    is_foreign: bool = False
    was_overwritten: bool = False


class OwnedDatabase(Database):
    """The database of a store.

    `in_memory` returns the rows that the store has in memory, by table: they are all that the file
    has. `on_renewal` is called, in any thread, after everything was written anew.
    """

    def __init__(
        self, path: Path, *, is_machine: bool, owner: Owner | None = None, kind: Kind = STORE
    ) -> None:
        self._owner = Owner(path) if owner is None else owner
        self._has_lock = owner is not None
        self._text = str(path)
        self._own: frozenset[float] = frozenset()
        self._is_superseded = False
        self._is_announced = False
        self._is_overwritten = False  # by somebody whose file it is now
        self._copy: Path | None = None
        self.in_memory: Callable[[], Rows] = dict
        self.on_renewal: Callable[[Renewal], object] = lambda _: None
        super().__init__(path, is_machine=is_machine, kind=kind)
        try:
            before = self.generation
            mine = generation_after(before)
            # also the one before: a copy may have been made before this one was in the file
            self._own = frozenset({before, mine})
            with suppress(StoreError):  # a full disk: what is stored can be read all the same
                self._announce()
            self._note()
        except BaseException:
            self._let_log_go()
            self.connection.close()
            self._end.close(keeps_note=True)
            raise

    def _beside(self, end: str) -> Path:
        return self.path.with_name(self.path.name + end)

    def _note(self) -> None:
        ends = ["", *SIDES] if self._end.has_note else ["", *SIDES[:-1]]
        ends += [_LOCK] if self._has_lock else []
        before, self.files = self.files, None
        if before is not None:
            before.close()
        self.files = HeldFiles(self.path.parent, (self.path.name + end for end in ends))
        self._content = self._content_now()
        self._must_look = False

    def _content_now(self) -> tuple[int, int]:
        found = os.stat(self._text)  # noqa: PTH116 -- without a `Path`: it is asked often
        return found.st_size, found.st_mtime_ns

    # ---- the owner --------------------------------------------------------------------------------------------

    def hold_log(self) -> None:
        """As in `Database`; from another generation on, nothing is written any more."""
        super().hold_log()
        if self._held is None:  # then a transaction of another owner would not be noticed
            self._must_look = True
        elif self._own and self.generation not in self._own:
            self._is_superseded = self._must_look = True

    def _announce(self) -> None:
        """Write the generation: an earlier owner that is alive can write nothing from then on."""
        super().run([(_OWN, summed((GENERATION, max(self._own))))])
        self._is_announced = True
        self.hold_log()

    def _check_owner(self, *, is_idle: bool) -> None:
        if (is_idle or self._held is None) and not self._is_superseded:
            self.hold_log()
            if not self._is_announced and not self._is_superseded:
                self._announce()
        if self._is_superseded:
            raise self._owner.superseded()
        try:
            if self._has_lock:
                self._owner.check()
        except StoreError as error:
            self._is_superseded = error.failure.code == "SESS_SUPERSEDED"
            raise

    # ---- the files --------------------------------------------------------------------------------------------

    def look(self, *, is_idle: bool = False) -> None:
        """See to it that the path leads to the open files; else write everything anew.

        `is_idle`: no transaction has shown who the owner is.

        Raises StoreError: SESS_SUPERSEDED, if another process has become the owner;
        SYS_STATE_FOREIGN, if the file at the path is not ours; SYS_STORE_UNAVAILABLE, if nothing
        can be written there. Then nothing is written, until a later look finds it mended.
        """
        self._must_look, files, self.files = True, self.files, None
        try:
            self._check_owner(is_idle=is_idle)
            self.files = files
            change = None if files is None else self._change(files)
            if change is None:
                return
            if change.is_foreign:
                self._is_overwritten = change.was_overwritten
                raise self._foreign(change)
            self._renew(change)
        except (OSError, sqlite3.Error) as error:
            raise store_error(error, f"{self.path.name} cannot be looked at") from error
        finally:
            self.files = self.files or files

    def _change(self, files: HeldFiles) -> _Change | None:
        """Return what has happened to the files; None if nothing has: then they are noted again."""
        others = files.others()
        name = self.path.name
        if name in others and others[name] is None:
            return _Change("was removed or moved while it was open")
        if name in others:
            return self._judged("was replaced while it was open")
        content = self._content_now()
        if content != self._content and not self._is_sound():
            return self._judged("was overwritten while it was open")._replace(was_overwritten=True)
        sides = sorted(others.keys() - {name + _LOCK})
        if sides:
            return _Change(f"lost {', '.join(sides)} while it was open")
        self._content = content
        files.note() if others else files.agree()  # the lock was taken again
        self._must_look = False
        return None

    def _judged(self, what: str) -> _Change:
        """Say whose the file at the path is: an empty one, or a copy of ours, has nothing of others."""
        if not self.path.is_symlink() and self.path.is_file():
            if not self.path.stat().st_size:
                return _Change(what, is_there=True)
            with (
                suppress(sqlite3.Error, TypeError),
                closing(self._reading("&immutable=1")) as other,
            ):
                found = other.execute(f"SELECT wall FROM marks WHERE seq = {GENERATION}").fetchone()  # noqa: S608
                if found and found[0] in self._own:
                    return _Change(f"{what} by a copy of it", is_there=True)
        return _Change(what, is_foreign=True)

    def _is_sound(self) -> bool:
        """Return whether a file with new content is ours: another program may have copied the log."""
        try:
            with closing(self._reading("")) as other:
                found = other.execute(f"SELECT wall FROM marks WHERE seq = {GENERATION}").fetchone()  # noqa: S608
                structure = other.execute("PRAGMA quick_check(1)").fetchone()
                stored = {row[0] for row in other.execute(f"SELECT seq FROM {self.kind.main}")}  # noqa: S608
        except (sqlite3.Error, TypeError):
            return False
        expected = {row[0] for row in self.in_memory().get(self.kind.main, ())}
        return (
            found is not None
            and found[0] in self._own
            and structure == ("ok",)
            and expected <= stored
        )

    def _reading(self, how: str) -> sqlite3.Connection:
        return sqlite3.connect(f"{self.path.as_uri()}?mode=ro{how}", uri=True, isolation_level=None)

    # ---- everything anew --------------------------------------------------------------------------------------

    def _renew(self, change: _Change) -> None:
        """Write everything into a new file at the path. Raises OSError, StoreError, sqlite3.Error."""
        rows, lost = self._all_rows()
        try:
            aside = self._put_at_path(rows, is_there=change.is_there)
        except (OSError, sqlite3.Error) as error:
            raise store_error(
                error, f"{self.path.name} {change.what}, and cannot be written anew"
            ) from error
        old = self.connection, self._end
        self._let_log_go()
        try:
            self._open()
        except BaseException:
            self.connection, self._end = old
            self.hold_log()
            raise
        if change.was_overwritten:
            old[1].empty_log()  # or SQLite would copy it into what was set aside
        self._retire(*old)
        self._note()
        self._drop_copy()
        self.on_renewal(Renewal(change.what, lost, aside))

    def _put_at_path(self, rows: Rows, *, is_there: bool) -> str:
        prepare_directory(self.path, "store")
        part, renewed = self._beside(_PART), self._beside(RENEWED)
        for end in ("", *SIDES):
            self._beside(_PART + end).unlink(missing_ok=True)
        make(part, rows, self.kind)
        part.rename(renewed)
        aside = str(set_aside(self.path, _SET_ASIDE)) if is_there else ""
        for end in SIDES:  # of the old file: SQLite would take the log for that of the new one
            self._beside(end).unlink(missing_ok=True)
        renewed.replace(self.path)
        sync_directory(self.path.parent)
        return aside

    def _all_rows(self) -> tuple[Rows, str]:
        """Return all rows: what the store has in memory, and the rest from the open file."""
        rows: Rows = {}
        losses: list[str] = []
        in_memory = self.in_memory()
        layout = self.kind.layouts[self.kind.newest()]
        for table in layout.tables:
            if table in in_memory:
                rows[table] = in_memory[table]
                continue
            try:
                rows[table], bad, is_whole = read_table(self.connection, table, layout)
            except sqlite3.Error:
                rows[table], bad, is_whole = [], 0, False
            if bad or not is_whole:
                losses.append(f"rows of {table}")
        marks = [row for row in rows["marks"] if row[0] != GENERATION]
        rows["marks"] = [(GENERATION, max(self._own)), *marks]
        return rows, ", ".join(losses)

    def _retire(self, connection: sqlite3.Connection, end: LogEnd) -> None:
        """Close the old file. One that was moved keeps no send: its next owner would repeat it."""
        with suppress(sqlite3.Error, OSError):
            if self.kind.forgets:
                connection.execute(f"DELETE FROM {self.kind.main}")  # noqa: S608 -- a name of ours
            end.may_restart()
            connection.execute("PRAGMA busy_timeout=0")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        end.close_log()
        with suppress(sqlite3.Error):
            connection.close()
        end.close(keeps_note=True)

    # ---- a file that is not ours ------------------------------------------------------------------------------

    def _foreign(self, change: _Change) -> StoreError:
        where = "and what it had could not be kept"
        with suppress(OSError, sqlite3.Error, StoreError):
            where = f"what it had is in {self._keep().name}"
        text = (
            f"{self.path.name} {change.what}: wanted the file that was opened, got another; {where}"
        )
        hint = f"move the other file away, or open a store from {self._copy.name if self._copy else 'a backup'}"
        return StoreError(Failure.of("SYS_STATE_FOREIGN", text, suggestions=(hint,)))

    def _keep(self) -> Path:
        """Write all rows into a file beside the path, which a store can be opened from."""
        rows, _ = self._all_rows()
        part = self._beside(_PART)
        for end in ("", *SIDES):
            self._beside(_PART + end).unlink(missing_ok=True)
        make(part, rows, self.kind)
        if self._copy is None:
            self._copy = set_aside(part, "kept", like=self.path)
        else:
            part.replace(self._copy)
            sync_directory(self.path.parent)
        self._remove_own_sides()
        return self._copy

    def _remove_own_sides(self) -> None:
        """Remove our log from beside another's file: whoever opens that would read it."""
        assert self.files is not None  # noqa: S101 -- since it was opened
        others = self.files.others()
        for path in (self._beside(end) for end in SIDES):
            if path.name not in others:
                path.unlink(missing_ok=True)

    def _drop_copy(self) -> None:
        if self._copy is not None:
            with suppress(OSError):
                self._copy.unlink(missing_ok=True)
            self._copy = None

    # ---- the log ----------------------------------------------------------------------------------------------

    def copy_log(self) -> None:
        """As in `Database`, and then the file has new content that is ours."""
        super().copy_log()
        with suppress(OSError):
            self._content = self._content_now()

    def begin_log_anew(self) -> None:
        """As in `Database`, unless the file is not the one at the path."""
        try:
            self.look(is_idle=True)
        except StoreError:
            return  # the next transaction raises it
        self._restart_log()
        with suppress(OSError):
            self._content = self._content_now()

    def close(self) -> None:
        """Close the database. Raises StoreError if its file is not the one at the path."""
        try:
            self.look(is_idle=True)
        except BaseException:
            self._abandon()
            raise
        if self.files is not None:
            self.files.close()
            self.files = None
        super().close()

    def _abandon(self) -> None:
        """Close without a change of what is at the path, or of what its owner has."""
        self._let_log_go()
        if self.files is not None:
            self.files.close()
            self.files = None
        if self._is_overwritten:
            self._end.empty_log()  # or SQLite would copy it into the file of others
        self._end.close_log()
        with suppress(sqlite3.Error), closing(self._reading("")) as beside:
            # The last connection that can write would copy the log and remove it.
            beside.execute("SELECT 1 FROM sqlite_master").fetchone()
            self.connection.close()
        with suppress(sqlite3.Error):
            self.connection.close()
        self._end.close(keeps_note=True)
