"""The hub: everybody who listens hears everything, and nobody can break it."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime

import pytest

from resilient_bridge import events
from resilient_bridge.failure import ConfigError
from resilient_bridge.telemetry import emit, has_listeners, listen
from tests.internals.telemetry import hub


EVENT = events.Closed(at=datetime(2026, 3, 20, tzinfo=UTC), reason="user")


def test_a_listener_hears_inside_the_block_only():
    """Before and after `with listen(fn)` nothing arrives."""
    heard: list[events.Event] = []
    emit(EVENT)
    assert not has_listeners()
    with listen(heard.append):
        assert has_listeners()
        emit(EVENT)
    emit(EVENT)
    assert heard == [EVENT]
    assert not has_listeners()


def test_listeners_are_independent():
    """Two listeners both hear; leaving in any order removes only the one that left."""
    first: list[events.Event] = []
    second: list[events.Event] = []
    one, two = listen(first.append), listen(second.append)
    one.__enter__()
    two.__enter__()
    emit(EVENT)
    one.__exit__(None, None, None)
    emit(EVENT)
    two.__exit__(None, None, None)
    assert (first, second) == ([EVENT], [EVENT, EVENT])


@pytest.mark.parametrize(
    "error", [ValueError("secret argument"), asyncio.CancelledError(), RecursionError()]
)
def test_a_raising_listener_is_counted_logged_once_and_isolated(caplog, error):
    """The emitter and the next listener do not notice; the log says it once, without the error's text."""
    heard: list[events.Event] = []

    def broken(event):
        raise error

    before = hub.listener_failures()
    with caplog.at_level(logging.DEBUG), listen(broken), listen(heard.append):
        for _ in range(3):
            emit(EVENT)
    assert heard == [EVENT] * 3
    assert hub.listener_failures() == before + 3
    assert len(caplog.records) == 1
    assert "broken" in caplog.text
    assert type(error).__name__ in caplog.text
    assert "secret" not in caplog.text


def test_a_keyboard_interrupt_in_a_listener_passes():
    """Somebody who wants out gets out."""

    def stopped(event):
        raise KeyboardInterrupt

    with listen(stopped), pytest.raises(KeyboardInterrupt):
        emit(EVENT)


def test_a_listener_may_leave_while_it_is_called():
    """The list of listeners may change during an emit: this event still reaches all, the next one does not."""
    heard: list[str] = []

    def leaving(event):
        heard.append("leaving")
        stay.__exit__(None, None, None)

    def staying(event):
        heard.append("staying")

    stay = listen(leaving)
    stay.__enter__()
    with listen(staying):
        emit(EVENT)
        emit(EVENT)
    assert heard == ["leaving", "staying", "staying"]


def test_threads_may_come_and_go():
    """Listeners of many threads leave nothing behind."""

    def come_and_go():
        for _ in range(200):
            with listen(lambda event: None):
                emit(EVENT)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not has_listeners()


async def _async_listener(event):
    pass


class _Async:
    async def method(self, event):
        pass


@pytest.mark.parametrize("listener", [None, "fn", _async_listener, _Async().method])
def test_what_cannot_listen_is_refused(listener):
    """Something not callable, and an async function, whose coroutine nobody would await."""
    with pytest.raises(ConfigError, match=r"listen\.listener"):
        listen(listener)
