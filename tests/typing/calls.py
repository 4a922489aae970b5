"""Policies around calls as a user types them: read by mypy and pyright, never run. Rule: every line would work as written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from datetime import timedelta
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Literal, Protocol, Self, TypeVar, assert_type, overload

import tenacity

import resilient_bridge as rb


T = TypeVar("T")


class BusyError(Exception):
    """An error of one's own."""


async def log_in() -> None:
    """Refresh a token."""


async def agree(failure: rb.Failure) -> bool:
    """Ask somebody before the switch."""
    return failure.retryable


def wait(attempt: rb.calls.Attempt) -> float:
    """A schedule of one's own."""
    return 1.0 if attempt.failure is None else 2.0


# Every layer, with every sort of argument.
web = rb.Policy(
    rb.Deadline(timedelta(minutes=1)),
    rb.Fallback(print, on=rb.Kind.TRANSIENT, acknowledge=lambda failure: failure.retryable),
    rb.Retry(
        attempts=4,
        on=(
            rb.Kind.TRANSIENT,
            BusyError,
            rb.named("openai", "RateLimitError"),
            503,
            re.compile("busy"),
            "CONN_RESET",
        ),
        on_result=lambda result: result is None,
        backoff=rb.Backoff.exponential(0.5, cap=20),
        rules={
            429: rb.Rule(attempts=6, backoff=wait),
            401: rb.Rule(attempts=2, before=log_in),
            BusyError: rb.Rule(backoff=tenacity.wait_fixed(1)),
            rb.Category.TIMEOUT: rb.Rule(attempts=2),
        },
        max_retry_after=timedelta(seconds=90),
        budget=rb.RetryBudget(ratio=0.1, floor=3, key="api"),
    ),
    rb.Bulkhead(8, queue=4, max_wait=1),
    rb.RateLimit(5, per=timedelta(seconds=1), max_wait=2, key="api"),
    rb.Breaker(
        rate=0.5,
        window=timedelta(seconds=30),
        open_for=5,
        ignore=[404, BusyError],
        slow_after=3,
        key="api",
    ),
    rb.Timeout.escalating(2, 5, timedelta(seconds=30), thread=True),
    name="web",
)
rb.Fallback(print, log_in, acknowledge=agree)
rb.Retry(on=BusyError, backoff=wait, budget=None)
rb.Retry(on=lambda failure: failure.code == "CONN_RESET")
rb.Retry(
    attempts=tenacity.stop_after_attempt(3),
    backoff=tenacity.wait_random_exponential(max=30),
    on=tenacity.retry_if_exception_type(BusyError),
)
rb.Breaker.consecutive(5, open_for=rb.Backoff.exponential(1), probes=2, lease=10)
assert_type(web.name, str | None)
assert_type(web == rb.resilient, bool)
assert_type(rb.resilient, rb.Policy)
assert_type(web.replace(rb.Timeout(5)), rb.Policy)
explained = web.explain()
assert_type(explained, rb.calls.Explanation)
assert_type(explained.max_calls, float)
assert_type(explained.warnings, tuple[str, ...])


# What is decorated stays what it is.
@web
def create(title: str, *, urgent: bool = False) -> int:
    """A sync function."""
    return len(title) if urgent else 0


@web(idempotent=True, name="search")
async def search(query: str) -> list[str]:
    """An async function."""
    return [query]


@web
def rows(count: int) -> Iterator[int]:
    """A generator function."""
    yield count


@web(idempotent=True)
async def stream(count: int) -> AsyncIterator[int]:
    """An async generator function."""
    yield count


class Weather:
    """Methods of every kind."""

    @web
    def today(self, city: str) -> float:
        """A method."""
        return float(len(city))

    @web
    async def tomorrow(self, city: str) -> float:
        """An async method."""
        return float(len(city))

    @staticmethod
    @web
    def now(city: str) -> float:
        """A static method."""
        return float(len(city))

    @classmethod
    @web
    def made(cls, city: str) -> Weather:
        """A class method."""
        return cls()


@web(idempotent=True)
def first(items: list[T], *, default: T | None = None) -> T:
    """A generic function."""
    return items[0] if items or default is None else default


@overload
def parsed(text: str) -> str: ...
@overload
def parsed(text: bytes) -> bytes: ...
def parsed(text: str | bytes) -> str | bytes:
    """An overloaded function."""
    return text


class Forecast(Protocol):
    """What a decorated method can be an answer to."""

    def today(self, city: str) -> float:
        """Say how warm it is."""
        ...


class Alpine(Weather):
    """A subclass, with methods that are decorated again, or not any more."""

    @web
    def today(self, city: str) -> float:
        """A decorated method in the place of one."""
        return super().today(city) - 10

    async def tomorrow(self, city: str) -> float:
        """A plain method in the place of a decorated one."""
        return await super().tomorrow(city) - 10

    @web
    def same(self) -> Self:
        """A method that returns its own class."""
        return self

    @web
    def listed(self, item: T) -> list[T]:
        """A generic method."""
        return [item]

    @web(idempotent=True)
    async def hours(self, city: str, *, step: int = 1) -> AsyncIterator[int]:
        """An async generator method."""
        yield len(city) * step

    @classmethod
    @web(idempotent=True)
    async def found(cls, city: str) -> Self:
        """An async class method."""
        return cls()

    @property
    @web
    def height(self) -> int:
        """A property."""
        return 1


def patience(function: rb.calls.Protected[Callable[..., Any]]) -> float:
    """Any decorated function."""
    return function.policy.explain().max_seconds


def ask_for(what: str) -> int:
    """A function that is not decorated where it is written."""
    return len(what)


def protected() -> list[float]:
    """A decorated function has what the policy adds to it, and what it had."""
    assert_type(create.policy, rb.Policy)
    create.policy = search.policy.replace(rb.Timeout(5))
    assert_type(create.explain(), rb.calls.Explanation)
    assert_type(create.__wrapped__("x", urgent=True), int)
    assert_type(stream.explain().max_calls, float)
    assert_type(rows.policy, rb.Policy)
    assert_type(Weather.now.policy, rb.Policy)
    assert_type(create.__name__, str)
    exact: rb.calls.Protected[Callable[[str], int]] = create
    assert_type(exact("x"), int)
    named = rb.Policy(rb.Retry())(ask_for, idempotent=True, name="ask")
    assert_type(named.policy, rb.Policy)
    assert_type(named("x"), int)
    return [patience(create), patience(search), patience(stream), patience(Weather.now)]


async def saved() -> None:
    """Type variables, overloads, methods of every kind and what takes a callable: as without the policy."""
    assert_type(first([1]), int)
    assert_type(first(["x"], default="y"), str)
    assert_type(first.policy, rb.Policy)
    assert_type(web(parsed)("x"), str)
    assert_type(web(idempotent=True)(parsed)(b"x"), bytes)
    assert_type(web(parsed).policy, rb.Policy)
    assert_type(web(web(create))("x", urgent=True), int)
    assert_type(web(Weather().today)("x"), float)
    assert_type(list(map(create, ["x"])), list[int])
    weather = Alpine()
    forecast: Forecast = weather
    assert_type(forecast.today("x"), float)
    assert_type(Alpine.today(weather, "x"), float)
    assert_type(weather.now("x"), float)
    assert_type(weather.same(), Alpine)
    assert_type(weather.listed("x"), list[str])
    assert_type(weather.height, int)
    assert_type(await Alpine.found("x"), Alpine)
    assert_type(await weather.found("x"), Alpine)
    async for hour in weather.hours("x", step=2):
        assert_type(hour, int)


signature: Callable[[str], int] = create
coroutines: Callable[[str], Coroutine[Any, Any, list[str]]] = search
assert_type(create("x", urgent=True), int)
assert_type(rows(3), Iterator[int])
assert_type(Weather().today("x"), float)
assert_type(Weather.now("x"), float)
assert_type(Weather.made("x"), Weather)
assert iscoroutinefunction(search)
assert_type(web(partial(create, urgent=True))("x"), int)
assert_type(web(lambda: create("x"))(), int)


async def awaited() -> None:
    """A decorated `async def` is one: it can be awaited, made a task, gathered and iterated over."""
    assert_type(await search("x"), list[str])
    task: asyncio.Task[list[str]] = asyncio.create_task(search("x"))
    assert_type(await task, list[str])
    async with asyncio.TaskGroup() as tasks:
        assert_type(tasks.create_task(Weather().tomorrow("x")), asyncio.Task[float])
    assert_type(await asyncio.wait_for(search("x"), timeout=1), list[str])
    async for item in stream(3):
        assert_type(item, int)


async def once() -> None:
    """`policy.call` returns what the function returns."""
    assert_type(web.call(create, "x", urgent=True), int)
    assert_type(await web.call(search, "x"), list[str])
    assert_type(await asyncio.create_task(web.call(search, query="x")), list[str])
    assert_type(web.call(Weather().today, "x"), float)


async def blocks() -> int:
    """The block form, sync and async."""
    for attempt in web.attempts():
        with attempt as same:
            assert_type(same.number, int)
            return same.number
    async for attempt in web.attempts(idempotent=True):
        with attempt:
            assert_type(attempt.idempotency_key, str)
            assert_type(attempt.remaining, float | None)
            assert_type(attempt.failure, rb.Failure | None)
    found = rb.current_attempt()
    assert_type(found, rb.calls.Attempt | None)
    return 0 if found is None else found.number


async def data() -> str:
    """Errors as data: an Outcome of what the function returns, or a coroutine of one."""
    made = rb.capture(create, "x", urgent=True)
    assert_type(made, rb.calls.Outcome[int])
    assert_type(made.value, int)
    assert_type(made.failure, rb.Failure | None)
    assert_type(made.attempts, int)
    assert_type(made.seconds, float)
    found = await rb.capture(search, "x")
    assert_type(found, rb.calls.Outcome[list[str]])
    assert_type(await asyncio.create_task(rb.capture(search, "x")), rb.calls.Outcome[list[str]])
    assert_type(rb.capture(Weather().today, "x"), rb.calls.Outcome[float])
    return made.to_llm()


def circuits() -> float | None:
    """The handle of a circuit, by key, function, method or policy."""
    handle = rb.calls.circuit("github")
    assert_type(handle, rb.calls.Circuit)
    assert_type(handle.state, Literal["closed", "open", "half_open", "isolated", "disabled"])
    assert_type(rb.calls.circuits(), Mapping[str, rb.calls.Circuit])
    for one in (
        rb.calls.circuit(create),
        rb.calls.circuit(search),
        rb.calls.circuit(Weather.today),
        rb.calls.circuit(web),
    ):
        one.reset()
        one.isolate()
        one.disable()
    with handle as same:
        assert_type(same, rb.calls.Circuit)
    return handle.retry_after


def presets() -> rb.bridge.BridgePolicy:
    """The policies of a preset."""
    preset = rb.presets.gasoline
    assert_type(preset.calls, rb.Policy)
    assert_type(preset.tools["health"], rb.Policy)
    assert_type(preset.idempotent, tuple[str, ...])
    return preset.evolve(
        calls=preset.calls.replace(rb.Timeout(5)), tools={"x": web}, idempotent=("x",)
    )


def rejections() -> float | None:
    """What a layer raises, and by which classes it is caught."""
    late: type[TimeoutError] = rb.DeadlineExceededError
    rejected: list[type[rb.errors.RejectedError]] = [
        rb.CircuitOpenError,
        rb.errors.BulkheadFullError,
        rb.errors.ThrottledError,
    ]
    try:
        create("x")
    except rb.CircuitOpenError as error:
        assert_type(error.failure, rb.Failure)
        return error.retry_after
    except tuple(rejected):
        return 0.0
    except late:
        return None
    return None


def tests() -> list[rb.events.Event]:
    """What tests of policies use."""
    with (
        rb.testing.virtual_time(seed=7) as time,
        rb.testing.inject(
            search, ConnectionResetError, 503, TimeoutError("x"), rb.testing.PASS
        ) as script,
        rb.testing.inject(web, BusyError),
        rb.testing.record() as seen,
    ):
        asyncio.run(search("x"))
        time.advance(3)
        assert_type(time, rb.testing.VirtualTime)
        assert_type(time.slept, list[float])
        assert_type(script, rb.testing.Injection)
        assert_type(script.calls, int)
        assert_type(seen, list[rb.events.Event])
    with rb.testing.disabled():
        create("x")
    return seen


# ---- a second request, and a call that several callers share -------------------------------------


def by_tenant(tenant: str, query: str) -> tuple[str, str]:
    return tenant, query


raced = rb.Policy(
    rb.Deadline(30),
    rb.calls.Share(key=by_tenant, stale_for="5m", fresh_for=timedelta(seconds=1), most=100),
    rb.calls.Hedge(timedelta(seconds=2), most=2, budget=0.02),
)


async def found_elsewhere(tenant: str, query: str) -> list[str]:
    return [tenant, query]


rb.calls.Hedge(2, to=found_elsewhere)


@raced(idempotent=True)
async def found(tenant: str, query: str) -> list[str]:
    return [tenant, query]


async def shared_answer() -> None:
    assert_type(await found("acme", "news"), list[str])
    answer = rb.calls.current_answer()
    assert_type(answer, rb.calls.Answer | None)
    if answer is not None:
        assert_type(
            (answer.stale, answer.age, answer.failure), tuple[bool, float, rb.Failure | None]
        )
