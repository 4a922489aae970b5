"""State that is found by its key, in this process: one sort of it.

Rule: a state with a name is shared by everybody who says that name, and kept here for the next one who does. The number of names is
bounded, because people make keys from hosts and users: what is forgotten first was not used for long, and has nothing to say.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Generic, TypeVar, cast
from weakref import WeakValueDictionary

import attrs


__all__ = ["IN_FORCE", "MOST", "Names", "numbers"]

MOST: Final = 1024
"""Names of one sort that are kept although nobody uses them."""
IN_FORCE: Final = 3
"""The worth of a state that must not be lost unnoticed."""

S = TypeVar("S")
V = TypeVar("V")


class Names(Generic[S, V]):
    """The states of one sort by name, the least recently asked for first.

    A state that is forgotten while somebody still uses it is found again: two under one name would not be shared.
    """

    def __init__(
        self,
        sort: str,
        make: Callable[[str, V], S],
        settings: Callable[[S], V],
        worth: Callable[[S], int] = lambda _: 0,
    ) -> None:
        self._sort = sort
        self._make = make
        self._settings = settings
        self._worth = worth
        self._lock = Lock()
        self._kept: OrderedDict[str, S] = OrderedDict()
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
                self._kept[key] = state
                self._kept.move_to_end(key)
            before = self._settings(state)
            if key in self._assumed:
                self._assumed.discard(key)
                warn = False
        if before != value:
            cast("Any", state).configure(value)
            if warn and numbers(before) != numbers(value):
                text = f"{self._sort} {key!r} was {before!r}, is {value!r} now: the last one wins, for all who use it"
        self._warn(text)
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
        lost = self._forget() if len(self._kept) >= MOST else ""
        state = self._kept[key] = self._used[key] = self._make(key, value)
        return state, lost

    def _forget(self) -> str:
        # The first of those that say least: a circuit in force goes only when all the others are in force, too.
        forgotten, least = "", IN_FORCE + 1
        for key, state in self._kept.items():
            worth = self._worth(state)
            if worth < least:
                forgotten, least = key, worth
            if worth == 0:
                break
        del self._kept[forgotten]
        self._assumed.discard(forgotten)
        if least < IN_FORCE:
            return ""
        return f"{self._sort} {forgotten!r} is forgotten while in force: so are {MOST} others"

    @staticmethod
    def _warn(text: str) -> None:
        if text:
            warnings.warn(text, UserWarning, stacklevel=4)


def numbers(value: Any) -> Any:
    """Return what two users of one name have to agree on."""
    # What counts is decided by each policy for itself: two that differ in that can share a circuit.
    return attrs.evolve(value, on=(), ignore=()) if hasattr(value, "ignore") else value
