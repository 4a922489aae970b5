"""Key functions of layers: `Breaker(key=lambda host, *_: host)` has one circuit for each host.

A function whose policy has a key function has an operation for each value that it returns, so that
a call of one value runs as the call of any policy. Those of the values that were used last are
kept; the states themselves are the registry's.

Rule: the key is asked once per call, with the call's arguments, before any layer is entered. What
goes wrong in it is reported as the user's: nothing was called.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from ..failure import BridgeError, Executed, Record, attach, config_error
from ..failure.record import note_once
from .frame import CURRENT, ROOT
from .registry import MOST_VALUES, States, shown
from .shared import shares_circuits


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from .layer import Layer
    from .registry import S, Sort, V
    from .shared import Store

    Read: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, Any]]

T = TypeVar("T")

_PLAIN: Final = frozenset({str, int, bytes, bool, type(None)})  # known to be fit for a key


def passed_on(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:  # noqa: ARG001 -- of those that take their own
    """Return the arguments that are passed on by what is called with (function, args, kwargs)."""
    return args[1], args[2]


class ByKey(Generic[T]):
    """What a policy with key functions is compiled to, by the values of its keys.

    At most `MOST_VALUES` are kept, those used last. `read`: how the user's arguments are found in
    those of the call; None: they are the same.
    """

    __slots__ = ("_compile", "_compiled", "_functions", "_owner", "_read")

    def __init__(
        self,
        functions: tuple[tuple[Callable[..., Any], str], ...],
        owner: States,
        compile_for: Callable[[States], T],
        read: Read | None,
    ) -> None:
        self._functions = functions
        self._owner = owner
        self._compile = compile_for
        self._read = read
        self._compiled: OrderedDict[Any, tuple[T, ValueStates]] = OrderedDict()

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        """Return what is compiled for the key of these arguments.

        Raises what the key function raises; ConfigError for a value that is no key.
        """
        if self._read is not None:
            args, kwargs = self._read(args, kwargs)
        functions = self._functions
        value: Any
        try:
            if len(functions) == 1:
                value = asked_key(*functions[0], args, kwargs)
            else:
                value = tuple([asked_key(*each, args, kwargs) for each in functions])
            found = self._compiled.get(value)
        except Exception:
            outer = CURRENT.get()
            if outer.operation is None and outer is not ROOT:
                outer.calls = 0  # nothing was called: `capture` reports that
            raise
        if found is None:
            return self._add(value)
        try:  # noqa: SIM105 -- on every call
            self._compiled.move_to_end(value)
        except KeyError:  # another thread has just dropped it
            pass
        return found[0]

    def _add(self, value: Any) -> T:
        values = (value,) if len(self._functions) == 1 else value
        by_function = {
            id(function): (each, shown(each))
            for (function, _), each in zip(self._functions, values, strict=True)
        }
        states = ValueStates(self._owner, by_function)
        compiled = self._compile(states)
        self._compiled[value] = compiled, states
        if len(self._compiled) > MOST_VALUES:
            with suppress(KeyError):  # as above
                self._compiled.popitem(last=False)[1][1].keep()
        return compiled


def asked_key(
    function: Callable[..., Any], of: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the key that a function of the user's gives for these arguments.

    Raises what it raises, with a note; ConfigError for a value that is no key.
    """
    value = asked(function, of, args, kwargs)
    if type(value) not in _PLAIN:
        _check(value, of)
    return value


def asked(
    function: Callable[..., Any], of: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return what a key function returns; raise what it raises, with a note."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        if not issubclass(type(error), BridgeError):  # one of ours is meant
            note = f"raised by the key of {of}, which gets the call's arguments: nothing was called"
            note_once(error, note)
        attach(error, Record(executed=Executed.NO))
        raise


def _check(value: Any, of: str) -> None:
    if isawaitable(value):
        with suppress(Exception):
            value.close()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        wanted = "a function that returns its value: it is asked in sync calls too, so not async"
    else:
        try:
            hash(value)
        except Exception:  # noqa: BLE001 -- of the user's class: whatever it raises, it is no key
            wanted = "a function that returns a value that can be hashed, such as a text"
        else:
            return
    raise config_error(f"{of}.key", wanted, value, write=f"{of}(key=lambda host, *_, **__: host)")


def _is_portable(value: Any) -> bool:
    """Return whether the text of a value is the same in all processes."""
    if type(value) is tuple:
        return all(_is_portable(each) for each in cast("tuple[object, ...]", value))
    return type(value) in _PLAIN or type(value) is float


class ValueStates(States):
    """The state of one owner for the calls of one value of its key functions.

    What has no key function is the owner's own.
    """

    __slots__ = ("_latest", "_owner", "_values")

    def __init__(self, owner: States, values: Mapping[int, tuple[Any, str]]) -> None:
        """`values`: each with its text, by the id of the key function."""
        text = ", ".join([text for _, text in values.values()])
        super().__init__(f"{owner.name}[{text}]", owner.shared_as, shares_pause=owner.shares_pause)
        self._owner = owner
        self._values = values
        self._latest: list[Callable[[], None]] = []

    @property
    def owner(self) -> States:
        """The owner of what no key function selects."""
        return self._owner

    def key_of(self, layer: Layer) -> tuple[Any, ...] | None:
        """Return the value of the layer's key function, with None before it: no credential."""
        function = layer.key_function
        return None if function is None else (None, self._values[id(function)][0])

    def state(self, sort: Sort[S, V], settings: V, store: Store | None = None) -> S:
        """Return the state for these settings: that of the value, if they have a key function."""
        function: Any = getattr(settings, "key", None)
        if not callable(function):
            return self._owner.state(sort, settings, store)
        value, text = self._values[id(function)]
        if shares_circuits(store) and sort.is_shareable and not _is_portable(value):
            wanted = (
                "a function that returns a text or a number: other processes have to agree on it"
            )
            raise config_error(f"{type(settings).__name__}.key", wanted, value)
        state = self._owner.of_value(sort, settings, value, text, store)
        by_value = self._owner.by_value(sort)
        self._latest.append(lambda: by_value.keep(value, state))
        return state

    def keep(self) -> None:
        """Count the states as used now: what was compiled with them is dropped."""
        for keep in self._latest:
            keep()


class Unkeyed(States):
    """Stands for the state of a policy with key functions where there is no call, and no value.

    A state that a key function would select is a new one, which nobody else sees.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: States) -> None:
        super().__init__(owner.name, owner.shared_as, shares_pause=owner.shares_pause)
        self._owner = owner

    @property
    def owner(self) -> States:
        """The owner of what no key function selects."""
        return self._owner

    def state(self, sort: Sort[S, V], settings: V, store: Store | None = None) -> S:
        """Return the owner's state, or one for nobody."""
        if callable(getattr(settings, "key", None)):
            return sort.unlisted(self.name, settings)
        return self._owner.state(sort, settings, store)
