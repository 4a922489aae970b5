"""Hooks that turn a wrong call or a wrong name into an error that says what to write.

Rule: nothing is done, and nothing loaded, while calls are right: `mistakes` is imported once one is
wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Signature, iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any, TypeVar

from ..lazy_names import MissingNameError


if TYPE_CHECKING:
    from .mistakes import Mistake


F = TypeVar("F", bound="Callable[..., Any]")


class Taught(type):
    """The class of our classes: a call that does not fit the constructor says which one would.

    It costs one Python call per object that is made (about 0.1 µs), and nothing after that.
    """

    if not TYPE_CHECKING:

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                return type.__call__(cls, *args, **kwargs)
            except TypeError as error:
                _explain(error, cls.__name__, cls.__init__, (cls, *args), kwargs)
                raise

        def __init__(
            cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
        ) -> None:
            super().__init__(name, bases, namespace, **options)
            if getattr(namespace.get("__setattr__"), "__module__", "").startswith(
                "attr"
            ):  # it is frozen
                type.__setattr__(cls, "__setattr__", _refuse_change)

        def __getattr__(cls, name: str) -> Any:
            raise _missing(cls, f"type object {cls.__name__!r}", name)

        @property
        def __signature__(cls) -> Signature | None:
            # inspect would show that of `__call__` above
            try:
                taken = signature(cls.__init__)
            except (TypeError, ValueError):
                return None
            return taken.replace(parameters=[*taken.parameters.values()][1:])


def taught(function: F) -> F:
    """Have a function or a method say what to write when it is called with wrong arguments.

    Its signature, its name and its kind (a coroutine function stays one) are unchanged.
    """
    owner = function.__qualname__.removesuffix(".__init__")

    if iscoroutinefunction(function):

        @wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            try:
                made = function(*args, **kwargs)
            except TypeError as error:
                _explain(error, owner, function, args, kwargs)
                raise
            return await made

        return awaited  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            _explain(error, owner, function, args, kwargs)
            raise

    return called  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def _explain(
    error: TypeError, owner: str, function: Any, args: tuple[Any, ...], kwargs: Any
) -> None:
    """Raise the error that says what to write, if the arguments did not fit; return if they did."""
    trace = error.__traceback__
    if trace is not None and trace.tb_next is not None:
        return  # it was raised inside of the call
    from .mistakes import wrong_call

    mistake = wrong_call(owner, function, args, kwargs)
    if mistake is not None:
        raise argument_error(mistake) from None


def argument_error(mistake: Mistake) -> Exception:
    """Return the error for a call that does not fit."""
    from .exceptions import ArgumentError
    from .failure import Failure

    return ArgumentError(
        Failure.of("SYS_CONFIG_INVALID", mistake.text, details={"violations": mistake.rows})
    )


def _refuse_change(self: object, name: str, value: object) -> None:
    """Say what to write: a value is not changed, a changed copy is made."""
    from .wrong_names import FrozenValueError

    raise FrozenValueError(self, name, value)


def refuse_arguments(
    owner: object, name: str, takes: Callable[..., Any], wrong: dict[str, Any]
) -> None:
    """Raise the error for arguments that a function which takes any has been given.

    `takes` is a function with the arguments that there are.
    """
    from .mistakes import wrong_call

    mistake = wrong_call(name, takes, (owner,), wrong)
    if mistake is not None:
        raise argument_error(mistake) from None


class TeachesNames:
    """A base of classes whose missing methods and attributes say what to write."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            raise _missing(kind, f"{kind.__name__!r} object", name)


class NoFunction:
    """A base of values: whoever calls one, or decorates with it, is told what to write."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __call__(self, *args: Any, **_: Any) -> Any:
            """Say what to write: a value is no function and no decorator."""
            from .mistakes import wrong_use

            raise argument_error(wrong_use(self, args))


def _missing(kind: type, what: str, name: str) -> AttributeError:
    return MissingNameError(f"{what} has no attribute {name!r}", kind.__name__, kind, name)


def refuse_use(kind: str, wanted: str, got: str, write: str) -> Any:
    """Return a method that raises: this object is not used that way, and `write` says how it is."""

    def refused(self: object, *args: object, **kwargs: object) -> Any:  # noqa: ARG001
        from .exceptions import ArgumentError, config_error

        raise config_error(kind, wanted, got, write=write, error=ArgumentError, got=got)

    return refused


class RefusedUse:
    """The same for `with`: a method that is looked up on the class, and that `hasattr` does not see."""

    def __init__(self, kind: str, wanted: str, got: str, write: str) -> None:
        self._error = kind, wanted, got, write

    def __get__(self, instance: object, owner: type) -> Any:
        from .exceptions import WrongUseError, config_error

        kind, wanted, got, write = self._error
        raise config_error(kind, wanted, got, write=write, error=WrongUseError, got=got)
