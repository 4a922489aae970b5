"""The world as code of this package sees it: time, waits, random numbers, ids and threads, from one object of the context.

Rule: nothing else reads a clock, draws a random number, makes an id or starts a thread; `nox -s style` refuses the raw calls everywhere
else. So a test that puts another world in place (`rb.testing`) changes all of them at once, for its own context and nobody else's. The
one other clock is that of a running event loop, which a simulated loop replaces: what waits for I/O goes by it.

Pure code takes `now`, an rng or an id as an argument. Four public doors read the world for their callers: `classify`, an event's `at`,
`Failure.to_report` and `Backoff.waits`.
"""

from __future__ import annotations

from .real import REAL, WORLD, World, current_world


__all__ = ["REAL", "WORLD", "World", "current_world"]
