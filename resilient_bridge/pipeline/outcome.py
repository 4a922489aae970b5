"""Errors as data: what a call came to, for code that would rather look than catch.

Rule: `capture` is for failures. Cancellation and the end of the program pass through it as through everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from ..classification import classify
from .attempt import CURRENT, Attempt, begun


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..errors import Failure

__all__ = ["Outcome", "capture"]

P = ParamSpec("P")
T = TypeVar("T")


class Outcome(Generic[T]):
    """How a call ended. `failure` is None when it succeeded; `attempts` counts its calls, `seconds` is all the time it took."""

    __slots__ = ("_error", "_trace", "_value", "attempts", "failure", "seconds")

    def __init__(
        self,
        value: T | None,
        error: BaseException | None,
        failure: Failure | None,
        attempts: int,
        seconds: float,
    ) -> None:
        """Hold what was returned or raised."""
        self._value = value
        self._error = error
        self._trace = None if error is None else error.__traceback__
        self.failure = failure
        self.attempts = attempts
        self.seconds = seconds

    @property
    def value(self) -> T:
        """What the call returned, also where that stands for a failure (a 503); raises what the call raised."""
        if self._error is not None:
            raise self._error.with_traceback(self._trace)  # or it would grow with every look
        return cast("T", self._value)  # without an error there is a value, and None may be one

    def to_llm(self) -> str:
        """Return one line of JSON for a model: the failure with its suggestion, or `{"ok": true, "result": …}` (V6)."""
        if self.failure is not None:
            return self.failure.to_llm()
        import json

        return json.dumps({"ok": True, "result": self._value}, ensure_ascii=False, default=str)

    def __repr__(self) -> str:
        """Return how it ended, without the value: it may be large, or secret."""
        end = "ok" if self.failure is None else str(self.failure)
        calls = "1 call" if self.attempts == 1 else f"{self.attempts} calls"
        return f"<Outcome {end}, {calls}, {self.seconds:.3g} s>"


@overload
def capture(  # type: ignore[overload-overlap]
    function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, Outcome[T]]: ...
@overload
def capture(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[T]: ...
def capture(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call `function` and return its Outcome; for an async function the coroutine of one. Never raises its failures."""
    from .protect import form_of

    # Any callable will do, a class among them; only an async one is different.
    if not isinstance(function, type) and form_of(function) == "async":
        return _capture_async(function, args, kwargs)
    edge = _edge()
    token = CURRENT.set(edge)
    try:
        return _returned(edge, function(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 -- errors as data is what this is for
        return _raised(edge, error)
    finally:
        CURRENT.reset(token)


async def _capture_async(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Outcome[Any]:
    edge = _edge()
    token = CURRENT.set(edge)
    try:
        return _returned(edge, await function(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 -- errors as data is what this is for
        return _raised(edge, error)
    finally:
        CURRENT.reset(token)


def _edge() -> Attempt:
    """Return an edge inside of where we are: what runs inside leaves its count there."""
    around = CURRENT.get()
    edge = begun(None, around, around.env, around.env.monotonic(), around.deadline_at)
    edge.first = around.first or around
    return edge


def _returned(edge: Attempt, value: Any) -> Outcome[Any]:
    failure = None if isinstance(value, BaseException) else classify(value)
    return Outcome(value, None, failure, edge.calls, edge.env.monotonic() - edge.started)


def _raised(edge: Attempt, error: Exception) -> Outcome[Any]:
    failure = classify(error)  # raises again an Exception that stands for cancellation
    return Outcome(None, error, failure, edge.calls, edge.env.monotonic() - edge.started)
