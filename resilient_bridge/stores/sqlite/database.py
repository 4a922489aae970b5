"""One database file: its rows, its transactions and its log. Its tables are in `versions`.

Every row has a CRC over its fields, because SQLite does not notice a flipped bit in one. SQLite
silently drops what follows a bad page of the log: `log_end` records how far the log goes, and
`integrity` checks the file. Rule: a file with any fault is not used as it is; a new one gets the
rows that `salvage` finds intact.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...failure import Failure, StoreError
from ...files.private_files import open_private
from .log_end import LogEnd, log_of
from .versions import STORE


if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...files.identity import HeldFiles
    from .versions import Kind, Layout, Rows


#: SQL and its parameters, or a list of them.
Op: TypeAlias = tuple[str, "Sequence[Any] | list[Sequence[Any]]"]

# bytes; small, because a commit writes whole pages and a message is a tenth of one. Larger texts
# cost a little more.
PAGE: Final = 2_048
_PATIENCE: Final = 5.0  # seconds to wait for another program that has the file locked

#: The number of the mark whose time is the generation: it grows with each owner of the database.
GENERATION: Final = -1
# Three rows, of which the first is read: the statement stays open, and with it the read.
_HOLD: Final = (
    f"SELECT wall FROM marks WHERE seq = {GENERATION} UNION ALL SELECT 0.0 UNION ALL SELECT 0.0"  # noqa: S608 -- a number of ours
)

_PLAIN: Final = frozenset({str, int, float, type(None)})


def crc_of(row: Sequence[object]) -> int:
    return zlib.crc32(repr(tuple(row)).encode())  # repr escapes lone surrogates


def insert(table: str, *, or_what: str = "ABORT", kind: Kind = STORE) -> str:
    places = ", ".join("?" * (len(kind.layouts[kind.newest()].tables[table]) + 1))
    return f"INSERT OR {or_what} INTO {table} VALUES ({places})"  # noqa: S608 -- names of ours


def select(table: str, layout: Layout, where: str = "") -> str:
    """The SQL that reads the rows of a table in the order of their key, without CRC."""
    order = layout.keys.get(table, "seq")
    return f"SELECT {', '.join(layout.tables[table])} FROM {table} {where} ORDER BY {order}"  # noqa: S608 -- names of ours


def summed(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row with its CRC, in plain values: the CRC is of what SQLite will return."""
    if not _PLAIN.issuperset(map(type, row)):
        row = [_plain(value) for value in row]
    plain = tuple(row)
    return (*plain, zlib.crc32(repr(plain).encode()))  # as `crc_of`


def _plain(value: object) -> object:
    """Return a member of an enumeration, or another subclass, as the value that SQLite stores."""
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else value


def connect(
    path: Path, *, is_machine: bool, version: int | None = None, kind: Kind = STORE
) -> sqlite3.Connection:
    """Open a database; a new one gets the tables of a version. Raises sqlite3.Error."""
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=_PATIENCE
    )
    try:
        execute = connection.execute
        execute(f"PRAGMA page_size={PAGE}")
        execute("PRAGMA journal_mode=WAL")
        # NORMAL: a commit is passed to the system, so it survives this process. FULL: it is on the
        # disk.
        execute(f"PRAGMA synchronous={'FULL' if is_machine else 'NORMAL'}")
        execute("PRAGMA wal_autocheckpoint=0")  # stalls commits: see Database.begin_log_anew
        execute("PRAGMA journal_size_limit=0")  # no rest of an earlier log after the one in use
        if execute("PRAGMA schema_version").fetchone()[0] == 0:
            version = kind.newest() if version is None else version
            execute("BEGIN IMMEDIATE")
            for statement in kind.layouts[version].schema:
                execute(statement)
            execute(f"PRAGMA application_id={kind.application}")
            execute(f"PRAGMA user_version={version}")
            execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def is_good(row: Sequence[Any]) -> bool:
    """Return whether the last field is the CRC of the others."""
    return bool(row[-1] == crc_of(row[:-1]))


def name_of(error: Exception) -> str:
    """Return SQLite's name of an error; "" for one of Python's, such as text that is not UTF-8."""
    return str(getattr(error, "sqlite_errorname", ""))


def is_damage(name: str) -> bool:
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def store_error(error: Exception, what: str) -> StoreError:
    """Return the StoreError for an error of SQLite or the system."""
    name = name_of(error) or type(error).__name__
    code = "SYS_STATE_DAMAGED" if is_damage(name) else "SYS_STORE_UNAVAILABLE"
    ours = StoreError(Failure.of(code, f"{what}: {error} ({name})", cause=error))
    ours.__cause__ = error
    return ours


class Database:
    """An open database, used by one thread at a time; `copy_log` alone may run beside it.

    `generation`: that of its owner when it was last read.
    """

    #: What is held against the path after each transaction; see `owned`.
    files: HeldFiles | None = None

    def __init__(self, path: Path, *, is_machine: bool, kind: Kind = STORE) -> None:
        self.path = path
        self.kind = kind
        self.generation = 0.0
        self._is_machine = is_machine
        self._must_look = False
        self._open()

    def _open(self) -> None:
        self.connection = connect(self.path, is_machine=self._is_machine, kind=self.kind)
        self._held: sqlite3.Cursor | None = None
        try:
            self.connection.execute("SELECT 1 FROM marks LIMIT 1")  # from here on there is a log
            self._end = LogEnd(self.path)
        except BaseException:
            self.connection.close()
            raise
        if self._end.is_followed:
            self.hold_log()
        else:
            self._restart_log()

    def look(self, *, is_idle: bool = False) -> None:
        """See to it that the files are those that were opened; see `OwnedDatabase`."""

    def run(self, ops: Sequence[Op], *, is_again: bool = False) -> None:
        """Run all operations in one transaction, or none of them. Raises StoreError."""
        if not ops:
            return
        if self._must_look:
            self.look()
        connection = self.connection
        execute = connection.execute
        try:
            if len(ops) == 1 and not isinstance(ops[0][1], list):
                execute(*ops[0])
            else:
                execute("BEGIN IMMEDIATE")
                for sql, received in ops:
                    if isinstance(received, list):
                        connection.executemany(sql, received)
                    else:
                        execute(sql, received)
                execute("COMMIT")
            self._end.add()
        except (
            sqlite3.Error,
            ValueError,
            OverflowError,
        ) as error:  # ValueError: a text that UTF-8 cannot write
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    execute("ROLLBACK")
            name = name_of(error)
            # If busy, nothing was written: the end of the log is another program's.
            if not name.startswith("SQLITE_BUSY"):
                self._end.take_back(is_machine=self._is_machine)
            self.hold_log()
            if name == "SQLITE_BUSY_SNAPSHOT" and not is_again:  # another program has written
                self.run(ops, is_again=True)
                return
            raise store_error(error, f"{self.path.name} cannot be written") from error
        if self.files is not None and self.files.may_have_changed():
            self.look()

    def rows(self, table: str, where: str = "", *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a table in the order of their key, without CRC. Raises StoreError."""
        try:
            layout = self.kind.layouts[self.kind.newest()]
            return self.connection.execute(select(table, layout, where), values).fetchall()
        except sqlite3.Error as error:
            raise store_error(error, f"{self.path.name} cannot be read") from error

    def fill(self, rows: Rows) -> None:
        """Take over rows from another file, in one transaction."""
        self.run(
            [
                (
                    insert(table, or_what="IGNORE", kind=self.kind),
                    [summed(row) for row in rows[table]],
                )
                for table in rows
            ]
        )

    # ---- the log ----------------------------------------------------------------------------------------------

    def _let_log_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def hold_log(self) -> None:
        """Begin a read of the present content, and keep it open until the next one.

        Meanwhile SQLite copies nothing newer and begins no new log, and commits need fewer locks.
        What another program writes makes the next commit fail (SQLITE_BUSY_SNAPSHOT). So what is
        read is the generation: without a cost, each transaction is one of this owner.
        """
        self._let_log_go()
        with suppress(sqlite3.Error):
            self._held = self.connection.execute(_HOLD)
            self.generation = self._held.fetchone()[0]

    def copy_log(self) -> None:
        """Copy what can be copied from the log into the database, while others may write."""
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.path)) as beside:
            beside.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def begin_log_anew(self) -> None:
        """Copy the rest of the log and empty it, unless it is in use. No write may run then."""
        self._restart_log()

    def _restart_log(self) -> None:
        self._let_log_go()
        execute = self.connection.execute
        with suppress(sqlite3.Error):  # full or read-only: the log grows, and writers get an error
            execute("PRAGMA busy_timeout=0")
            is_busy, pages, copied = execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if not is_busy and pages == copied:
                self._end.may_restart()
                execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with suppress(sqlite3.Error):
            execute(f"PRAGMA busy_timeout={_PATIENCE * 1000:.0f}")
        self.hold_log()

    def log_size(self) -> int:
        try:
            return log_of(self.path).stat().st_size
        except OSError:
            return 0

    def close(self) -> None:
        """Close the database; leave one file, without a log, if possible."""
        self._restart_log()
        self._let_log_go()
        self._end.close_log()
        self.connection.close()
        self._end.close()


def make(path: Path, rows: Rows, kind: Kind = STORE) -> None:
    """Create a database with these rows, in one file that is on the disk. Raises StoreError."""
    os.close(open_private(path, os.O_RDWR | os.O_CREAT, "store"))
    database = Database(path, is_machine=True, kind=kind)
    try:
        database.fill(rows)
    finally:
        database.close()
    if database.log_size():  # a full disk; a rename would separate the file from its log
        text = f"{path.name} cannot be written: its log could not be copied into it"
        raise StoreError(Failure.of("SYS_STORE_UNAVAILABLE", text))
