"""Signals that ask a process to end.

Rule: handlers run in the event loop, of any kind, and afterwards the earlier signal handlers are
restored.
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
"""What a supervisor sends, and a closing terminal.

On Windows that is Ctrl-Break: no other signal can be sent to a process and be handled.
"""


@contextmanager
def on_signals(call: Callable[[], object], *numbers: int) -> Generator[None]:
    """Call it in the running loop at each of these signals: Ctrl-C and what a supervisor sends, if none is named.

    Does nothing outside the main thread, because only the main thread can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    chosen = numbers or (signal.SIGINT, *TERM)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in chosen}
    is_ours: set[int] = set()  # set by us, and not by the loop

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
            if before[number] is not None:  # None: one that Python did not set
                signal.signal(number, before[number])
