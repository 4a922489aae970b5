"""The scope around each call while a tracer is set: current while the attempts of the call run.

Rule: without a tracer, calls do not run any of this code, not even a check. A tracer that raises is
reported once and skipped; the call is not affected.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..failure import config_error
from ..telemetry.hub import say
from .retry.coordination import PAUSED, Pause


if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .frame import CallFrame, Operation

    class Scope(Protocol):
        """A tracer's scope for one call.

        It is entered for each stretch in which the call runs, and for the event of its end.
        """

        def enter(self) -> Any: ...
        def leave(self, token: Any) -> None: ...
        def close(self) -> None: ...

    Tracer = Callable[[str, str], Scope]


class _Tracing:
    """The tracer of this process, if there is one."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open: Tracer | None = None


TRACING: Final = _Tracing()

# The runners check pauses only while there is one. A tracer adds this entry, so that they check.
_MARK: Final = Pause("traced")
_MARK.until = math.inf


def start_tracing(tracer: Tracer) -> None:
    """Have `tracer(name, key)` called for each call.

    Raises ConfigError while there is another one.
    """
    if TRACING.open is not None:
        raise config_error("tracing", "one tracer in a process", "a second one")
    TRACING.open = tracer
    PAUSED.add(_MARK)


def stop_tracing() -> None:
    """Remove the tracer."""
    TRACING.open = None
    PAUSED.discard(_MARK)


class CallScope:
    """The scope of one call, made safe: its errors never reach the call."""

    __slots__ = ("_is_closed", "_scope", "_tokens")

    def __init__(self, scope: Scope) -> None:
        self._scope: Scope | None = scope
        self._is_closed = False
        self._tokens: list[Any] = []

    def enter(self) -> None:
        """Enter the scope: the call runs from here on."""
        if self._scope is not None:
            try:
                self._tokens.append(self._scope.enter())
            except Exception as error:  # noqa: BLE001 -- a tracer must not break what it watches
                self._scope = None
                _complain(error)

    def leave(self) -> None:
        """Leave the scope: the call is suspended."""
        if self._scope is not None and self._tokens:
            try:
                self._scope.leave(self._tokens.pop())
            except Exception as error:  # noqa: BLE001 -- as above
                self._scope = None
                _complain(error)

    def close(self) -> None:
        """Close the scope; a stretch that is entered may still be left."""
        if self._scope is not None and not self._is_closed:
            self._is_closed = True
            try:
                self._scope.close()
            except Exception as error:  # noqa: BLE001 -- as above
                _complain(error)


@contextmanager
def within(scope: CallScope | None) -> Generator[None]:
    """Run a stretch of a call in its scope, if it has one."""
    if scope is None:
        yield
        return
    scope.enter()
    try:
        yield
    finally:
        scope.leave()


def open_scope(operation: Operation) -> CallScope | None:
    """Return the scope of a call that starts; None without a tracer."""
    if TRACING.open is None:
        return None
    try:
        return CallScope(TRACING.open(operation.name, operation.key))
    except Exception as error:  # noqa: BLE001 -- as above
        _complain(error)
        return None


def traced(first: CallFrame) -> None:
    """Enter the scope of a call that starts, if there is a tracer.

    A stream has one that ends with its last item.
    """
    operation = first.operation
    if TRACING.open is not None and operation and not operation.plan.form.endswith("stream"):
        scope = first.scope = open_scope(operation)
        if scope is not None:
            scope.enter()


def _complain(error: Exception) -> None:
    say("error", f"a tracer raised {type(error).__name__}: the call goes on without it")
