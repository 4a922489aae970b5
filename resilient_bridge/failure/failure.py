"""`Failure`: the one record for every failure.

It prints itself for a person, a model, a log and an MCP client.

Rule: a failure holds no secret and no line break, whoever built it; what follows from the code
comes from the table. What its details show is read from plain data: numbers beat names, and names
beat text.
"""

from __future__ import annotations

import errno
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

import attrs

from ..world import current_world
from .errnos import errno_name
from .redaction import (
    READ,
    as_details,
    as_line,
    as_lines,
    class_name,
    name_of,
    raw_text,
    redact_value,
)
from .vocabulary import CODES, MCP_CODES, Category, Executed, Kind, Severity, code_info


_PERMISSION: Final[Mapping[str, tuple[object, ...]]] = {
    "errno": (errno.EACCES, errno.EPERM),
    "exit_code": (126, 77),
    "http_status": (403,),
    "reason": ("permission_denied",),
    "error": ("PermissionError",),  # raised by tools with a text alone, without errno
}
_NOT_FOUND: Final[Mapping[str, tuple[object, ...]]] = {
    "errno": (errno.ENOENT,),
    "exit_code": (127,),
    "http_status": (404, 410),
    "reason": ("not_found",),
    "error": ("FileNotFoundError",),
}
_REFUSED: Final[Mapping[str, tuple[object, ...]]] = {
    "rpc_code": (-32602,),
    "http_status": (422,),
    "error": ("ValidationError",),  # pydantic's, jsonschema's, marshmallow's
}
_INVALID: Final = frozenset(
    {
        "PROTO_INVALID_MESSAGE",
        "HOOK_VALIDATION_FAILED",
        "TOOL_ARGUMENTS_INVALID",
        "SYS_CONFIG_INVALID",
    }
)
_RAN: Final = {
    Executed.NO: "it did not run",
    Executed.MAYBE: "it may have run",
    Executed.YES: "it ran",
}
_UNDECIDED: Final = frozenset(
    {408, 409, 423, 429, 499}
)  # from a server that may have started processing
_REFUSALS: Final = frozenset({-32600, -32602, -32042})


def _shows(details: Mapping[str, Any], signs: Mapping[str, tuple[object, ...]]) -> bool:
    """Return whether a detail is one of these signs.

    Of a text only the part before the colon counts.
    """
    for key, these in signs.items():
        value = details.get(key)
        if (value.partition(":")[0] if isinstance(value, str) else value) in these:
            return True
    return False


def _ran_text(executed: Executed, details: Mapping[str, Any]) -> str:
    """Return, as text for a person, whether the call ran.

    It names a refusal by the server and the number of requests sent.
    """
    if executed is not Executed.MAYBE:
        return _RAN[executed]
    if was_declined(details):
        return "refused by the server"
    sent = details.get("requests_sent")
    if isinstance(sent, int) and sent > 1:
        return f"it may have run ({sent} requests were sent inside of it)"
    return _RAN[executed]


def was_declined(details: Mapping[str, Any]) -> bool:
    """Return whether the server refused the request: it read it, and says that it did nothing."""
    status = details.get("http_status")
    if isinstance(status, int):
        return 400 <= status < 500 and status not in _UNDECIDED
    number = details.get("rpc_code")
    return isinstance(number, int) and number in _REFUSALS


Stopped: TypeAlias = Literal[
    "attempts", "deadline", "budget", "retry_after", "not_idempotent", "not_retryable", "rejected"
]
"""Why a call was not repeated."""

WHY_STOPPED: Final[Mapping[Stopped, str]] = {
    "attempts": "attempts used up",
    "deadline": "no time left before the deadline",
    "budget": "retry budget used up",
    "retry_after": "the server asks for a longer wait than the policy allows",
    "not_idempotent": "it may have run",
    "not_retryable": "the policy does not repeat it",
    "rejected": "the next one was not admitted",
}
"""Each reason for which no further call is made, in words."""


def _as_wait(seconds: float | None) -> float | None:
    # A wait that is not a finite number from 0 on is ignored: asyncio.sleep(nan) stops all timers of the loop.
    return (
        float(seconds) if seconds is not None and math.isfinite(seconds) and seconds >= 0 else None
    )


_LOOK: Final = "find out whether it ran before you call it again: it may have"


@attrs.frozen(kw_only=True, slots=False)
class Failure:
    """One failure, typed, redacted and immutable.

        failure = rb.classify(ConnectionResetError())
        print(failure.code, failure.retryable, failure.executed)      # CONN_RESET True maybe
        print(failure.explain())

    `retryable`: repeating the same call can help. `executed`: the other side can have acted.
    `retry_after`: seconds the other side asked to wait, a lower bound; None when it did not say.
    `details`: plain data; well-known keys are close_code close_text close_by http_status rpc_code
    errno exit_code stdout stderr reason expiry suggested_action violations phase expected received
    provider_id request_id session_id max_retries (repeat no more often than this) error (the native
    error's class and text) retry_at (Unix time). `cause` is the native exception, `history` the
    failures of earlier attempts, `stopped` why no further one was made. `proof` names the row of
    docs/reference/executed.md that `executed=NO` rests on; empty for MAYBE and YES. Equality
    ignores the cause; pickling drops it.
    """

    code: str
    message: str = attrs.field(converter=as_line)
    category: Category
    kind: Kind
    severity: Severity
    retryable: bool
    executed: Executed
    session_valid: bool = True
    retry_after: float | None = attrs.field(default=None, converter=_as_wait)
    suggestions: tuple[str, ...] = attrs.field(default=(), converter=as_lines)
    details: Mapping[str, Any] = attrs.field(
        factory=dict[str, Any],
        converter=as_details,
        hash=False,
        repr=lambda details: repr(dict(details)),
    )
    cause: BaseException | None = attrs.field(
        default=None, eq=False, repr=lambda error: "None" if error is None else class_name(error)
    )
    history: tuple[Failure, ...] = ()
    stopped: Stopped | None = None
    proof: str = ""

    @classmethod
    def of(
        cls,
        code: str,
        message: str = "",
        *,
        category: Category | None = None,
        kind: Kind | None = None,
        severity: Severity | None = None,
        retryable: bool | None = None,
        executed: Executed | None = None,
        proof: str = "",
        session_valid: bool | None = None,
        retry_after: float | None = None,
        suggestions: Iterable[str] | None = None,
        details: Mapping[str, Any] | None = None,
        cause: BaseException | None = None,
        history: tuple[Failure, ...] = (),
        stopped: Stopped | None = None,
    ) -> Failure:
        """Return a failure with this code, the rest filled in from the table of codes.

        None leaves a field to the table. Without a message the code's summary is taken, without
        suggestions its hint. When `retryable` is overridden and `kind` is not, the kind follows.
        Raises ValueError for a code without one of the seven prefixes.
        """
        row = CODES.get(code) or code_info(code)
        repeats = row.retryable if retryable is None else retryable
        ran = executed or row.executed
        follows = (
            Kind.TRANSIENT
            if repeats
            else Kind.PERMANENT
            if row.kind is Kind.TRANSIENT
            else row.kind
        )
        made = object.__new__(cls)
        made.__dict__.update(
            code=code,
            category=category or row.category,
            kind=kind or follows,
            severity=severity or row.severity,
            retryable=repeats,
            executed=ran,
            proof=proof or (OWN_LAYER if ran is Executed.NO else ""),
            session_valid=row.session_valid if session_valid is None else session_valid,
            retry_after=None if retry_after is None else _as_wait(retry_after),
            cause=cause,
            history=history,
            stopped=stopped,
            **raw_fields(
                message.strip() or row.summary,
                tuple(suggestions or ()) or (row.hint,),
                details or {},
            ),
        )
        return made

    def __str__(self) -> str:
        """Return one line, as in `rate limited (UPSTREAM, 429, retry in 12 s)`."""
        facts = self._facts()
        if self.retry_after is not None:
            facts.append(f"retry in {_seconds(self.retry_after)}")
        elif not (self.retryable or self._is_named):
            facts.append("not retryable")
        return f"{self.message} ({', '.join(facts)})"

    def explain(self) -> str:
        """Return the report for a person.

        What happened, whether it ran, the session, what to do; no stack trace.
        """
        session = "the session is valid" if self.session_valid else "the session is gone"
        again = "retryable" if self.retryable else "not retryable"
        if self._is_named and not self.retryable:
            again = "repeated because the policy names it"
        lines = [
            str(self),
            f"{self.code}, {self.severity}: {again}; {_ran_text(self.executed, self.details)}; {session}",
        ]
        lines += [
            f"{key}: {_brief(value)}"
            for key, value in self.details.items()
            if value not in (None, "", ())
        ]
        lines += [
            f"attempt {number}: {what_happened(failure)}"
            for number, failure in enumerate(self.history, 1)
        ]
        if self.stopped is not None:
            lines.append(f"stopped: {self.stopped}")
        lines.append("you can:")
        first = (_LOOK,) if self.stopped == "not_idempotent" else ()
        lines += [
            f"{number}. {advice}" for number, advice in enumerate((*first, *self.suggestions), 1)
        ]
        return "\n".join(lines)

    def to_llm(self) -> str:
        """Return one line of JSON for a model.

        Type, code, message, recoverable, executed, suggestion.
        """
        return json.dumps(model_report(self), ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """Return every field as data that `json.dumps` takes; the cause by its class name only."""
        return {
            "code": self.code,
            "message": self.message,
            "category": self.category.value,
            "kind": _reported_kind(self).value,
            "severity": self.severity.value,
            "retryable": _may_repeat(self),
            "executed": self.executed.value,
            "proof": self.proof,
            "session_valid": self.session_valid,
            "retry_after": self.retry_after,
            "suggestions": list(self.suggestions),
            "details": _jsonable(dict(self.details)),
            "cause": None if self.cause is None else class_name(self.cause),
            "history": [earlier.to_dict() for earlier in self.history],
            "stopped": self.stopped,
        }

    def to_report(
        self,
        at: datetime | None = None,
        *,
        tool: str | None = None,
        provider: str | None = None,
        attempt: int | None = None,
    ) -> dict[str, Any]:
        """Return the report for a board.

        Type, message, recoverable, context, suggestion, timestamp; JSON types only.

        `at` is when it happened (None: now), and comes out as ISO 8601 in UTC; ValueError if it has
        no time zone. The context holds what is known of tool, provider and attempt; what is not
        said is looked for in the details and counted from the history.
        """
        at = current_world().now() if at is None else at
        if at.utcoffset() is None:
            message = f"at: wanted a time with its zone, got {at.isoformat()}"
            raise ValueError(message)
        known = {
            "tool": tool or self.details.get("tool"),
            "provider": provider or self.details.get("provider_id"),
            "attempt": attempt
            if attempt is not None or not self.history
            else len(self.history) + 1,
        }
        return {
            "type": self.category.value.lower(),
            "message": self.message,
            "recoverable": _may_repeat(self),
            "context": {
                name: _jsonable(redact_value(value))
                for name, value in known.items()
                if value is not None
            },
            "suggestion": "; ".join(_advice(self)),
            "timestamp": at.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z",
        }

    def to_mcp(self) -> dict[str, Any]:
        """Return the error object of a JSON-RPC answer: code, message, data."""
        data: dict[str, Any] = {
            "type": self.category.value,
            "retryable": self.retryable,
            "sessionValid": self.session_valid,
            "executed": self.executed.value,
            "code": self.code,
        }
        if self.severity is not code_info(self.code).severity:
            data["severity"] = self.severity.value
        if self.retry_after is not None:
            data["retryAfter"] = self.retry_after
        for name, key in (("sessionId", "session_id"), ("providerId", "provider_id")):
            if isinstance(value := self.details.get(key), str):
                data[name] = value
        return {"code": MCP_CODES[self.category], "message": self.message, "data": data}

    @classmethod
    def from_mcp(cls, error: Mapping[str, Any], /) -> Failure:
        """Return the failure that the error object of a JSON-RPC answer means.

        The inverse of `to_mcp()`.

        Its number decides, and its `data` (type, retryable, sessionValid, executed, severity,
        retryAfter, code) beats the number; the number is kept in `details["rpc_code"]`. What is neither known
        nor said is SYS_INTERNAL_ERROR, not retryable. Never raises.
        """
        from . import (
            error_object_finding,  # from the table: what reads error objects makes failures
        )

        return error_object_finding(error).failure()

    def __reduce__(self) -> tuple[Any, ...]:
        # The cause may hold sockets and the secrets we removed: it stays in this process.
        state = {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        return _rebuild, ({**state, "details": dict(self.details), "cause": None},)

    @property
    def _is_named(self) -> bool:
        """Whether a policy would repeat it, whatever its code says: something else ended the call."""
        return self.stopped not in (None, "not_retryable")

    def _facts(self) -> list[str]:
        return [self.category.value, *([subject] if (subject := self._subject()) else [])]

    def _subject(self) -> str:
        """Return the number or name that distinguishes this case from others with its code."""
        for key in ("http_status", "close_code", "reason", "rpc_code"):
            value = self.details.get(key)
            if isinstance(value, (int, str)):
                return str(value)
        if isinstance(ended := self.details.get("exit_code"), int):
            return f"exit code {ended}"
        number = self.details.get("errno")
        return (errno_name(number) or f"errno {number}") if isinstance(number, int) else ""


_UNKNOWN: Final = "SYS_INTERNAL_ERROR"
_REFUSED_REPEAT: Final = "not_idempotent"
_REPEAT: Final = re.compile(r"\b(?:repeat|retry|try (?:it )?again)", re.IGNORECASE)
_LOOK_FIRST: Final = "it may have run: find out whether it did before doing it again"
OWN_LAYER: Final = "own_layer"
"""The proof of what this package refused before anything was sent."""


def model_report(failure: Failure) -> dict[str, Any]:
    """Return the report of a failure for a model, JSON types only."""
    report: dict[str, Any] = {
        "type": model_type(failure),
        "code": failure.code,
        "message": failure.message,
        "recoverable": _may_repeat(failure),
        "executed": failure.executed.value,
        "suggestion": "; ".join(_advice(failure)),
    }
    if failure.retry_after is not None:
        report["retry_after"] = failure.retry_after
    return report


def _may_repeat(failure: Failure) -> bool:
    """Return whether a retry is advised.

    It can help, and no policy has refused it because the call may have run.
    """
    return failure.retryable and failure.stopped != _REFUSED_REPEAT


def _reported_kind(failure: Failure) -> Kind:
    """Return the kind to report.

    Used-up attempts make a transient failure permanent only for the policy.
    """
    return Kind.TRANSIENT if failure.retryable and failure.kind is Kind.PERMANENT else failure.kind


def _advice(failure: Failure) -> tuple[str, ...]:
    """Return the suggestions; where a repeat was refused, those that advise one with a condition."""
    if failure.stopped != _REFUSED_REPEAT or failure.executed is Executed.NO:
        return failure.suggestions
    lines = (
        f"if it did not run: {one}" if _REPEAT.search(one) else one for one in failure.suggestions
    )
    return (_LOOK_FIRST, *lines)


def what_happened(failure: Failure) -> str:
    """Return one line without a judgement, for a reader who is told what was decided about it.

    As in `connection reset (TRANSPORT, ECONNRESET)`. An unknown error has its own words alone.
    """
    if failure.code == _UNKNOWN:
        return failure.message
    facts = failure._facts()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- of this module
    return f"{failure.message} ({', '.join(facts)})"


def is_timeout(failure: Failure) -> bool:
    """Return whether a time limit ended the call, by the category of the failure or of its code."""
    return Category.TIMEOUT in (failure.category, code_info(failure.code).category)


def model_type(failure: Failure) -> str:
    """Return the reason of a failure as one word for a model, which can act on it."""
    if is_timeout(failure):
        return "timeout"
    if failure.code == RATE_LIMITED:
        return "rate_limit"
    if (
        failure.code == "SYS_CONTEXT_OVERFLOW"
        or failure.details.get("reason") == "context_length_exceeded"
    ):
        return "context_overflow"
    # A missing file and a command without permission are SYS_CONFIG_INVALID as well: their numbers decide.
    if failure.category is Category.AUTH or _shows(failure.details, _PERMISSION):
        return "permission"
    if failure.code in {"SESS_NOT_FOUND", "TOOL_NOT_FOUND"} or _shows(failure.details, _NOT_FOUND):
        return "not_found"
    is_invalid = (
        failure.code in _INVALID
        or failure.details.get("violations")
        or _shows(failure.details, _REFUSED)
    )
    return "validation" if is_invalid else "unknown"


def unproven(failure: Failure) -> Failure:
    """Return the failure without its proof: the call may have run."""
    if failure.executed is not Executed.NO:
        return failure
    return changed(failure, executed=Executed.MAYBE, proof="")


def _rebuild(state: dict[str, Any]) -> Failure:
    return Failure(**state)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}".removesuffix(".0") + " s"


def _brief(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(_jsonable(value), ensure_ascii=False)


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, tuple):
        return [_jsonable(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


RATE_LIMITED: Final = "SYS_RATE_LIMITED"
"""The code of what a rate limiter answered, with a wait or without: the service is up."""


def is_limited(failure: Failure) -> bool:
    """Return whether a rate limiter answered with a wait: the service is up, and wants fewer calls."""
    return failure.code == RATE_LIMITED and (
        failure.retry_after is not None or number_in(failure, "retry_at") is not None
    )


def wait_asked(failure: Failure, wall: Callable[[], float]) -> float | None:
    """Return the seconds that the server asked to wait; None if it did not.

    A date of a Retry-After is counted by our own clock, `wall`: the answer did not give its own.
    """
    if failure.retry_after is not None:
        return failure.retry_after
    moment = number_in(failure, "retry_at")
    return None if moment is None else max(0.0, moment - wall())


_NO_ROOM: Final = frozenset({503, 529})


def is_refusal(failure: Failure) -> bool:
    """Return whether the server refused the call for lack of room: it lives, and takes it later.

    A rate limit, or an overload: 429, 503, 529, and their kin in other words. A quota or balance that
    is used up is none.
    """
    if failure.code == RATE_LIMITED:
        return True
    return failure.code == "SYS_UNAVAILABLE" and (
        number_in(failure, "http_status") in _NO_ROOM
        or failure.details.get("reason") == "overloaded"
    )


def changed(failure: Failure, **fields: Any) -> Failure:
    """Return the failure with other values in fields without text.

    Like `attrs.evolve`, but without redacting the text.
    """
    made = object.__new__(Failure)
    made.__dict__.update(failure.__dict__)
    made.__dict__.update(fields)
    return made


def of_error(failure: Failure, seen: BaseException, cause: BaseException) -> Failure:
    """Return the failure with its cause, and in its details the class and text of the error that was `seen`.

    That is the cause, or the one below it with the more useful text, which is redacted when it is read.
    """
    unread = failure.__dict__["_unread"]
    details = unread.get("details")
    if "error" in (failure.details if details is None else details):
        return changed(failure, cause=cause)
    name = name_of(type(seen))
    try:  # without a call: every repeat comes here
        text = str.__str__(str(seen))
    except Exception:  # noqa: BLE001 -- an error without a text is reported all the same
        text = raw_text(seen)
    text = text[: READ + 1].strip()
    if text:
        name = f"{name}: {text}"
    if details is None:  # they were not plain, and are redacted already
        return attrs.evolve(failure, details={**failure.details, "error": name}, cause=cause)
    made = object.__new__(Failure)
    fields = made.__dict__
    fields.update(failure.__dict__)
    fields.pop("details", None)
    fields.update(cause=cause, _unread={**unread, "details": {**details, "error": name}})
    return made


def number_in(failure: Failure, name: str) -> float | None:
    """Return a number from the details, without redacting their text; None if there is none."""
    fields = failure.__dict__
    details: Mapping[str, Any] | None = fields.get("details")
    value: object = (fields["_unread"]["details"] if details is None else details).get(name)
    return value if value is not None and isinstance(value, int | float) else None


# ---- the verdict of a rule ----------------------------------------------------------------------


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Finding:
    """The verdict of a rule: a code, and the fields that differ from its row in the table.

    None means the table's value. It is never changed, and the Failure is built only for one that is
    read.

    `executed=NO` is never set directly: it follows from `proof`, the name of a row of
    `vocabulary.PROOFS`. Without a proof the call may have run.
    """

    def __init__(
        self,
        *,
        code: str,
        message: str = "",
        category: Category | None = None,
        kind: Kind | None = None,
        retryable: bool | None = None,
        executed: Executed | None = None,
        proof: str = "",
        session_valid: bool | None = None,
        severity: Severity | None = None,
        retry_after: float | None = None,
        suggestions: tuple[str, ...] = (),
        details: Mapping[str, Any] = _NOTHING,
    ) -> None:
        self.code = code
        self.message = message
        self.category = category
        self.kind = kind
        self.retryable = retryable
        self.executed = executed
        self.proof = proof
        self.session_valid = session_valid
        self.severity = severity
        self.retry_after = retry_after
        self.suggestions = suggestions
        self.details = details

    def evolve(self, **fields: Any) -> Finding:
        """Return the verdict with these fields changed; what it says otherwise stays."""
        made = object.__new__(Finding)
        made.__dict__.update(self.__dict__)
        made.__dict__.pop("made", None)
        made.__dict__.update(fields)
        return made

    @property
    def summary(self) -> str:
        """The message, or else the summary of the code."""
        return self.message or (CODES.get(self.code) or code_info(self.code)).summary

    @property
    def ran(self) -> Executed:
        """Whether the call can have run: NO only with a proof."""
        if self.proof and self.executed in (None, Executed.NO):
            return Executed.NO
        row = CODES.get(self.code) or code_info(self.code)
        executed = self.executed or row.executed
        return Executed.MAYBE if executed is Executed.NO else executed

    @property
    def repeats(self) -> bool:
        """Whether repeating may help, without building the failure."""
        return code_info(self.code).retryable if self.retryable is None else self.retryable

    @cached_property
    def made(self) -> Failure:
        """The failure without an error: made once for a rule that is data, however often it is met."""
        return Failure.of(
            self.code,
            self.message,
            category=self.category,
            kind=self.kind,
            retryable=self.retryable,
            executed=self.ran,
            proof=self.proof,
            session_valid=self.session_valid,
            severity=self.severity,
            retry_after=self.retry_after,
            suggestions=self.suggestions,
            details=self.details,
        )

    def failure(self, cause: BaseException | None = None) -> Failure:
        """Return the failure; `cause` is the classified error."""
        return self.made if cause is None else of_error(self.made, cause, cause)


_LOOKED_AT: Final = 4_096  # characters, of which 160 are shown: a text may have megabytes


def short_of(text: str) -> str:
    """Return the peer's text as the end of a message: empty, or `: text` of at most 160 characters."""
    text = " ".join(text[:_LOOKED_AT].split())
    return f": {text[:159]}…" if len(text) > 160 else f": {text}" if text else ""


# ---- what is none ------------------------------------------------------------------------------


PLAIN: Final[set[type]] = {type(None), bool, int, float, str, bytes, list, tuple, dict}
"""What a function returns of these classes is its success. It grows as results are seen; registering
a class with `classify` removes the class."""
PLAIN_ANSWERS: Final[set[type]] = PLAIN - {dict}
"""The same for what a tool or a server answers, where a dict can be a failure in the form of a
specification."""


# ---- text that has not been read yet --------------------------------------------------------------------------------


class Unread:
    """A field whose text is redacted when it is first read: most failures are retried and never read.

    Once read it stands in the object's dictionary, where it hides this descriptor.
    """

    def __init__(self, name: str, make_safe: Callable[[Any], Any]) -> None:
        """Read the raw value that `raw_fields` has put under this name."""
        self._name = name
        self._make_safe = make_safe

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """Return the value, redacted, and keep it."""
        if owner is None:
            return self
        fields: dict[str, Any] = owner.__dict__
        value = fields[self._name] = self._make_safe(fields["_unread"][self._name])
        return value


_ATOMS: Final = frozenset({str, int, float, bool, type(None)})


def raw_fields(
    message: str, suggestions: tuple[Any, ...], details: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a new object: `_unread`, and what is mutable or not plain redacted at once."""
    unread: dict[str, Any] = {}
    fields: dict[str, Any] = {"_unread": unread}
    if type(message) is str:
        unread["message"] = message[: READ + 1]
    else:
        fields["message"] = as_line(message)
    for line in suggestions:
        if type(line) is not str:
            fields["suggestions"] = as_lines(suggestions)
            break
    else:
        unread["suggestions"] = suggestions
    if _is_plain(details):
        unread["details"] = {**details}
    else:
        fields["details"] = as_details(details)
    return fields


def _is_plain(details: object) -> bool:
    if type(details) is not dict:
        return False
    for name, value in cast("dict[object, object]", details).items():
        if type(value) not in _ATOMS or type(name) not in _ATOMS:
            return False
    return True


Failure.message = Unread("message", as_line)  # type: ignore[assignment]
Failure.suggestions = Unread("suggestions", as_lines)  # type: ignore[assignment]
Failure.details = Unread("details", as_details)  # type: ignore[assignment]
