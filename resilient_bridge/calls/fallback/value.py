"""What is called instead when a call has failed for good."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, ClassVar, cast

import attrs

from ...failure.source_text import shown
from ...failure.what import What, is_function
from ...values.fields import called, optional, path_of, refuse, wants
from ...values.fields import function as function_of
from ...values.rule import as_whats, whats
from ..layer import Layer


if TYPE_CHECKING:
    from ...failure import Failure


@wants("the names of functions")
def _check_ladder(
    instance: object, attribute: attrs.Attribute[Any], value: tuple[object, ...]
) -> None:
    path, wanted = path_of(instance, attribute), "a function with the arguments of the call"
    if not value:
        refuse(path, f"at least one rung, each {wanted}", value)
    for index, rung in enumerate(value):
        if not is_function(rung):
            refuse(f"{path}[{index}]", wanted, rung)


def _as_rungs(value: Any) -> Any:
    return (
        tuple(cast("Collection[Any]", value))
        if isinstance(value, list | set | frozenset)
        else value
    )


@wants("true, false or names of the ladder")
def _check_may_have_run(instance: Fallback, attribute: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, bool):
        return
    if not isinstance(value, tuple) or any(
        rung not in instance.ladder for rung in cast("tuple[object, ...]", value)
    ):
        refuse(
            path_of(instance, attribute), "True, False, or some of the rungs", cast("Any", value)
        )


@attrs.frozen(repr=False, init=False, eq=False)
class Fallback(Layer):
    """After a failure call the rungs of `ladder` in order until one succeeds.

        def from_cache(query: str) -> str:
            return "yesterday's answer"

        @rb.Policy(rb.Fallback(from_cache, may_have_run=True))
        def search(query: str) -> str:
            raise ConnectionResetError
        print(search("x"))      # yesterday's answer

    They get the arguments of the call.

    `on` says for which failures; empty means any. Never silently: each step is an event, and
    `acknowledge` is asked before the first rung with the failure; False means no, and the failure
    stands. The last rung's error is raised. A returned failure, such as a 503, is replaced like a
    raised one.

    After a call that may have run, a rung is called only if the call may be repeated
    (`idempotent=True`), or with `may_have_run`: True, or those of the rungs that do no harm then,
    such as a cache or another model. ConfigError names a bad field.
    """

    usual_position: ClassVar[int | None] = 1
    conditions_in: ClassVar[tuple[str, ...]] = ("on",)
    never_inside_retry: ClassVar[str] = (
        "Fallback outside of Retry: inside, Retry would never see a failure"
    )

    ladder: tuple[Callable[..., Any], ...] = attrs.field(validator=_check_ladder)
    on: tuple[What, ...] = attrs.field(default=(), converter=as_whats, validator=whats())
    acknowledge: Callable[[Failure], bool | Awaitable[bool]] | None = attrs.field(
        default=None, validator=optional(function_of("a function of the failure, or None"))
    )

    may_have_run: bool | tuple[Callable[..., Any], ...] = attrs.field(
        default=False, converter=_as_rungs, validator=_check_may_have_run
    )

    if TYPE_CHECKING:

        def __attrs_init__(
            self,
            ladder: object,
            on: What | Collection[What],
            acknowledge: object,
            may_have_run: object,
        ) -> None: ...

    def __init__(
        self,
        *ladder: Callable[..., Any],
        on: What | Collection[What] = (),
        acknowledge: Callable[[Failure], bool | Awaitable[bool]] | None = None,
        may_have_run: bool | Collection[Callable[..., Any]] = False,
    ) -> None:
        """Take the rungs by position, the rest by keyword."""
        self.__attrs_init__(ladder, on, acknowledge, may_have_run)

    def summary(self) -> str:
        """Return how many rungs there are."""
        return f"then {len(self.ladder)} other way{'s' if len(self.ladder) > 1 else ''}, reported"

    def __repr__(self) -> str:
        """Return the constructor's call, with what differs from its defaults."""
        return called(self, *map(shown, self.ladder), ladder="")
