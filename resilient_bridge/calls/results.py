"""What a returned value means: a success, or a failure such as a 503.

Rule: what a user's function returns is its success, whatever it looks like. It is a failure only by
its type (an HTTP response, a result object of MCP, an Outcome) or to a reader that the user
registered. A mapping is searched for the forms of specifications only in the answer of a tool or a
server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from ..failure import config_error
from ..failure.plain import PLAIN, PLAIN_ANSWERS


if TYPE_CHECKING:
    from ..failure import Failure


_MOST_PLAIN: Final = 1_024


class Reading(NamedTuple):
    """How the results of a function are read.

    Those of the classes in `plain` are successes; `read` returns the failure of any other, None for a
    success.
    """

    plain: set[type]
    read: Callable[[object], Failure | None]


def failure_of_result(result: object) -> Failure | None:
    """Return the failure that a function's result represents by its type; None for a success."""
    return None if type(result) in PLAIN else _failure_of(result, PLAIN, of_server=False)


def failure_of_answer(result: object) -> Failure | None:
    """Do the same for the answer of a tool or server, in which a mapping is read too."""
    return (
        None
        if type(result) in PLAIN_ANSWERS
        else _failure_of(result, PLAIN_ANSWERS, of_server=True)
    )


RESULTS: Final = Reading(PLAIN, failure_of_result)
ANSWERS: Final = Reading(PLAIN_ANSWERS, failure_of_answer)


def _failure_of(result: object, plain: set[type], *, of_server: bool) -> Failure | None:
    from ..failure import answered_failure
    from ..failure.answers import may_fail

    kind = type(result)
    if issubclass(kind, BaseException):
        return None  # a function may return an exception without meaning to raise it
    failure = answered_failure(result, of_server=of_server)
    # A sync function may not return an awaitable; each result is checked for that.
    if (
        failure is None
        and len(plain) < _MOST_PLAIN
        and not may_fail(kind, of_server=of_server)
        and not hasattr(cast("Any", kind), "__await__")
    ):
        plain.add(kind)
    return failure


def settled(function: Callable[..., Any], result: Any) -> Any:
    """Return the result of a sync function.

    ConfigError for an awaitable, which would end outside of every layer.
    """
    if not hasattr(cast("Any", type(result)), "__await__"):
        return result
    if hasattr(result, "close"):
        result.close()  # otherwise Python warns that it was never awaited
    wanted = "an async function, or one that returns no awaitable"
    raise config_error(
        getattr(function, "__qualname__", repr(function)), wanted, type(result).__name__
    )
