"""The migration of a sound database of an earlier version to the newest one, in one transaction.

Rule: whatever interrupts it, the file is of the old version or of the new one. The rows have passed
their check sums, and get new ones.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from .database import connect, insert, select, summed
from .versions import STORE


if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from .versions import Kind


def migrate(path: Path, version: int, kind: Kind = STORE) -> None:
    """Migrate the file. Raises sqlite3.Error, and what a `lift` raises: a defect of ours."""
    with closing(connect(path, is_machine=True, kind=kind)) as connection:
        execute = connection.execute
        execute("PRAGMA temp_store=MEMORY")  # messages must not be written to /tmp
        execute("BEGIN IMMEDIATE")
        try:
            _replace(connection, version, kind)
            execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                execute("ROLLBACK")
            raise


def _replace(connection: sqlite3.Connection, version: int, kind: Kind) -> None:
    """Replace tables and rows by those of the newest version; all rows are in memory meanwhile."""
    old, new = kind.layouts[version], kind.layouts[kind.newest()]
    rows = kind.lifted(
        {table: connection.execute(select(table, old)).fetchall() for table in old.tables}, version
    )
    for table in old.tables:
        connection.execute(f"DROP TABLE {table}")
    for statement in new.schema:
        connection.execute(statement)
    for table in new.tables:
        connection.executemany(insert(table, kind=kind), [summed(row) for row in rows[table]])
    connection.execute(f"PRAGMA user_version={kind.newest()}")
