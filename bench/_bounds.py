"""Lower bounds of a protected call, written by hand: the least work that could keep a comparable promise.

Plain closures with their state in cell variables, the cheapest that Python has. No types, no classification, no error text,
no layers, one exception class: a ruler, not a proposal. `guarded` repeats and has a circuit of failures in a row; `full` adds a
retry budget, a time limit, the latency and the question whether anybody listens.
"""

from __future__ import annotations

from asyncio import CancelledError, current_task, get_running_loop
from collections import deque
from time import monotonic


TOKENS, PRICE = 500.0, 5.0  # a budget: what it holds, and what a repeat takes from it


class OpenError(Exception):
    """The circuit is open."""


def guarded(function, *, attempts=3, on=Exception, limit=5, open_for=30.0):
    """Retry and circuit around an async function."""
    failures = calls = 0
    opened = 0.0

    async def call(*args, **kwargs):
        nonlocal failures, calls, opened
        attempt = 1
        while True:
            if failures >= limit and monotonic() - opened < open_for:
                raise OpenError
            try:
                result = await function(*args, **kwargs)
            except on:
                failures += 1
                if failures >= limit:
                    opened = monotonic()
                if attempt >= attempts:
                    raise
                attempt += 1
            else:
                failures = 0
                calls += 1
                return result

    return call


def guarded_sync(function, *, attempts=3, on=Exception, limit=5, open_for=30.0):
    """Retry and circuit around a sync function."""
    failures = calls = 0
    opened = 0.0

    def call(*args, **kwargs):
        nonlocal failures, calls, opened
        attempt = 1
        while True:
            if failures >= limit and monotonic() - opened < open_for:
                raise OpenError
            try:
                result = function(*args, **kwargs)
            except on:
                failures += 1
                if failures >= limit:
                    opened = monotonic()
                if attempt >= attempts:
                    raise
                attempt += 1
            else:
                failures = 0
                calls += 1
                return result

    return call


def full(function, *, attempts=3, on=Exception, limit=5, open_for=30.0, seconds=30.0):  # noqa: C901, PLR0915 -- one frame is its point
    """Everything around an async function. One timer for all calls: with one constant duration they expire in their order."""
    failures = calls = 0
    opened = total = 0.0
    tokens, listeners = TOKENS, ()
    running: deque[list] = deque()  # of [until, task, is_over, has_expired]
    is_armed = False

    def expire(loop):
        nonlocal is_armed
        now = loop.time()
        while running and (running[0][2] or running[0][0] <= now):
            entry = running.popleft()
            if not entry[2]:
                entry[3] = True
                entry[1].cancel()
        is_armed = bool(running)
        if is_armed:
            loop.call_at(running[0][0], expire, loop)

    async def call(*args, **kwargs):  # noqa: C901, PLR0912 -- see above
        nonlocal failures, calls, opened, total, tokens, is_armed
        loop = get_running_loop()
        task = current_task(loop)
        attempt = 1
        while True:
            started = monotonic()
            if failures >= limit and started - opened < open_for:
                raise OpenError
            entry = [started + seconds, task, False, False]
            running.append(entry)
            if not is_armed:
                is_armed = True
                loop.call_at(entry[0], expire, loop)
            try:
                result = await function(*args, **kwargs)
            except CancelledError as error:
                if entry[3] and task.uncancel() <= 0:
                    raise TimeoutError from error
                raise
            except on:
                failures += 1
                if failures >= limit:
                    opened = monotonic()
                if attempt >= attempts or tokens < PRICE:
                    raise
                tokens -= PRICE
                attempt += 1
            else:
                failures = 0
                calls += 1
                if tokens < TOKENS:
                    tokens += PRICE if attempt > 1 else 1
                total += monotonic() - started
                for listener in listeners:
                    listener(result)
                return result
            finally:
                entry[2] = True
                while running and running[0][2]:
                    running.popleft()

    return call


def full_sync(function, *, attempts=3, on=Exception, limit=5, open_for=30.0):
    """Everything around a sync function, which no time limit can end."""
    failures = calls = 0
    opened = total = 0.0
    tokens, listeners = TOKENS, ()

    def call(*args, **kwargs):
        nonlocal failures, calls, opened, total, tokens
        attempt = 1
        while True:
            started = monotonic()
            if failures >= limit and started - opened < open_for:
                raise OpenError
            try:
                result = function(*args, **kwargs)
            except on:
                failures += 1
                if failures >= limit:
                    opened = monotonic()
                if attempt >= attempts or tokens < PRICE:
                    raise
                tokens -= PRICE
                attempt += 1
            else:
                failures = 0
                calls += 1
                if tokens < TOKENS:
                    tokens += PRICE if attempt > 1 else 1
                total += monotonic() - started
                for listener in listeners:
                    listener(result)
                return result

    return call
