"""The libraries as `traps.py` asks them, and the server that they call. What a library does not offer is None."""

# ruff: noqa: PLW0108 -- not the decorators: each function is to have one of its own
from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import backoff
import httpx
import hyx.retry
import hyx.retry.backoffs
import hyx.timeout
import pybreaker
import redress
import stamina
import tenacity
from _peers import ASYNC_CIRCUITS, our_breaker

import resilient_bridge as rb


SHORT = 1  # seconds: how long a circuit stays open; some count whole ones only


class Server:
    """Raises `error` (one, or one after another; None: answers) after `seconds`, and counts who reaches it."""

    def __init__(self, error: Any = ConnectionRefusedError) -> None:
        self.error = error
        self.seconds: float = 0
        self.reached = 0

    def function(self):
        """Return it as a plain function: some libraries take nothing else."""

        async def get():
            self.reached += 1
            error = self.error.pop(0) if isinstance(self.error, list) else self.error
            if self.seconds:
                await asyncio.sleep(self.seconds)
            if error is not None:
                raise error

        return get

    async def down(self, call, times: int) -> None:
        """Call it so many times, whatever comes of it."""
        for _ in range(times):
            with suppress(Exception):
                await call()

    async def error_of(self, call) -> BaseException | None:
        """Return what a call raises."""
        try:
            await call()
        except Exception as error:  # noqa: BLE001 -- that is what is asked
            return error
        return None


def rate_limited(seconds: int) -> httpx.HTTPStatusError:
    """Return what httpx raises for a 429 with a Retry-After."""
    request = httpx.Request("GET", "http://127.0.0.1/")
    response = httpx.Response(429, headers={"Retry-After": str(seconds)}, request=request)
    return httpx.HTTPStatusError("429", request=request, response=response)


class Library(NamedTuple):
    """One library: decorators, and what can be asked of it."""

    name: str
    retry: Callable[..., Any] | None = None  # (attempts, seconds between them) of ConnectionError
    retry_all: Callable[[int], Any] | None = None  # (attempts) of what it takes for passing
    circuit: Callable[[int, float], Any] | None = None  # (failures in a row, seconds open)
    deadline: Callable[[float], Any] | None = None  # (seconds) for the whole call
    wait: Callable[[int], float] | None = None  # (attempt) of its exponential schedule
    history: Callable[[Any], int] = lambda _: 0
    is_async_only: bool = False
    on_async: Callable[[int, float], Any] | None = (
        None  # the circuit's decorator, on an `async def`
    )

    @property
    def retry_sync(self):
        """The same Retry, if it takes sync functions."""
        return None if self.is_async_only else self.retry


def _ours() -> Library:
    return Library(
        "**ours**",
        lambda attempts, seconds=0: rb.Policy(
            rb.Retry(attempts=attempts, on=ConnectionError, backoff=rb.Backoff.constant(seconds))
        )(idempotent=True),
        lambda attempts: rb.Policy(rb.Retry(attempts=attempts, backoff=rb.Backoff.constant(0)))(
            idempotent=True
        ),
        lambda failures, seconds: rb.Policy(our_breaker(failures, seconds)),
        lambda seconds: rb.Policy(rb.Deadline(seconds), rb.Retry()),
        lambda attempt: rb.Backoff.exponential(1).sample(attempt, seed=0)[-1],
        lambda error: len(rb.classify(error).history),
    )


def _tenacity() -> Library:
    def waited(attempt: int) -> float:
        state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        state.attempt_number = attempt
        return tenacity.wait_exponential(max=60)(state)

    def retry(attempts, seconds=0, on=ConnectionError):
        return tenacity.retry(
            stop=tenacity.stop_after_attempt(attempts),
            wait=tenacity.wait_fixed(seconds),
            retry=tenacity.retry_if_exception_type(on),
            reraise=True,
        )

    return Library(
        "tenacity",
        retry,
        lambda attempts: retry(attempts, on=httpx.HTTPError),
        deadline=lambda seconds: tenacity.retry(
            stop=tenacity.stop_after_delay(seconds), reraise=True
        ),
        wait=waited,
    )


def _stamina() -> Library:
    def retry(attempts, seconds=0, on=ConnectionError):
        return stamina.retry(
            on=on, attempts=attempts, wait_initial=seconds, wait_max=seconds, wait_jitter=0
        )

    return Library(
        "stamina",
        retry,
        lambda attempts: retry(attempts, on=httpx.HTTPError),
        deadline=lambda seconds: stamina.retry(on=ConnectionError, timeout=seconds),
    )


def _backoff() -> Library:
    def retry(attempts, seconds=0, on=ConnectionError):
        return backoff.on_exception(
            backoff.constant, on, interval=seconds, jitter=None, max_tries=attempts
        )

    def waited(attempt: int) -> float:
        return next(islice(backoff.expo(max_value=60), attempt, None))

    return Library(
        "backoff",
        retry,
        lambda attempts: retry(attempts, on=httpx.HTTPError),
        deadline=lambda seconds: backoff.on_exception(
            backoff.expo, ConnectionError, max_time=seconds
        ),
        wait=waited,
    )


def _hyx() -> Library:
    def retry(attempts, seconds=0, on=ConnectionError):
        return hyx.retry.retry(
            on=on, attempts=attempts - 1, backoff=seconds
        )  # it does not count the first

    return Library(
        "hyx",
        retry,
        lambda attempts: retry(attempts, on=httpx.HTTPError),
        ASYNC_CIRCUITS["hyx"],
        lambda seconds: hyx.timeout.timeout(seconds),
        lambda attempt: next(
            islice(
                iter(hyx.retry.backoffs.expo(min_delay_secs=1, max_delay_secs=60)), attempt, None
            )
        ),
        is_async_only=True,
    )


def _class_of(error: BaseException) -> redress.ErrorClass:
    return (
        redress.ErrorClass.TRANSIENT
        if isinstance(error, ConnectionError)
        else redress.ErrorClass.PERMANENT
    )


def _redress() -> Library:
    def retry(attempts, seconds=0):
        return redress.retry(
            classifier=_class_of,
            strategy=lambda _: seconds,
            max_attempts=attempts,
        )

    def circuit(failures, seconds):
        def decorate(function):
            breaker = redress.CircuitBreaker(
                failure_threshold=failures,
                recovery_timeout_s=seconds,
                trip_on={redress.ErrorClass.TRANSIENT},
            )
            policy = redress.AsyncPolicy(retry=_once(), circuit_breaker=breaker)

            async def call():
                return await policy.call(function)

            return call

        return decorate

    def _once():
        return redress.AsyncRetry(classifier=_class_of, strategy=lambda _: 0.0, max_attempts=1)

    return Library(
        "redress",
        retry,
        lambda attempts: redress.retry(
            classifier=redress.http_retry_after_classifier,
            strategy=redress.retry_after_or(lambda _: 0.0),
            max_attempts=attempts,
            deadline_s=2,
        ),
        circuit,
        lambda seconds: redress.retry(deadline_s=seconds),
        lambda attempt: redress.equal_jitter(max_s=60)(attempt, redress.ErrorClass.TRANSIENT, None),
    )


def _pybreaker(failures, seconds):
    return pybreaker.CircuitBreaker(fail_max=failures, reset_timeout=seconds)


def _circuit_only(name: str) -> Library:
    return Library(name, circuit=ASYNC_CIRCUITS[name])


_FOUND = (
    *(_ours(), _tenacity(), _stamina(), _backoff(), _hyx(), _redress()),
    *map(_circuit_only, ("interlock", "circuitbreaker", "aiobreaker", "purgatory")),
)
LIBRARIES = (
    *(library._replace(on_async=library.circuit) for library in _FOUND),
    Library(
        "pybreaker", on_async=_pybreaker
    ),  # its other traps need an async call of its own, and tornado
)
