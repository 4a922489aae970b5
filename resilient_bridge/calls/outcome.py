"""Errors as data: the result of a call for code that prefers a value to an exception.

Rule: `capture` is for failures. Cancellation and the end of the program propagate through it, as
through everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from ..failure import OWN_WORDS, classify, model_report, model_type, unproven
from ..failure.teaching import taught
from .frame import CURRENT, CallFrame, leave_context, new_frame
from .results import ANSWERS, RESULTS, Reading


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..failure import Failure


P = ParamSpec("P")
T = TypeVar("T")


class Outcome(Generic[T]):
    """How a call ended.

        outcome = rb.capture(int, "7")
        print(outcome.ok, outcome.value, outcome.attempts)      # True 7 1

    `failure` is None when it succeeded; `attempts` counts its calls, `seconds` is all the time it
    took.

    Of a Toolbox it also says which `tool` was called ("" for any other call), whether it is
    `required`, and its `max_retries`: how often the policy repeats such a failure.
    """

    __slots__ = (
        "_error",
        "_trace",
        "_value",
        "attempts",
        "failure",
        "max_retries",
        "required",
        "seconds",
        "tool",
    )

    def __init__(
        self,
        value: T | None,
        error: BaseException | None,
        failure: Failure | None,
        attempts: int,
        seconds: float,
        *,
        tool: str = "",
        required: bool = True,
        max_retries: int = 0,
    ) -> None:
        """Hold the returned value or the raised error."""
        self._value = value
        self._error = error
        self._trace = None if error is None else error.__traceback__
        self.failure = failure
        self.attempts = attempts
        self.seconds = seconds
        self.tool = tool
        self.required = required
        self.max_retries = max_retries

    @property
    def value(self) -> T:
        """The call's return value, even one such as a 503; raises the call's error."""
        if self._error is not None:
            raise self._error.with_traceback(self._trace)  # or it would grow with every access
        return cast("T", self._value)  # without an error there is a value, and None may be one

    @property
    def error(self) -> BaseException | None:
        """The error that the call raised, None if it returned."""
        return self._error

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.failure is None

    @property
    def is_skipped(self) -> bool:
        """Whether an optional tool failed: the work continues without it."""
        return self.failure is not None and not self.required

    @property
    def type(self) -> str | None:
        """The type of the failure as one word for a model; None without a failure.

        One of timeout, permission, not_found, rate_limit, context_overflow, validation, unknown.
        """
        return None if self.failure is None else model_type(self.failure)

    @property
    def message(self) -> str:
        """What went wrong, as one line; empty without a failure."""
        return "" if self.failure is None else self.failure.message

    @property
    def recoverable(self) -> bool:
        """Whether repeating the same call can help; False without a failure."""
        return self.failure is not None and self.failure.retryable

    @property
    def suggestion(self) -> str:
        """Suggestions what to do about it, the most promising first; empty without a failure."""
        return "" if self.failure is None else "; ".join(self.failure.suggestions)

    @property
    def exit_code(self) -> int | None:
        """The exit code of a command, None for any other call."""
        from .outcome_text import printed

        code = printed("exit_code", self._value, self._error, self.failure)
        return code if isinstance(code, int) else None

    @property
    def stdout(self) -> str:
        """The output of a command; secrets are masked if it failed. Empty for any other call."""
        return self._printed("stdout")

    @property
    def stderr(self) -> str:
        """A command's error output; secrets are masked if it failed. Empty for any other call."""
        return self._printed("stderr")

    def to_llm(self) -> str:
        """Return one line of JSON for a model: the failure with its suggestion, or the result.

        A result has the form `{"ok": true, "result": …}`. Never raises, whatever the value is. The
        line is bounded: a value of more than 100,000 characters is cut, and `cut` says so. A
        command that failed adds its exit code and output.
        """
        from .outcome_text import as_line

        code = self.exit_code
        fields: dict[str, Any] = {} if code is None else {"exit_code": code}
        fields.update(
            (name, text) for name in ("stderr", "stdout") if (text := self._printed(name))
        )
        if self.failure is None:
            return as_line({"ok": True}, result=self._value if code is None else fields)
        return as_line(model_report(self.failure), **fields)

    def to_tool_error(self, tool_call_id: str) -> dict[str, Any]:
        """Return the failure as the `tool_error` message of a bridge, JSON types only.

        ConfigError without a failure.
        """
        failure = self.failure
        if failure is None:
            from ..failure import config_error

            raise config_error("Outcome.to_tool_error", "an outcome that is a failure", "a success")
        payload = {
            "tool_call_id": tool_call_id,
            "tool": self.tool,
            "code": failure.code,
            "message": failure.message,
            "details": {
                "exit_code": self.exit_code,
                "stderr": self.stderr,
                "stdout": self.stdout,
                "execution_time_ms": round(self.seconds * 1000),
            },
            "retryable": failure.retryable,
            "max_retries": self.max_retries if failure.retryable else 0,
        }
        return {"type": "tool_error", "payload": payload}

    def _printed(self, name: str) -> str:
        from .outcome_text import printed

        text = printed(name, self._value, self._error, self.failure)
        return text if isinstance(text, str) else ""

    def __repr__(self) -> str:
        """Return how it ended, without the value, which may be large or secret."""
        whose = f"{self.tool}: " if self.tool else ""
        end = "ok" if self.failure is None else str(self.failure)
        calls = "1 call" if self.attempts == 1 else f"{self.attempts} calls"
        return f"<Outcome {whose}{end}, {calls}, {self.seconds:.3g} s>"


@overload
def capture(  # type: ignore[overload-overlap]
    function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, Outcome[T]]: ...
@overload
def capture(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[T]: ...
@taught
def capture(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call `function` and return its Outcome; for an async function the coroutine of one.

        outcome = rb.capture(int, "seven")
        print(outcome.ok, type(outcome.error).__name__)      # False ValueError

    Never raises its failures.
    """
    from .protect import form_of

    # Any callable will do, a class among them; only an async one is different.
    if not isinstance(function, type) and form_of(function) == "async":
        return captured(function, args, kwargs, RESULTS)
    edge = _edge(function)
    token = CURRENT.set(edge)
    try:
        return _returned(edge, function(*args, **kwargs), RESULTS)
    except Exception as error:  # noqa: BLE001 -- errors as data is what this is for
        return _raised(edge, error)
    finally:
        leave_context(token)


async def captured(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    reading: Reading = ANSWERS,
    key: str | None = None,
) -> Outcome[Any]:
    """Do what `capture` does for an async function.

    A Toolbox's tool finds `key` in the context, and its result is read as an answer.
    """
    edge = _edge(function)
    edge.key = key
    token = CURRENT.set(edge)
    try:
        return _returned(edge, await function(*args, **kwargs), reading)
    except Exception as error:  # noqa: BLE001 -- errors as data is what this is for
        return _raised(edge, error)
    finally:
        leave_context(token)


def _edge(function: object) -> CallFrame:
    """Return a boundary inside the current context, where inner calls report their count."""
    around = CURRENT.get()
    edge = new_frame(None, around, around.world, around.world.monotonic(), around.deadline_at)
    edge.first = around.first or around
    edge.is_protected = hasattr(function, "__binding__")
    return edge


def _returned(edge: CallFrame, value: Any, reading: Reading) -> Outcome[Any]:
    # a function that has handled the failure of a call inside of it returns something else
    answered = edge.answered if edge.answer is value else None
    failure = answered or reading.read(value)
    return Outcome(value, None, failure, edge.calls, edge.world.monotonic() - edge.started)


def _raised(edge: CallFrame, error: Exception) -> Outcome[Any]:
    failure = classify(error)  # re-raises an Exception that stands for cancellation
    if not edge.is_protected and failure.proof not in OWN_WORDS:  # user's: see `evidence`
        failure = unproven(failure)
    return Outcome(None, error, failure, edge.calls, edge.world.monotonic() - edge.started)
