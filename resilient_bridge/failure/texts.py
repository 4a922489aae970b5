"""Verdicts on texts: the last resort, for errors that have nothing but their text; and on the numbers of programs.

Rule: a pattern matches whole words only, an errno's name only in capitals, and a number only where
the text says that it is a status ("processed 429 rows" is no rate limit), or together with the name
of its program: 7 is curl's "could not connect" and means nothing elsewhere. The tables of programs
are their own: curl's EXIT CODES, GNU wget's EXIT STATUS, ssh(1), timeout(1). A text without a known
pattern is not retryable. A printed BridgeError is read as the fields of its error object would be.
No text proves that a call did not run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any, Final, cast

from .closes import printed_close
from .contents import ErrorBody, document_in, read_body, wait_in_text
from .errnos import hints
from .failure import Finding, short_of
from .payloads import EXECUTIONS
from .provider_codes import (
    CONTEXT,
    LARGE,
    PASSING,
    QUOTA,
    RATE,
    REJECTED,
    bare_words_finding,
    name_says,
    says_limited,
)
from .rpc import error_object_finding, mapping_of
from .statuses import bare_finding, status_finding
from .vocabulary import MCP_CODES, Category, Executed, Kind


def reported(
    code: str,
    message: str = "",
    *suggestions: str,
    hint: str = "",
    kind: Kind | None = None,
    category: Category = Category.UPSTREAM,
) -> Finding:
    """Return the verdict on a program's own report: it ran, so it may have had an effect."""
    return Finding(
        code=code,
        message=message,
        category=category,
        kind=kind,
        executed=Executed.MAYBE,
        suggestions=suggestions or hints(hint),
    )


_DNS = reported("CONN_DNS_FAILED", "host name not resolved")
_CONNECT = reported("CONN_REFUSED", "could not connect", hint="ECONNREFUSED")
_LOST = reported("CONN_RESET", "connection lost", hint="ECONNRESET")
_TIMED_OUT = reported("CONN_TIMEOUT", "timed out", hint="ETIMEDOUT", category=Category.TIMEOUT)
_HANDSHAKE = reported("CONN_RESET", "tls handshake not completed", hint="ECONNRESET")
_CERTIFICATE = reported(
    "SYS_UPSTREAM_REJECTED",
    "certificate not accepted",
    "check the certificate's expiry, chain and host name",
)
_URL = reported("SYS_UPSTREAM_REJECTED", "url not valid", "correct the url")
_LOGIN = reported("AUTH_INVALID_TOKEN", "credentials not accepted", "check the credentials")

_CURL: Final[Mapping[int, Finding]] = {
    **dict.fromkeys((1, 3), _URL),
    **dict.fromkeys((5, 6), _DNS),
    7: _CONNECT,
    **dict.fromkeys((9, 67, 94), _LOGIN),
    12: _TIMED_OUT,
    **dict.fromkeys((16, 18, 52, 55, 56, 89, 92, 95, 96), _LOST),
    28: _TIMED_OUT,
    35: _HANDSHAKE,
    **dict.fromkeys((51, 53, 54, 58, 59, 60, 66, 77, 83, 90, 91), _CERTIFICATE),
}
_PROGRAMS: Final[Mapping[str, Mapping[int, Finding]]] = {
    "curl": _CURL,
    "wget": {4: _LOST, 5: _CERTIFICATE, 6: _LOGIN},
    "ssh": {255: _LOST},
    "scp": {255: _LOST},
    "sftp": {255: _LOST},
    "rsync": {**dict.fromkeys((10, 12, 255), _LOST), **dict.fromkeys((30, 35), _TIMED_OUT)},
}


def program_finding(program: str, code: int) -> Finding | None:
    """Return the meaning of an exit code; None for a program or code that is not in the tables."""
    return _PROGRAMS.get(program.removesuffix(".exe"), {}).get(code)


def _curl_finding(number: int) -> Finding | None:
    """Return the meaning of `curl: (number)`; None if only its text says more (22)."""
    return _CURL.get(number)


# ---- an error of another process, printed in a text -------------------------------------------------


_NAMES: Final = "|".join(Category)
# BridgeError AUTH: "message" { providerId: "openai" }, or BridgeError.auth('message', { … })
_LINE: Final = re.compile(
    rf"\bBridgeError(?: (?P<upper>{_NAMES}): |\.(?P<lower>{_NAMES.lower()})\()"
    r"(?P<quote>[\"'])(?P<message>.{0,8000}?)(?P=quote)(?P<rest>[^\n]{0,2000})"
)
# message (UPSTREAM, not retryable); redaction writes the end of a line as two characters
_REPORT: Final = re.compile(
    rf" \((?P<upper>{_NAMES})(?:, [^()\n]{{1,80}}?)?, (?P<not>not )?retryable\)(?=$|\n|\\n|: )"
)
_LINE_ENDS: Final = re.compile(r"\n|\\n")
_FLAGS: Final = re.compile(r"\b(retryable|sessionValid): (true|false)\b")
_TEXTS: Final = re.compile(r"\b(providerId|sessionId): [\"']([^\"']{1,200})[\"']")


def _printed_finding(text: str) -> Finding | None:
    """Return the verdict on a text in which such an error is printed; None for any other text."""
    if "BridgeError" in text and (line := _LINE.search(text)) is not None:
        rest = line["rest"]
        data: dict[str, Any] = {name: word == "true" for name, word in _FLAGS.findall(rest)}
        data.update(_TEXTS.findall(rest))
        return _finding(line["upper"] or line["lower"].upper(), line["message"], data)
    if "retryable)" in text and (report := _REPORT.search(text)) is not None:
        message = _LINE_ENDS.split(text[: report.start()])[-1]
        return _finding(report["upper"], message, {"retryable": report["not"] is None})
    return None


def _finding(category: str, message: str, data: dict[str, Any]) -> Finding:
    number = MCP_CODES[Category(category)]
    found = error_object_finding(
        {"code": number, "message": message, "data": {"type": category, "retryable": False, **data}}
    )
    # the number is ours, not the text's
    details = {name: value for name, value in found.details.items() if name != "rpc_code"}
    return found.evolve(executed=Executed.MAYBE, proof="", details=details)


# ---- patterns ---------------------------------------------------------------------------------------


_LONGEST: Final = 8_192  # characters read


_REFUSED = reported("CONN_REFUSED", hint="ECONNREFUSED")
_RESET = reported("CONN_RESET", hint="ECONNRESET")
_TIMEOUT = reported("CONN_TIMEOUT", hint="ETIMEDOUT")
_NOT_RESOLVED = reported("CONN_DNS_FAILED")
_BUSY = reported("CONN_RESOURCE_EXHAUSTED")
_PORT = reported("CONN_RESOURCE_EXHAUSTED", hint="EADDRINUSE")
_SPAWN = reported("CONN_UNREACHABLE", "daemon did not start", hint="SPAWN")
_SLOW_START = reported("CONN_UNREACHABLE", "daemon does not answer yet", hint="SLOW_START")
_UNREACHABLE = reported("CONN_UNREACHABLE")
_VAGUE = reported("CONN_UNREACHABLE", "connection failed")  # the text after it may say why
_DOCKER = reported(
    "CONN_UNREACHABLE", "docker daemon not reached", "start the docker daemon, or check DOCKER_HOST"
)
_NOT_TRUSTED = reported(
    "CONN_TLS_HANDSHAKE_FAILED", "", "check the certificate's expiry, chain and host name"
)
_LOCK = reported(
    "CONN_RESOURCE_EXHAUSTED",
    "locked by another process",
    "wait for the other process to end; remove the lock file if it crashed",
)
_LIMITED = reported("SYS_RATE_LIMITED")
_FINAL = reported("SYS_UPSTREAM_REJECTED")
_INVALID = reported("SYS_UPSTREAM_REJECTED", "not valid", "correct what the message names")
_NO_COMMAND = reported(
    "SYS_UPSTREAM_REJECTED", "command not found", "check its spelling and the search path"
)
_NOT_THERE = reported("SYS_UPSTREAM_REJECTED", "not found", hint="ENOENT").evolve(
    details={"reason": "not_found"}
)
_NOT_ALLOWED = reported("SYS_UPSTREAM_REJECTED", "not permitted", hint="EACCES").evolve(
    details={"reason": "permission_denied"},
)
_NO_SPACE = reported("SYS_UPSTREAM_REJECTED", "no space left", hint="ENOSPC")
_FORBIDDEN = _FINAL.evolve(code="AUTH_FORBIDDEN", category=Category.UPSTREAM)
_CORRUPT = reported("PROTO_INVALID_MESSAGE", kind=Kind.CORRUPTION)
_PARTIAL = reported("SYS_UPSTREAM_REJECTED", kind=Kind.PARTIAL)
# of a peer that runs scripts: what its codes say, in words
_CSP, _SCRIPT_TIMEOUT, _SCRIPT_ERROR = (
    EXECUTIONS[name].evolve(executed=Executed.MAYBE)
    for name in ("CSP_BLOCKED", "EXECUTION_TIMEOUT", "EXECUTION_ERROR")
)
_MEMORY = reported("SYS_UNAVAILABLE", "", "ask for less at once").evolve(details={"max_retries": 1})

_SYMBOLS: Mapping[str, Finding] = {  # in capitals only
    "ECONNREFUSED": _REFUSED,
    **dict.fromkeys(("ECONNRESET", "EPIPE", "ECONNABORTED", "UND_ERR_SOCKET"), _RESET),
    **dict.fromkeys(("ETIMEDOUT", "ESOCKETTIMEDOUT", "UND_ERR_CONNECT_TIMEOUT"), _TIMEOUT),
    **dict.fromkeys(("UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"), _TIMEOUT),
    **dict.fromkeys(("ENOTFOUND", "EAI_AGAIN"), _NOT_RESOLVED),
    **dict.fromkeys(("ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "EHOSTDOWN"), _UNREACHABLE),
    **dict.fromkeys(("EBUSY", "EAGAIN", "LOCKED", "EMFILE"), _BUSY),
    "EADDRINUSE": _PORT,
    "ENOENT": _NOT_THERE,
    **dict.fromkeys(("EACCES", "EPERM"), _NOT_ALLOWED),
    **dict.fromkeys(("ENOSPC", "EDQUOT"), _NO_SPACE),
    "ENOMEM": _MEMORY,
}
_PHRASES: Mapping[str, Finding] = {  # in any case
    **dict.fromkeys(("connection refused", "couldn't connect to server"), _REFUSED),
    **dict.fromkeys(("connection reset by peer", "socket hang up", "broken pipe"), _RESET),
    # http.client, curl, git, ssh, wget, psql, docker and Go's net/http, in their own words
    **dict.fromkeys(
        ("remote end closed connection without response", "empty reply from server"), _RESET
    ),
    **dict.fromkeys(("the remote end hung up unexpectedly", "early eof", "unexpected eof"), _RESET),
    **dict.fromkeys(("connection closed by remote host", "unexpected disconnect"), _RESET),
    **dict.fromkeys(("server closed the connection unexpectedly", "no data received"), _RESET),
    **dict.fromkeys(("error during connect", "connection aborted", "fetch failed"), _VAGUE),
    "transfer closed with": _RESET,
    **dict.fromkeys(("connection lost", "lost connection", "connection was closed"), _RESET),
    **dict.fromkeys(("server disconnected", "ssl_error_syscall"), _RESET),
    **dict.fromkeys(
        ("timed out", "network timeout", "http timeout", "connection timeout"), _TIMEOUT
    ),
    **dict.fromkeys(
        ("read timeout", "connect timeout", "socket timeout", "request timeout"), _TIMEOUT
    ),
    **dict.fromkeys(("tls handshake timeout", "i/o timeout", "operation too slow"), _TIMEOUT),
    **dict.fromkeys(("deadline exceeded", "deadline_exceeded", "timeout expired"), _TIMEOUT),
    **dict.fromkeys(
        ("timeout awaiting", "timeout exceeded", "exceeded while awaiting headers"), _TIMEOUT
    ),
    # asyncio, which says the errno instead of its text: of Linux, macOS and Windows
    **dict.fromkeys((f"errno {n}] connect call failed" for n in (111, 61, 10061)), _REFUSED),
    **dict.fromkeys((f"errno {n}] connect call failed" for n in (110, 60, 10060)), _TIMEOUT),
    **dict.fromkeys((f"errno {n}] connect call failed" for n in (113, 65, 10065)), _UNREACHABLE),
    **dict.fromkeys((f"errno {n}] connect call failed" for n in (101, 51, 10051)), _UNREACHABLE),
    "connect call failed": _VAGUE,
    # Windows, in English; in other languages it is the number that counts
    **dict.fromkeys(("actively refused it", "refused the network connection"), _REFUSED),
    **dict.fromkeys(
        ("forcibly closed by the remote host", "aborted by the software in your host"), _RESET
    ),
    "did not properly respond after a period of time": _TIMEOUT,
    "attempted to an unreachable network": _UNREACHABLE,
    "being used by another process": _BUSY,
    **dict.fromkeys(
        ("name or service not known", "temporary failure in name resolution"), _NOT_RESOLVED
    ),
    **dict.fromkeys(
        ("could not resolve host", "could not resolve hostname", "no such host"), _NOT_RESOLVED
    ),
    **dict.fromkeys(("could not resolve proxy", "unable to resolve host address"), _NOT_RESOLVED),
    **dict.fromkeys(
        ("could not translate host name", "unable to look up", "dns failure"), _NOT_RESOLVED
    ),
    **dict.fromkeys(
        ("nodename nor servname provided", "name resolution failed", "getaddrinfo failed"),
        _NOT_RESOLVED,
    ),
    **dict.fromkeys(
        ("network is unreachable", "no route to host", "host is unreachable"), _UNREACHABLE
    ),
    **dict.fromkeys(("network unreachable", "host is down"), _UNREACHABLE),
    "network error": _VAGUE,
    "cannot connect to the docker daemon": _DOCKER,
    **dict.fromkeys(
        ("server certificate verification failed", "ssl certificate problem"), _NOT_TRUSTED
    ),
    **dict.fromkeys(("certificate verify failed", "certificate has expired"), _NOT_TRUSTED),
    "host key verification failed": reported(
        "CONN_TLS_HANDSHAKE_FAILED", "host key not accepted"
    ).evolve(
        suggestions=("compare the host key through another channel, then accept it",),
    ),
    **dict.fromkeys(
        ("database is locked", "resource busy", "resource temporarily unavailable"), _BUSY
    ),
    **dict.fromkeys(("temporary file lock", "another git process seems to be running"), _LOCK),
    **dict.fromkeys(
        ("index.lock': file exists", "could not get lock", "unable to acquire lock"), _LOCK
    ),
    **dict.fromkeys(("disk quota exceeded", "no space left on device"), _NO_SPACE),
    **dict.fromkeys(("address already in use", "port already bound"), _PORT),
    "failed to start daemon": _SPAWN,
    "daemon started but not responding": _SLOW_START,
    **dict.fromkeys(
        ("429 too many requests", "too many requests", "rate limit", "rate limited"), _LIMITED
    ),
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded", "quota exceeded"), _LIMITED),
    "toomanyrequests": _LIMITED,  # docker's registry
    "404 not found": _FINAL,
    **dict.fromkeys(("invalid argument", "syntax error"), _INVALID),
    "command not found": _NO_COMMAND,
    **dict.fromkeys(("no such file or directory", "file not found"), _NOT_THERE),
    **dict.fromkeys(("permission denied", "operation not permitted"), _NOT_ALLOWED),
    "403 forbidden": _FORBIDDEN,
    **dict.fromkeys(
        ("unexpected token", "invalid json", "schema validation failed", "state mismatch"), _CORRUPT
    ),
    **dict.fromkeys(("orphan workflow state", "invalid or inconsistent"), _CORRUPT),
    **dict.fromkeys(("operation incomplete", "commit incomplete", "some files written"), _PARTIAL),
    "checkpoint exists but final state missing": _PARTIAL,
    "expected artifacts present, others missing": _PARTIAL,
    **dict.fromkeys(("content security policy", "rejected by page csp", "csp_blocked"), _CSP),
    "execution_timeout": _SCRIPT_TIMEOUT,
    "execution_error": _SCRIPT_ERROR,
    **dict.fromkeys(("out of memory", "cannot allocate memory"), _MEMORY),
    **dict.fromkeys(("insufficient_quota", "billing_hard_limit_reached"), QUOTA),
}
_NUMBERED = (  # where a text says that a number is a status
    r"http(?:/\d(?:\.\d)?)? [45]\d\d",
    r"status[ _]?(?:code)?(?: is| was| of)?[\"']?[ :=]{1,3}[45]\d\d",
    r"response (?:status )?code(?: is| was| of)?[\"']?[ :=]{1,3}[45]\d\d",
    r"error[ _]?code[\"']?[ :=]{1,3}[45]\d\d",
    r"got status[ :=]{1,3}[45]\d\d",
    r"api error[ :=]{1,3}[45]\d\d",
    r"returned (?:status )?(?:code )?[45]\d\d(?= |:|$)",
    r"returned error: [45]\d\d",
    r"502 bad gateway",
    r"503 service (?:temporarily )?unavailable",
    r"504 gateway time-?out",
    r"500 internal server error",
    r"408 request timeout",
    r"401 unauthorized",
    r"400 bad request",
    r"curl: \(\d{1,2}\)",
    r"timeout of \d{1,9} ?ms exceeded",
    r"script exceeded \d{1,9} ?ms timeout",
    r"error [45]\d\d:",  # wget
    r"tunnel connection failed: [45]\d\d",  # http.client, of a proxy
)
_READ: Final = 16_384  # characters in which a body is looked for
_NEAR: Final = 200  # characters before a body in which its status stands
_BEFORE: Final = re.compile(
    r"\b(?:http(?:/[0-9.]{1,3})?|status|code|error)\b[^0-9a-z]{0,12}([45][0-9]{2})\b"
)
_LEADING: Final = re.compile(
    r"(?:[^\n:]{1,60}: ){0,3}\(?([45][0-9]{2})\)?(?: - |: |, | (?=[a-zA-Z\"'`{\[(]|[^\x00-\x7f]))",
)
_FAILED: Final = re.compile(  # what stands after a number that is a status, and not a count
    r"error|no body|insufficient|exceed|invalid|fail|unavailable|overload|limit|quota|credit|balance|too (?:many|long|large)|try again|denied|not |unauthori"
    r"|forbidden|timeout|timed out|busy|unable|unsupported|unknown|maximum|must|missing|reduce|cannot|can't|please|unexpected"
    r"|不|超|失败|错误|无效|限|过"
)
_CODE: Final = re.compile(
    r"\b(?:error[_ ]?)?(?:code|type|reason)[\"']?\s?[:=]\s?[\"'\[(]?([A-Za-z][\w.-]{3,80})|^\[?([A-Za-z][\w.]{3,80})[\]:] "
    r"|\berror[:=] ([A-Za-z]{2,30}(?:_[A-Za-z]{2,30}){1,5})\b"
    r"|\berror (?:occurred )?\(([A-Za-z][\w.]{3,80})\)",
    re.IGNORECASE,
)
_MOST_CODES: Final = 8
_ERRORS: Final = frozenset({"error", "errors", "__type", "base_resp"})
_MESSAGES: Final = frozenset(
    ("message", "msg", "Message", "error_msg", "errmsg", "detail", "error_message")
)
_CODES: Final = frozenset(
    ("code", "status", "Code", "error_code", "errcode", "type", "message_type")
)
_ANYWHERE: Final = (QUOTA, CONTEXT, LARGE)
_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_STATUS = re.compile(r"[45]\d\d(?!\d)")
_CURL_NUMBER = re.compile(r"curl: \((\d{1,2})\)")


@cache
def _patterns() -> re.Pattern[str]:
    # Plain alternatives, grouped by first letter: the engine then tries few of them at each position.
    heads: dict[str, list[str]] = {}
    words = [re.escape(word) for word in (*_PHRASES, *(symbol.lower() for symbol in _SYMBOLS))]
    for word in sorted((*words, *_NUMBERED), key=len, reverse=True):
        heads.setdefault(word[0], []).append(word[1:])
    return re.compile("|".join(f"{head}(?:{'|'.join(tails)})" for head, tails in heads.items()))


def text_finding(text: str) -> Finding | None:
    """Return the verdict on a text, None if it has no known pattern.

    A body in the text is read like any other body. Else the first pattern in the text counts; but
    what is final in a provider's words (money, a day, a context, a size) is so anywhere, because it
    stands after "429".
    """
    found, otherwise = _by_body(text) if "{" in text else (None, None)
    return found or _by_pattern(text) or otherwise


def _by_pattern(text: str) -> Finding | None:
    if len(text) > _LONGEST:
        text = text[:_LONGEST]
    if (printed := _printed_finding(text)) is not None:
        return printed
    if (closed := printed_close(text)) is not None:
        return _reported(closed, "")
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter whose lower case is longer: match the text as written
        lowered = text
    wait = wait_in_text(lowered)
    final = bare_words_finding(lowered, wait)
    if final in _ANYWHERE:
        return _reported(final, text)
    if (at_beginning := _by_beginning(text, wait)) is not None:
        return at_beginning
    match = _patterns().search(lowered)
    if final is RATE and match is None:
        return _reported(RATE.evolve(retry_after=wait), text)
    first = None if match is None else _first(text, lowered, match)
    if first is None:
        return None
    if "http_status" in first.details:  # a status makes it an answer, and its words those of a body
        return _reported(status_finding(cast("int", first.details["http_status"]), None, text), "")
    if first.kind is None and first.repeats:
        first = first.evolve(retry_after=wait)
    return first.evolve(message=first.summary + short_of(text))


def _by_beginning(text: str, wait: float | None) -> Finding | None:
    """Return the verdict of a text that begins with a status, or that names its code: `code: X`."""
    start = text[:_READ].lstrip()
    status = _LEADING.match(start)
    if status is not None:
        rest = start[status.end() :]
        answered = status_finding(int(status[1]), None, rest)
        counted = (
            rest[:1].islower()
            and status[0].endswith(" ")
            and not status[0].endswith((": ", "- ", ", "))
        )
        failed = (
            rest.startswith(("status code", "no body"))
            if counted
            else _FAILED.search(rest[:_NEAR].lower())
        )
        if failed or answered.details.get("reason"):
            return _reported(answered.evolve(message=""), text)
    names = [
        next(filter(None, match.groups())) for match in islice(_CODE.finditer(start), _MOST_CODES)
    ]
    reasons = {name_says(name) for name in names}
    if not (
        reasons - {""}
        or start.startswith("rpc error")
        or any(says_limited([name], "") for name in names)
    ):
        return None
    found = bare_finding(
        ErrorBody(names=tuple(names), message=text, words=start.lower(), wait=wait), None
    )
    return found and _reported(found, "")


def _first(text: str, lowered: str, match: re.Match[str]) -> Finding | None:
    first: Finding | None = None
    for hit in (match, *_patterns().finditer(lowered, match.end())):
        found = _meant(text, hit)
        first = found if first is None or (first is _VAGUE and found is not None) else first
        if first is not None and first is not _VAGUE:
            break
    return first


def _by_body(text: str) -> tuple[Finding | None, Finding | None]:
    """Return the verdict on a body that an SDK or a program put into a text, and what is left without one."""
    inside = document_in(text[:_READ])
    if inside is None:
        return None, None
    before, document = inside
    content, status = read_body(document), _BEFORE.search(before[-_NEAR:].lower())
    if status is not None:
        answered = status_finding(int(status[1]), None, document)
        return _reported(answered, "" if content.message else text), None
    listed = cast("list[object]", document) if isinstance(document, list) else [document]
    fields = mapping_of(listed[0] if listed else None)
    found = bare_finding(content, None)
    if not _is_error(fields):
        known = found if _MESSAGES & fields.keys() and _CODES & fields.keys() else None
        return known and _reported(known, "" if content.message else text), None
    # An event of a stream is written like this; whoever does not know its name does not call it final.
    unknown = PASSING if fields.get("type") == "error" else REJECTED
    words = content.message or text
    return found and _reported(found, "" if content.message else text), _reported(unknown, words)


def _is_error(fields: Mapping[object, Any]) -> bool:
    inner = mapping_of(fields.get("response"))
    if str(fields.get("type"))[:10].lower() == "error" or fields.get("kind") == "Status":
        return True
    return any(
        (value and key in _ERRORS) or (isinstance(key, str) and key.endswith("Exception"))
        for key, value in (*fields.items(), *(pair for pair in inner.items() if pair[0] == "error"))
    )


def _reported(finding: Finding, text: str) -> Finding:
    """Return the verdict as that of a report: it is the other side's, and proves nothing."""
    message = finding.summary + short_of(text) if text else finding.message
    return finding.evolve(
        category=Category.UPSTREAM, executed=Executed.MAYBE, proof="", message=message
    )


def _meant(text: str, match: re.Match[str]) -> Finding | None:
    start, end = match.span()
    if text[start - 1 : start] in _WORD or text[end : end + 1] in _WORD:
        return None
    words = match.group()
    return _PHRASES.get(words) or _SYMBOLS.get(text[start:end]) or _status(words)


def _status(words: str) -> Finding | None:
    if words.startswith(("timeout of", "script exceeded")):
        return _TIMEOUT if words.startswith("timeout of") else _SCRIPT_TIMEOUT
    if (curl := _CURL_NUMBER.match(words)) is not None:
        return _curl_finding(int(curl[1]))
    number = _STATUS.search(words)
    if number is None:
        return None
    return status_finding(int(number.group()))
