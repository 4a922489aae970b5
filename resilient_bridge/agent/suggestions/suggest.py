"""Ranked suggestions for a failure, each checked when it is made: `suggest(failure)`.

Rule: what was found for this failure comes before its general hints. The search only reads, and a
rule that raises is skipped.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, cast

import attrs

from ...failure import Failure, classify, config_error, redact
from ...failure.registry import InForce
from ...failure.what import What, is_what, plain, rank
from ...values.rule import refuse_what
from .missing_file import missing_file
from .missing_path import missing_path
from .near_misses import SearchAllowance
from .suggestion_context import Fix, SuggestionContext, SuggestionRule


_MOST: Final = 6
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_MOST_OF_RULE: Final = 20


@attrs.frozen(eq=False)
class SuggestionRegistration(InForce):
    """One registered rule."""

    in_force: ClassVar[dict[int, SuggestionRegistration]] = {}
    what: What
    rule: SuggestionRule


class Suggester:
    """`suggest(failure)`: what to do about it; `suggest.register(...)` adds a rule.

        failure = rb.Failure.of("SYS_RATE_LIMITED")
        print(rb.agent.suggest(failure)[0])      # wait, then repeat; slow down if it recurs

    `suggest` is the only instance: registered rules apply to the whole process.
    """

    __slots__ = ()

    def __call__(
        self,
        failure: Failure | BaseException,
        /,
        *,
        arguments: Mapping[str, Any] = _NOTHING,
        directory: str | os.PathLike[str] | None = None,
    ) -> tuple[str, ...]:
        """Return at most six suggestions, the likeliest first, each one line without secrets.

        First come those of registered rules, then what was found for a missing file (paths spelled
        alike, the same path in a parent directory, backups that are not empty, how to create it),
        then the failure's own hints. Every path that is named exists, and a command is named only
        if its program is installed and its target can be written to.

        `arguments` are those of the failed call; relative paths begin in `directory` (default: the
        working directory). An exception is classified first; CancelledError and its like are raised
        again.

        Nothing is changed on the disk. The search reads at most 5,000 directory entries in a fifth
        of a second, and looks for a relative path no higher than the root of the project. In async
        code: `await asyncio.to_thread(suggest, failure)`. Raises ConfigError for an argument of the
        wrong type.
        """
        failure = _as_failure(failure)
        context = _context(arguments, directory)
        found = itertools.chain(
            _registered_fixes(failure, context),
            (fix.text for fix in fixes(failure, context)),
            failure.suggestions,
        )
        safe = (redact(text).strip() for text in found)
        return tuple(itertools.islice(dict.fromkeys(text for text in safe if text), _MOST))

    def register(self, what: What, rule: SuggestionRule, /) -> SuggestionRegistration:
        """Add a rule to every later `suggest`.

        Returns the registration, a context manager that ends it. `what` says for which failures, as
        in `Retry(on=)`: an exception class, `named("package", "Class")`, an int (HTTP status, close code,
        JSON-RPC code), one of our codes, a compiled pattern, a Category, a Kind or a predicate.

        `rule(failure, context)` returns texts. The rule for the most specific `what` comes first;
        among equals the latest. A rule that raises adds only what it had yielded before. Raises
        ConfigError for anything else.
        """
        if not is_what(what):
            refuse_what("suggest.register.what", what)
        if not callable(rule):
            raise config_error(
                "suggest.register.rule", "a function of a failure and a context", rule
            )
        registration = SuggestionRegistration(plain(what), rule)
        SuggestionRegistration.in_force[registration.number] = registration
        return registration

    def __repr__(self) -> str:
        return "suggest"


suggest: Final = Suggester()


def _as_failure(value: object) -> Failure:
    # not isinstance, which would ask the error for its __class__
    if issubclass(type(value), BaseException):
        return classify(cast("BaseException", value))
    if isinstance(value, Failure):
        return value
    raise config_error("suggest.failure", "a Failure or an exception", value)


def _context(arguments: object, directory: str | os.PathLike[str] | None) -> SuggestionContext:
    if not isinstance(arguments, Mapping):
        raise config_error(
            "suggest.arguments", "a mapping of names to values", type(arguments).__name__
        )
    return SuggestionContext(
        arguments=cast("Mapping[str, Any]", arguments),
        directory=_directory(directory),
        look=SearchAllowance(),
    )


def _directory(value: object) -> Path | None:
    if value is not None and not isinstance(value, str | os.PathLike):
        raise config_error("suggest.directory", "a path", value)
    try:
        if value is None:
            return Path.cwd()
        path = os.fsdecode(cast("str", value))
        return Path(os.path.abspath(path))  # noqa: PTH100 -- without following links
    except OSError:  # the working directory was removed
        return None


def fixes(failure: Failure, context: SuggestionContext) -> list[Fix]:
    """Return what was found on the disk for this failure, the likeliest first."""
    return _collected(_found, failure, context)


def _found(failure: Failure, context: SuggestionContext) -> Iterator[Fix]:
    missing = missing_path(failure, context)
    return iter(()) if missing is None else missing_file(missing, context)


def _registered_fixes(failure: Failure, context: SuggestionContext) -> Iterator[str]:
    """Yield the texts of registered rules, the most specific first."""
    fitting: list[tuple[tuple[int, int], int, SuggestionRule]] = []
    for number, registration in list(SuggestionRegistration.in_force.items()):
        with suppress(Exception):  # the user's predicate
            if (fit := rank(registration.what, failure)) is not None:
                fitting.append((fit, -number, registration.rule))
    for _, _, rule in sorted(fitting, key=lambda found: found[:2]):
        yield from _collected(_texts, rule, failure, context)


def _texts(rule: SuggestionRule, failure: Failure, context: SuggestionContext) -> Iterator[str]:
    suggested: object = rule(failure, context)
    items = [suggested] if isinstance(suggested, str) else cast("Iterable[object]", suggested)
    return (item for item in items if isinstance(item, str))


def _collected(rule: Callable[..., Iterable[Any]], *arguments: Any) -> list[Any]:
    """Return the first items of a rule; if it raises, those it had yielded before."""
    found: list[Any] = []
    with suppress(Exception):  # a rule that fails must not hide the failure that it was asked about
        for item in itertools.islice(rule(*arguments), _MOST_OF_RULE):
            found.append(item)  # noqa: PERF402 -- what was found before the error counts
    return found
