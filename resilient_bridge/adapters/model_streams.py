"""Whether a model's stream came to its end, by what the three SDKs hand out: a proxy that closes politely leaves half an answer.

Rule: only a stream that speaks a format known here, and has begun to say something in it, can be called cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..errors import Executed, Failure, error_for


if TYPE_CHECKING:
    from ..errors import BridgeError

__all__ = ["Ending"]

_LIBRARIES: Final = frozenset({"openai", "anthropic", "google"})
_LAST_EVENTS: Final = frozenset(
    {"message_stop", "response.completed", "response.incomplete", "response.failed", "error"}
)
_NO_REASONS: Final = (None, "FINISH_REASON_UNSPECIFIED")


class Ending:
    """What the items of one stream have said about its end."""

    __slots__ = ("_begun", "_finished")

    def __init__(self) -> None:
        # By number: a request may ask for several answers at once.
        self._begun: set[int] = set()
        self._finished: set[int] = set()

    def heard(self, item: Any) -> Any:
        """Return an item of the stream, when it has been looked at."""
        if type(item).__module__.partition(".")[0] in _LIBRARIES:
            self._look(item)
        return item

    def _look(self, item: Any) -> None:
        kind = getattr(item, "type", None)
        if kind == "chunk":  # an event of openai's `stream()`, around what the model said
            item, kind = getattr(item, "chunk", None), None
        if isinstance(kind, str):
            if kind in _LAST_EVENTS:
                self._finished.add(0)
            elif kind == "message_start" or kind.startswith("response."):
                self._begun.add(0)
            return
        for place, answer in enumerate(
            getattr(item, "choices", None) or getattr(item, "candidates", None) or ()
        ):
            number = getattr(answer, "index", None) or place
            unfinished = getattr(answer, "finish_reason", None) in _NO_REASONS
            (self._begun if unfinished else self._finished).add(number)

    def cut(self) -> BridgeError | None:
        """Return the error of a stream that has ended before its end; None if it has come to it, or nobody can say."""
        if self._begun <= self._finished:
            return None
        message = "the stream ended before the answer did: what was handed out is a part of it"
        return error_for(Failure.of("CONN_RESET", message, executed=Executed.MAYBE))
