"""All built-in rules of `suggest`: by what was refused, and by what the failure itself knows (waits, limits, names).

Rule: a rule that has nothing to look at says nothing; the general advice is in the failure's own suggestions already.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, cast

from ...errors import Executed, Failure
from .clues import NO_COMMAND, NO_WATCHES, Clue, clue_of
from .missing_rules import missing_file, missing_program
from .near_misses import close_names
from .port_owners import port_taken
from .refused_rules import (
    exists_already,
    is_a_directory,
    no_space,
    no_watches,
    not_a_directory,
    not_empty,
    not_permitted,
    on_read_only,
)
from .suggestion_context import Fix, SuggestionContext
from .suggestion_texts import texts_of


_MOST_FIXES: Final = 20  # of one rule
_MOST_NAMES: Final = 8  # listed when none is spelled alike
_CONTEXT_ADVICE: Final = {
    "compact_history": "compact the history",
    "reduce_tools": "offer fewer tools",
    "start_new_session": "start a new session",
}
_TOKENS = (
    re.compile(r"(?<![\d.,])(\d{1,9}) tokens > (\d{1,9}) maximum"),  # Anthropic
    re.compile(r"resulted in (?P<current>\d{1,9}) tokens"),  # OpenAI, and what it says before that
)
_MAXIMUM = re.compile(r"maximum context length is (\d{1,9}) tokens")
_QUOTED = re.compile(r"['\"\u2018`]([^'\"\u2019`]{1,100})['\"\u2019`]")
_AFTER_COLON = re.compile(r": ([\w./-]{1,100})(?=$| \()")
_THING: Final = r"(?:tool|argument|keyword|option|param(?:eter)?|field|method|function|command|model|name|property|key)s?\b"
_UNKNOWN = re.compile(
    rf"\b(?:unknown|unrecogni[sz]ed|unsupported|no such|unexpected|invalid) (?:\w+ ){{0,2}}?{_THING}"
    rf"|\b{_THING}.{{0,60}}(?:not found|does not exist)",
    re.IGNORECASE,
)


def wait_as_asked(failure: Failure, context: SuggestionContext) -> Iterator[Fix]:
    """Yield how long to wait, and until when: the moment that was told, or the seconds from now."""
    moment = failure.details.get("retry_at")
    seconds = failure.retry_after
    if isinstance(moment, int | float):
        seconds = moment - context.now.timestamp()
    if seconds is None or not (failure.retryable or failure.stopped == "retry_after"):
        return
    if seconds <= 0:
        is_safe = failure.executed is Executed.NO  # what may have run is not to be run twice on our word
        yield Fix(f"the time to wait is over: {'' if is_safe else 'find out whether it ran, else '}repeat it")
        return
    until = ""
    with suppress(OverflowError, ValueError):  # beyond the last year there is
        until = f", until {_clock(context.now, math.ceil(seconds))}"
    yield Fix(f"wait {math.ceil(seconds)} s{until}")


def _clock(now: datetime, seconds: int) -> str:
    # A wait is a lower bound: a fraction of a second counts as a whole one.
    end = (now.astimezone(UTC) + timedelta(seconds=seconds, microseconds=999_999)).replace(microsecond=0)
    shown = end.strftime("%H:%M:%SZ")
    return shown if end.date() == now.astimezone(UTC).date() else f"{end:%Y-%m-%d} {shown}"


def shorten_context(failure: Failure, _: SuggestionContext) -> Iterator[Fix]:
    """Yield by how much a context is too long, and the way to shorten it that was told to help."""
    details = failure.details
    if failure.code != "SYS_CONTEXT_OVERFLOW" and details.get("reason") != "context_length_exceeded":
        return
    advice = _CONTEXT_ADVICE.get(str(details.get("suggestion")), "compact the history, or offer fewer tools")
    current, most = details.get("current_tokens"), details.get("max_tokens")
    if not (isinstance(current, int) and isinstance(most, int)):
        current, most = _token_counts(failure)
    if current > most > 0:
        yield Fix(f"{advice}: {current} tokens are {current - most} more than the {most} that fit")
    elif "suggestion" in details:
        yield Fix(advice)


def _token_counts(failure: Failure) -> tuple[int, int]:
    for line in texts_of(failure):
        if (both := _TOKENS[0].search(line)) is not None:
            return int(both[1]), int(both[2])
        current, most = _TOKENS[1].search(line), _MAXIMUM.search(line)
        if current is not None and most is not None:
            return int(current[1]), int(most[1])
    return 0, 0


def change_request(failure: Failure, _: SuggestionContext) -> Iterator[Fix]:
    """Yield what a refusal on grounds of content leaves to do."""
    if failure.details.get("reason") == "content_policy_violation":
        yield Fix(f"change the request: {_provider(failure)} refused it for its content, not for the moment")


def raise_quota(failure: Failure, _: SuggestionContext) -> Iterator[Fix]:
    """Yield where an exhausted quota is raised."""
    if failure.details.get("reason") == "quota_exhausted":
        yield Fix(f"raise the limit or add credit at {_provider(failure)}: to repeat it now does not help")


def _provider(failure: Failure) -> str:
    named = failure.details.get("provider_id")
    return named if isinstance(named, str) and named else "the provider"


def approve_spending(failure: Failure, _: SuggestionContext) -> Iterator[Fix]:
    """Yield what was spent, of how much, and that a person may approve more."""
    if failure.code != "SYS_SPEND_LIMIT" or failure.details.get("reason") == "cancelled":
        return
    from decimal import Decimal, InvalidOperation

    try:
        spent, limit = (Decimal(str(failure.details[name])) for name in ("spent", "limit"))
    except (KeyError, InvalidOperation):
        return
    if spent.is_finite() and limit.is_finite():
        yield Fix(f"have a person approve more, or cancel: {spent} of {limit} are spent")


def name_alike(failure: Failure, context: SuggestionContext) -> Iterator[Fix]:
    """Yield names that exist and are spelled like the one that does not."""
    is_tool = failure.code == "TOOL_NOT_FOUND"
    if not context.names or not (is_tool or _is_about_a_name(failure)):
        return
    wanted = [name for name in dict.fromkeys(_names_in(failure)) if name not in context.names]
    found = [near for name in wanted for near in close_names(name, context.names)]
    for near in dict.fromkeys(found):
        yield Fix(f"did you mean {near}?")
    if is_tool and not found:
        listed = ", ".join(sorted(context.names)[:_MOST_NAMES])
        more = len(context.names) - _MOST_NAMES
        yield Fix(f"call one of these: {listed}{f' and {more} more' if more > 0 else ''}")


def _is_about_a_name(failure: Failure) -> bool:
    return failure.code in {"TOOL_ARGUMENTS_INVALID", "PROTO_UNKNOWN_TYPE"} or any(
        _UNKNOWN.search(line) for line in texts_of(failure)
    )


def _names_in(failure: Failure) -> Iterator[str]:
    """Yield what may be the name that was not known: as the details have it, then as the text does."""
    details = failure.details
    for key in ("tool", "name", "received"):
        if isinstance(value := details.get(key), str):
            yield value
    violations: object = details.get("violations")
    if isinstance(violations, tuple):  # they name what is wrong; what their words quote is something else
        for violation in cast("tuple[object, ...]", violations):
            if isinstance(violation, Mapping):
                row = cast("Mapping[str, Any]", violation)
                yield str(row.get("field", "")).rpartition(".")[2]
        return
    for line in texts_of(failure):
        yield from _QUOTED.findall(line)
        yield from _AFTER_COLON.findall(line)


FailureRule: TypeAlias = Callable[[Failure, SuggestionContext], Iterable[Fix]]
ClueRule: TypeAlias = Callable[[Clue, SuggestionContext], Iterable[Fix]]

BY_SYMBOL: Final[Mapping[str, ClueRule]] = {
    "ENOENT": missing_file,
    NO_COMMAND: missing_program,
    "EACCES": not_permitted,
    "EPERM": not_permitted,
    "EROFS": on_read_only,
    "EISDIR": is_a_directory,
    "ENOTDIR": not_a_directory,
    "EEXIST": exists_already,
    "ENOTEMPTY": not_empty,
    "ENOSPC": no_space,
    NO_WATCHES: no_watches,
}
"""What to look at, by what the system refused."""

BY_FAILURE: Final[tuple[FailureRule, ...]] = (
    wait_as_asked,
    shorten_context,
    approve_spending,
    raise_quota,
    change_request,
    name_alike,
)
"""What the failure itself tells; each rule sees for itself whether it has a say."""


def fixes(failure: Failure, context: SuggestionContext) -> list[Fix]:
    """Return what the built-in rules find, the likeliest first; a rule that breaks ends with what it had found."""
    found: list[Fix] = []
    for rule in BY_FAILURE:
        found += collected(rule, failure, context)
    for clue in collected(lambda: [clue_of(failure, context)]):
        if (look := BY_SYMBOL.get(clue.symbol)) is not None:
            found += collected(look, clue, context)
        if clue.symbol == "EADDRINUSE":
            found += collected(port_taken, failure, context)
    return found


def collected(rule: Callable[..., Iterable[Any]], *passed: Any) -> list[Any]:
    """Return the first of what a rule yields for what it is given, and what it had yielded if it breaks."""
    found: list[Any] = []
    with suppress(Exception):  # advice that cannot be had must not hide the failure that it was for
        for item in itertools.islice(rule(*passed), _MOST_FIXES):
            found.append(item)  # noqa: PERF402 (what was found before it broke counts)
    return found
