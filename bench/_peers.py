"""What people would use instead of us, each set up as alike as it can be: a function in, a protected function out."""

# ruff: noqa: PLW0108 -- not the decorators: each function is to have one of its own
from __future__ import annotations

import asyncio
import functools
import logging
from datetime import timedelta

import aiobreaker
import backoff
import circuitbreaker
import hyx.circuitbreaker
import hyx.retry
import hyx.timeout
import interlock
import nopanic
import purgatory
import pybreaker
import pyresilience
import stamina
import stamina.instrumentation
import tenacity

import resilient_bridge as rb


stamina.instrumentation.set_on_retry_hooks([])  # by default it logs a warning for each retry
for logger in ("backoff", "resilient_bridge", "interlock"):
    logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
PACKAGES = (
    *(
        "tenacity",
        "stamina",
        "nopanic",
        "hyx",
        "backoff",
        "circuitbreaker",
        "aiobreaker",
        "purgatory",
        "pybreaker",
        "pyresilience",
    ),
    "interlock-cb",
)
NEVER = 10**9  # failures in a row that nobody reaches
FOREVER = 3600.0  # seconds


def stacked(*decorators):
    """Return one decorator of several, the outermost first."""
    return lambda function: functools.reduce(
        lambda inner, outer: outer(inner), reversed(decorators), function
    )


# ---- we ----------------------------------------------------------------------------------------------------------
def our_retry(error=ConnectionError, attempts=3):
    """Repeats at once. The budget counts, and never ends anything here: every second call fails on purpose."""
    budget = rb.RetryBudget(ratio=2, floor=100)
    return rb.Retry(attempts=attempts, on=error, backoff=rb.Backoff.constant(0), budget=budget)


def our_breaker(failures=5, open_for=30.0, slow_after=None, key=None):
    """Return a circuit of failures in a row."""
    return rb.Breaker.consecutive(failures, open_for=open_for, slow_after=slow_after, key=key)


def ours_guarded():
    """Retry and circuit."""
    return rb.Policy(our_retry(), our_breaker())


def ours_full():
    """Retry with its budget, circuit that watches the latency, time limit."""
    return rb.Policy(our_retry(), our_breaker(slow_after=10), rb.Timeout(30))


def ours_full_sync():
    """The same without the time limit, which a sync function cannot have."""
    return rb.Policy(our_retry(), our_breaker(slow_after=10))


def _pyresilience_retry():
    return pyresilience.RetryConfig(
        max_attempts=3, delay=0, jitter=False, retry_on=[ConnectionError]
    )


# ---- retries: three calls, no wait ---------------------------------------------------------------------------------
RETRIES = {
    "tenacity": lambda f: tenacity.retry(
        stop=tenacity.stop_after_attempt(3),
        retry=tenacity.retry_if_exception_type(ConnectionError),
        wait=tenacity.wait_none(),
        reraise=True,
    )(f),
    "stamina": lambda f: stamina.retry(
        on=ConnectionError, attempts=3, wait_initial=0, wait_max=0, wait_jitter=0
    )(f),
    "nopanic": lambda f: nopanic.retry(attempts=3, on=ConnectionError, backoff=0)(f),
    "pyresilience": lambda f: pyresilience.resilient(retry=_pyresilience_retry())(f),
    "backoff": lambda f: backoff.on_exception(
        backoff.constant, ConnectionError, interval=0, jitter=None, max_tries=3
    )(f),
}
ASYNC_RETRIES = {
    **RETRIES,
    "hyx": lambda f: hyx.retry.retry(on=ConnectionError, attempts=2, backoff=0)(
        f
    ),  # attempts=2 makes 3 calls
}


# ---- circuits: name -> decorator for (failures, seconds open) ------------------------------------------------------
def _interlock(failures, seconds):
    config = interlock.Config(
        minimum_number_of_calls=failures,
        failure_rate_threshold=1.0,
        wait_duration_in_open=seconds,
        permitted_calls_in_half_open=1,
    )
    return lambda f: interlock.CircuitBreaker(name="x", config=config)(f)


def _pyresilience(failures, seconds):
    config = pyresilience.CircuitBreakerConfig(failure_threshold=failures, recovery_timeout=seconds)
    return lambda f: pyresilience.resilient(circuit_breaker=config)(f)


def _pybreaker(failures, seconds):
    return lambda f: pybreaker.CircuitBreaker(fail_max=failures, reset_timeout=seconds)(f)


def _circuitbreaker(failures, seconds):
    return lambda f: circuitbreaker.circuit(failure_threshold=failures, recovery_timeout=seconds)(f)


def _aiobreaker(failures, seconds):
    return lambda f: aiobreaker.CircuitBreaker(
        fail_max=failures, timeout_duration=timedelta(seconds=seconds)
    )(f)


def _purgatory(factory):
    return lambda failures, seconds: (
        lambda f: factory(default_threshold=failures, default_ttl=seconds)("x")(f)
    )


def _hyx(failures, seconds):
    return lambda f: hyx.circuitbreaker.consecutive_breaker(
        failure_threshold=failures, recovery_time_secs=seconds
    )(f)


ASYNC_CIRCUITS = {
    "circuitbreaker": _circuitbreaker,
    "hyx": _hyx,
    "aiobreaker": _aiobreaker,
    "purgatory": _purgatory(purgatory.AsyncCircuitBreakerFactory),
    "interlock": _interlock,
    "pyresilience": _pyresilience,
}
CIRCUITS = {
    "circuitbreaker": _circuitbreaker,
    "aiobreaker": _aiobreaker,
    "purgatory": _purgatory(purgatory.SyncCircuitBreakerFactory),
    "pybreaker": _pybreaker,
    "interlock": _interlock,
    "pyresilience": _pyresilience,
}


# ---- stacks: what people put together ------------------------------------------------------------------------------
def within(seconds):
    """What a time limit costs with the standard library alone."""

    def decorate(function):
        @functools.wraps(function)
        async def call(*args, **kwargs):
            async with asyncio.timeout(seconds):
                return await function(*args, **kwargs)

        return call

    return decorate


ASYNC_STACKS = {
    "tenacity + circuitbreaker + asyncio.timeout": stacked(
        RETRIES["tenacity"], _circuitbreaker(NEVER, 30), within(30)
    ),
    "stamina + circuitbreaker + asyncio.timeout": stacked(
        RETRIES["stamina"], _circuitbreaker(NEVER, 30), within(30)
    ),
    "nopanic retry + breaker + timeout": nopanic.compose(
        nopanic.retry(attempts=3, on=ConnectionError, backoff=0),
        nopanic.circuit_breaker(min_calls=NEVER),
        nopanic.timeout(30),
    ),
    "pyresilience retry + breaker + timeout": lambda f: pyresilience.resilient(
        retry=_pyresilience_retry(),
        circuit_breaker=pyresilience.CircuitBreakerConfig(failure_threshold=NEVER),
        timeout=pyresilience.TimeoutConfig(30),
    )(f),
    "hyx retry + breaker + timeout": stacked(
        ASYNC_RETRIES["hyx"], _hyx(NEVER, 30), lambda f: hyx.timeout.timeout(30)(f)
    ),
}
STACKS = {
    "tenacity + circuitbreaker": stacked(RETRIES["tenacity"], _circuitbreaker(NEVER, 30)),
    "tenacity + pybreaker": stacked(RETRIES["tenacity"], _pybreaker(NEVER, 30)),
}
