"""User conditions that have to be awaited.

They are evaluated before the decision that needs them, in calls that can wait.

Rule: every condition of the policy is evaluated once per failure; the decision finds the answers in
`failure.what.ANSWERS`. A call that cannot wait refuses an async condition when it is decorated, and
an awaitable answer when a condition returns one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..failure.what import ANSWERS, ask, is_async, is_condition, is_tenacity
from ..values.fields import refuse


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .decision import Matcher
    from .frame import CallFrame
    from .layer import Layer


T = TypeVar("T")

_WAITING: Final = ("async", "async_stream")


def knowing(
    answers: dict[int, bool | Exception], function: Callable[..., T], *args: Any, **kwargs: Any
) -> T:
    """Call the function with the condition answers collected before."""
    token = ANSWERS.set(answers)
    try:
        return function(*args, **kwargs)
    finally:
        ANSWERS.reset(token)


def conditions(layer: Layer | None) -> tuple[Any, ...]:
    """Return the conditions that a layer evaluates for a failure."""
    these: list[Any] = (
        []
        if layer is None
        else [what for name in layer.conditions_in for what in getattr(layer, name)]
    )
    return tuple(
        what for what in these if is_condition(what) and not is_tenacity(what, "retry_base")
    )


def check_conditions(layers: Iterable[Layer], form: str, name: str) -> None:
    """Refuse an async condition on a function or block that cannot await it."""
    if form in _WAITING:
        return
    for layer in layers:
        theirs = [what for what in getattr(layer, "on", ()) if is_tenacity(what, "retry_base")]
        asked = getattr(layer, "on_result", None)
        on_result = [] if asked is None else [asked]
        for condition in (*conditions(layer), *theirs, *on_result):
            if is_async(condition):
                where = (
                    "a block cannot wait where it ends"
                    if form == "async_block"
                    else "it is not async"
                )
                refuse(
                    f"{type(layer).__name__} on {name}",
                    f"a condition that is no async function: {where}",
                    condition,
                )


def tenacity_state(attempt: CallFrame, error: BaseException | None, result: object) -> Any:
    """Return the RetryCallState that tenacity's conditions take."""
    import tenacity

    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    state.attempt_number = attempt.number
    if error is None:
        state.set_result(result)
    else:
        state.set_exception((type(error), error, error.__traceback__))
    return state


def wants_another(matcher: Matcher, attempt: CallFrame, result: object) -> bool:
    """Return whether the policy retries a call that returned this.

    By `on_result`, or by a tenacity condition in `on=`.
    """
    on_result = matcher.retry.on_result
    if on_result is not None and ask(on_result, result):
        return True
    if not matcher.theirs:
        return False
    state = tenacity_state(attempt, None, result)
    return any(ask(condition, state) for condition in matcher.theirs)
