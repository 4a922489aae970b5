"""What is wrong with a database file, before a row of it is used: its header, its tables, its structure, the check sum of each row.

Rule: what is not known to be right is wrong, and what an attempt to read failed with is told from what is in the file.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from .sqlite_file import APPLICATION, SCHEMA, TABLES, VERSION, is_damage, is_good, name_of


__all__ = ["Faults", "faults_of", "is_about_content"]


class Faults(NamedTuple):
    """What is wrong with a file: with all of it, in words, and how many rows of which tables; false if nothing is."""

    whole: tuple[str, ...] = ()
    rows: tuple[tuple[str, int], ...] = ()

    def __bool__(self) -> bool:
        """Is anything wrong?"""
        return bool(self.whole or self.rows)

    def __str__(self) -> str:
        """In words."""
        return ", ".join([*self.whole, *(f"{count} rows of {table}" for table, count in self.rows)])

    @property
    def spare_marks(self) -> bool:
        """Is every mark there, and right?"""
        return not self.whole and "marks" not in dict(self.rows)


def faults_of(connection: sqlite3.Connection) -> Faults:
    """What is wrong with an open database; if nothing, every row of it can be trusted. Raises sqlite3.Error."""
    whole: list[str] = []
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        whole.append("its header does not say that it is ours")
    if version != VERSION:
        whole.append(f"it is of version {version}, expected {VERSION}")
    # A type that reads TEXU makes numbers of later texts, and no row that is there tells.
    if [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid")] != list(SCHEMA):
        whole.append("its tables are not those of ours")
    whole += [
        f"its structure: {said}" for (said,) in connection.execute("PRAGMA quick_check(1)") if said != "ok"
    ]
    if whole:
        return Faults(tuple(whole))
    rows: list[tuple[str, int]] = []
    for table, columns in TABLES.items():
        every = f"SELECT {', '.join(columns)}, crc FROM {table}"  # noqa: S608 -- names of ours
        bad = sum(not is_good(row) for row in connection.execute(every))
        if bad:
            rows.append((table, bad))
    return Faults(rows=tuple(rows))


def is_about_content(error: sqlite3.Error) -> bool:
    """Does it say what is in the file, and not what became of an attempt to read it?"""
    # ERROR: "no such table", "no such column": what a bit in the first page can do
    name = name_of(error)
    return name in {"", "SQLITE_ERROR", "SQLITE_FORMAT", "SQLITE_SCHEMA"} or is_damage(name)
