"""What kind of function a function is, and its name."""

from __future__ import annotations

import inspect
from asyncio import coroutines
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ..failure import config_error
from ..failure.what import is_function


if TYPE_CHECKING:
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
