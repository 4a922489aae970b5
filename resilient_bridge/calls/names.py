"""The registry of one sort of state by key, in this process or shared between several.

Rule: all users of a name share its state, which is kept for later users of the name. The number of
names is bounded, because keys are made from hosts and users. The state that is dropped first has
been unused for long and holds nothing worth keeping. A state shared between processes is kept by
its users and dropped with the last of them: its content is in the store.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

import attrs

from ..locks import new_lock


if TYPE_CHECKING:
    from .shared.ports import SharedState


MOST: Final = 1024
"""The most unused names of one sort that are kept."""
IN_FORCE: Final = 3
"""The worth of a state that must not be lost unnoticed."""

S = TypeVar("S")
V = TypeVar("V")


class Names(Generic[S, V]):
    """The states of one sort by name, the least recently used first.

    Each has its `settings`, and `configure` replaces them. A state that is dropped while it is
    still in use is found again: two states under one name would not be shared.
    """

    def __init__(
        self,
        sort: str,
        make: Callable[[str, V], S],
        worth: Callable[[S], int] = lambda _: 0,
        *,
        own: Callable[[str, V], S] | None = None,
        shared: Callable[[SharedState, str, V, bool], S] | None = None,
    ) -> None:
        """`own` makes the state of one owner, who keeps it; `shared` finds one shared by processes.

        `shared` may warn.
        """
        self.sort = sort
        self.own = own or make
        self.shared = shared
        self._make = make
        self._worth = worth
        self._lock = new_lock()
        self._recent: OrderedDict[str, S] = OrderedDict()
        self._used: WeakValueDictionary[str, S] = WeakValueDictionary()
        self._assumed: set[str] = set()  # names whose numbers no user has specified yet

    def assume(self, key: str, value: V) -> S:
        """Return the state of this name; a new one gets these numbers as a default.

        Other numbers replace the default without a warning.
        """
        with self._lock:
            state = self._used.get(key)
            if state is not None:
                return state
            state, lost = self._add(key, value)
            self._assumed.add(key)
        self._warn(lost)
        return state

    def get(self, key: str, value: V, *, warn: bool) -> S:
        """Return the state of this name, and apply these numbers to it."""
        text = ""
        with self._lock:
            state = self._used.get(key)
            if state is None:
                state, text = self._add(key, value)
            else:
                self._recent[key] = state
                self._recent.move_to_end(key)
            if key in self._assumed:
                self._assumed.discard(key)
                warn = False
        self._warn(_configured(self.sort, key, state, value, warn) or text)
        return state

    def find(self, key: str) -> S | None:
        """Return the state of this name, if it exists."""
        with self._lock:
            return self._used.get(key)

    def all(self) -> list[S]:
        """Return every state."""
        with self._lock:
            return list(self._used.values())

    def _add(self, key: str, value: V) -> tuple[S, str]:
        """Create the state of a new name; return it and the warning about a dropped one."""
        lost = self._forget() if len(self._recent) >= MOST else ""
        state = self._recent[key] = self._used[key] = self._make(key, value)
        return state, lost

    def _forget(self) -> str:
        # The first of the least valuable: a circuit in force is dropped only if all others are in
        # force.
        forgotten, least = "", IN_FORCE + 1
        for key, state in self._recent.items():
            worth = self._worth(state)
            if worth < least:
                forgotten, least = key, worth
            if worth == 0:
                break
        del self._recent[forgotten]
        self._assumed.discard(forgotten)
        if least < IN_FORCE:
            return ""
        return f"{self.sort} {forgotten!r} is forgotten while in force: so are {MOST} others"

    @staticmethod
    def _warn(text: str) -> None:
        if text:
            warnings.warn(text, UserWarning, stacklevel=4)


class SharedNames(Generic[S, V]):
    """The states of one sort that are in use here, by store and name.

    Each has its `settings`, and `configure` replaces them. There is one object for a name and
    store, so that all its users here share one line to the store.
    """

    def __init__(self, sort: str, make: Callable[[SharedState, str, V], S]) -> None:
        self._sort = sort
        self._make = make
        self._lock = new_lock()
        # By the store's id, not its value: the state found holds the store, so that no other object
        # can have its id.
        self._used: WeakValueDictionary[tuple[int, str], S] = WeakValueDictionary()

    def get(self, store: SharedState, key: str, value: V, warn: bool) -> S:
        """Return the state of this name in this store, and apply these numbers to it."""
        with self._lock:
            found = self._used.get((id(store), key))
            if found is None:
                found = self._used[id(store), key] = self._make(store, key, value)
                return found
        if text := _configured(self._sort, key, found, value, warn):
            warnings.warn(text, UserWarning, stacklevel=4)
        return found


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
