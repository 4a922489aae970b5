"""The failure that a text means, whatever it is: the line of an exception, JSON, a code, an errno's
name, or words.

Rule: a text always gets a failure. The line of an exception gets the category that the exception
itself has; what a program or a peer only says is UPSTREAM. No text proves that a call did not run.
"""

from __future__ import annotations

import builtins
import errno
import os
import re
from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from .answers import answer_failure
from .bodies import read_json
from .dispatch import RULES
from .errnos import errno_of_windows
from .failure import Failure, unproven
from .finding import Finding, short_of
from .lookup import raw_failure
from .payloads import classify_error_payload, coded_finding
from .registry import applied
from .rpc import mapping_of
from .taxonomy import Executed
from .texts import text_finding


ERRNOS: Final[Mapping[str, int]] = {
    name: number for name, number in vars(errno).items() if name.startswith(("E", "WSA"))
}
"""Errnos by name, aliases such as EWOULDBLOCK included, which `errno.errorcode` leaves out."""
_LONGEST: Final = 8_192
_LINE: Final = re.compile(r"(?:([A-Za-z_]\w*)(?:\.\w+)*\.)?([A-Z]\w*)(?::\s*(.*))?", re.DOTALL)
_PACKAGES: Final = frozenset(package for package, _ in RULES)
_TIMEOUT: Final = Finding(code="CONN_TIMEOUT", message="timed out", executed=Executed.MAYBE)
_NUMBERED: Final = re.compile(r"\[(Errno|WinError) (\d{1,6})\] ?(.*)", re.DOTALL)


def read_text(text: str) -> tuple[Failure, bool]:
    """Return the failure that a text means, and whether anything in it is known."""
    text = str.__getitem__(text, slice(None)).strip()  # a subclass may have methods of its own
    found = _known(text)
    if found is not None:
        return applied(found), True
    unknown = Failure.of("SYS_INTERNAL_ERROR", "unknown error" + short_of(text))
    return applied(unknown, known=False), False


def _known(text: str) -> Failure | None:
    if text.startswith("{") and (found := _of_document(text)) is not None:
        # A code that nobody knows: a body says more, unless it is a response of JSON-RPC.
        is_bare = found.code == "SYS_INTERNAL_ERROR" and '"jsonrpc"' not in text[:_LONGEST]
        by_body = text_finding(text) if is_bare else None
        return found if by_body is None else by_body.failure()
    coded = coded_finding(text)
    if coded is not None:
        return coded.failure()
    if text in ERRNOS:
        found = of_errno(ERRNOS[text])
        return None if found is None else unproven(found)
    finding = _of_line(text) or text_finding(text)
    return finding.failure() if isinstance(finding, Finding) else finding


def of_errno(number: int, text: str = "") -> Failure | None:
    """Return the failure that an errno stands for."""
    return raw_failure(OSError(number, text or os.strerror(number)))


def _of_document(text: str) -> Failure | None:
    """Return the failure of a JSON object: a JSON-RPC or MCP response, else a bridge's error.

    None if it is neither.
    """
    document = mapping_of(read_json(text))
    found = answer_failure(document, of_server=True)
    if found is not None:
        return found
    payload = mapping_of(document.get("payload")) or document
    if not isinstance(payload.get("code"), str):
        return None
    return classify_error_payload(cast("Mapping[str, Any]", payload))


def _of_line(text: str) -> Finding | Failure | None:
    """Return the verdict on `package.Class: words`, the last line of a traceback; None for another text."""
    if text.startswith("Traceback (most recent call last)"):
        text = text[-_LONGEST:].rpartition("\n")[2]
    line = _LINE.fullmatch(text[:_LONGEST])
    if line is None:
        return None
    package, name, words = line[1] or "builtins", line[2], line[3] or ""
    if package == "builtins":
        error = _made(getattr(builtins, name, None), words)
        failure = None if error is None else raw_failure(error)
        return None if failure is None else unproven(attrs.evolve(failure, cause=None))
    if package not in _PACKAGES:
        return None
    rule = RULES.get((package, name), _TIMEOUT if "Timeout" in name else None)
    if rule is None:
        return None
    by_words = text_finding(words)
    if by_words is not None:  # the category of its code, as the exception has it
        return by_words.evolve(category=None)
    return rule.evolve(proof="") if isinstance(rule, Finding) else None


def _made(kind: object, words: str) -> Exception | None:
    """Return a built-in exception with these words; None if there is no such class."""
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        return None
    numbered = _NUMBERED.fullmatch(words) if issubclass(kind, OSError) else None
    try:
        if numbered is None:
            return kind(words) if words else kind()
        number = int(numbered[2])
        return kind(errno_of_windows(number) if numbered[1] == "WinError" else number, numbered[3])
    except Exception:  # noqa: BLE001 -- a class that takes other arguments, such as UnicodeDecodeError
        return None
