"""The `idempotent=` argument: which calls may be repeated although they may have run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

import attrs

from ..calls.evidence import failure_in
from ..calls.frame import CURRENT, CallFrame
from ..failure import Executed, config_error


@attrs.frozen
class Call:
    """A call on a wrapped client or a link, as an `idempotent=` predicate sees it.

        def reads(call: rb.links.Call) -> bool:
            return call.method.startswith("get_")

        link = rb.reconnecting(lambda: Client("https://host/mcp"), idempotent=reads)

    `method` is dotted: "files.create".
    """

    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


Idempotent: TypeAlias = bool | Collection[str] | Callable[[Call], bool]
"""Which calls may be repeated although they may have run.

All or none (a bool), the methods named, or those that a predicate accepts.
"""


def checked_idempotent(passed: Idempotent | None, path: str) -> Idempotent | None:
    """Return the `idempotent=` argument checked, with names as a frozenset.

    ConfigError for a single string, and for an async predicate.
    """
    if passed is None or isinstance(passed, bool):
        return passed
    if callable(passed):
        called = getattr(type(passed), "__call__", None)  # noqa: B004 -- of an object whose `__call__` is async
        if inspect.iscoroutinefunction(passed) or inspect.iscoroutinefunction(called):
            raise config_error(
                path, "a predicate that is no async function: nobody awaits it", passed
            )
        return passed
    if isinstance(passed, str) or not isinstance(cast("object", passed), Collection):
        raise config_error(
            path, "True, False, names of methods, or a callable that takes a Call", passed
        )
    return frozenset(passed)


def permission(allowed: Idempotent | None, call: Call, name: str = "") -> bool | None:
    """Return what `idempotent=` says about a call, None if it says nothing about this one.

    `name` is what a collection of names calls it: a tool of MCP by the tool's name; else `method`.
    """
    if allowed is None or isinstance(allowed, bool):
        return allowed
    if callable(allowed):
        return permits(allowed, call)
    return True if (name or call.method) in allowed else None


def permits(predicate: Callable[[Call], bool], call: Call) -> bool:
    """Return what a predicate says about a call; ConfigError if that is not True or False.

    A coroutine is truthy, so an async predicate would permit every call.
    """
    verdict = cast("object", predicate(call))
    if isinstance(verdict, bool):
        return verdict
    if inspect.iscoroutine(verdict):
        verdict.close()  # or Python warns that it was never awaited
    raise config_error("idempotent", f"True or False from the predicate for {call.method}", verdict)


@contextmanager
def never_again() -> Generator[None]:
    """Make the attempt in progress the last one, for a call that runs tools between its requests.

    Its error may come from a later request, so Executed.NO becomes MAYBE for the whole call.
    """
    attempt = CURRENT.get()
    if attempt.plan is None or attempt.world.is_disabled:
        yield
        return
    attempt.is_last = True
    try:
        yield
    except Exception as error:
        failure = failure_in(attempt, error)
        if failure is not None and failure.executed is Executed.NO:
            attempt.seen = error, attrs.evolve(failure, executed=Executed.MAYBE)
        _tell_those_around(attempt)
        raise


def _tell_those_around(attempt: CallFrame) -> None:
    """Make the attempts of the surrounding policies the last ones, unless they are idempotent.

    They see only the error: the refusal of a later request would look like one of the first.
    """
    around = (attempt.first or attempt).outer
    while around is not None and around.before_of is None:
        if around.plan is not None and not around.plan.idempotent and not around.is_over:
            around.is_last = True
        around = around.outer
