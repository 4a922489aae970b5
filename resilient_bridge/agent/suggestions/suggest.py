"""What to do about a failure, looked up at the moment it is asked: `suggest(failure)`.

Rule: nothing is suggested that was not checked just now; the general hints of the failure come after what was found, without a command
whose program is not there. It asks and reads, and changes nothing.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, cast

import attrs

from ...classification import classify
from ...classification.hints import ERRNO_HINTS
from ...classification.registry import InForce
from ...errors import Failure, config_error, redact
from ...values.what import WANTED, What, is_what, plain, rank
from ...world import current_world
from .near_misses import SearchAllowance
from .suggestion_context import SuggestionContext, SuggestionRule
from .suggestion_rules import collected, fixes


_MOST: Final = 6
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_OWN_HINTS: Final = frozenset(itertools.chain.from_iterable(ERRNO_HINTS.values()))
_COMMAND = re.compile(r": `([\w.-]+) [^`]*`")


@attrs.frozen(eq=False)
class SuggestionRegistration(InForce):
    """One registered rule."""

    in_force: ClassVar[dict[int, SuggestionRegistration]] = {}
    what: What
    rule: SuggestionRule


class Suggester:
    """`suggest(failure)`: what to do about it; `suggest.register(...)` adds a rule.

    There is one, `suggest`: rules that are registered hold for the whole process.
    """

    __slots__ = ()

    def __call__(
        self,
        failure: Failure | BaseException,
        /,
        *,
        arguments: Mapping[str, Any] = _NOTHING,
        names: Iterable[str] = (),
        directory: str | os.PathLike[str] | None = None,
    ) -> tuple[str, ...]:
        """Return at most six suggestions, the likeliest first, each one safe line.

        First what registered rules say, then what was checked at this moment (near-miss paths that exist, backups that hold something,
        permissions, free space, ports, how long to wait), then the failure's own hints. A command is named only if its program is on
        the search path and its paths can be written to. `arguments` are those of the failed call, `names` what could have been
        called, `directory` where relative paths begin (the working directory unless said otherwise). An exception is classified
        first, and CancelledError and its like are raised again. Nothing of the file system is changed, and a rule that fails is left
        out. It reads the disk, a fifth of a second at most where there is much to see: in async code
        `await asyncio.to_thread(suggest, failure)`. Raises ConfigError for arguments that cannot be meant.
        """
        failure = _as_failure(failure)
        context = _context(arguments, names, directory)
        found = itertools.chain(
            _registered_fixes(failure, context),
            (fix.text for fix in fixes(failure, context)),
            map(_as_it_can_be_typed, failure.suggestions),
        )
        safe = (redact(text).strip() for text in found)
        return tuple(itertools.islice(dict.fromkeys(text for text in safe if text), _MOST))

    def register(self, what: What, rule: SuggestionRule, /) -> SuggestionRegistration:
        """Add a rule to every later `suggest`, and return the registration, a context manager that ends it.

        `what` says for which failures, as in `Retry(on=)`: an exception class, ("package", "Class"), an int (HTTP status, close code,
        JSON-RPC code), one of our codes, a compiled pattern, a Category, a Kind or a predicate. `rule(failure, context)` returns
        texts; a rule for something more specific is heard first, then the later one. A rule that raises is left out; what it had
        yielded by then counts. Raises ConfigError for anything else.
        """
        if not is_what(what):
            raise config_error("suggest.register.what", WANTED, what)
        if not callable(rule):
            raise config_error("suggest.register.rule", "a function of a failure and a context", rule)
        registration = SuggestionRegistration(plain(what), rule)
        SuggestionRegistration.in_force[registration.number] = registration
        return registration

    def __repr__(self) -> str:
        """Return the name it is known by."""
        return "suggest"


suggest: Final = Suggester()


def _as_failure(value: object) -> Failure:
    if issubclass(type(value), BaseException):  # not isinstance: it would ask the error for its __class__
        return classify(cast("BaseException", value))
    if isinstance(value, Failure):
        return value
    raise config_error("suggest.failure", "a Failure or an exception", value)


def _context(arguments: object, names: object, directory: str | os.PathLike[str] | None) -> SuggestionContext:
    if not isinstance(arguments, Mapping):
        raise config_error("suggest.arguments", "a mapping of names to values", type(arguments).__name__)
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise config_error("suggest.names", "a collection of texts", names)
    return SuggestionContext(
        arguments=cast("Mapping[str, Any]", arguments),
        names=tuple(name for name in cast("Iterable[object]", names) if isinstance(name, str)),
        directory=_directory(directory),
        now=current_world().now(),
        look=SearchAllowance(),
    )


def _directory(value: object) -> Path | None:
    if value is not None and not isinstance(value, str | os.PathLike):
        raise config_error("suggest.directory", "a path", value)
    try:
        return Path.cwd() if value is None else Path(os.path.abspath(os.fsdecode(cast("str", value))))  # noqa: PTH100 (without following links)
    except OSError:  # the working directory was removed
        return None


def _as_it_can_be_typed(hint: str) -> str:
    """Return a hint, without the commands that it names if it is one of our own and a program of theirs is not there."""
    if hint not in _OWN_HINTS:
        return hint
    return _COMMAND.sub(lambda found: found[0] if shutil.which(found[1]) else "", hint)


def _registered_fixes(failure: Failure, context: SuggestionContext) -> Iterator[str]:
    """Yield what registered rules say, the most specific first."""
    fitting: list[tuple[tuple[int, int], int, SuggestionRule]] = []
    for number, registration in list(SuggestionRegistration.in_force.items()):
        with suppress(Exception):  # a predicate of somebody else's
            if (fit := rank(registration.what, failure)) is not None:
                fitting.append((fit, -number, registration.rule))
    for _, _, rule in sorted(fitting, key=lambda found: found[:2]):
        yield from collected(_texts, rule, failure, context)


def _texts(rule: SuggestionRule, failure: Failure, context: SuggestionContext) -> Iterator[str]:
    suggested: object = rule(failure, context)
    items = [suggested] if isinstance(suggested, str) else cast("Iterable[object]", suggested)
    return (item for item in items if isinstance(item, str))
