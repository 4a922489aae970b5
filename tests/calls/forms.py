"""Sync and async, in real and in virtual time, as one parameter: a test is written once and calls through its form.

Rule: a body is a plain function. `form.of(body)` makes a function of the form's kind of it, `form.run` calls what was protected
to its end, and `form.world()` is the time it happens in. In real time a first attempt takes the short way, in virtual time
every call takes the long one: what holds has to hold on both.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import httpx
import pytest

import resilient_bridge as rb
from tests.rows import each_row


class Form:
    """One kind of function, in one kind of time."""

    def __init__(self, *, is_async: bool, is_virtual: bool = False) -> None:
        self.is_async = is_async
        self.is_virtual = is_virtual

    def __str__(self) -> str:
        return ("async" if self.is_async else "sync") + ("-virtual" if self.is_virtual else "")

    def of(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of this form that does what `body` does."""
        if not self.is_async:
            return body

        async def call(*args: Any, **kwargs: Any) -> Any:
            return body(*args, **kwargs)

        call.__name__, call.__qualname__ = body.__name__, body.__qualname__
        return call

    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function of this form and return what comes of it."""
        if not self.is_async:
            return function(*args, **kwargs)

        async def main() -> Any:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return asyncio.run(main())

    def world(self) -> AbstractContextManager[Any]:
        """The time that policies see."""
        return rb.testing.virtual_time() if self.is_virtual else nullcontext()


SYNC, ASYNC = Form(is_async=False), Form(is_async=True)


def _in_forms(*forms: Form) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test in each form: in one go, or, where it has fixtures, each by itself with fixtures of its own."""

    def over(test: Callable[..., Any]) -> Callable[..., Any]:
        is_alone = list(inspect.signature(test).parameters) == ["form"]
        return (each_row if is_alone else pytest.mark.parametrize)("form", forms, ids=str)(test)

    return over


both = _in_forms(SYNC, ASYNC)
everywhere = _in_forms(
    SYNC, ASYNC, Form(is_async=False, is_virtual=True), Form(is_async=True, is_virtual=True)
)


class Server:
    """The other side. It answers "ok", or raises what its script says, an entry a call; `calls` counts what reached it."""

    def __init__(
        self, *script: BaseException | type[BaseException] | None, always: Any = None
    ) -> None:
        self.calls = 0
        self._script = list(script)
        self.always = always  # what it does after the script

    def get(self) -> str:
        """Answer a call."""
        self.calls += 1
        step = self._script.pop(0) if self._script else self.always
        if step is not None:
            raise step if isinstance(step, BaseException) else step("down")
        return "ok"


def at_once(**how: Any) -> rb.Retry:
    """A Retry that makes four calls, never waits and has no budget: for tests about everything else."""
    return rb.Retry(**{"attempts": 4, "backoff": rb.Backoff.constant(0), "budget": None, **how})


def steady(notes: list[str]) -> list[str]:
    """Return notes with the seconds of a busy machine taken out: nobody waited, whatever the clock says."""
    return [re.sub(r" in 0\.\d s:", " in 0.0 s:", note) for note in notes]


async def settle() -> None:
    """Let every task run until it waits for something that is not there yet."""
    for _ in range(10):
        await asyncio.sleep(0)


def http_error(status: int, **headers: str) -> httpx.HTTPStatusError:
    """What `raise_for_status` raises for an answer with this status; `retry_after="7"` makes a Retry-After header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.Response(
        status, headers=named, request=httpx.Request("GET", "http://127.0.0.1/")
    )
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    return caught.value


WAITS = ("block", "wait", "sleep")  # functions in which a sync call waits


@contextmanager
def interrupted_in(seconds):
    """Raise KeyboardInterrupt in the main thread, as Ctrl-C does: not before it waits inside of a policy."""

    def interrupt(_number, frame):
        while frame is not None and frame.f_code.co_name not in WAITS:
            frame = frame.f_back
        if frame is None:  # on a busy machine it is not there yet
            signal.setitimer(signal.ITIMER_REAL, seconds)
            return
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
