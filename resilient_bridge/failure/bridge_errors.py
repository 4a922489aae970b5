"""Verdicts on a BridgeError of another process: its JSON-RPC error object, and its printed text.

The texts are those of the stdio Bus specification, and of our own errors: a line of a log, the call
that makes the error, and a report for a person.

Rule: the words of a text are read as the same fields of an error object would be. No text proves
that a call did not run.
"""

from __future__ import annotations

import re
from typing import Any, Final

from .finding import Finding
from .rpc import read_rpc_error
from .taxonomy import MCP_CODES, Category, Executed


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


def error_object_finding(error: object) -> Finding:
    """Return the verdict on a JSON-RPC error object, or on the answer around it."""
    code, message, fields = read_rpc_error(error)
    return Finding(
        code=code,
        message=message,
        category=fields.get("category"),
        kind=fields.get("kind"),
        retryable=fields.get("retryable"),
        executed=fields.get("executed"),
        proof=fields.get("proof", ""),
        session_valid=fields.get("session_valid"),
        severity=fields.get("severity"),
        retry_after=fields.get("retry_after"),
        suggestions=tuple(fields.get("suggestions", ())),
        details=fields.get("details", {}),
    )


def printed_finding(text: str) -> Finding | None:
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
