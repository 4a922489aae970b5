"""Putting a policy around a function: what kind of function it is, and the runner for that kind."""

from __future__ import annotations

import inspect
from asyncio import coroutines
from functools import partial, update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from ..failure import config_error
from ..failure.what import is_function
from .binding import Binding, Options
from .engine import protect_async
from .engine_sync import protect_sync
from .registry import States
from .stream_calls import protect_async_stream, protect_stream


if TYPE_CHECKING:
    from collections.abc import Callable

    from .frame import Form
    from .layers import HasLayers


def bind(
    policy: HasLayers,
    function: Any,
    *,
    name: str | None = None,
    states: States | None = None,
    shared_as: str | None = None,
    **options: Unpack[Options],
) -> Any:
    """Return `function` protected by `policy`.

    With `states` it uses that state, without it it is a decoration.

    `shared_as` is its name for other processes; None: its qualified name. The rest: see `Options`.
    """
    form = form_of(function)
    label = name or label_of(function)
    used = states or States(label, shared_as or (label_of(function) if name else label))
    binding = Binding(policy, used, form=form, name=label, **options)
    protected: Any = PROTECT[form](function, binding)
    if states is None:
        update_wrapper(protected, function)
        protected.explain = binding.explain
        if isinstance(function, FunctionType):  # what `update_wrapper` leaves out
            protected.__defaults__, protected.__kwdefaults__ = (
                function.__defaults__,
                function.__kwdefaults__,
            )
        protected.policy = policy  # after `update_wrapper`: the function may be protected already
    protected.__binding__ = binding  # for `circuit(function)`, adapters and tests
    return protected


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


PROTECT: Final[dict[Form, Callable[[Any, Binding], Any]]] = {
    "async": protect_async,
    "sync": protect_sync,
    "async_stream": protect_async_stream,
    "stream": protect_stream,
}
