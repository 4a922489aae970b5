"""Locks of threads that a forked child finds free.

A fork copies a lock as it is. One that another thread of the parent held would never be released in
the child, because that thread is not there.

Rule: a lock that guards state of this package is made here, and holds for arithmetic or a file of
ours; a state that a fork finds half changed is at most one count off.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet


if TYPE_CHECKING:
    from threading import Lock, RLock


_made: Final[WeakSet[Any]] = WeakSet()


def new_lock() -> Lock:
    """Return a `threading.Lock` that is free in a child of a fork."""
    lock = threading.Lock()
    _made.add(lock)
    return lock


def new_rlock() -> RLock:
    """Return a `threading.RLock` that is free in a child of a fork."""
    lock = threading.RLock()
    _made.add(lock)
    return lock


def _make_free() -> None:
    """Free every lock: only the thread that forked is here, and it holds none."""
    for lock in list(_made):
        lock._at_fork_reinit()  # noqa: SLF001 -- as CPython does for the locks of its own modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_make_free)
