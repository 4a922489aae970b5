"""Calls that fail by a script: for one protected function, or for all functions behind a policy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from ..calls import Policy
from ..calls.ports import Binding
from ..failure import config_error, error_for
from ..failure.statuses import status_finding
from ..failure.teaching import taught
from ..world import World
from .worlds import AlteredWorld, Inside


class _Pass:
    """The step of a script that lets its call run.

        with rb.testing.inject(search, rb.testing.PASS, 503):      # the second call fails
            search("x")

    After the last step, calls run without the script.
    """

    def __repr__(self) -> str:
        return "PASS"


PASS: Final = _Pass()
"""In a script of `inject`: this call runs."""


class Injection:
    """The result of `inject`: `calls` counts the calls of the target, the failed ones included.

        with rb.testing.inject(search, ConnectionResetError) as injection:
            search("x")
        print(injection.calls)      # 2

    Read it inside the block or after it.
    """

    def __init__(self, target: Any, script: tuple[Any, ...]) -> None:
        self.calls = 0
        self._target = target
        self._script = script

    def is_for(self, binding: Binding) -> bool:
        """Return whether this function is the target."""
        if isinstance(self._target, Policy):
            return binding.operation.policy == self._target
        # A wrapped client has many bindings, which all have its state.
        return self._target is binding or getattr(self._target, "states", None) is binding.states

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that is called in place of `function`."""

        def call(*args: Any, **kwargs: Any) -> Any:
            step = self._script[self.calls] if self.calls < len(self._script) else PASS
            self.calls += 1
            if step is PASS:
                return function(*args, **kwargs)
            raise step if isinstance(step, BaseException) else _made(step)

        return call


class _InjectedWorld(AlteredWorld):
    def __init__(self, around: World, injection: Injection) -> None:
        super().__init__(around)
        self._injection = injection

    def injected(self, function: Any, owner: object) -> Any:
        if isinstance(owner, Binding) and self._injection.is_for(owner):
            return self._injection.around(function)
        return super().injected(function, owner)


@taught
def inject(target: Any, /, *script: Any) -> AbstractContextManager[Injection]:
    """Make the calls of a protected function, or of all functions behind a Policy, follow a script.

        with rb.testing.virtual_time(), rb.testing.inject(search, ConnectionResetError, 503):
            print(search("x"))      # x

    Each step of the script is for one call: an exception, an exception class, an HTTP status (such
    as 503), or PASS. After the last step, calls run normally. Retries count as calls. ConfigError
    for a target that no policy protects, a step that is none of these, or inside of `disabled`.
    """
    owner = target if isinstance(target, Policy) else getattr(target, "__binding__", None)
    if owner is None:
        raise config_error("inject.target", "a function behind a policy, or a Policy", target)
    for index, step in enumerate(script):
        if not _is_step(step):
            wanted = "an exception, its class, a status from 400 to 599, or PASS"
            raise config_error(f"inject.script[{index}]", wanted, step)
    injection = Injection(owner, script)

    def injected(around: World) -> World:
        if around.is_disabled:
            wanted = "policies that are on: nothing is injected inside of disabled()"
            raise config_error("inject", wanted, target)
        return _InjectedWorld(around, injection)

    return Inside(injection, injected)


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
