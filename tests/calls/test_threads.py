"""Sync calls bounded by `Timeout(…, thread=True)`, whose threads cannot be stopped. In real time, because threads have no virtual time."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from contextlib import suppress
from contextvars import ContextVar

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once
from tests.internals.telemetry import name_in_words


pytestmark = pytest.mark.real

REFUSED = ConnectionRefusedError
TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


def test_a_result_and_an_error_come_out_as_they_are():
    """They are the same objects, with the traceback to where the error was raised."""
    result, error = object(), REFUSED("mine")
    get = rb.Policy(rb.Timeout(10, thread=True))
    assert get.call(lambda: result) is result
    with pytest.raises(REFUSED) as raised:
        get.call(Server(always=error).get)
    assert raised.value is error
    assert raised.traceback[-1].name == "get"


def test_the_caller_of_a_slow_thread_goes_on():
    """The caller goes on after the timeout; the thread ends with its function, whose late result is dropped."""
    release, ended = threading.Event(), threading.Event()

    def slow():
        release.wait(10)
        ended.set()
        return "late"

    began = time.monotonic()
    with rb.testing.record() as recorded, pytest.raises(rb.errors.AttemptTimeoutError) as raised:
        rb.Policy(rb.Timeout(0.03, thread=True), name="slow").call(slow)
    assert 0.02 < time.monotonic() - began < 5
    assert raised.value.failure.executed is rb.errors.Executed.MAYBE
    assert [name_in_words(event) for event in recorded] == ["thread left behind"]
    release.set()
    assert ended.wait(10)


def test_each_attempt_has_its_own_thread_and_time():
    """A permitted retry has a new thread and the next step of an escalating timeout."""
    release, threads = threading.Event(), []

    def slow():
        threads.append(threading.current_thread())
        if len(threads) < 3:
            release.wait(10)
        return "ok"

    get = rb.Policy(at_once(), rb.Timeout.escalating(0.02, 0.02, 10, thread=True))(
        slow, idempotent=True
    )
    assert get() == "ok"
    assert len(set(threads)) == 3
    assert all(thread.daemon for thread in threads)
    release.set()


def test_the_callees_context_is_the_callers():
    """It has the context variables, the attempt with its number, and the remaining time."""
    seen = []

    def look():
        attempt = rb.current_attempt()
        seen.append((TENANT.get(), attempt.number, attempt.remaining > 0))
        if attempt.number == 1:
            raise REFUSED

    TENANT.set("acme")
    rb.Policy(rb.Deadline(60), at_once(), rb.Timeout(10, thread=True))(idempotent=True).call(look)
    assert seen == [("acme", 1, True), ("acme", 2, True)]


def test_the_deadline_bounds_a_thread():
    """With 0.03 s to the deadline and a Timeout of 10 s the call ends at the deadline, and is not retried."""
    release, calls = threading.Event(), []

    def slow():
        calls.append(1)
        release.wait(10)

    began = time.monotonic()
    get = rb.Policy(at_once(), rb.Timeout(10, thread=True))(slow, idempotent=True)
    with pytest.raises(TimeoutError):
        rb.Policy(rb.Deadline(0.03)).call(get)
    assert time.monotonic() - began < 5
    assert calls == [1]
    release.set()


def test_a_bulkhead_permit_belongs_to_the_caller():
    """A caller that gave up has returned its permit, although the thread still runs."""
    release = threading.Event()
    policy = rb.Policy(rb.Bulkhead(1), rb.Timeout(0.02, thread=True))
    with pytest.raises(rb.errors.AttemptTimeoutError):
        policy.call(release.wait, 10)
    assert policy.call(Server().get) == "ok"
    release.set()


def test_an_abandoned_thread_is_outside_of_the_call():
    """Calls that it makes later have neither the attempt nor its deadline."""
    release, seen, done = threading.Event(), [], threading.Event()

    @rb.Policy(rb.Deadline(3600))
    def look():
        seen.append(rb.current_attempt().remaining)

    def slow():
        release.wait(10)
        seen.append(rb.current_attempt())
        look()
        done.set()

    with pytest.raises(TimeoutError):
        rb.Policy(rb.Deadline(0.02)).call(rb.Policy(rb.Timeout(10, thread=True))(slow))
    release.set()
    assert done.wait(10)
    assert seen[0] is None
    assert seen[1] > 3000


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_raised_where_the_call_was_made(error):
    """It is raised in the caller, because the thread would swallow it."""
    with pytest.raises(error):
        rb.Policy(rb.Timeout(10, thread=True)).call(Server(always=error()).get)


class WatchedError(REFUSED):
    """Takes weak references."""


def test_no_error_stays_alive():
    """An error from a thread is freed when the caller drops it."""
    refs = []

    def fail():
        error = WatchedError("x")
        refs.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    before = set(threading.enumerate())
    gc.collect()
    gc.disable()
    try:
        for policy in (
            rb.Policy(rb.Timeout(10, thread=True)),
            rb.Policy(at_once(), rb.Timeout(10, thread=True)),
        ):
            with suppress(REFUSED):
                policy(idempotent=True).call(fail)
        for thread in set(threading.enumerate()) - before:
            thread.join(5)
        assert [ref() for ref in refs if ref() is not None] == []
    finally:
        gc.enable()


def test_a_generator_cannot_run_in_a_thread():
    """Refused at decoration."""

    def items():
        yield 1

    with pytest.raises(rb.ConfigError, match="no generator"):
        rb.Policy(rb.Timeout(10, thread=True))(items)


async def test_on_an_async_function_no_thread_is_made():
    """`thread=True` is for sync functions; an async one is cancelled as without it."""
    before = threading.active_count()

    async def count():
        return threading.active_count()

    assert await rb.Policy(rb.Timeout(10, thread=True)).call(count) == before
