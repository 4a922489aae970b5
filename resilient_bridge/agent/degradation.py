"""Graceful degradation: a capability has a ladder of modes, and a failure steps down to the next
mode.

Rule: each step down or up is an event, and is recorded in the history. Cancellation is no failure.
After a function that may have run, the next mode's function is called only with permission, because
it may do the same work twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypedDict, TypeVar, cast

from .. import events
from ..failure import (
    Executed,
    Failure,
    RejectedError,
    changed,
    config_error,
    failure_or_none,
    record_of,
)
from ..failure.record import OWN_WORDS
from ..failure.teaching import taught
from ..failure.what import matches_ended
from ..locks import new_lock
from ..telemetry import emit
from ..values.fields import check_flag, is_count, is_number, read_name, read_seconds
from ..values.rule import as_whats, check_whats
from ..world import current_world


if TYPE_CHECKING:
    from collections.abc import Callable

    from ..failure.what import What
    from ..values.fields import Seconds


M = TypeVar("M", bound="str | float")

_MOST_STEPS: Final = 100  # steps in the history
_FEWEST: Final = 2  # modes of a ladder
_NOTE: Final = "not replaced: it may have run; may_have_run=[{mode!r}] of the Degradation allows it"
_BROWSER: Final = ("browser", "web_scrape", "text")  # the modes of the ready ladder


class Degradation(Generic[M]):
    """A ladder of modes, best first; `mode` is the one to use now.

        browse = rb.agent.Degradation("browse", "browser", "scrape", "text", restore_after=300)
        browse.report(ConnectionResetError(), mode="browser")
        print(browse.mode)      # scrape

    `on` names the failures that step down; empty means any. `restore_after`: the ladder steps up by
    one mode after each such number of seconds without a failure; the step is made when the mode is
    next read. None: only `reset()` steps up. One object serves all tasks and threads that share the
    capability.

    `may_have_run` and `idempotent` permit `call` to call the next mode's function although the one
    before may have run. `may_have_run=True` permits every mode; a list permits these modes, such as
    a cache or a mode that only reads. `idempotent=True`: doing the operation twice is harmless.
    ConfigError names a wrong argument.
    """

    __slots__ = (
        "_at", "_history", "_is_used_up", "_lock", "_may_follow", "_on", "_quiet_since", "_restore_after", "modes", "name",
    )  # fmt: skip

    @taught
    def __init__(
        self,
        name: str,
        *modes: M,
        on: What | Collection[What] = (),
        restore_after: Seconds | None = None,
        may_have_run: bool | Collection[M] = False,
        idempotent: bool = False,
    ) -> None:
        """Take the modes by position, the rest by keyword; start in the first one."""
        self.name: Final = read_name("Degradation.name", name)
        self.modes: Final[tuple[M, ...]] = _checked(modes)
        self._on = as_whats(on)
        check_whats("Degradation.on", self._on)
        self._restore_after = (
            None
            if restore_after is None
            else read_seconds("Degradation.restore_after", restore_after)
        )
        self._may_follow = self._permitted(may_have_run, idempotent)
        self._lock = new_lock()
        self._history: deque[events.ModeChanged] = deque(maxlen=_MOST_STEPS)
        self._at = 0
        self._is_used_up = False  # the last mode has failed too, and that was emitted
        self._quiet_since = 0.0

    @property
    def mode(self) -> M:
        """The mode to use now, after any step up that is due."""
        return self.modes[self._index_now()]

    @property
    def is_degraded(self) -> bool:
        """Whether the mode is another than the first one."""
        return self._index_now() > 0

    @property
    def history(self) -> tuple[events.ModeChanged, ...]:
        """The last steps, oldest first, at most 100.

        Each is an event with the modes `previous` and `mode`, the time `at`, and its cause:
        `reason`, and a `failure` for a step down.
        """
        with self._lock:
            return tuple(self._history)

    def report(self, error: Failure | BaseException, /, *, mode: M | None = None) -> bool:
        """Report that the capability failed, and return whether the ladder stepped down.

        It does not for a cancellation, or if `on` names other failures. `mode`: the mode that
        failed (None: the present one). When several tasks share the ladder it may be below that
        mode already, and stays then. When the last mode fails, the ladder stays there, and emits
        ModeChanged once, with the mode None.
        """
        mode_index = None if mode is None else self._index_of(mode, "report.mode")
        failure = self._matching(error)
        return failure is not None and self._step_down(failure, mode_index)

    def reset(self) -> None:
        """Go back to the first mode."""
        with self._lock:
            parts = [self._up(self._at, "reset")] if self._at else []
        _tell(parts)

    async def call(
        self, functions: Mapping[M, Callable[..., Any]], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Call the function, sync or async, of the present mode; after a failure step down and call
        the next.

        Returns the first result. An error that `on` does not name, and the last error, are raised
        unchanged. A mode without a function is skipped.

        A function that failed may have run, unless it raised NotExecutedError or an error that
        `classify.register` states as not executed. After it the next function is called only if
        `may_have_run` or `idempotent` permits it; else the error is raised with a note, and the
        next call begins in the lower mode.

        Raises RejectedError if there is no function at or below the present mode, ConfigError for a
        key that is no mode of the ladder.
        """
        places = self._places(functions)
        at = self._index_now()
        if places[-1] < at:
            raise self._exhausted()
        while True:
            at = next(index for index in places if index >= at)
            try:
                value = functions[self.modes[at]](*args, **kwargs)
                return await value if isinstance(value, Awaitable) else value  # pyright: ignore[reportUnknownVariableType]
            except Exception as error:
                if not self._gave_way(error, at):
                    raise
                at = max(at + 1, self._at)  # another task may have stepped down further
                following = next((index for index in places if index >= at), None)
                if following is None:
                    raise
                if self.modes[following] not in self._may_follow and not _did_not_run(error):
                    _explain(error, _NOTE.format(mode=self.modes[following]))
                    raise

    def __repr__(self) -> str:
        """Return the name, the mode and its position, without stepping up."""
        at = self._at - self._due()
        return f"<Degradation {self.name} {self.modes[at]}, {at + 1} of {len(self.modes)}>"

    def _matching(self, error: Failure | BaseException) -> Failure | None:
        failure = _failure_of(error)
        return (
            failure
            if failure is not None and (not self._on or matches_ended(self._on, failure))
            else None
        )

    def _gave_way(self, error: Exception, mode_index: int) -> bool:
        """Step below a mode that failed; False if `on` names other failures."""
        # a local of the caller would form a cycle with the traceback
        failure = self._matching(error)
        if failure is not None:
            self._step_down(failure, mode_index)
        return failure is not None

    def _step_down(self, failure: Failure, mode_index: int | None) -> bool:
        failure = changed(failure, cause=None)  # the history must not keep the frames of an error
        parts: list[events.ModeChanged] = []
        with self._lock:
            self._quiet_since = current_world().monotonic()
            was, last = self._at, len(self.modes) - 1
            below = (was if mode_index is None else mode_index) + 1
            self._at = now = max(was, min(below, last))
            if now > was:
                parts.append(self._down(was, str(self.modes[self._at]), failure))
            if below > last and not self._is_used_up:
                self._is_used_up = True
                parts.append(self._down(last, None, failure))
        _tell(parts)  # outside of the lock: a listener may read the mode
        return now > was

    def _index_now(self) -> int:
        if not self._due():
            return self._at
        with self._lock:
            due = self._due()
            self._quiet_since += due * (self._restore_after or 0.0)
            parts = [self._up(1, "restore_after") for _ in range(due)]
            at = self._at
        _tell(parts)
        return at

    def _due(self) -> int:
        if not self._at or self._restore_after is None:
            return 0
        quiet = current_world().monotonic() - self._quiet_since
        return min(self._at, max(0, int(quiet / self._restore_after)))

    def _down(self, was: int, mode: str | None, failure: Failure) -> events.ModeChanged:
        step = events.ModeChanged(
            feature=self.name,
            previous=str(self.modes[was]),
            mode=mode,
            reason="failure",
            failure=failure,
        )
        self._history.append(step)
        return step

    def _up(self, steps: int, reason: Literal["restore_after", "reset"]) -> events.ModeChanged:
        was, self._at = self._at, self._at - steps
        self._is_used_up = False
        step = events.ModeChanged(
            feature=self.name,
            previous=str(self.modes[was]),
            mode=str(self.modes[self._at]),
            reason=reason,
        )
        self._history.append(step)
        return step

    def _permitted(self, may_have_run: object, idempotent: object) -> tuple[M, ...]:
        """Return the modes whose functions may follow one that may have run."""
        check_flag("Degradation.idempotent", idempotent)
        if isinstance(may_have_run, bool):
            return self.modes if may_have_run or idempotent else ()
        if isinstance(may_have_run, str | bytes) or not isinstance(may_have_run, Collection):
            raise config_error(
                "Degradation.may_have_run", "True, False or a list of modes", may_have_run
            )
        named = cast("Collection[object]", may_have_run)
        places = [self._index_of(mode, "may_have_run") for mode in named]
        return self.modes if idempotent else tuple(self.modes[index] for index in places)

    def _index_of(self, mode: object, path: str) -> int:
        if mode not in self.modes:
            raise config_error(
                f"Degradation.{path}", f"one of {', '.join(map(str, self.modes))}", mode
            )
        return self.modes.index(mode)

    def _places(self, functions: Mapping[M, Callable[..., Any]]) -> list[int]:
        """Return the indexes of the modes with a function, best first."""
        if not functions:
            raise config_error(
                "Degradation.call.functions", "a function for one mode at least", "none"
            )
        for mode, function in functions.items():
            if not callable(function):
                path = f"Degradation.call.functions[{mode}]"
                raise config_error(path, "a function with the arguments of the call", function)
        return sorted(self._index_of(mode, "call.functions") for mode in functions)

    def _exhausted(self) -> RejectedError:
        return RejectedError(
            Failure.of(
                "SYS_UNAVAILABLE",
                f"{self.name} is degraded to {self.modes[self._at]}, and there is no function for that",
                executed=Executed.NO,
                suggestions=(
                    "give a function for the last mode, or wait until the capability is restored",
                ),
            )
        )


class Degradations(TypedDict):
    """The ladders of `degradations()`, by the name of their capability."""

    browser: Degradation[str]
    screenshots: Degradation[str]
    parallelism: Degradation[int]


def degradations(
    *,
    disable_browser_on_error: bool = True,
    disable_screenshots_on_error: bool = True,
    reduce_parallelism_on_rate_limit: bool = True,
    parallelism: int = 8,
    restore_after: Seconds | None = None,
) -> Degradations:
    """Return three new ladders: browser → web_scrape → text, screenshots on → off, parallelism
    halved to 1.

        ladders = rb.agent.degradations(parallelism=4)
        print(ladders["parallelism"].modes)      # (4, 2, 1)

    In the first, scraping and text are permitted after a browser that may have run, because they
    only read. A ladder whose flag is False stays in its first mode. `parallelism`, at least 2, is
    the first mode of the last ladder. ConfigError names a wrong argument.
    """
    flags = {
        "disable_browser_on_error": disable_browser_on_error,
        "disable_screenshots_on_error": disable_screenshots_on_error,
        "reduce_parallelism_on_rate_limit": reduce_parallelism_on_rate_limit,
    }
    for name, flag in flags.items():
        check_flag(f"degradations.{name}", flag)
    if not is_count(parallelism, _FEWEST):
        raise config_error("degradations.parallelism", "a whole number of at least 2", parallelism)
    halves = [parallelism]
    while halves[-1] > 1:
        halves.append(halves[-1] // 2)
    return {
        "browser": Degradation(
            "browser",
            *_BROWSER,
            on=() if disable_browser_on_error else _never,
            restore_after=restore_after,
            may_have_run=_BROWSER[1:],  # they only read
        ),
        "screenshots": Degradation(
            "screenshots",
            "on",
            "off",
            on=() if disable_screenshots_on_error else _never,
            restore_after=restore_after,
        ),
        "parallelism": Degradation(
            "parallelism",
            *halves,
            on="SYS_RATE_LIMITED" if reduce_parallelism_on_rate_limit else _never,
            restore_after=restore_after,
        ),
    }


def _did_not_run(error: Exception) -> bool:
    """Return whether an error states that the whole function did not run, not only one of its
    requests.
    """
    failure, record = failure_or_none(error), record_of(error)
    is_proven = (
        failure is not None and failure.executed is Executed.NO and failure.proof in OWN_WORDS
    )
    return is_proven and (record is None or record.crossed == 0)


def _explain(error: Exception, note: str) -> None:
    """Add a note why no other function was called, unless the error has it already."""
    with suppress(Exception):
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def _never(_failure: Failure) -> bool:
    return False


def _tell(reported: list[Any]) -> None:
    for event in reported:
        emit(event)


def _failure_of(error: object) -> Failure | None:
    """Return the failure, None for cancellation and the end of the program."""
    if issubclass(type(error), BaseException):
        return failure_or_none(cast("BaseException", error))
    if isinstance(error, Failure):
        return error
    raise config_error("Degradation.report", "a Failure or an exception", type(error).__name__)


def _checked(modes: tuple[M, ...]) -> tuple[M, ...]:
    if len(modes) < _FEWEST:
        raise config_error("Degradation.modes", "at least 2 modes, best first", modes)
    for index, mode in enumerate(modes):
        if not (is_number(mode) or (isinstance(mode, str) and mode)):
            raise config_error(
                f"Degradation.modes[{index}]", "text that is not empty, or a number", mode
            )
        if mode in modes[:index]:
            raise config_error(
                f"Degradation.modes[{index}]", "a mode that is not there twice", mode
            )
    return modes
