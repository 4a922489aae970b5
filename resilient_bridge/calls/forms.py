"""What kind of function a function is, its name, and whether another one can stand in for it."""

from __future__ import annotations

import inspect
from asyncio import coroutines
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ..failure import config_error
from ..failure.what import is_function
from ..values.fields import refuse


if TYPE_CHECKING:
    from collections.abc import Iterator

    from .frame import Form


def form_of(function: Any) -> Form:
    """Return what kind `function` is, also of partials and callable objects.

    Raises ConfigError for what cannot be protected.
    """
    wanted = ""
    if isinstance(function, type) or not is_function(function):
        wanted = "a function, a method or a callable object"
    if isinstance(function, staticmethod | classmethod):
        wanted = "a function: put the policy below @staticmethod or @classmethod"
    if wanted:
        raise config_error("Policy(function)", wanted, cast("Any", function))
    inner = _innermost(function)
    if not (inspect.isroutine(inner) or inspect.iscoroutinefunction(inner)):
        inner = type(inner).__call__
    if inspect.isasyncgenfunction(inner):
        return "async_stream"
    if inspect.isgeneratorfunction(inner):
        return "stream"
    return "async" if inspect.iscoroutinefunction(inner) or _is_marked(function) else "sync"


def _innermost(function: Any) -> Any:
    while isinstance(function, partial):
        function = cast("Any", function).func
    return function


def _is_marked(function: Any) -> bool:
    # What asyncio takes for a coroutine function although inspect does not: mocks and decorated
    # functions have a marker.
    marker = getattr(coroutines, "_is_coroutine", None)
    return marker is not None and getattr(function, "_is_coroutine", None) is marker


def label_of(function: Any) -> str:
    """Return the display name: module and qualified name."""
    inner = _innermost(function)
    qualified = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    module = getattr(inner, "__module__", None) or type(inner).__module__
    return f"{module}.{qualified}"


def check_arguments(path: str, instead: Any, function: Any) -> None:
    """Raise ConfigError that names `path` if `instead` does not take the arguments of `function`.

    A function that takes any arguments is not compared.
    """
    try:
        wanted, taken = inspect.signature(function), inspect.signature(instead)
    except (TypeError, ValueError):
        return  # as of a function that is not written in Python
    for args, kwargs in _calls_of(wanted):
        try:
            taken.bind(*args, **kwargs)
        except TypeError:
            meant = f"a function with the arguments of {label_of(function)}{_bare(wanted)}"
            refuse(path, meant, f"{label_of(instead)}{_bare(taken)}")


def _calls_of(signature: inspect.Signature) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Return calls that a function takes: with all arguments, without defaults, and by name."""
    parameters = list(signature.parameters.values())
    if any(each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD} for each in parameters):
        return
    by_name = {each.name: each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    positional = [each for each in parameters if each.kind is not each.KEYWORD_ONLY]
    yield [each.name for each in positional], by_name
    least = {each.name for each in parameters if each.default is each.empty}
    yield (
        [each.name for each in positional if each.name in least],
        {name: name for name in by_name if name in least},
    )
    named = [
        each.name
        for each in positional
        if each.kind is not each.POSITIONAL_ONLY and each.name not in {"self", "cls"}
    ]
    yield (
        [each.name for each in positional if each.name not in named],
        by_name | {name: name for name in named},
    )


def _bare(signature: inspect.Signature) -> str:
    """Return a signature without its annotations, as text."""
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
