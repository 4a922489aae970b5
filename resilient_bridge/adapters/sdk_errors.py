"""Add a base class of the client's library to our errors, for existing `except` clauses.

Rule: an error keeps its notes, history and traceback; its class gains a base. Where the base needs
it, the error is copied into a new object.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from ..failure.record import ATTRIBUTE


if TYPE_CHECKING:
    from ..failure import BridgeError


def package_of(value: object) -> str:
    """Return the name of the top-level package of an object's class: "httpx"."""
    return type(value).__module__.partition(".")[0]


def add_base(error: BridgeError, base: type[Exception]) -> None:
    """Make `error` an instance of `base` as well.

    An error whose class cannot have that base is unchanged.
    """
    if isinstance(error, base):
        return
    own: Any = type(error)
    other: Any = base
    with suppress(TypeError):  # two exception classes with fields in C cannot be combined
        error.__class__ = _both(own, other)


def with_class_of(error: BridgeError, cause: BaseException | None) -> BridgeError:
    """Return a copy of `error` that is also an instance of its cause's class, with its attributes.

    Return `error` itself if that is impossible. For an error that is not raised yet: `except
    websockets.InvalidStatus` catches the copy, and finds `error.response`.
    """
    if cause is None or isinstance(error, type(cause)) or not isinstance(cause, Exception):
        return error
    try:
        fields = {
            name: value
            for name, value in vars(cause).items()
            if name not in ("__notes__", ATTRIBUTE)
        }
        made = _copied(error, type(cause), fields)
        for name in ("errno", "strerror", "filename") if isinstance(cause, OSError) else ():
            setattr(made, name, getattr(cause, name))
    except Exception:  # noqa: BLE001 -- a class that cannot be a base, or cannot be made like this
        return error
    return cast("BridgeError", made)


def same_error_for(error: Any, base: type[Exception]) -> Any:
    """Return a copy of our error that is also a `base`, for bases with another layout (OSError)."""
    if isinstance(error, base):
        return error
    try:
        return _copied(error, base, {})
    except TypeError:  # two classes that do not go together
        return error


def _copied(error: Any, base: Any, fields: dict[str, Any]) -> Any:
    """Return a copy of `error` with the base class `base`, and with `fields` below its own."""
    kind = _both(cast("Any", type(error)), base)
    made = kind.__base__.__new__(kind, error.failure)
    made.__dict__.update({**fields, **vars(error)})
    made.args = error.args
    made.__cause__, made.__suppress_context__ = error.__cause__, True
    return made.with_traceback(error.__traceback__)


@cache
def _both(own: Any, base: Any) -> Any:
    def reduce(error: Any) -> Any:
        # In another process it is our plain error again: the library may not be installed there.
        made, *rest = own.__reduce__(error)
        return (own if made is type(error) else made, *rest)

    names = {name: getattr(own, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(own.__name__, (own, base), {**names, "__reduce__": reduce})
