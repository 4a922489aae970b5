"""Our errors inside somebody else's client: they are also that client's own, so that the `except` of its users holds.

Rule: the object stays the same, with its notes, its history and its traceback; only its class gains a base.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from ..errors import BridgeError

__all__ = ["lend"]


def lend(error: BridgeError, base: type[Exception]) -> None:
    """Make `error` an instance of `base` as well; an error whose class cannot have that base stays as it was."""
    if isinstance(error, base):
        return
    own: Any = type(error)
    other: Any = base
    with suppress(TypeError):  # two classes of exceptions with fields of their own, in C, do not go together
        error.__class__ = _both(own, other)


@cache
def _both(own: Any, base: Any) -> Any:
    def reduce(error: Any) -> Any:
        # In another process it is our own error again: who knows what is installed there.
        made, *rest = own.__reduce__(error)
        return (own if made is type(error) else made, *rest)

    names = {name: getattr(own, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(own.__name__, (own, base), {**names, "__reduce__": reduce})
