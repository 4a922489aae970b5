"""The only source of time, waits, random numbers, ids and threads: one object in the context.

Rule: no other code reads a clock, draws a random number, makes an id or starts a thread; `nox -s
style` refuses the raw calls everywhere else. So a test that installs another world (`rb.testing`)
changes all of them at once, for its own context only. The one other clock is that of the running
event loop: code that waits for I/O uses it, and a simulated loop replaces it.

Pure code takes `now`, an rng or an id as an argument. Four public functions read the world for
their callers: `classify`, an event's `at`, `Failure.to_report` and `Backoff.waits`.
"""

from __future__ import annotations

from .real import REAL, WORLD, World, current_world


__all__ = ["REAL", "WORLD", "World", "current_world"]
