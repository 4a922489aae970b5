"""Traps of clocks and numbers: wall clocks, overflow, jitter that is cut off, and a server that names its own wait."""

from __future__ import annotations

import subprocess
import sys

import pytest

import resilient_bridge as rb
from tests.calls.forms import ASYNC, SYNC, Server, both, everywhere, http_error
from tests.rows import each_row


WALL_CLOCK_JUMPS = """
import time
now, jump = time.time, 0.0
time.time = lambda: now() + jump          # before anybody could take another reference to it

import resilient_bridge as rb

def down():
    raise ConnectionRefusedError

get = rb.Policy(rb.Breaker.consecutive(1, open_for=60))(down)
limited = rb.Policy(rb.RateLimit(1, per=3600))(lambda: "ok")
limited()
try:
    get()
except ConnectionRefusedError:
    pass
for jump in (315e6, -315e6):
    try:
        get()
    except rb.CircuitOpenError as rejected:
        assert 50 < rejected.retry_after <= 60, rejected.retry_after
    try:
        limited()
    except rb.errors.ThrottledError as rejected:
        assert 3500 < rejected.retry_after <= 3600, rejected.retry_after
    else:
        raise SystemExit("a jump of the wall clock gave a turn away")
"""


@pytest.mark.real
def test_pybreaker_only_monotonic_time_counts():
    """A wall clock that jumps ten years, forth and back, neither closes a circuit nor grants tokens.

    It does in Polly, failsafe-go, cockatiel, pybreaker, aiobreaker, purgatory, hyx, backoff and botocore (B14).
    """
    done = subprocess.run(
        [sys.executable, "-c", WALL_CLOCK_JUMPS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


SCHEDULES = [
    rb.Backoff.exponential(1, cap=60),
    rb.Backoff.exponential(0.1, factor=1.5, cap=5, jitter="equal"),
    rb.Backoff.exponential(1, factor=10, jitter="none"),
    rb.Backoff.linear(1, cap=30),
    rb.Backoff.decorrelated(1),
    rb.Backoff.steps(1, 2, then=rb.Backoff.exponential(5)),
]


@pytest.mark.parametrize(
    ("form", "backoff"),
    [(SYNC, backoff) for backoff in SCHEDULES] + [(ASYNC, SCHEDULES[0])],
    ids=lambda value: repr(value) if isinstance(value, rb.Backoff) else None,
)
def test_stamina_137_call_1100_waits_no_longer_than_the_cap(form, backoff):
    """Each of 1,099 waits is finite, not negative, and within the schedule's bound.

    redress, httpx-retries, backoff and hyx raise OverflowError at 2 ** 1024; Polly's waits became negative (Polly#2163).
    """
    server = Server(always=ConnectionRefusedError)
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry(attempts=1_100, backoff=backoff, budget=None))(
            form.of(server.get), idempotent=True
        )
        with pytest.raises(ConnectionRefusedError):
            form.run(get)
    assert server.calls == 1_100
    assert len(clock.slept) == 1_099
    assert all(
        0 <= wait <= longest
        for wait, longest in zip(clock.slept, backoff.delays(1_099), strict=True)
    )


@pytest.mark.parametrize("backoff", SCHEDULES[:1] + SCHEDULES[3:5], ids=repr)
def test_stamina_there_is_jitter_at_the_cap(backoff):
    """In a long outage, with every wait at the cap, waits still have jitter.

    stamina, tenacity's jitter, httpx-retries and hyx cut it off, and their clients come back together.
    """
    server = Server(always=ConnectionRefusedError)
    late: set[float] = set()
    for seed in range(10):
        with rb.testing.virtual_time(seed=seed) as clock:
            get = rb.Policy(rb.Retry(attempts=50, backoff=backoff, budget=None))(
                server.get, idempotent=True
            )
            with pytest.raises(ConnectionRefusedError):
                get()
        late.add(clock.slept[-1])
    assert len(late) > 5


@everywhere
def test_httpx_retries_never_comes_back_before_retry_after(form):
    """With a Retry-After of 600 s and a limit of 120 s it stops and gives the reason; httpx-retries waits its own 0.05 s (min of the two)."""
    server = Server(always=http_error(429, retry_after="600"))
    with form.world():
        get = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0), max_retry_after=120))(
            form.of(server.get), idempotent=True
        )
        with pytest.raises(Exception, match="429") as raised:
            form.run(get)
    assert server.calls == 1
    failure = rb.classify(raised.value)
    assert (failure.stopped, failure.retry_after) == ("retry_after", 600)


@both
@each_row(
    ("header", "value", "waits"),
    [
        ("retry_after", "0", 0.25),
        ("retry_after", "7", 7),
        ("retry_after_ms", "1500", 1.5),
        ("retry_after_ms", "1", 0.25),
    ],
)
def test_httpx_retries_reads_what_the_server_says(form, header, value, waits):
    """A Retry-After of "0" counts as present, fractions of a second are read, and the wait is never shorter than either side asks.

    httpx-retries takes "0" for absent.
    """
    server = Server(http_error(429, **{header: value}))
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0.25)))(
            form.of(server.get), idempotent=True
        )
        assert form.run(get) == "ok"
    assert clock.slept == [waits]
    seconds = float(value) / (1_000 if header.endswith("ms") else 1)
    assert rb.classify(http_error(429, **{header: value})).retry_after == seconds
