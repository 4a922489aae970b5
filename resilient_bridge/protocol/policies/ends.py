"""How a server ends and refuses connections, as rules.

They say what a close code, an HTTP status or the server's own error code means.

Rule: the first rule that fits decides; without one the general table does (`losses`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import attrs

from ...values.fields import Value, as_tuple, is_count, one_of, path_of, refuse, wants


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...failure import Failure


Meaning: TypeAlias = Literal[
    "auth",
    "auth_expired",
    "session_gone",
    "position_gone",
    "superseded",
    "unsupported",
    "too_big",
    "busy",
    "misuse",
    "passing",
]
"""What the end of a connection means to the client."""

#: what each means in the codes that every other part reads
CODES: Final[Mapping[Meaning, str]] = {
    "auth": "AUTH_FORBIDDEN",
    "auth_expired": "AUTH_TOKEN_EXPIRED",
    "session_gone": "SESS_NOT_FOUND",
    "position_gone": "CONN_WEBSOCKET_CLOSED",
    "superseded": "SESS_SUPERSEDED",
    "unsupported": "SYS_CONFIG_INVALID",
    "too_big": "PROTO_MESSAGE_TOO_BIG",
    "busy": "CONN_WEBSOCKET_CLOSED",
    "misuse": "SYS_CONFIG_INVALID",
    "passing": "CONN_WEBSOCKET_CLOSED",
}


_BUSY: Final = 5.0  # seconds, where a busy server does not say when to come back


def _as_range(value: Any) -> tuple[Any, ...] | None:
    if value is None:
        return None
    return as_tuple(value) if isinstance(value, (tuple, list)) else (value, value)


def _range(
    instance: object, attribute: attrs.Attribute[Any], value: tuple[Any, ...] | None
) -> None:
    if value is not None and (
        len(value) != 2 or not all(is_count(each, 100) for each in value) or value[0] > value[1]
    ):
        refuse(path_of(instance, attribute), "a number, or the first and last of a range", value)


@wants("an error code of the server")
def _something(end: End, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        refuse(path_of(end, attribute), "an error code of the server's", value)
    if end.close is None and end.status is None and value is None:
        refuse("End", "a close code, a status or an error code", "none of them")


@attrs.frozen(kw_only=True, repr=False, eq=False)
class End(Value):
    """One rule: what a close code, an HTTP status or a code of the server means.

    `close` is a close code or (first, last), `status` an HTTP status or range, `code` an error code
    of the server.

    `means`: "auth", these credentials will never do; "auth_expired", ask for them once more;
    "session_gone", the server has forgotten the session; "position_gone", it cannot replay from our
    positions; "superseded", another client took the session; "unsupported" and "misuse", the next
    connection would end in the same way; "too_big"; "busy", come back later; "passing", connect
    again. ConfigError names a bad field.
    """

    means: Meaning = attrs.field(validator=one_of(*get_args(Meaning)))
    close: tuple[int, int] | int | None = attrs.field(
        default=None, converter=_as_range, validator=_range
    )
    status: tuple[int, int] | int | None = attrs.field(
        default=None, converter=_as_range, validator=_range
    )
    code: str | None = attrs.field(default=None, validator=_something)

    def fits(self, failure: Failure) -> bool:
        """Does this failure fall under the rule?"""
        details = failure.details
        close = details.get("close_code") if details.get("close_by") == "peer" else None
        found = ((self.close, close), (self.status, details.get("http_status")))
        if any(_is_in(wanted, got) for wanted, got in found):
            return True
        return self.code is not None and self.code in {failure.code, details.get("server_code")}


def _is_in(wanted: Any, got: Any) -> bool:
    return wanted is not None and isinstance(got, int) and wanted[0] <= got <= wanted[1]


def by_rules(failure: Failure, ends: Iterable[End]) -> tuple[Failure, Meaning | None]:
    """Return the failure with the code and the meaning of the first rule that fits.

    It is unchanged if none does.
    """
    for end in ends:
        if end.fits(failure):
            return _meaning(failure, end.means), end.means
    return failure, None


def _meaning(failure: Failure, means: Meaning) -> Failure:
    from ...failure import Failure as Made  # here: most servers have no rules

    wait = failure.retry_after
    # By its status or close code it might be final: the rule knows better.
    general: set[str] = (
        set()
        if means not in {"passing", "busy", "position_gone"}
        else {"http_status", "close_code"}
    )
    details = {name: value for name, value in failure.details.items() if name not in general}
    # What the server advises, or what its own code means, says more than the rule's general code.
    is_more = failure.category == "AUTH" or failure.suggestions != Made.of(failure.code).suggestions
    return Made.of(
        CODES[means],
        failure.message,
        cause=failure.cause,
        details={**details, "means": means},
        retry_after=_BUSY if wait is None and means == "busy" else wait,
        executed=failure.executed,
        suggestions=failure.suggestions if is_more else (),
    )
