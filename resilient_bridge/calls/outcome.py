"""Errors as data: the result of a call for code that prefers a value to an exception, and its text.

Rule: `capture` is for failures. Cancellation and the end of the program propagate through it, as
through everything else. The JSON text of a value is bounded in size, and made without raising. The
output of a failed call is redacted. A result is not, because the caller asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, cast, overload

from ..failure import OWN_WORDS, classify, model_report, model_type, redact_lines, unproven
from ..failure.classifier import ANSWERS, RESULTS, Reading
from ..failure.teaching import taught
from .frame import CURRENT, CallFrame, leave_context, new_frame


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
    from .forms import form_of

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
    edge = new_frame(None, around, around.world, around.world.monotonic(), around)
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


# ---- the text of its value -----------------------------------------------------------------------


LIMIT: Final = 100_000
"""The most characters of a result that a model gets."""
_DEEPEST: Final = 20
_COMMANDS: Final = "resilient_bridge.agent.tools.shell_commands"
_LINE: Final = 8_000  # characters of one line of output: all that `redact` reads
_BINARY: Final = 10  # bytes are binary if more than one character in ten does not decode
# Line breaks for many readers that JSON does not escape.
_BREAKS: Final = {point: f"\\u{point:04x}" for point in (0x85, 0x2028, 0x2029)}
# Causes followed: a deadline is raised from a cancellation, and that from a command's error.
_CHAIN: Final = 4


class _Room:
    """The characters that still fit, and whether anything was cut."""

    def __init__(self) -> None:
        self.remaining = LIMIT
        self.is_cut = False


def as_line(report: Mapping[str, Any], **values: object) -> str:
    """Return one line of JSON: the whole report, and the values as far as they fit.

    `cut` is set if something is missing.
    """
    import json

    room = _Room()
    line = {**report, **{name: _plain(value, room, 0) for name, value in values.items()}}
    if room.is_cut:
        line["cut"] = f"longer than {LIMIT:,} characters: the rest is left out"
    return json.dumps(line, ensure_ascii=False).translate(_BREAKS)


def printed(
    name: str, value: object, error: BaseException | None, failure: Failure | None
) -> object:
    """Return a command's `exit_code`, `stdout` or `stderr`.

    From its error, the failure or its result; None if unknown.
    """
    for _ in range(_CHAIN):
        if type(error).__module__ == "subprocess":
            output = getattr(error, "returncode" if name == "exit_code" else name, None)
            if output is not None:
                return output if name == "exit_code" else _redacted(output)
        error = _cause(error)
    if failure is not None:
        return failure.details.get(name)
    # Compared by module name, because tools are a higher layer. Other objects with an exit_code are shown whole.
    return getattr(value, name) if type(value).__module__ == _COMMANDS else None


def _cause(error: BaseException | None) -> BaseException | None:
    try:
        return None if error is None else error.__cause__
    except Exception:  # noqa: BLE001 -- a class may define __cause__ as a property that raises
        return None


def _redacted(output: object) -> str:
    if isinstance(output, bytes):
        output = output[-4 * LIMIT :].decode("utf-8", "replace")
    text = output if isinstance(output, str) else ""
    if len(text) > LIMIT:  # half a secret may no longer look like one: drop the first word with it
        text = ([*text[-LIMIT:].split(None, 1), ""])[1]
    return redact_lines(text.strip(), limit=_LINE)


def _plain(value: Any, room: _Room, depth: int) -> Any:
    """Return a value as JSON data, and subtract its size from the room."""
    if room.remaining <= 0 or depth > _DEEPEST:
        room.is_cut = True
        return "…"
    room.remaining -= 4  # brackets, a comma, a space
    try:
        return _taken_apart(value, room, depth)
    except Exception:  # noqa: BLE001 -- a value may be anything, and its own methods may fail
        return f"<{type(value).__name__} without text>"


def _taken_apart(value: Any, room: _Room, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if type(value) in (int, float):
        text = repr(value)  # ValueError for an integer of thousands of digits
        room.remaining -= len(text)
        # as text for nan and infinity, which JSON does not have
        return value if value - value == 0 else text
    if isinstance(value, bytes | bytearray):
        return _fitting(_decoded(value, room.remaining), room)
    if isinstance(value, Mapping):
        return _named(cast("Any", value), room, depth)
    if isinstance(value, list | tuple | set | frozenset):
        parts = cast("list[Any]", value)
        found: list[Any] = []
        for part in parts:
            if room.remaining <= 0:
                room.is_cut = True
                break
            found.append(_plain(part, room, depth + 1))
        return found
    return _fitting(value if type(value) is str else str(value), room)


def _named(value: Mapping[Any, Any], room: _Room, depth: int) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for key, item in value.items():
        if room.remaining <= 0:
            room.is_cut = True
            break
        name = _fitting(str(key), room)
        named[name] = _plain(item, room, depth + 1)
    return named


def _decoded(data: bytes | bytearray, most: int) -> str:
    text = bytes(data[: most + 1]).decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") > 1 + len(text) // _BINARY:
        return f"<{len(data)} bytes that are no text>"
    return text


def _fitting(text: str, room: _Room) -> str:
    """Return as much of a text as fits, measured by its length in JSON."""
    most = max(room.remaining, 0)
    if len(text) > most:
        room.is_cut = True
        text = text[:most] + "…"
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
    cost = len(text)
    if not text.isprintable():
        import json

        cost = len(json.dumps(text, ensure_ascii=False).translate(_BREAKS))
        if cost > most + 2:  # every control character takes six
            room.is_cut = True
            text = text[: len(text) * most // cost]
    room.remaining -= cost
    return text
