"""The registry of state: what a circuit, budget, bulkhead, limit, pause or refresh lock is found by.

State has a key, never a value, so that it outlives the policies that use it. Its key is a name that
its users share; a store and a name, if several processes share it; or its owner: a decorated
function, or a Policy for `call` and `attempts`.

A layer whose key is a function of the call's arguments has one state for each value of it: a host,
a tenant, a model. Those belong to the owner, too.

Rule: one lock, and weak references. All users of a key share its state, and keep it alive. A state
with a name and settings, or of a value, is kept for later users as well. The number of those is
bounded, because keys are made from hosts and users. The state that is dropped first has been unused
for long and holds nothing worth keeping. The content of a state that processes share is in the
store, so that it is dropped with its last user here.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

import attrs

from ..failure import redact
from ..locks import new_rlock
from ..values.fields import refuse
from .shared import shares_circuits


if TYPE_CHECKING:
    from collections.abc import Iterable

    from .layer import Layer
    from .shared import Store


MOST: Final = 1024
"""The most unused names of one sort that are kept."""
_LONGEST: Final = 80  # characters of a value that are shown
MOST_VALUES: Final = 512
"""The most values of one layer's key function whose unused states are kept."""
_LOOKED_AT: Final = 64  # of those: how many, unused the longest, are compared when one is dropped
IN_FORCE: Final = 3
"""The worth of a state that must not be lost unnoticed."""

S = TypeVar("S")
V = TypeVar("V")

# Of every sort. Reentrant: a store may answer while its line is made, and a listener of that asks.
_LOCK: Final = new_rlock()


class InUse(Generic[S]):
    """The states of one sort that are in use, by key: each lives as long as one user keeps it."""

    def __init__(self) -> None:
        self._used: WeakValueDictionary[Any, S] = WeakValueDictionary()

    def find(self, key: object) -> S | None:
        """Return the state of this key, if it is in use."""
        with _LOCK:
            return self._used.get(key)

    def of(self, key: object, make: Callable[[], S]) -> S:
        """Return the state of this key; a new one is made."""
        with _LOCK:
            state = self._used.get(key)
            if state is None:
                state = self._used[key] = make()
            return state


class ByValue(InUse[S]):
    """The states of one sort and one owner by value: of a key function, or of anything hashable.

    At most `MOST_VALUES` are kept. A state that is dropped while a call is in it, waits for it or
    shows it is found again: whoever uses a state keeps it alive.
    """

    def __init__(self, worth: Callable[[S], int] = lambda _: 0) -> None:
        super().__init__()
        self._worth = worth
        self._recent: OrderedDict[Any, S] = OrderedDict()  # the least recently used first

    def of(self, key: object, make: Callable[[], S]) -> S:
        """Return the state of this value, now the most recently used; a new one is made."""
        with _LOCK:
            state = super().of(key, make)
            self.keep(key, state)
            return state

    def keep(self, key: object, state: S) -> None:
        """Keep a state that was in use until now as the most recently used."""
        with _LOCK:
            self._recent[key] = state
            self._recent.move_to_end(key)
            if len(self._recent) > MOST_VALUES:
                del self._recent[_least(islice(self._recent.items(), _LOOKED_AT), self._worth)[0]]

    def all(self) -> list[S]:
        """Return every state that is kept or in use."""
        with _LOCK:
            return list(self._used.values())


def _least(states: Iterable[tuple[Any, S]], worth: Callable[[S], int]) -> tuple[Any, int]:
    """Return the key of the state that is worth least, the first of several, and what it is worth."""
    found: tuple[Any, int] = "", IN_FORCE + 1
    for key, state in states:
        value = worth(state)
        if value < found[1]:
            found = key, value
        if value == 0:
            break
    return found


class Sort(InUse[S], Generic[S, V]):
    """The states of one sort that have settings: by name, by store and name, and those of owners.

    Each has its `settings`, and `configure` replaces them. A named state that is dropped while it
    is still in use is found again: two states under one name would not be shared.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[str, V], S],
        worth: Callable[[S], int] = lambda _: 0,
        *,
        shared: Callable[[Any, str, V], S] | None = None,
        lists_own: bool = False,
    ) -> None:
        """`shared` makes a state that processes share; `lists_own`: `unnamed` has those of owners."""
        super().__init__()
        self.name = name
        self.is_shareable = shared is not None
        self._lists_own = lists_own
        self._make = make
        self.worth = worth
        self._shared = shared
        self._recent: OrderedDict[str, S] = OrderedDict()  # the least recently used first
        self._assumed: set[str] = set()  # names whose numbers no user has specified yet

    def get(self, key: str, value: V, *, warn: bool) -> S:
        """Return the state of this name, and apply these numbers to it."""
        text = ""
        with _LOCK:
            state = self._used.get(key)
            if state is None:
                state, text = self._add(key, value)
            else:
                self._recent[key] = state
                self._recent.move_to_end(key)
            if key in self._assumed:
                self._assumed.discard(key)
                warn = False
        _warn(_configured(self.name, key, state, value, warn) or text)
        return state

    def assume(self, key: str, value: V) -> S:
        """Return the state of this name; a new one gets these numbers as a default.

        Other numbers replace the default without a warning.
        """
        with _LOCK:
            state = self._used.get(key)
            if state is not None:
                return state
            state, lost = self._add(key, value)
            self._assumed.add(key)
        _warn(lost)
        return state

    def shared(self, store: Store, key: str, value: V, *, warn: bool) -> S:
        """Return the state of this name in this store, and apply these numbers to it.

        There is one for all users here, so that they share one line to the store.
        """
        make = cast("Any", self._shared)
        # By the store's id, not its value: the state found holds the store, so that no other object
        # can have its id.
        state = self.of((id(store), key), lambda: make(store, key, value))
        _warn(_configured(f"shared {self.name}", key, state, value, warn))
        return state

    def own(self, name: str, value: V) -> S:
        """Make the state of one owner, who keeps it."""
        state = self._make(name, value)
        if self._lists_own:
            with _LOCK:
                self._used[id(state)] = state
        return state

    def unlisted(self, name: str, value: V) -> S:
        """Make a state that nobody else finds."""
        return self._make(name, value)

    def named(self) -> list[S]:
        """Return every state that has a name in this process."""
        with _LOCK:
            return [state for key, state in self._used.items() if isinstance(key, str)]

    def unnamed(self) -> list[S]:
        """Return the states shared between processes, and those of owners if this sort lists them."""
        with _LOCK:
            return [state for key, state in self._used.items() if not isinstance(key, str)]

    def _add(self, key: str, value: V) -> tuple[S, str]:
        """Create the state of a new name; return it and the warning about a dropped one."""
        lost = self._forget() if len(self._recent) >= MOST else ""
        state = self._recent[key] = self._used[key] = self._make(key, value)
        return state, lost

    def _forget(self) -> str:
        # A circuit in force is dropped only if all others are in force.
        forgotten, least = _least(self._recent.items(), self.worth)
        del self._recent[forgotten]
        self._assumed.discard(forgotten)
        if least < IN_FORCE:
            return ""
        return f"{self.name} {forgotten!r} is forgotten while in force: so are {MOST} others"


def _warn(text: str) -> None:
    if text:
        warnings.warn(text, UserWarning, stacklevel=4)


def _configured(sort: str, key: str, state: Any, value: Any, warn: bool) -> str:
    """Apply these numbers; return the warning if other users have specified different ones."""
    before = state.settings
    if before == value:
        return ""
    state.configure(value)
    if not warn or _numbers(before) == _numbers(value):
        return ""
    return f"{sort} {key!r} was {before!r}, is {value!r} now: the last one wins, for all who use it"


def _numbers(value: Any) -> Any:
    """Return the numbers that two users of one name have to agree on."""
    # Each policy decides for itself which failures count: two that differ in that can share a
    # circuit.
    return attrs.evolve(value, on=(), ignore=()) if hasattr(value, "ignore") else value


# Of all owners of a name that share their pause.
_BY_VALUE: Final = InUse[ByValue[Any]]()


def shown(value: object) -> str:
    """Return the text that a value is known by in events, handles and stores; no secret is in it.

    A text that is long, or masked, has a digest, so that it names that value alone.
    """
    text = value if isinstance(value, str) else repr(value)
    short = redact(text, limit=_LONGEST)
    if short == text:
        return text
    return f"{short[:_LONGEST]}#{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


class _Circuit(Protocol):
    """A circuit, as far as its owner knows it."""

    key: str

    def link_ready(self, now: float) -> None:
        """The link whose calls it guards is READY again."""


_SLOTS: Final = {"circuit": "_circuit", "retry budget": "_budget", "pause": "_pause"}


class States:
    """The state of one owner, made when a layer first needs it; `name` is the display name.

    A layer with a key uses what the registry holds under it. A layer without one has a state here,
    which outlives the policy: if another policy replaces it, the circuit keeps its state.

    `shared_as` is the owner's name in all processes; None: it has none that they would agree on.
    `shares_pause`: all owners of this name wait for one pause, and have their adaptive limits
    together. `limited_by` returns the key of the adaptive limit of a call with these arguments;
    None: all its calls have one.
    """

    __slots__ = (
        "__weakref__",
        "_budget",
        "_circuit",
        "_keys",
        "_logged",
        "_others",
        "_pause",
        "compiled_for",
        "current",
        "limited_by",
        "name",
        "shared_as",
        "shares_pause",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        shared_as: str | None = None,
        *,
        shares_pause: bool = False,
        limited_by: Callable[[tuple[Any, ...], dict[str, Any]], Hashable] | None = None,
    ) -> None:
        self.name = name
        self.shared_as = shared_as
        self.shares_pause = shares_pause
        self.limited_by = limited_by
        self._logged: set[str] | None = None
        # The circuit in use, its own or shared: what `circuit(x)` shows.
        self.current: _Circuit | None = None
        self._keys: tuple[str, ...] = ()  # of the shared states that this owner has used
        # By their sort; a state shared between processes is here while it is in use. Nearly every
        # owner has these three and no other: a dict would take as much as a circuit.
        self._circuit = self._budget = self._pause = None
        self._others: dict[str, Any] | None = None
        # The layers whose numbers apply to the `call` and `attempts` of a policy; see `protect`.
        self.compiled_for: tuple[Layer, ...] | None = None

    def state(self, sort: Sort[S, V], settings: V, store: Store | None = None) -> S:
        """Return the state for these settings, and apply the settings to it."""
        key: Any = cast("Any", settings).key
        if callable(key):
            wanted = "a key that is a name: there are no arguments here that a function could read"
            refuse(f"{type(settings).__name__}.key", wanted, settings)
        if sort.is_shareable and shares_circuits(store):
            return self.shared(sort, settings, store, key)
        if key is not None:
            return sort.get(key, settings, warn=self._is_new(key))
        own = self._own(sort.name)
        if own is None:
            own = sort.own(self.name, settings)
            self._set_own(sort.name, own)
        else:
            own.configure(settings)
        return cast("S", own)

    def shared(self, sort: Sort[S, V], settings: V, store: Store, name: str | None) -> S:
        """Return the state that all processes share under this name, or under that of the owner.

        ConfigError if that is none on which they would agree.
        """
        key = self._shared_key(sort.name, settings, name)
        found = sort.shared(store, key, settings, warn=self._is_new(key))
        self._set_own(f"shared {sort.name}", found)
        return found

    def of_value(
        self,
        sort: Sort[S, V],
        settings: V,
        value: object,
        name: str,
        store: Store | None = None,
    ) -> S:
        """Return the state of one value of a layer's key function, and apply these settings to it.

        `name` is what the value is shown as: events and handles read `owner[name]`.
        """

        def make() -> S:
            if sort.is_shareable and shares_circuits(store):
                shared = self._shared_key(sort.name, settings, None)
                return sort.shared(store, f"{shared}[{name}]", settings, warn=False)
            return sort.own(f"{self.name}[{name}]", settings)

        state = self.by_value(sort).of(value, make)
        before: Any = cast("Any", state).settings
        if before is not settings and before != settings:
            cast("Any", state).configure(settings)
        return state

    def by_value(self, sort: Sort[S, V]) -> ByValue[S]:
        """Return the states of a sort by value; owners that share their pause share those, too."""
        make = partial(ByValue, sort.worth)
        key = sort.name, self.name
        return self.owned(
            f"{sort.name} by value", partial(_BY_VALUE.of, key, make) if self.shares_pause else make
        )

    @property
    def owner(self) -> States:
        """Whose state is what no key function selects: itself, unless it stands for one value."""
        return self

    def key_of(self, layer: Layer) -> tuple[Any, ...] | None:  # noqa: ARG002 -- for those of one value
        """Return what a key function of this layer has returned; None: it has none, or no call."""
        return None

    def circuits(self) -> list[_Circuit]:
        """Return the circuits in use: the current one, and those of values."""
        found = [] if self.current is None else [self.current]
        by_value: ByValue[Any] | None = self._own("circuit by value")
        return found if by_value is None else [*found, *by_value.all()]

    @property
    def logged(self) -> set[str]:
        """The classes of which the log has said why they are not repeated."""
        if self._logged is None:
            self._logged = set()
        return self._logged

    def owned(self, sort: str, make: Callable[[], S]) -> S:
        """Return the state of a sort without settings; it is made once for this owner."""
        own = self._own(sort)
        if own is None:
            own = make()
            self._set_own(sort, own)
        return cast("S", own)

    def _own(self, sort: str) -> Any:
        slot = _SLOTS.get(sort)
        if slot is not None:
            return getattr(self, slot)
        return None if self._others is None else self._others.get(sort)

    def _set_own(self, sort: str, state: object) -> None:
        slot = _SLOTS.get(sort)
        if slot is not None:
            setattr(self, slot, state)
        else:
            self._others = {**(self._others or {}), sort: state}

    def _is_new(self, key: str) -> bool:
        """Return whether this owner uses a shared state for the first time.

        Later it may change the numbers without a warning.
        """
        is_new = key not in self._keys
        if is_new:
            self._keys = (*self._keys, key)
        return is_new

    def _shared_key(self, sort: str, settings: object, key: str | None) -> str:
        """Return the name under which other processes share it."""
        found = key or self.shared_as
        if found is None or "<lambda>" in found:
            path = f"{type(settings).__name__}.key"
            refuse(path, f"a key: a shared {sort} needs a name that all processes agree on", key)
        return found
