"""The check of a database file before it is used: header, tables, structure, CRC of each row.

A file is checked against the tables of its own version. Rule: what cannot be verified counts as
damaged; a failure to read the file does not.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from .database import is_damage, is_good, name_of
from .versions import STORE


if TYPE_CHECKING:
    from .versions import Kind


class FileFaults(NamedTuple):
    """The faults of a file: of the whole file in words, and the number of bad rows by table.

    `log`: what is missing in its log. `version`: the one it was checked as. False without a fault.
    """

    whole: tuple[str, ...] = ()
    rows: tuple[tuple[str, int], ...] = ()
    log: str = ""
    version: int = 0

    def __bool__(self) -> bool:
        return bool(self.whole or self.rows or self.log)

    def __str__(self) -> str:
        log = [self.log] if self.log else []
        return ", ".join(
            [*log, *self.whole, *(f"{count} rows of {table}" for table, count in self.rows)]
        )

    @property
    def spare_marks(self) -> bool:
        """Return whether every mark is there and intact."""
        return not self.whole and not self.log and "marks" not in dict(self.rows)


def schema_of(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the SQL that created the contents of a database. Raises sqlite3.Error."""
    return tuple(
        sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid")
    )


def version_of(schema: tuple[str, ...], kind: Kind = STORE) -> int | None:
    """Return the version of ours that has these tables; None if there is none."""
    layouts = kind.layouts.items()
    return next((version for version, layout in layouts if layout.schema == schema), None)


def faults_of(connection: sqlite3.Connection, kind: Kind = STORE) -> FileFaults:
    """Return the faults of a database; without any, all rows are right. Raises sqlite3.Error."""
    whole: list[str] = []
    found_version = connection.execute("PRAGMA user_version").fetchone()[0]
    # A flipped bit in a column's type (TEXU) makes SQLite store later texts as numbers. No existing
    # row shows that, so the SQL is compared.
    version = version_of(schema_of(connection), kind)
    if connection.execute("PRAGMA application_id").fetchone()[0] != kind.application:
        whole.append("its header does not say that it is ours")
    if found_version != (version or kind.newest()):
        whole.append(f"it is of version {found_version}, expected {version or kind.newest()}")
    if version is None:
        whole.append("its tables are not those of ours")
    whole += [
        f"its structure: {problem}"
        for (problem,) in connection.execute("PRAGMA quick_check(1)")
        if problem != "ok"
    ]
    if whole or version is None:
        return FileFaults(tuple(whole))
    rows: list[tuple[str, int]] = []
    for table, columns in kind.layouts[version].tables.items():
        every = f"SELECT {', '.join(columns)}, crc FROM {table}"  # noqa: S608 -- names of ours
        bad = sum(not is_good(row) for row in connection.execute(every))
        if bad:
            rows.append((table, bad))
    return FileFaults(rows=tuple(rows), version=version)


def is_about_content(error: sqlite3.Error) -> bool:
    """Return whether an error is about the content of the file, not about a failed read."""
    # SQLITE_ERROR: "no such table" or "no such column", after a flipped bit in the first page
    name = name_of(error)
    return name in {"", "SQLITE_ERROR", "SQLITE_FORMAT", "SQLITE_SCHEMA"} or is_damage(name)
