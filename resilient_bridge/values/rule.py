"""A rule for one sort of failure, and the search for the rule that fits best.

Rules are keyed by one vocabulary (`What`). The most specific matching key wins, so a table may hold
general and particular rules in any order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

import attrs

from ..failure.source_text import shown
from ..failure.what import WANTED, WORDS, What, is_tenacity, is_what, meant, plain, rank
from .backoff import WaitSchedule, check_wait
from .fields import Value, count, fits, optional, path_of, refuse, wants


if TYPE_CHECKING:
    from ..failure import Failure
    from .fields import Validator


K = TypeVar("K")
V = TypeVar("V")

_check_before: Final = fits(
    "a function without arguments",
    callable,
    refused="a function without arguments, or None",
)


def as_whats(value: What | Collection[What]) -> tuple[What, ...]:
    """Return one What, or a collection of them, as a tuple; other values unchanged."""
    received: Any = cast("Any", value)
    # a set has no order of its own: equal sets make equal policies
    if isinstance(received, set | frozenset):
        return tuple(
            sorted((_meant(plain(item)) for item in cast("set[Any]", received)), key=shown)
        )
    if isinstance(received, list | tuple):
        return tuple(_meant(plain(item)) for item in cast("list[Any]", received))
    if isinstance(received, str) and received in WORDS:
        return (WORDS[received],)
    one = is_what(value) or is_tenacity(value, "retry_base")
    return (plain(value),) if one else cast("Any", value)


def _meant(what: Any) -> Any:
    return WORDS.get(what, what) if type(what) is str else what


def whats(*, of_tenacity: bool = False) -> Validator:
    """Return a validator for a tuple of What.

    `of_tenacity` lets one of tenacity's `retry=` objects stand for one.
    """

    @wants("failures")
    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        check_whats(path_of(instance, attribute), value, of_tenacity=of_tenacity)

    return check


def check_whats(path: str, value: object, *, of_tenacity: bool = False) -> None:
    """Raise ConfigError for a value that is no tuple of What, with the position of a wrong item."""
    wanted = f"{WANTED} or one of tenacity's retry objects" if of_tenacity else WANTED
    if not isinstance(value, tuple):
        refuse_what(path, value, f"{wanted}, or a collection of those", words=WORDS)
    items = cast("tuple[object, ...]", value)
    for index, item in enumerate(items):
        if not is_what(item) and not (of_tenacity and is_tenacity(item, "retry_base")):
            refuse_what(f"{path}[{index}]", item, wanted, beside=items, words=WORDS)


def refuse_what(
    path: str,
    item: object,
    wanted: str = WANTED,
    *,
    beside: object = None,
    words: Iterable[str] = (),
) -> NoReturn:
    """Raise ConfigError for what is not in the vocabulary, with what may have been meant.

    `beside`: the collection that it is in.
    """
    refuse(path, meant(item, beside, words) or wanted, item)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Rule(Value):
    """How one sort of failure is repeated.

        limited = rb.Rule(attempts=8, backoff=rb.Backoff.constant(30))
        retry = rb.Retry(attempts=3, rules={"SYS_RATE_LIMITED": limited})

    A field that is None is taken from the surrounding policy.

    `attempts` counts this failure's attempts, `backoff` is its own schedule: a Backoff, a tenacity
    wait or a function of the Attempt. `before` runs first, sync or async: refresh a token on 401.
    Raises ConfigError for anything else.
    """

    attempts: int | None = attrs.field(default=None, validator=optional(count))
    backoff: WaitSchedule | None = attrs.field(default=None, validator=optional(check_wait))
    before: Callable[[], Awaitable[None] | None] | None = attrs.field(
        default=None, validator=optional(_check_before)
    )


class Table(Mapping[K, V]):
    """An immutable table: equal by content, hashable, picklable."""

    __slots__ = ("_entries", "_hash")

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        """Copy the entries; the validator of the field, which knows their owner, checks them."""
        self._entries: dict[K, V] = {plain(key): value for key, value in (entries or {}).items()}
        self._hash: int | None = None

    def __getitem__(self, key: K) -> V:
        """Return what is written under exactly this key."""
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        """Iterate over the keys as written."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def __hash__(self) -> int:
        """Hash by content, whatever the order."""
        if self._hash is None:
            self._hash = hash(frozenset(self._entries.items()))
        return self._hash

    def __repr__(self) -> str:
        """Return the table as a dict: that is how it is written."""
        return (
            "{"
            + ", ".join(f"{shown(key)}: {value!r}" for key, value in self._entries.items())
            + "}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the entries."""
        return type(self), (self._entries,)


class Rules(Table[Any, Rule]):
    """An immutable table of What to Rule: equal by content, hashable, picklable."""

    __slots__ = ()


def as_rules(rules: Mapping[Any, Rule]) -> Mapping[Any, Rule]:
    """Return a mapping as a table; other values unchanged."""
    received: Any = cast("Any", rules)
    if isinstance(received, Rules) or not isinstance(received, Mapping):
        return received
    return Rules(cast("Mapping[Any, Rule]", received))


@wants("a table of failures, each with a rule")
def check_rules(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Validate a field that holds a table."""
    path = path_of(instance, attribute)
    if not isinstance(value, Rules):
        refuse(path, "a mapping of what to Rule", value)
    for what, rule in cast("Mapping[object, object]", value).items():
        if not is_what(what):
            refuse_what(path, what, f"keys that are {WANTED}")
        if not isinstance(rule, Rule):
            refuse(f"{path}[{shown(what)}]", "a Rule", rule)


def most_specific(rules: Mapping[Any, Rule], failure: Failure) -> Rule | None:
    """Return the rule whose key fits `failure` best, or None.

    From the particular to the general: a number it carries (HTTP status, close code), the exact
    class of its cause, a pattern in its message, its code, a predicate, a base class (the nearest
    first), its category, its kind, `Exception`. Of two equal fits the first one written wins.
    """
    best: Rule | None = None
    closest: tuple[int, int] | None = None
    for what, rule in rules.items():
        found = rank(what, failure)
        if found is not None and (closest is None or found < closest):
            best, closest = rule, found
    return best
