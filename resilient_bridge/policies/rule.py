"""A rule for one sort of failure, and the search for the rule that fits best.

What a rule is for is said in one vocabulary (`What`). Rule of this file: the most specific key that matches wins, so a table
may hold the general and the particular side by side, in any order.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs

from ..errors import PREFIXES, Category, Kind, error_for
from .backoff import Backoff
from .fields import Value, count, instance_of, optional, path_of, refuse, shown


if TYPE_CHECKING:
    from ..errors import Failure

__all__ = ["Rule", "Rules", "What", "as_rules", "check_rules", "most_specific"]

What: TypeAlias = "type[BaseException] | tuple[str, str] | int | str | re.Pattern[str] | Category | Kind | Callable[[Failure], bool]"

_WANTED: Final = (
    "an exception class, (package, class name), an int, one of our codes, a compiled pattern, "
    "a Category, a Kind or a predicate"
)
_PAIR: Final = 2  # ("package", "Class")
_NUMBERS: Final = ("http_status", "close_code")  # where a failure carries a number
# From the particular to the general. A named number says more than a class (1012 among all closes); a class of one's own says
# more than our code, its base classes less; the two classes that hold everything come last.
_NUMBER, _CLASS, _MESSAGE, _OUR_CODE, _PREDICATE, _BASE_CLASS, _CATEGORY, _KIND, _ANYTHING = range(9)


def _callable(instance: Rule, attribute: attrs.Attribute[Any], value: object) -> None:
    if not callable(value):
        refuse(path_of(instance, attribute), "a function without arguments, or None", value)


@attrs.frozen(kw_only=True, repr=False)
class Rule(Value):
    """How one sort of failure is repeated; None leaves that part to the policy the rule stands in.

    `attempts` counts this failure's attempts, `backoff` is its own schedule (R6), and `before` runs first, sync or async:
    refresh a token on 401. Raises ConfigError for anything else.
    """

    attempts: int | None = attrs.field(default=None, validator=optional(count))
    backoff: Backoff | None = attrs.field(default=None, validator=optional(instance_of(Backoff)))
    before: Callable[[], Awaitable[None] | None] | None = attrs.field(
        default=None, validator=optional(_callable)
    )


class Rules(Mapping[Any, Rule]):
    """An immutable table of What to Rule: equal by content, hashable, picklable."""

    __slots__ = ("_hash", "_rules")

    def __init__(self, rules: Mapping[Any, Rule] | None = None) -> None:
        """Copy `rules`; the entries are checked by `check_rules`, which knows whose they are."""
        self._rules = {_plain(what): rule for what, rule in (rules or {}).items()}
        self._hash: int | None = None

    def __getitem__(self, what: object) -> Rule:
        """Return the rule written under exactly this key."""
        return self._rules[what]

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys as written."""
        return iter(self._rules)

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self._rules)

    def __hash__(self) -> int:
        """Hash by content, whatever the order."""
        if self._hash is None:
            self._hash = hash(frozenset(self._rules.items()))
        return self._hash

    def __repr__(self) -> str:
        """Return the table as a dict: that is how it is written."""
        return "{" + ", ".join(f"{_name(key)}: {rule!r}" for key, rule in self._rules.items()) + "}"

    def __reduce__(self) -> tuple[type[Rules], tuple[dict[Any, Rule]]]:
        """Pickle the entries."""
        return (Rules, (self._rules,))


def as_rules(rules: Mapping[Any, Rule]) -> Mapping[Any, Rule]:
    """Return any mapping as a table; hands through what is none."""
    given: Any = cast("Any", rules)
    return Rules(cast("Mapping[Any, Rule]", given)) if isinstance(given, Mapping) else given


def check_rules(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Validate a field that holds a table."""
    path = path_of(instance, attribute)
    if not isinstance(value, Rules):
        refuse(path, "a mapping of what to Rule", value)
    for what, rule in cast("Mapping[object, object]", value).items():
        if not _is_what(what):
            refuse(path, f"keys that are {_WANTED}", what)
        if not isinstance(rule, Rule):
            refuse(f"{path}[{_name(what)}]", "a Rule", rule)


def most_specific(rules: Mapping[Any, Rule], failure: Failure) -> Rule | None:
    """Return the rule whose key fits `failure` best, or None.

    From the particular to the general: a number it carries (HTTP status, close code), the very class of its cause, a pattern in
    its message, its code, a predicate, a base class (the nearest first), its category, its kind, `Exception`. Of two
    that fit equally the first one written wins.
    """
    best: Rule | None = None
    best_rank: tuple[int, int] | None = None
    for what, rule in rules.items():
        rank = _rank(what, failure)
        if rank is not None and (best_rank is None or rank < best_rank):
            best, best_rank = rule, rank
    return best


def _rank(what: Any, failure: Failure) -> tuple[int, int] | None:
    """Return how closely `what` fits, smaller is closer; None when it does not."""
    if isinstance(what, type | tuple):
        return _class_rank(cast("type | tuple[str, str]", what), failure)
    if isinstance(what, Category):
        tier, fits = _CATEGORY, failure.category is what
    elif isinstance(what, Kind):
        tier, fits = _KIND, failure.kind is what
    elif isinstance(what, str):
        tier, fits = _OUR_CODE, failure.code == what
    elif isinstance(what, int):
        tier, fits = _NUMBER, any(failure.details.get(name) == what for name in _NUMBERS)
    elif isinstance(what, re.Pattern):
        tier, fits = _MESSAGE, cast("re.Pattern[str]", what).search(failure.message) is not None
    else:
        tier, fits = _PREDICATE, bool(what(failure))
    return (tier, 0) if fits else None


def _class_rank(what: type | tuple[str, str], failure: Failure) -> tuple[int, int] | None:
    """Look for a class, or for ("package", "Class") without importing it, among the classes of the failure."""
    found = [
        (
            _ANYTHING if base in (Exception, BaseException) else tier if distance == 0 else _BASE_CLASS,
            distance,
        )
        for tier, kind in _classes(failure)
        for distance, base in enumerate(kind.__mro__)
        if base is what or (base.__module__.partition(".")[0], base.__name__) == what
    ]
    return min(found, default=None)


def _classes(failure: Failure) -> Iterator[tuple[int, type[BaseException]]]:
    if failure.cause is not None:
        yield _CLASS, type(failure.cause)
    # What we would raise for it counts too, but only as a family: AuthError says less than AUTH_TOKEN_EXPIRED.
    yield _BASE_CLASS, type(error_for(failure))


def _is_what(what: object) -> bool:
    if isinstance(what, str):
        code = not isinstance(what, Enum) and what.startswith(tuple(PREFIXES))
        return code or isinstance(what, Category | Kind)
    if isinstance(what, tuple):
        pair = cast("tuple[object, ...]", what)
        return len(pair) == _PAIR and all(isinstance(part, str) and part for part in pair)
    if isinstance(what, re.Pattern):
        return isinstance(cast("Any", what).pattern, str)
    if isinstance(what, type):
        return issubclass(what, BaseException)
    return callable(what) or (isinstance(what, int) and not isinstance(what, bool))


def _plain(what: object) -> object:
    # HTTPStatus.TOO_MANY_REQUESTS is 429: so the repr stays an expression.
    return int(what) if isinstance(what, int) and not isinstance(what, bool) else what


def _name(what: object) -> str:
    if isinstance(what, Category | Kind):
        return f"{type(what).__name__}.{what.name}"
    if isinstance(what, type):
        return what.__qualname__
    return shown(what)
