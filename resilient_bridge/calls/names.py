"""State that is found by its key: one sort of it, in this process, or shared between several.

Rule: a state with a name is shared by everybody who says that name, and kept here for the next one who does. The number of names is
bounded, because people make keys from hosts and users: what is forgotten first was not used for long, and has nothing to say. What is
shared between processes is kept by those who use it, and forgotten with the last of them: what it knew is in the store.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

import attrs


if TYPE_CHECKING:
    from .shared.ports import SharedState


MOST: Final = 1024
"""Names of one sort that are kept although nobody uses them."""
IN_FORCE: Final = 3
"""The worth of a state that must not be lost unnoticed."""

S = TypeVar("S")
V = TypeVar("V")


class Names(Generic[S, V]):
    """The states of one sort by name, the least recently asked for first; each has its `settings`, and `configure` takes others.

    A state that is forgotten while somebody still uses it is found again: two under one name would not be shared.
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
        """`own` makes the state of one owner, which keeps it; `shared` finds one that several processes share, and may warn."""
        self.sort = sort
        self.own = own or make
        self.shared = shared
        self._make = make
        self._worth = worth
        self._lock = Lock()
        self._recent: OrderedDict[str, S] = OrderedDict()
        self._used: WeakValueDictionary[str, S] = WeakValueDictionary()
        self._assumed: set[str] = set()  # names of which nobody has said the numbers yet

    def assume(self, key: str, value: V) -> S:
        """Return the state of this name; if there is none, one with these numbers, which others replace without a word."""
        with self._lock:
            state = self._used.get(key)
            if state is not None:
                return state
            state, lost = self._add(key, value)
            self._assumed.add(key)
        self._warn(lost)
        return state

    def get(self, key: str, value: V, *, warn: bool) -> S:
        """Return the state of this name, with these numbers from now on."""
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
        """Return the state of this name, if there is one."""
        with self._lock:
            return self._used.get(key)

    def all(self) -> list[S]:
        """Return every state there is."""
        with self._lock:
            return list(self._used.values())

    def _add(self, key: str, value: V) -> tuple[S, str]:
        """Make the state of a new name; return it, and what there is to say about another that had to go."""
        lost = self._forget() if len(self._recent) >= MOST else ""
        state = self._recent[key] = self._used[key] = self._make(key, value)
        return state, lost

    def _forget(self) -> str:
        # The first of those that say least: a circuit in force goes only when all the others are in force, too.
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
    """The states of one sort that are in use here, by store and name; each has its `settings`, and `configure` takes others.

    One object a name and store, so that all who use it here share one line to the store.
    """

    def __init__(self, sort: str, make: Callable[[SharedState, str, V], S]) -> None:
        self._sort = sort
        self._make = make
        self._lock = Lock()
        # By the store itself, not its value: what is found holds it, so that its id cannot be another's.
        self._used: WeakValueDictionary[tuple[int, str], S] = WeakValueDictionary()

    def get(self, store: SharedState, key: str, value: V, warn: bool) -> S:
        """Return what has this name in this store, with these numbers from now on."""
        with self._lock:
            found = self._used.get((id(store), key))
            if found is None:
                found = self._used[id(store), key] = self._make(store, key, value)
                return found
        if text := _configured(self._sort, key, found, value, warn):
            warnings.warn(text, UserWarning, stacklevel=4)
        return found


def _configured(sort: str, key: str, state: Any, value: Any, warn: bool) -> str:
    """Go on with these numbers; return what there is to say where others have said other ones."""
    before = state.settings
    if before == value:
        return ""
    state.configure(value)
    if not warn or _numbers(before) == _numbers(value):
        return ""
    return f"{sort} {key!r} was {before!r}, is {value!r} now: the last one wins, for all who use it"


def _numbers(value: Any) -> Any:
    """Return what two users of one name have to agree on."""
    # What counts is decided by each policy for itself: two that differ in that can share a circuit.
    return attrs.evolve(value, on=(), ignore=()) if hasattr(value, "ignore") else value
