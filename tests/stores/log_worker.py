"""One life of a store whose log is copied and emptied all the time, in a process of its own, that closes it.

`python -m tests.stores.log_worker PATH DURABILITY`; what it was told, line by line, as `database_worker` does. Rule: whoever kills it
finds every condition that a log can be in.
"""

from __future__ import annotations

import asyncio
import sys

from resilient_bridge.stores import SQLiteStore
from tests.internals.stores import commits as sqlite_commits
from tests.stores.database_content import now
from tests.stores.database_worker import life


async def main(path, durability):
    """Sends that no earlier life can have had."""
    store = SQLiteStore(path, durability=durability)
    await store.open(now())
    await life(store, 101, 140)
    await store.close()


if __name__ == "__main__":
    sqlite_commits._LOOK_EVERY = 6
    sqlite_commits._LOG_LIMIT = 60_000
    asyncio.run(main(*sys.argv[1:]))
