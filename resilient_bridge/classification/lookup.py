"""From an exception to its failure: which rule speaks, about which error of a chain or a group.

Rule: dispatch is on (top package, class name) along the MRO, remembered per class; nothing is imported to be
recognised, and no exception, however broken, breaks the classifier. A new rule is a new row in a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import attrs

from ..errors import BridgeError, Failure, text_of
from . import links, system, tls, wrappers
from .finding import Finding, Reader, short_of
from .statuses import status_finding


_Rule: TypeAlias = Finding | Reader

_RULES: dict[tuple[str, str], _Rule] = {**system.RULES, **tls.RULES, **links.RULES, **wrappers.RULES}
_STOPS = frozenset(  # never failures: they end the task, the program or a generator
    {
        ("builtins", "KeyboardInterrupt"),
        ("builtins", "SystemExit"),
        ("builtins", "GeneratorExit"),
        ("asyncio", "CancelledError"),
        ("concurrent", "CancelledError"),
        ("trio", "Cancelled"),
    }
)
_ANSWERS = frozenset({("httpx", "Response"), ("httpx2", "Response"), ("websockets", "Response")})
_LONGEST_CHAIN = 100
_MOST_LEAVES = 1_000
_DEEPEST = 20  # groups below wrappers below groups
_MOST_CLASSES = 1_024


@attrs.frozen
class _Dispatch:
    rules: tuple[_Rule, ...]
    wraps: bool
    stops: bool
    answer: bool


_dispatches: dict[type, _Dispatch] = {}


def dispatch(cls: type) -> _Dispatch:
    """Return what is known about a class, worked out once."""
    known = _dispatches.get(cls)
    if known is None:
        if len(_dispatches) >= _MOST_CLASSES:  # classes made at run time must not pile up
            _dispatches.clear()
        keys = [(_package(base), base.__name__) for base in cls.__mro__]
        known = _dispatches[cls] = _Dispatch(
            rules=tuple(_RULES[key] for key in keys if key in _RULES),
            wraps=any(key in wrappers.WRAPPERS for key in keys),
            stops=any(key in _STOPS for key in keys),
            answer=any(key in _ANSWERS for key in keys),
        )
    return known


def _package(cls: type) -> str:
    module = cast("object", cls.__module__)  # whatever a class was given for one
    return module.partition(".")[0] if isinstance(module, str) else ""


def failure_of(error: BaseException, depth: int = 0) -> Failure:
    """Return the failure of an exception; raises what is none (CancelledError and its like) again."""
    if (group := _as_group(error)) is not None:
        failure = _of_group(group, depth)
        if failure is None:  # nothing but cancellation
            raise group
        return failure
    if dispatch(type(error)).stops:
        raise error
    root = _root(error)
    if (group := _as_group(root)) is not None and depth < _DEEPEST:
        below = _of_group(group, depth + 1)
        if below is not None:
            return attrs.evolve(below, cause=error)
    found = _find(root)
    if found is None and root is not error:  # nothing known below: the wrapper speaks for itself
        root, found = error, _find(error)
    if isinstance(found, Failure):
        return found
    return (found or _unknown(root)).failure(error, root)


def answer_failure(answer: object) -> Failure | None:
    """Return the failure an answer stands for, None when it is a success or nothing we know."""
    if not dispatch(type(answer)).answer:
        return None
    response = cast("Any", answer)
    status = response.status_code
    if not isinstance(status, int) or status < 400:
        return None
    body = response.body if hasattr(response, "body") else _content(response)
    return status_finding(status, response.headers, body).failure()


def _find(error: BaseException) -> Finding | Failure | None:
    if isinstance(error, BridgeError):
        return error.failure
    for rule in dispatch(type(error)).rules:
        if isinstance(rule, Finding):
            return rule
        try:
            found = rule(error)
        except Exception:  # noqa: BLE001, S112 (an exception without the attributes of its class is still a failure)
            continue
        if found is not None:
            return found
    return None


def _unknown(error: BaseException) -> Finding:
    """Return the verdict on what nobody has a rule for: internal, not retryable (S10)."""
    return Finding(code="SYS_INTERNAL_ERROR", message=type(error).__name__ + short_of(text_of(error)))


def _root(error: BaseException) -> BaseException:
    """Return the first error below wrappers that is none itself; the error, if it wraps nothing worth knowing."""
    seen: set[int] = set()
    current = error
    for _ in range(_LONGEST_CHAIN):
        if not dispatch(type(current)).wraps:
            return current
        seen.add(id(current))
        below = current.__cause__ if current.__cause__ is not None else current.__context__
        if below is None or id(below) in seen or dispatch(type(below)).stops:
            return current
        current = below
    return error


def _as_group(error: BaseException) -> BaseExceptionGroup[BaseException] | None:
    return cast("BaseExceptionGroup[BaseException]", error) if isinstance(error, BaseExceptionGroup) else None


def _of_group(group: BaseExceptionGroup[BaseException], depth: int) -> Failure | None:
    failures = [failure_of(leaf, depth) for leaf in _leaves(group)]
    if not failures:
        return None
    # Several: repeating helps only if it helps all of them; then not before the last of them is ready.
    worst = next((failure for failure in failures if not failure.retryable), failures[0])
    waits = [failure.retry_after for failure in failures if failure.retry_after is not None]
    wait = max(waits, default=None) if worst.retryable else worst.retry_after
    return attrs.evolve(worst, cause=group, retry_after=wait)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the group's leaves without cancellations, in order and without recursion; stops are raised again."""
    leaves: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending and len(leaves) < _MOST_LEAVES:
        error = pending.pop()
        if (inner := _as_group(error)) is not None:
            pending.extend(reversed(inner.exceptions))
        elif not dispatch(type(error)).stops:
            leaves.append(error)
        elif not _is_cancellation(error):
            raise group
    return leaves


def _is_cancellation(error: BaseException) -> bool:
    return _package(type(error)) != "builtins"


def _content(response: Any) -> bytes | None:
    try:
        content = response.content
    except Exception:  # noqa: BLE001 (httpx raises while the body of a stream is unread)
        return None
    return content if isinstance(content, bytes) else None


def rules() -> Mapping[tuple[str, str], _Rule]:
    """Return the table in use, for the tests that read it."""
    return _RULES
