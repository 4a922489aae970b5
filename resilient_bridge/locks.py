"""Locks of threads that a forked child finds free, and imports that a fork does not cut in two.

A fork copies a lock as it is. One that another thread of the parent held would never be released in
the child, because that thread is not there. The same is true of a module that another thread was
importing, and this package imports much of itself at its first use: the child would wait for ever
for the end of that import. So a fork waits for it.

Rule: a lock that guards state of this package is made here, and holds for arithmetic or a file of
ours; a state that a fork finds half changed is at most one count off. What counts the calls in progress
(a bulkhead) has a hook of its own: those of the parent's other threads do not run in the child.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet


if TYPE_CHECKING:
    from threading import Lock, RLock


_PACKAGE: Final = __name__.partition(".")[0]
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


def _await_imports() -> None:
    """Wait until no other thread is within the import of a module of this package or of Python.

    Not for a module of somebody else: its import may be a program that never ends.
    """
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        spec = getattr(module, "__spec__", None)
        if not getattr(spec, "_initializing", False):
            continue
        if top == _PACKAGE or top in sys.stdlib_module_names:
            # waits for another thread, and not for this one
            with suppress(Exception):  # who imports it is told that it failed
                importlib.import_module(name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_await_imports, after_in_child=_make_free)
