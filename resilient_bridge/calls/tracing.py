"""What stands around each call while somebody traces: a scope that is current while the attempts of the call run.

Rule: without a tracer there is nothing of this on the way of a call, not even a question. A tracer that raises is reported once and left
out; the call does not notice.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..errors import config_error
from ..telemetry.log import say
from .retry.pause import PAUSED, Pause


if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .frame import Planned

    class Scope(Protocol):
        """What a tracer makes of one call. It is entered for each stretch in which the call runs, and for the event of its end."""

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

# The runners look at pauses only while there is one. This stands among them while somebody traces, so that they look.
_MARK: Final = Pause("traced")
_MARK.until = math.inf


def start_tracing(tracer: Tracer) -> None:
    """Have `tracer(name, key)` called for each call. Raises ConfigError while there is another one."""
    if TRACING.open is not None:
        raise config_error("tracing", "one tracer in a process", "a second one")
    TRACING.open = tracer
    PAUSED.add(_MARK)


def stop_tracing() -> None:
    """Forget the tracer."""
    TRACING.open = None
    PAUSED.discard(_MARK)


class CallScope:
    """The scope of one call, made safe: nothing that it does can fail."""

    __slots__ = ("_is_closed", "_scope", "_tokens")

    def __init__(self, scope: Scope) -> None:
        self._scope: Scope | None = scope
        self._is_closed = False
        self._tokens: list[Any] = []

    def enter(self) -> None:
        """The call runs from here on."""
        if self._scope is not None:
            try:
                self._tokens.append(self._scope.enter())
            except Exception as error:  # noqa: BLE001 -- a tracer must not break what it watches
                self._scope = None
                _complain(error)

    def leave(self) -> None:
        """It does not, for now."""
        if self._scope is not None and self._tokens:
            try:
                self._scope.leave(self._tokens.pop())
            except Exception as error:  # noqa: BLE001 -- as above
                self._scope = None
                _complain(error)

    def close(self) -> None:
        """It is over; a stretch that is entered may still be left."""
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


def open_scope(plan: Planned) -> CallScope | None:
    """Return the scope of a call that begins; None if nobody traces."""
    if TRACING.open is None:
        return None
    try:
        return CallScope(TRACING.open(plan.name, plan.key))
    except Exception as error:  # noqa: BLE001 -- as above
        _complain(error)
        return None


def _complain(error: Exception) -> None:
    say("error", f"a tracer raised {type(error).__name__}: the call goes on without it")
