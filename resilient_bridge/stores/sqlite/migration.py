"""A sound database of an earlier version of ours becomes one of today's: in one transaction, before anything else uses it.

Rule: whatever interrupts it leaves the old version whole, or the new one. The rows are those that the check sums vouched for, and get
new ones.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from .database import connect, insert, select, summed
from .versions import LAYOUTS, lifted, newest


if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path


def migrate(path: Path, version: int) -> None:
    """Make it one of the newest version. Raises sqlite3.Error, and what a `lift` raises: that is a defect of ours, and not of the file."""
    with closing(connect(path, is_machine=True)) as connection:
        execute = connection.execute
        execute("PRAGMA temp_store=MEMORY")  # messages have no business in /tmp
        execute("BEGIN IMMEDIATE")
        try:
            _replace(connection, version)
            execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                execute("ROLLBACK")
            raise


def _replace(connection: sqlite3.Connection, version: int) -> None:
    """All rows are in memory meanwhile, as they are when a store is opened."""
    old, new = LAYOUTS[version], LAYOUTS[newest()]
    rows = lifted({table: connection.execute(select(table, old)).fetchall() for table in old.tables}, version)
    for table in old.tables:
        connection.execute(f"DROP TABLE {table}")
    for statement in new.schema:
        connection.execute(statement)
    for table in new.tables:
        connection.executemany(insert(table), [summed(row) for row in rows[table]])
    connection.execute(f"PRAGMA user_version={newest()}")
