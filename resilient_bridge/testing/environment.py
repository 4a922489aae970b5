"""The policies' world in a test: time that only moves when somebody waits, calls that fail as written, chance from a seed.

Rule: everything here is context-local. It holds for the code inside the `with` block, for the tasks started there and for
nothing else, so tests may run side by side. Policies are the real ones, and so are their decisions.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Token
from math import ceil
from random import Random
from time import monotonic
from types import TracebackType
from typing import Any, Final, TypeVar

from ..classification.statuses import status_finding
from ..errors import config_error, error_for
from ..pipeline.attempt import CURRENT, Attempt, begun
from ..pipeline.binding import Binding
from ..pipeline.environment import Environment
from ..pipeline.policy import Policy
from ..telemetry import events, listen


__all__ = ["PASS", "Injection", "VirtualTime", "disabled", "inject", "record", "virtual_time"]


class _Pass:
    """The step of a script that lets its call through."""

    def __repr__(self) -> str:
        return "PASS"


PASS: Final = _Pass()
"""In a script of `inject`: this call goes through."""


class _Timer:
    __slots__ = ("__weakref__", "callback", "is_cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class VirtualTime:
    """The policies' clock: it stands still, except for waits and for `advance`. `slept` lists the waits, in seconds."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        # From about now, so that circuits that existed before keep their times; whole, so that steps add up exactly.
        self._now = float(ceil(monotonic()))
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = itertools.count()

    @property
    def now(self) -> float:
        """The monotonic time that policies see."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass: timeouts and deadlines that end in between fire. ConfigError for a negative number or nan."""
        if not 0 <= seconds < float("inf"):
            raise config_error("VirtualTime.advance.seconds", "seconds from 0", seconds)
        until = self._now + seconds
        while self._timers and self._timers[0][0] <= until:
            self._now, _, timer = heapq.heappop(self._timers)
            if not timer.is_cancelled:
                timer.callback()
        self._now = until

    def sleep(self, seconds: float) -> None:
        """Note a wait, and let it pass; what policies do instead of sleeping."""
        self.slept.append(seconds)
        self.advance(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> _Timer:
        """Have `callback` run once that many seconds have passed."""
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self._now + seconds, next(self._order), timer))
        return timer


class Injection:
    """What `inject` returns: `calls` counts the calls that came to the target, the failed ones included."""

    def __init__(self, target: Any, script: tuple[Any, ...]) -> None:
        self.calls = 0
        self._target = target
        self._script = script

    def is_for(self, binding: Binding) -> bool:
        """Return whether this function is the target."""
        if isinstance(self._target, Policy):
            return binding.plan.policy == self._target
        # A wrapped client has many bindings, all with its state.
        return self._target is binding or getattr(self._target, "states", None) is binding.states

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of `function`."""

        def call(*args: Any, **kwargs: Any) -> Any:
            step = self._script[self.calls] if self.calls < len(self._script) else PASS
            self.calls += 1
            if step is PASS:
                return function(*args, **kwargs)
            raise step if isinstance(step, BaseException) else _made(step)

        return call


class _TestEnvironment(Environment):
    """The environment of a test: the one around it, with one thing changed."""

    def __init__(self, around: Environment) -> None:
        super().__init__()
        self.monotonic = around.monotonic
        self.is_disabled = around.is_disabled
        self.time: VirtualTime | None = getattr(around, "time", None)
        self.injections: tuple[Injection, ...] = getattr(around, "injections", ())
        self.use_rng(around.rng)

    def sleep(self, seconds: float) -> None:
        if self.time is None:
            super().sleep(seconds)
        else:
            self.time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        if self.time is None:
            await super().asleep(seconds)
        else:
            self.time.sleep(seconds)
            await asyncio.sleep(0)

    def time_of(self, loop: asyncio.AbstractEventLoop) -> float:
        return super().time_of(loop) if self.time is None else self.time.now

    def call_later(
        self, loop: asyncio.AbstractEventLoop, seconds: float, callback: Callable[[], None]
    ) -> Any:
        if self.time is None:
            return super().call_later(loop, seconds, callback)
        # Through the loop, as its own timers: a call that does not give way is not cancelled, whatever time it lets pass.
        return self.time.call_later(seconds, lambda: None if loop.is_closed() else loop.call_soon(callback))

    def injected(self, function: Any, owner: object) -> Any:
        if isinstance(owner, Binding):
            for injection in reversed(self.injections):
                if injection.is_for(owner):
                    return injection.around(function)
        return function


T = TypeVar("T")


class _Inside(AbstractContextManager[T]):
    """A stay in an environment of a test, which gives `subject`.

    A class, and not a generator: `contextlib` writes to the exceptions that pass through one, and some refuse.
    """

    def __init__(self, subject: T, change: Callable[[_TestEnvironment], None]) -> None:
        self._subject = subject
        self._change = change
        self._stays: list[tuple[Attempt, Token[Attempt]]] = []

    def __enter__(self) -> T:
        around = CURRENT.get()
        env = _TestEnvironment(around.env)
        self._change(env)
        edge = begun(None, around, env, around.started, around.deadline_at)
        edge.first = around.first or around
        self._stays.append((around, CURRENT.set(edge)))
        return self._subject

    def __exit__(self, *exc: object) -> None:
        around, token = self._stays.pop()
        try:
            CURRENT.reset(token)
        except (
            ValueError
        ):  # left in another context than entered, as fixtures are: that context ends with the test
            CURRENT.set(around)


def virtual_time(*, seed: int = 0) -> AbstractContextManager[VirtualTime]:
    """Let the policies called inside wait in no time: waits are noted in `slept` and move the clock, jitter comes from `seed`.

    It is the policies' clock: a sleep of your own is a sleep. A Timeout or Deadline ends when `advance` or a wait of a policy
    passes its end. For whole programs in virtual time there is `simulate`.
    """
    time = VirtualTime()

    def change(env: _TestEnvironment) -> None:
        env.time = time
        env.monotonic = lambda: time.now
        env.use_rng(Random(seed))

    return _Inside(time, change)


def inject(target: Any, /, *script: Any) -> AbstractContextManager[Injection]:
    """Let the calls of a protected function, or of all functions behind a Policy, go as written, one step a call.

    A step is an exception, an exception class, an HTTP status (such as 503), or PASS; after the last one calls go through.
    Retries count as calls. ConfigError for a target that no policy protects, a step that is none of these, or inside of `disabled`.
    """
    owner = target if isinstance(target, Policy) else getattr(target, "__binding__", None)
    if owner is None:
        raise config_error("inject.target", "a function behind a policy, or a Policy", target)
    for place, step in enumerate(script):
        if not _is_step(step):
            wanted = "an exception, its class, a status from 400 to 599, or PASS"
            raise config_error(f"inject.script[{place}]", wanted, step)
    injection = Injection(owner, script)

    def change(env: _TestEnvironment) -> None:
        if env.is_disabled:
            raise config_error(
                "inject", "policies that are on: nothing is injected inside of disabled()", target
            )
        env.injections = (*env.injections, injection)

    return _Inside(injection, change)


def disabled() -> AbstractContextManager[None]:
    """Let protected functions be called as if no policy protected them."""

    def change(env: _TestEnvironment) -> None:
        env.is_disabled = True

    return _Inside(None, change)


class _Recording(AbstractContextManager[list[events.Event]]):
    def __init__(self, *, calls: bool) -> None:
        self._collected: list[events.Event] = []
        self._listening = listen(self._collected.append if calls else self._decided)

    def _decided(self, event: events.Event) -> None:
        if not isinstance(event, events.CallFinished | events.CallRejected):
            self._collected.append(event)

    def __enter__(self) -> list[events.Event]:
        self._listening.__enter__()
        return self._collected

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.__exit__(kind, error, trace)


def record(*, calls: bool = False) -> AbstractContextManager[list[events.Event]]:
    """Collect the events of this process, in their order, in the list that it gives.

    What was decided, that is; with `calls=True` also `CallFinished` and `CallRejected`, which tell of every single call.
    """
    return _Recording(calls=calls)


def enter_simulation(monotonic: Callable[[], float], rng: Random) -> None:
    """Let policies live by a simulated loop: its clock, and chance from the seed of the run. For the whole of a context."""
    around = CURRENT.get()
    env = _TestEnvironment(around.env)
    env.monotonic = monotonic
    env.use_rng(rng)
    CURRENT.set(begun(None, around, env, monotonic(), None))


def _is_step(step: Any) -> bool:
    if isinstance(step, type):
        return issubclass(step, BaseException)
    is_status = isinstance(step, int) and not isinstance(step, bool) and 400 <= step <= 599
    return is_status or step is PASS or isinstance(step, BaseException)


def _made(step: Any) -> BaseException:
    if isinstance(step, int):
        return error_for(status_finding(step, {}, None).failure())
    try:
        error: BaseException = step("injected")
    except TypeError:
        error = step()
    return error
