"""Signals that ask a process to end.

Rule: handlers run in the event loop, whatever its type, and the earlier signal handlers are
restored afterwards.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final


if sys.platform == "win32":
    TERM: Final = (signal.SIGTERM, signal.SIGBREAK)
    HANG_UP: Final = ()
else:
    TERM: Final = (signal.SIGTERM,)
    HANG_UP: Final = (signal.SIGHUP,)
"""`TERM`: the signals by which a supervisor ends a process. `HANG_UP`: the signal of a closing
terminal.

On Windows a supervisor sends Ctrl-Break: no other signal can be sent to a process and be handled.
"""


@contextmanager
def on_signals(call: Callable[[], object], *numbers: int) -> Generator[None]:
    """Call `call` in the running event loop on each of these signals; without `numbers`, on Ctrl-C
    and those of `TERM`.

    Does nothing outside the main thread, because only the main thread can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    chosen = numbers or (signal.SIGINT, *TERM)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in chosen}
    is_ours: set[int] = set()  # installed by `signal.signal`, not by the loop

    def later(_: int, __: object) -> None:
        loop.call_soon_threadsafe(call)

    try:
        for number in chosen:
            try:
                loop.add_signal_handler(number, call)
            except NotImplementedError:  # the loops of Windows
                signal.signal(number, later)
                is_ours.add(number)
        yield
    finally:
        for number in chosen:
            if number not in is_ours:
                loop.remove_signal_handler(number)
            if before[number] is not None:  # None: not installed from Python
                signal.signal(number, before[number])
