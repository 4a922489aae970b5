"""The labels of one failure in a metric: six values that identify its kind and origin.

Rule: four of the six have few values and are labels. A session's id has one value per session: it
is attached to a single event (an exemplar, an attribute of a span, a line of a log), and is a label
only on request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from ..failure import Category


if TYPE_CHECKING:
    from ..failure import Failure
    from .event import Event

ErrorSource: TypeAlias = Literal["client", "server", "hook"]

_SERVERS: Final = frozenset({Category.UPSTREAM, Category.AUTH, Category.PROTOCOL})


@attrs.frozen(kw_only=True)
class ErrorMetric:
    """The labels of one failure.

    `category` is the prefix of its code (`CONN_`), `code` the whole of it.

    `source` is `hook` for a hook event that was not valid, `server` for an answer of the server
    (UPSTREAM, AUTH, PROTOCOL), `client` for a failure found on this side: a lost link, a timeout, a
    call that our own layers refused.
    """

    category: str
    code: str
    severity: str
    source: ErrorSource
    session_id: str | None = None
    user_agent: str


def error_metric(
    failure: Failure, event: Event | None = None, *, user_agent: str = ""
) -> ErrorMetric:
    """Return the labels of a failure, with the session id of its event or its details, if they have
    one.

    `user_agent` names this package and its version.
    """
    prefix, _, _ = failure.code.partition("_")
    known = getattr(event, "session_id", None) or failure.details.get("session_id")
    return ErrorMetric(
        category=f"{prefix}_",
        code=failure.code,
        severity=failure.severity.value,
        source=_source(failure, prefix),
        session_id=known if isinstance(known, str) else None,
        user_agent=user_agent,
    )


def _source(failure: Failure, prefix: str) -> ErrorSource:
    if prefix == "HOOK":
        return "hook"
    return "server" if failure.category in _SERVERS else "client"
