"""What layers are together: which orders of them do harm, and which keys they have. Pure, and small: it runs whenever a Policy is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from .retry.value import Retry
from .timeout.value import Deadline, Timeout


if TYPE_CHECKING:
    from collections.abc import Callable

    from .layer import Layer

L = TypeVar("L")


def harmful(layers: tuple[Layer, ...]) -> tuple[str, ...]:
    """Return what is wrong with this order, one sentence each; empty if nothing is."""
    retry = next((number for number, layer in enumerate(layers) if isinstance(layer, Retry)), None)
    found = [
        problem
        for number, layer in enumerate(layers)
        if retry is not None
        and (problem := layer.outside_retry if number < retry else layer.inside_retry)
    ]
    deadline, timeout = only(layers, Deadline), only(layers, Timeout)
    # In a thread, the deadline ends the call through its timeout.
    if deadline and timeout and timeout.of(1) > deadline.seconds and not timeout.thread:
        found.append(f"{timeout!r} never fires: {deadline!r} ends the call before")
    return tuple(found)


def only(layers: tuple[Layer, ...], kind: type[L]) -> L | None:
    """Return the layer of this class, None if there is none."""
    return next((layer for layer in layers if isinstance(layer, kind)), None)


def key_functions(layers: tuple[Layer, ...]) -> tuple[tuple[Callable[..., Any], str], ...]:
    """Return the key functions of these layers, each once, with the name of its layer."""
    found: dict[int, tuple[Callable[..., Any], str]] = {}
    for layer in layers:
        function = layer.key_function
        if function is not None:
            found.setdefault(id(function), (function, type(layer).__name__))
    return tuple(found.values())
