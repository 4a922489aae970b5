"""The guard of a user's own layer: it asks the layer's `enter` and `leave`, and trusts neither.

Rule: what goes wrong in a user's layer is told as theirs, by its name. A mistake in `enter` refuses
the call, because then nothing has been called. A mistake in `leave` never takes a result away and
never hides the error of the call: it is logged, once for each layer.
"""

from __future__ import annotations

from contextlib import suppress
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ..failure import (
    BridgeError,
    Executed,
    Failure,
    Record,
    RejectedError,
    attach,
    class_name,
    config_error,
    failure_or_none,
    text_of,
)
from ..failure.exceptions import DeadlineExceededError
from ..failure.failure import OWN_LAYER
from ..failure.record import note_once
from ..failure.source_text import shown
from ..telemetry.hub import HUB, say
from ..values.fields import as_seconds, is_number
from .finished import rejected
from .frame import view_of
from .guards import Guard
from .waits import Sleeps


if TYPE_CHECKING:
    from collections.abc import Generator

    from .frame import CallFrame
    from .guards import Wait
    from .layer import Layer


_LONG: Final = 0.1  # seconds in a method of a layer that stop a loop long enough to be told
# What was logged of each class of layers.
_LOGGED: Final[WeakKeyDictionary[type, set[tuple[str, str]]]] = WeakKeyDictionary()


class OwnGuard(Guard):
    """Asks a user's layer."""

    __slots__ = ("layer", "name")

    may_wait = True

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.name = type(layer).__name__

    def enter(self, attempt: CallFrame) -> Wait | None:
        view, began = view_of(attempt), attempt.world.monotonic()
        try:
            seconds = self._seconds(self.layer.enter(view))
        except Exception as error:
            attempt.is_rejected = True
            kind = type(error)
            if not issubclass(kind, BridgeError):  # one of ours is meant
                note = f"raised by {self.name}.enter, a layer of this policy: nothing was called"
                note_once(error, note)
            if not issubclass(kind, RejectedError):
                attach(error, Record(executed=Executed.NO))
            self._emit_rejected(attempt, error)
            raise
        self._log_blocked("enter", attempt.world.monotonic() - began)
        if attempt.own is None:
            attempt.own = {}
        if not seconds:
            attempt.own[self] = view
            return None
        remaining = attempt.remaining
        if remaining is not None and seconds >= remaining:
            attempt.is_rejected = True
            text = f"{self.name}.enter asks to wait {seconds:g} s, and the deadline leaves {remaining:.3g}"
            raise DeadlineExceededError(
                Failure.of("SYS_DEADLINE_EXCEEDED", text, executed=Executed.NO, proof=OWN_LAYER)
            )
        return Sleeps(self.name, attempt.world, self._waits(attempt, view, seconds))

    def _waits(self, attempt: CallFrame, view: Any, seconds: float) -> Generator[float]:
        """Yield the seconds; the layer is entered when they are over."""
        yield seconds
        attempt.own[self] = view

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        view = None if attempt.own is None else attempt.own.pop(self, None)
        if view is None:
            return error  # it was not entered
        began, answer = attempt.world.monotonic(), None
        try:
            answer = self.layer.leave(view, error)
        except Exception as mistake:  # noqa: BLE001 -- the call has ended: its own result or error stays
            self._log_mistake(f" raised {class_name(mistake)}: {text_of(mistake)}", error)
        self._log_blocked("leave", attempt.world.monotonic() - began)
        if answer is None or answer is error:
            return error
        if not isinstance(answer, Exception):
            _close(answer)
            self._log_mistake(f": wanted an exception or None, got {shown(answer)}", error)
            return error
        # A success cannot be taken back, and a cancellation is not the layer's to keep.
        return answer if isinstance(error, Exception) else error

    def _seconds(self, answer: Any) -> float:
        if answer is None:
            return 0.0
        seconds: Any = answer if isinstance(answer, bool) else as_seconds(answer)
        if is_number(seconds) and seconds >= 0:
            return float(seconds)
        _close(answer)
        wanted = (
            'None or the seconds to wait (2, "2s"); it is called in sync calls too, so not async'
        )
        raise config_error(f"{self.name}.enter", wanted, answer, write="return 2")

    def _emit_rejected(self, attempt: CallFrame, error: Exception) -> None:
        failure = failure_or_none(error) if HUB.listening else None
        if failure is not None and attempt.operation is not None:
            rejected(attempt.operation.name, self.name, self.name, failure)

    def _log_blocked(self, method: str, seconds: float) -> None:
        if seconds > _LONG:
            self._log(
                "warning",
                method,
                f" blocked its call for {seconds:.3g} s, and every task of its loop: "
                "return the seconds to wait instead",
            )

    def _log_mistake(self, text: str, error: BaseException | None) -> None:
        self._log("error", "leave", f"{text}; the call is not affected")
        if error is not None:
            note_once(error, f"{self.name}.leave{text}")

    def _log(self, level: Any, method: str, text: str) -> None:
        """Log it, once for each method of a class of layers."""
        logged = _LOGGED.setdefault(type(self.layer), set())
        if (level, method) not in logged:
            logged.add((level, method))
            say(level, f"{self.name}.{method}{text}")


def _close(answer: Any) -> None:
    """Close a coroutine that nobody will await, or Python warns."""
    if isawaitable(answer):
        with suppress(Exception):
            answer.close()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
