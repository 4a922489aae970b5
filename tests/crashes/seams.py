"""Crash points of a process: before, inside or after its k-th transaction, or at a byte of its log.

    {"at": 3, "when": "before" | "inside" | "after"}     the third call of Database.run
    {"bytes": 50_000}                                     once open, at the first write beyond that byte of a file
    {"slow": 0.2}                                         no death: each transaction takes that many seconds

The second is a torn write: the system writes what fits, and the process dies within the same call.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from typing import Any

from resilient_bridge.stores import SQLiteStore
from tests.internals.stores import Database


def die() -> None:
    """Send SIGKILL to this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(order: dict[str, Any] | None) -> None:
    """Make this process die at the ordered point."""
    if order is None:
        return
    if "bytes" in order:
        _limit(order["bytes"])
    elif "slow" in order:
        _slow(order["slow"])
    else:
        _die_at(order["at"], order["when"])


def _limit(size: int) -> None:
    load = SQLiteStore._load

    def limiting(self: SQLiteStore, *arguments: Any) -> None:
        load(self, *arguments)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.dont_write_bytecode = True  # or a module imported late leaves half of its compiled file
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    SQLiteStore._load = limiting  # type: ignore[method-assign]


def _slow(seconds: float) -> None:
    run = Database.run

    def slow(self: Database, ops: Any) -> None:
        time.sleep(seconds)
        run(self, ops)

    Database.run = slow  # type: ignore[method-assign]


def _die_at(remaining: int, when: str) -> None:
    run = Database.run

    def dying(self: Database, ops: Any) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining:
            return run(self, ops)
        if when == "before":
            die()
        if when == "inside":
            self.connection.create_function("die", 0, die)
            run(self, [*ops, ("SELECT die()", ())])
        run(self, ops)
        return die()

    Database.run = dying  # type: ignore[method-assign]
