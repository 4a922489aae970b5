"""Conditions of the user's that have to be awaited: asked before the decision that needs them, in calls that can wait.

Rule: every condition of the policy is asked once for a failure, and the decision finds the answers (`values.what.ANSWERS`). A call that
cannot wait refuses an async condition when it is decorated, and an awaitable answer when it comes.
"""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..values.fields import refuse
from ..values.foreign import is_tenacity
from ..values.what import ANSWERS, ask, is_async, is_condition


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .frame import CallFrame
    from .layer import Layer
    from .retry.decision import Matcher


T = TypeVar("T")

_WAITING: Final = ("async", "async_stream")


class Ask:
    """The step that asks conditions and keeps their answers."""

    __slots__ = ("_about", "_answers", "_conditions")

    def __init__(
        self, conditions: Iterable[Callable[[Any], Any]], about: object, answers: dict[int, bool | Exception]
    ) -> None:
        self._conditions = tuple(conditions)
        self._about = about
        self._answers = answers

    def block(self) -> None:
        """Do nothing: a call that blocks has no condition to wait for."""

    async def suspend(self) -> None:
        """Ask each, and wait for its answer where it takes time."""
        for condition in self._conditions:
            try:
                said: Any = condition(self._about)
                self._answers[id(condition)] = bool(await said if isawaitable(said) else said)
            except Exception as wrong:  # noqa: BLE001 -- the decision that asks for the answer deals with it
                self._answers[id(condition)] = wrong


def knowing(answers: dict[int, bool | Exception] | None, function: Callable[..., T], *args: Any) -> T:
    """Call the function; its decisions find the answers of the conditions that were asked before, if any were."""
    if answers is None:
        return function(*args)
    token = ANSWERS.set(answers)
    try:
        return function(*args)
    finally:
        ANSWERS.reset(token)


def conditions(layer: Layer | None) -> tuple[Any, ...]:
    """Return the conditions of a layer that are asked about a failure."""
    these: list[Any] = (
        [] if layer is None else [what for name in layer.conditions_in for what in getattr(layer, name)]
    )
    return tuple(what for what in these if is_condition(what) and not is_tenacity(what, "retry_base"))


def check_conditions(layers: Iterable[Layer], form: str, name: str) -> None:
    """Refuse a condition that would have to be awaited where nobody can."""
    if form in _WAITING:
        return
    for layer in layers:
        theirs = [what for what in getattr(layer, "on", ()) if is_tenacity(what, "retry_base")]
        asked = getattr(layer, "on_result", None)
        on_result = [] if asked is None else [asked]
        for condition in (*conditions(layer), *theirs, *on_result):
            if is_async(condition):
                where = "a block cannot wait where it ends" if form == "async_block" else "it is not async"
                refuse(
                    f"{type(layer).__name__} on {name}",
                    f"a condition that is no async function: {where}",
                    condition,
                )


def tenacity_state(attempt: CallFrame, error: BaseException | None, result: object) -> Any:
    """Return what tenacity's conditions are asked with."""
    import tenacity

    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    state.attempt_number = attempt.number
    if error is None:
        state.set_result(result)
    else:
        state.set_exception((type(error), error, error.__traceback__))
    return state


def wants_another(matcher: Matcher, attempt: CallFrame, result: object) -> bool:
    """Return whether the policy repeats a call that returned this: by `on_result`, or by a condition of tenacity's in `on=`."""
    on_result = matcher.retry.on_result
    if on_result is not None and ask(on_result, result):
        return True
    if not matcher.theirs:
        return False
    state = tenacity_state(attempt, None, result)
    return any(ask(condition, state) for condition in matcher.theirs)
