"""Migrates copies of a database of version 1 to version 3, and dies by SIGKILL before each SQL statement, and never.

`python -m tests.stores.migration_worker DIRECTORY`: the copies are `DIRECTORY/1/known.db`, `2`, …; the last is whole. A child for each,
forked from one process, which prints how many there were.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from functools import partial
from pathlib import Path

from tests.internals.stores import LAYOUTS, open_database
from tests.internals.stores import migration as sqlite_migration
from tests.stores.database_content import SIDES
from tests.stores.later_versions import VERSIONS


class Dying(sqlite3.Connection):
    """One that kills its process before a statement."""

    remaining = 0

    def execute(self, *passed):
        self._count()
        return super().execute(*passed)

    def executemany(self, *passed):
        self._count()
        return super().executemany(*passed)

    def _count(self):
        Dying.remaining -= 1
        if Dying.remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def migrate(path, at):
    """Open it; only the connection that migrates counts."""
    Dying.remaining = at
    real = sqlite_migration.connect

    def connect(*args, **options):
        plain, sqlite3.connect = sqlite3.connect, partial(sqlite3.connect, factory=Dying)
        try:
            return real(*args, **options)
        finally:
            sqlite3.connect = plain

    sqlite_migration.connect = connect
    open_database(path, is_machine=False)


def main(directory):
    """Until a child lives to the end."""
    LAYOUTS.update(VERSIONS)
    at, status = 0, -1
    while status:
        at += 1
        copy = directory / str(at)
        copy.mkdir(mode=0o700)
        for side in SIDES:
            if Path(f"{directory / 'known.db'}{side}").exists():
                shutil.copyfile(f"{directory / 'known.db'}{side}", f"{copy / 'known.db'}{side}")
        child = os.fork()
        if not child:
            migrate(copy / "known.db", at)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status not in (0, signal.SIGKILL):
            raise SystemExit(f"at {at}: {status}")
    os.write(1, b"%d" % at)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
