"""Keep a conversation within a model's context window: count the tokens before a call, compact, or
raise an error.

Rule: the caller's list is never changed; a new list is returned. Counting and compacting are
functions of the caller; their errors are raised unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from inspect import isawaitable
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from .. import events
from ..failure import ContextOverflowError, Failure, classify, config_error
from ..failure.teaching import taught
from ..telemetry import emit
from ..values.fields import is_count, is_number


if TYPE_CHECKING:
    from collections.abc import Coroutine


M = TypeVar("M")
P = ParamSpec("P")
T = TypeVar("T")

NEARLY_FULL: ContextVar[Callable[[int, int], Awaitable[None]] | None] = ContextVar(
    "resilient_bridge.context_nearly_full", default=None
)
"""The callback (tokens, limit) that saves the state of a workflow's phase when a guard in it is
nearly full.
"""

Count: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], int | Awaitable[int]]
"""Called with messages and tools; returns their tokens."""
Compact: TypeAlias = Callable[[list[Any], int], Sequence[Any] | Awaitable[Sequence[Any]]]
"""Called with messages and a number of tokens; returns messages of at most so many."""
Suggestion: TypeAlias = Literal["compact_history", "reduce_tools", "start_new_session"]

_TRIES: Final = 2
_HINTS: Final[dict[Suggestion, tuple[str, ...]]] = {
    "compact_history": (
        "compact the history: give ContextGuard a function as compact=",
        "start a new session",
    ),
    "reduce_tools": ("offer fewer tools, or shorter descriptions of them",),
    "start_new_session": ("start a new session, with a summary of this one", "offer fewer tools"),
}


class ContextGuard:
    """Keeps one conversation within `limit` tokens, less `reserve` for the answer.

        guard = rb.agent.ContextGuard(8000, count=lambda messages, tools: len(str(messages)))
        messages = await guard.fit([{"role": "user", "content": "hello"}])
        print(guard.is_nearly_full)      # False

    `count(messages, tools)` returns the tokens of both; `compact(messages, target)` returns
    messages of at most `target` tokens, the tools not counted. Both may be async. ConfigError names
    a wrong argument.

    When the share reaches `warn_at`, `is_nearly_full` becomes True, ContextNearlyFull is emitted,
    and a phase of a Workflow saves its state. This happens again only after the share was lower.
    Each conversation needs its own guard, because the guard keeps the last count.
    """

    @taught
    def __init__(
        self,
        limit: int,
        *,
        count: Count,
        compact: Compact | None = None,
        reserve: int = 0,
        warn_at: float = 0.9,
    ) -> None:
        if not is_count(limit):
            raise config_error("ContextGuard.limit", "a whole number of at least 1", limit)
        if not is_count(reserve, 0) or reserve >= limit:
            raise config_error(
                "ContextGuard.reserve", "a whole number from 0 to below the limit", reserve
            )
        if not callable(count):
            raise config_error("ContextGuard.count", "a function of messages and tools", count)
        if not (compact is None or callable(compact)):
            raise config_error(
                "ContextGuard.compact", "a function of messages and a target, or None", compact
            )
        if not is_number(warn_at) or not 0 < warn_at <= 1:
            raise config_error("ContextGuard.warn_at", "a number above 0, at most 1", warn_at)
        self._room = limit - reserve
        self._reserve = reserve
        self._count = count
        self._compact = compact
        self._warn_at = warn_at
        self._tokens = 0
        self._is_reported = False

    def __repr__(self) -> str:
        """Return a status line."""
        full = ", nearly full" if self.is_nearly_full else ""
        return f"<ContextGuard {self._tokens} of {self._room} tokens{full}>"

    @property
    def share(self) -> float:
        """The share of `limit - reserve` at the last count, 0.9 for 90 %.

        0.0 before the first count; above 1 if the messages and tools did not fit.
        """
        return self._tokens / self._room

    @property
    def is_nearly_full(self) -> bool:
        """Whether `share` has reached `warn_at`: time to save the state for a new session."""
        return self.share >= self._warn_at

    async def fit(self, messages: Sequence[M], tools: Sequence[Any] = ()) -> list[M]:
        """Return the messages as a new list, compacted if they do not fit together with the tools.

        `compact` is called at most twice, the second time with half of the target; then
        ContextCompacted is emitted.

        Raises ContextOverflowError if that is not enough, or without `compact`; `failure.details`
        has `type` "context_overflow", `current_tokens`, `max_tokens`, and as `suggestion`
        reduce_tools (the tools alone reach the limit), compact_history (no `compact`) or
        start_new_session (compacting was not enough).
        """
        whole = list(messages)
        self._tokens = tokens = await self._counted(whole, tools)
        try:
            if tokens <= self._room:
                return whole
            return await self._compacted(whole, tools, tokens, self._room)
        finally:
            await self._tell()

    @overload
    async def call(
        self,
        function: Callable[Concatenate[list[M], P], Coroutine[Any, Any, T]],
        messages: Sequence[M],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T: ...
    @overload
    async def call(
        self,
        function: Callable[Concatenate[list[M], P], T],
        messages: Sequence[M],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T: ...
    async def call(
        self, function: Callable[..., Any], messages: Sequence[Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Call `function(messages, …)`, sync or async, with messages that fit, and return its
        result.

        A keyword argument `tools=` is counted with them. If the provider reports that they are too
        long (`classify`: the reason context_length_exceeded), they are compacted to 80 % of the
        count, and the function is called once more.

        Raises what `fit` raises, from the provider's error if there is one, and what the function
        raises.
        """
        tools: Sequence[Any] = kwargs.get("tools") or ()
        fitting = await self.fit(messages, tools)
        tokens = self._tokens
        try:
            return await _result(function(fitting, *args, **kwargs))
        except Exception as error:
            if not _is_too_long(error):
                raise
            refused = error
        try:
            fitting = await self._compacted(
                fitting, tools, tokens, max(1, tokens * 4 // 5), refused
            )
        finally:
            del refused  # its traceback holds this frame
            await self._tell()
        try:
            return await _result(function(fitting, *args, **kwargs))
        except Exception as error:
            if not _is_too_long(error):
                raise
            raise self._overflow("start_new_session", self._tokens, error) from error

    async def _compacted(
        self,
        messages: list[Any],
        tools: Sequence[Any],
        before: int,
        room: int,
        refused: Exception | None = None,
    ) -> list[Any]:
        """Return compacted messages that have at most `room` tokens together with the tools.

        `before`: their tokens until now. `refused`: the error of the provider.
        """
        taken = await self._counted([], tools) if tools else 0
        if taken >= room:
            raise self._overflow("reduce_tools", before, refused, tools_tokens=taken) from refused
        if self._compact is None:
            raise self._overflow(
                "compact_history", before, refused, tools_tokens=taken
            ) from refused
        target, after = room - taken, before
        for _ in range(_TRIES):
            found = _messages_of(await _result(self._compact(list(messages), target)))
            tokens = await self._counted(found, tools)
            if tokens <= room:
                self._tokens = tokens
                emit(events.ContextCompacted(before=before, after=tokens, limit=room))
                return found
            if tokens < after:
                messages, after = found, tokens
            target = max(1, target // 2)  # `compact` may count differently: request less
        raise self._overflow(
            "start_new_session", before, refused, tools_tokens=taken, compacted_tokens=after
        ) from refused

    async def _tell(self) -> None:
        """Emit ContextNearlyFull and save the phase if the last count has just reached `warn_at`."""
        was_reported, self._is_reported = self._is_reported, self.is_nearly_full
        if self._is_reported and not was_reported:
            emit(events.ContextNearlyFull(tokens=self._tokens, limit=self._room))
            save = NEARLY_FULL.get()
            if save is not None:
                await save(self._tokens, self._room)

    async def _counted(self, messages: list[Any], tools: Sequence[Any]) -> int:
        tokens = await _result(self._count(messages, tools))
        if not is_count(tokens, 0):
            raise config_error(
                "ContextGuard.count", "a function that returns a whole number of at least 0", tokens
            )
        return cast("int", tokens)

    def _overflow(
        self, suggestion: Suggestion, tokens: int, refused: Exception | None, **more: int
    ) -> ContextOverflowError:
        """Return the error with the fields of OpenViber's context check; `max_tokens` is `limit -
        reserve`.
        """
        why = f"wanted at most {self._room}" if refused is None else "which the provider refused"
        details = {
            "type": "context_overflow",
            "current_tokens": tokens,
            "max_tokens": self._room,
            "reserve": self._reserve,
            "suggestion": suggestion,
            **more,
        }
        return ContextOverflowError(
            Failure.of(
                "SYS_CONTEXT_OVERFLOW",
                f"context of {tokens} tokens, {why}",
                suggestions=_HINTS[suggestion],
                details=details,
                cause=refused,
            )
        )


async def _result(answer: Any) -> Any:
    return await answer if isawaitable(answer) else answer


def _messages_of(answer: object) -> list[Any]:
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise config_error(
            "ContextGuard.compact", "a function that returns messages", type(answer).__name__
        )
    return list(cast("Any", answer))


def _is_too_long(error: Exception) -> bool:
    """Return whether the provider reports that the context is too long; the call has not run then."""
    return classify(error).details.get("reason") == "context_length_exceeded"
