"""The standard library's clocks and random bytes, made to follow a simulated run.

Rule: they are replaced for the thread of the run only; other threads of the process go on with the
real ones.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, Final
from unittest.mock import patch

from .timeline import Timeline


_NANO: Final = 1_000_000_000


@contextmanager
def stdlib_follows(loop: Timeline, rng: Random) -> Generator[None]:
    """Read the time from `loop`, block it in `time.sleep`, and draw random bytes from `rng`."""
    thread = threading.get_ident()

    def replaced(module: Any, name: str, simulated: Callable[..., Any]) -> Any:
        real = getattr(module, name)

        def either(*args: Any) -> Any:
            return (simulated if threading.get_ident() == thread else real)(*args)

        return patch.object(module, name, either)

    clocks = {"time": loop.wall, "monotonic": loop.time, "perf_counter": loop.time}
    with ExitStack() as stack:
        for name, clock in clocks.items():
            stack.enter_context(replaced(time, name, clock))
            stack.enter_context(replaced(time, f"{name}_ns", _in_nanoseconds(clock)))
        stack.enter_context(replaced(time, "sleep", loop.stall))
        stack.enter_context(replaced(os, "urandom", rng.randbytes))
        # what `secrets` and SystemRandom read
        stack.enter_context(replaced(random, "_urandom", rng.randbytes))
        yield


def _in_nanoseconds(clock: Callable[[], float]) -> Callable[[], int]:
    return lambda: round(clock() * _NANO)
