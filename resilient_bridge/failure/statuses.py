"""Verdicts on HTTP statuses, and on the bodies that come with them or instead of them.

Rule: `x-should-retry` beats the table, both ways, and a body that names one of our codes, or says
why in a provider's words, beats the status. Every carrier of a body ends here: the response of any
client, an SDK's error, an event in a stream, a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from .contents import (
    EMPTY,
    ErrorBody,
    body_of,
    is_page,
    is_used_up,
    read_body,
    read_json,
    reset_from_headers,
    wait_from_headers,
)
from .failure import Finding
from .payloads import payload_finding
from .provider_codes import (
    EXPIRED,
    LARGE,
    MEMORY,
    OVERLOADED,
    PASSING,
    QUOTA,
    RATE,
    final_finding,
    is_out_of_memory,
    login_finding,
    says_limited,
    usual_finding,
    with_message,
)
from .rpc import mapping_of
from .vocabulary import Category


_REPEATABLE = frozenset({408, 421, 423, 425, 429})
_FUTILE_5XX = frozenset({501, 505, 506, 508, 510, 511})
_PASSING: Final = _REPEATABLE | (frozenset(range(500, 600)) - _FUTILE_5XX)
_PROOFS = {status: f"http_{status}" for status in (401, 407, 421, 425, 426)}
_DOCUMENT: Final = frozenset({dict, list})  # JSON that is more than a value
_RATE_LIMITED = 429
_BAD_REQUEST: Final = 400
_FORBIDDEN: Final = 403
_TOO_LARGE: Final = 413
_UPGRADE_REQUIRED: Final = 426
_SERVER = 500
_LOGINS: Final = frozenset({400, 401, 403})
_LIMITS: Final = frozenset(
    {400, 402, 403, 418, 420, 498, 503}
)  # statuses under which some say that a rate is used up
_PAYMENT: Final = 402
_STATUSES: Mapping[int, Finding] = {
    401: Finding(code="AUTH_TOKEN_EXPIRED", message="credentials not accepted"),
    _FORBIDDEN: Finding(code="AUTH_FORBIDDEN"),
    407: Finding(code="AUTH_FORBIDDEN", message="proxy asks for credentials"),
    _RATE_LIMITED: Finding(code="SYS_RATE_LIMITED"),
}
# For an upgrade these are plain refusals; for a call they have a verdict of their own.
_OF_A_CALL: Mapping[int, Finding] = {
    402: Finding(
        code="SYS_UPSTREAM_REJECTED",
        message="payment required",
        suggestions=("raise the limit or add credit at the provider",),
        details={"reason": "quota_exhausted"},
    ),
    408: Finding(code="SYS_TIMEOUT", message="the server waited too long for the request"),
    499: Finding(code="SYS_UPSTREAM_REJECTED", message="cancelled by us"),
}
_OF_PROXIES: Final = frozenset({"CONN_UPGRADE_REJECTED", "AUTH_FORBIDDEN"})
_PAST_A_PROXY: Final = (
    "a proxy in between may block WebSockets: try wss:// (port 443), let the proxy pass the headers "
    "Upgrade and Connection on, or connect without it (NO_PROXY); else check the url's path"
)
_CATEGORIES: Mapping[int, Category] = {
    408: Category.TIMEOUT,
    421: Category.TRANSPORT,
    426: Category.PROTOCOL,
}


def is_passing(status: int) -> bool:
    """Return True when the same request may succeed later."""
    return status in _PASSING


def upgrade_finding(status: int, headers: object = None, body: object = None) -> Finding:
    """Return the verdict on a response that refused a WebSocket."""
    finding = status_finding(status, headers, body, upgrade=True)
    if finding.code in _OF_PROXIES and _may_be_a_proxys(status, headers, body):
        return finding.evolve(suggestions=(_PAST_A_PROXY, *finding.suggestions))
    return finding


def status_finding(
    status: int,
    headers: object = None,
    body: object = None,
    *,
    upgrade: bool = False,
    now_wall: float | None = None,
) -> Finding:
    """Return the verdict on a response without success.

    `body` is what came with it, in any form; `upgrade` is for `upgrade_finding`.
    """
    document: object = body
    if body and isinstance(body, (bytes, bytearray, str)):
        document = read_json(body)
    content = read_body(document if type(document) in _DOCUMENT else body, headers)
    wait, retry_at = wait_from_headers(headers, now_wall)
    finding = _by_status(status, upgrade=upgrade, waits=wait is not None)
    proof = "upgrade_refused" if upgrade else _PROOFS.get(status, "")
    retryable = status in _PASSING or (status == _TOO_LARGE and wait is not None)
    if (override := should_retry(headers)) is not None:
        retryable = override
    details: dict[str, Any] = {"http_status": status, **finding.details}
    finding = finding.evolve(retryable=retryable, details=details, proof=proof)
    if isinstance(document, Mapping):
        own = _ours(cast("Mapping[object, Any]", document), finding, wait, retry_at)
        if own is not None:
            return own
    if content is not EMPTY or status == _FORBIDDEN:  # most are empty, of a server that is down
        asked = wait if now_wall is None else wait_from_headers(headers, None)[0]
        found = _by_words(content, finding, status, headers, asked)
        if found is not finding:
            finding, retryable = found, found.repeats
    if not retryable:
        return with_message(finding, content.message)
    if wait is None and retry_at is None:
        wait = None if content is EMPTY else content.waits
        if wait is None:
            wait, retry_at = reset_from_headers(headers, now_wall)
    if (wait, retry_at) != (None, None) or finding.retry_after is not None:
        dated = finding.details if retry_at is None else {**finding.details, "retry_at": retry_at}
        finding = finding.evolve(retry_after=wait, details=dated)
    return with_message(finding, content.message) if content.message else finding


def _may_be_a_proxys(status: int, headers: object, body: object) -> bool:
    """Return whether a proxy may have refused a WebSocket, or have taken its headers away.

    A server that speaks WebSocket there does not answer an upgrade with success, and asks for one
    (426) only if it got none. A 403 with a page is what a filter says; an API refuses without one.
    """
    if status == _UPGRADE_REQUIRED or 200 <= status < 300:
        return True
    return status == _FORBIDDEN and is_page(body, headers)


def _by_status(status: int, *, upgrade: bool, waits: bool) -> Finding:
    if status in _STATUSES:
        return _STATUSES[status]
    if status in _OF_A_CALL and not upgrade:
        return _OF_A_CALL[status]
    if status == _TOO_LARGE and not upgrade and not waits:
        return LARGE
    if status >= _SERVER and status in _PASSING:
        return Finding(code="SYS_UNAVAILABLE")
    code = "CONN_UPGRADE_REJECTED" if upgrade else "SYS_UPSTREAM_REJECTED"
    return Finding(code=code, category=_CATEGORIES.get(status))


def _ours(
    document: Mapping[object, Any], status: Finding, wait: float | None, retry_at: float | None
) -> Finding | None:
    """Read a body like {"code": "SESS_NOT_FOUND", "message": …}."""
    if not isinstance(document.get("code"), str):
        return None
    finding = payload_finding(document, unknown=None)
    if finding is None:
        return None
    details = {**finding.details, **status.details}
    if retry_at is not None:
        details["retry_at"] = retry_at
    waits = finding.retry_after or (wait if status.retryable else None)
    return finding.evolve(retry_after=waits, details=details, proof=status.proof)


def _by_words(
    content: ErrorBody,
    finding: Finding,
    status: int,
    headers: object,
    asked: float | None,
) -> Finding:
    """Return what the body makes of the status's verdict: the same, or another one.

    `asked`: the seconds that the headers ask to wait.
    """
    if content is EMPTY:
        is_limit = status == _FORBIDDEN and is_used_up(headers)
        return _changed_by(RATE, finding, headers) if is_limit else finding
    found = lasting_finding(content, status, asked)
    if found is None and status in _LOGINS:
        found = login_finding(content.names, content.words)
        if found is EXPIRED and status == _BAD_REQUEST and not content.decides:
            found = None  # the grant of a refresh, not the token of this request
    if found is None and content.decides:
        found = usual_finding(content.names)
        if status == _RATE_LIMITED and (found is PASSING or found is OVERLOADED):
            found = None  # a limit either way
    if found is None and status in _LIMITS and _is_limit(content, status, headers):
        found = RATE
    if (
        found is None
        and status >= _SERVER
        and is_out_of_memory(content.words)
        and finding.retryable
    ):
        found = MEMORY
    if found is None and content.passing and not finding.repeats:
        found = PASSING
    return finding if found is None else _changed_by(found, finding, headers)


def _changed_by(found: Finding, finding: Finding, headers: object) -> Finding:
    """Return the body's verdict with what the status's has beside it."""
    details = {**finding.details, **found.details}
    if found.retryable is None and (override := should_retry(headers)) is not None:
        found = found.evolve(retryable=override)
    if found.details.get("reason") is None and found.code != finding.code:
        details.pop("reason", None)
    return found.evolve(details=details, proof=finding.proof)


def _is_limit(content: ErrorBody, status: int, headers: object) -> bool:
    if status == _PAYMENT:  # of money, except where it says how soon it is over
        return (
            says_limited((), content.words, content.waits, strictly=True)
            and content.waits is not None
        )
    if status == _FORBIDDEN:
        return is_used_up(headers) or says_limited(content.names, content.words, content.waits)
    return says_limited(content.names, content.words, content.waits, strictly=True)


def lasting_finding(
    content: ErrorBody, status: int | None = None, asked: float | None = None
) -> Finding | None:
    """Return the verdict of a body that says that a repeat cannot help, else None.

    `asked`: the seconds that the headers ask to wait; they count under a 429.
    """
    if content.quotas and content.is_daily:
        return QUOTA
    if content.passing:
        return None
    return final_finding(
        content.names,
        content.words,
        wait=content.waits,
        asked=asked if status == _RATE_LIMITED else None,
        status=status,
        decided=content.decides and usual_finding(content.names) is not None,
    )


def bare_finding(content: ErrorBody, unknown: Finding | None) -> Finding | None:
    """Return the verdict on an error that has no status of its own: inside a stream, or under 200.

    `unknown` is the verdict on a name that is not known.
    """
    found = lasting_finding(content) or login_finding(content.names, content.words)
    if found is None and content.number is not None:
        finding = _by_status(content.number, upgrade=False, waits=False)
        details = {"http_status": content.number, **finding.details}
        found = finding.evolve(retryable=is_passing(content.number), details=details)
        found = _by_words(content, found, content.number, None, None)
    if found is None:
        found = usual_finding(content.names) or (
            RATE
            if says_limited((), content.words, content.waits)
            else PASSING
            if content.passing
            else unknown
        )
    if found is None:
        return None
    if found.repeats:
        found = found.evolve(retry_after=content.waits)
    return with_message(found.evolve(proof=""), content.message)


def stream_finding(body: object) -> Finding:
    """Return the verdict on an error inside a stream, whose status says nothing.

    A name that nobody knows is not final: the provider did not say so.
    """
    found = bare_finding(read_body(body), PASSING)
    assert found is not None  # noqa: S101 (there is one for the unknown)
    return found


def should_retry(headers: object) -> bool | None:
    """Return the value of `x-should-retry`, None if it has none."""
    get = getattr(headers, "get", None)
    try:
        value = get("x-should-retry") if callable(get) else None
    except Exception:  # noqa: BLE001 (websockets raises when a header came twice)
        return None
    return (
        {"true": True, "false": False}.get(value.strip().lower())
        if isinstance(value, str)
        else None
    )


# ---- an error under 200 --------------------------------------------------------------------------------------------

_BEGINNING: Final = 300  # bytes of a success that are looked at
_ENVELOPE: Final = frozenset(  # what stands beside an error that is all there is
    {"error", "errors", "ok", "success", "user_id", "request_id", "requestId", "needed", "provided"}
    | {"response_metadata", "warning", "message", "type", "data", "result", "extensions"}
)


_SHORT: Final = 1_000  # bytes of an answer that is nothing but a refusal
_MARKS: Final = re.compile(  # a state that is none of success, or a sentence alone
    rb'"status"\s?:\s?"(?:0"|err|fail|notok|request_d|over_)|"(?:code|errcode|error_?code|err_?no|status_code)"\s?:\s?"?-?[1-9]'
    rb'|"(?:success|ok)"\s?:\s?false|"(?:note|information)"\s?:|"Error"',
    re.IGNORECASE,
)
_REFUSALS: Final = frozenset(
    [
        "0",
        "error",
        "fail",
        "failed",
        "failure",
        "notok",
        "request_denied",
        "over_query_limit",
        "over_daily_limit",
    ]
)
_FLAT: Final = frozenset(
    [
        "status",
        "code",
        "errcode",
        "errorcode",
        "errno",
        "success",
        "ok",
        "baseresp",
        "note",
        "information",
        "errormsg",
        "errmsg",
        "errormessage",
        "msg",
        "message",
        "result",
        "results",
        "info",
        "infocode",
        "detail",
        "requestid",
        "logid",
        "traceid",
        "timestamp",
        "data",
        "rows",
        "type",
        "candidates",
    ]
)


def _refused(body: bytes) -> Finding | None:
    """Return the verdict on a short answer that calls itself a failure, or is one sentence, and says a known reason."""
    document = mapping_of(read_json(body))
    fields = {
        "".join(filter(str.isalnum, str(key).lower())): value for key, value in document.items()
    }
    if len(fields) == 1 and mapping_of(
        mapping_of(fields.get("response")).get("Error")
    ):  # of Tencent's cloud
        return bare_finding(read_body(document), None)
    if not fields or fields.keys() - _FLAT:
        return None
    if any(
        value and isinstance(value, (Mapping, list)) and key != "baseresp"
        for key, value in fields.items()
    ):
        return None
    inner = mapping_of(fields.get("baseresp"))
    refuses = str(fields.get("status")).lower() in _REFUSALS or fields.keys() <= {
        "note",
        "information",
    }
    refuses = refuses or any(fields.get(key) is False for key in ("ok", "success"))
    numbers = [
        *(fields.get(key) for key in ("code", "errcode", "errorcode", "errno")),
        inner.get("status_code"),
    ]
    refuses = refuses or any(
        number not in (None, 0, "0", 200, "200", True, False, "") for number in numbers
    )
    return bare_finding(read_body(document), None) if refuses else None


def hidden_finding(body: bytes, headers: object) -> Finding | None:
    """Return the verdict on the body of a success that is nothing but an error; None for any other.

    An object with a result, an id or a state of its own beside the error is a report about something
    else, and no failure of this request.
    """
    if body[:1] not in (b"{", b"["):
        return None
    if b'"error"' not in body[:_BEGINNING] and b'"errors"' not in body[:_BEGINNING]:
        return _refused(body) if len(body) <= _SHORT and _MARKS.search(body[:_BEGINNING]) else None
    document = mapping_of(read_json(body))
    if (
        not document
        or document.keys() - _ENVELOPE
        or document.get("data")
        or document.get("result")
    ):
        return None
    inner: object = document.get("error") or document.get("errors")
    if isinstance(inner, str):
        if document.get("ok") is not False:
            return None
    elif not isinstance(inner, (Mapping, list)) or not inner:
        return None
    content = read_body(body, headers)
    unknown = Finding(code="SYS_UPSTREAM_REJECTED") if content.names or content.number else None
    return bare_finding(content, unknown)


# ---- the response of any client ---------------------------------------------------------------------------------


def answer_status(answer: Any) -> Finding | None:
    """Return the verdict on a response of any client, None for a success.

    A success whose body is nothing but an error is none. A body counts if it has been read.
    """
    status = getattr(answer, "status_code", None)  # urllib3 and aiohttp name it `status`
    status = answer.status if status is None else status
    if not isinstance(status, int) or isinstance(status, bool):
        return None
    if status >= 400:
        return response_finding(answer, status)
    body = body_of(answer)
    return None if body is None else hidden_finding(body, answer.headers)


def response_finding(answer: Any, status: int) -> Finding:
    """Return the verdict on a response without success, whatever its status is.

    After a redirect it proves nothing about the requests before it.
    """
    found = status_finding(status, answer.headers, body_of(answer))
    return found.evolve(proof="") if getattr(answer, "history", None) else found


# ---- a server that is away --------------------------------------------------------------------------


_AWAY: Final = frozenset(
    {502, 503, 504, 520, 521, 522, 523, 524, 530}
)  # from 520 on: of Cloudflare


def is_server_away(status: int) -> bool:
    """Return whether this status of a refusal says that the server behind a proxy is away."""
    return status in _AWAY
