"""Detect a truncated model stream by its items: a proxy may close a connection without an error.

Rule: a stream is truncated only if it has begun an answer in a format that is known here.

An answer of chat completions ends with a `finish_reason`, or with the `[DONE]` that openai's
clients hide. Where `[DONE]` cannot be observed, no stream of them counts as truncated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...failure import Executed, Failure, error_for


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ...failure import BridgeError


_LIBRARIES: Final = frozenset({"openai", "anthropic", "google"})
_LAST_EVENTS: Final = frozenset(
    {"message_stop", "response.completed", "response.incomplete", "response.failed", "error"}
)
_NO_REASONS: Final = (None, "FINISH_REASON_UNSPECIFIED")


class Ending:
    """Records from the items of one stream whether its answers have ended."""

    __slots__ = ("_finished", "_marks", "_started")

    def __init__(self, stream: object = None) -> None:
        """Watch `stream`, which has returned no item yet; None: watch only the items."""
        # By number: a request may ask for several answers at once.
        self._started: set[int] = set()
        self._finished: set[int] = set()
        self._marks = _marks_of(stream)

    def heard(self, item: Any) -> Any:
        """Return an item of the stream after inspecting it."""
        if type(item).__module__.partition(".")[0] in _LIBRARIES:
            self._look(item)
        return item

    def _look(self, item: Any) -> None:
        kind = getattr(item, "type", None)
        if kind == "chunk":  # an event of openai's `stream()`, around the model's output
            item, kind = getattr(item, "chunk", None), None
        if isinstance(kind, str):
            if kind in _LAST_EVENTS:
                self._finished.add(0)
            elif kind == "message_start" or kind.startswith("response."):
                self._started.add(0)
            return
        choices: Any = self._marks and getattr(item, "choices", None)
        for index, answer in enumerate(choices or getattr(item, "candidates", None) or ()):
            number = getattr(answer, "index", None) or index
            unfinished = getattr(answer, "finish_reason", None) in _NO_REASONS
            (self._started if unfinished else self._finished).add(number)

    def cut(self) -> BridgeError | None:
        """Return the error of a truncated stream, once; None if it is complete or unknown."""
        if self._started <= self._finished or (self._marks is not None and self._marks.are_done):
            return None
        self._started.clear()
        message = "the stream ended before the answer did: what was handed out is a part of it"
        return error_for(Failure.of("CONN_RESET", message, executed=Executed.MAYBE))


class _Marks:
    """A wrapper of an openai stream's decoder that records whether `[DONE]` was an event."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self.are_done = False

    def iter_bytes(self, source: Iterator[bytes]) -> Iterator[Any]:
        for event in self._decoder.iter_bytes(source):
            self.are_done = self.are_done or event.data.startswith("[DONE]")
            yield event

    async def aiter_bytes(self, source: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for event in self._decoder.aiter_bytes(source):
            self.are_done = self.are_done or event.data.startswith("[DONE]")
            yield event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)


def _marks_of(stream: object) -> _Marks | None:
    """Wrap the decoder of a stream in `_Marks` and return that.

    None if it has no decoder that can be wrapped.
    """
    # openai's `stream()` wraps one of the plain kind
    stream = getattr(stream, "_raw_stream", stream)
    decoder = getattr(stream, "_decoder", None)
    if type(stream).__module__.partition(".")[0] != "openai" or not hasattr(decoder, "iter_bytes"):
        return None
    marks = _Marks(decoder)
    stream._decoder = marks  # type: ignore[attr-defined]  # noqa: SLF001
    return marks
