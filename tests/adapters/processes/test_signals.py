"""Signals that ask a process to end: what they call, and the handlers that are there afterwards."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from tests.internals.adapters import HANG_UP, on_signals


pytestmark = pytest.mark.real


async def test_a_signal_calls_and_the_handler_of_before_comes_back():
    """Also one of the host's own, and one that was ignored, as under nohup."""
    number, called = HANG_UP[0], asyncio.Event()
    for before in (signal.SIG_IGN, lambda *_: None):
        previous = signal.signal(number, before)
        try:
            called.clear()
            with on_signals(called.set, number):
                signal.raise_signal(number)
                async with asyncio.timeout(5):
                    await called.wait()
            assert signal.getsignal(number) is before
        finally:
            signal.signal(number, previous)


def test_another_thread_has_no_signals():
    """It changes no handler, and raises nothing."""
    before, seen = signal.getsignal(signal.SIGTERM), []

    async def main():
        with on_signals(lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join(10)
    assert seen == [before]
