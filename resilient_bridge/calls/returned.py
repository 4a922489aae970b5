"""What a returned value stands for: a success, or a failure such as a 503."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from ..classification.plain import PLAIN
from .frame import ROOT


if TYPE_CHECKING:
    from ..errors import Failure
    from .frame import CallFrame


_MOST_PLAIN: Final = 1_024


def failure_of_answer(result: object) -> Failure | None:
    """Return what a returned answer stands for, None when it is a success."""
    kind = type(result)
    if kind in PLAIN:
        return None
    from ..classification import classify
    from ..classification.answers import may_be_answer

    if isinstance(result, BaseException):
        return None  # a function may return an exception without meaning to raise it
    if not may_be_answer(kind):
        # A sync function may not return an awaitable: that has to be asked each time.
        if len(PLAIN) < _MOST_PLAIN and not hasattr(cast("Any", kind), "__await__"):
            PLAIN.add(kind)
        return None
    return classify(result)


def keep_answer(first: CallFrame, failure: Failure | None) -> None:
    """Keep what a returned answer stands for: for the Fallback, and for `capture`."""
    first.answered = failure
    edge = first.outer
    if edge is not None and edge.plan is None and edge is not ROOT:
        edge.answered = failure
