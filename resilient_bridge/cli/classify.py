"""`resilient-bridge classify WHAT`: what an error means, whether a retry helps, and what to do.

Rule: nothing is classified here; the typed text is only converted to the form that the
classification reads.
"""

from __future__ import annotations

import argparse
import errno
import json
import math
import re
from typing import Final, NamedTuple

import attrs

from ..failure import Failure, classify_close, parse_retry_after
from ..failure.exits import exit_finding
from ..failure.lookup import ERRNOS, of_errno, read_text
from ..failure.statuses import status_finding
from ..world import current_world
from .printing import complain, show


_NUMBER: Final = re.compile(r"-?[0-9]{1,6}")
_DIGITS: Final = 6
_STATUSES, _SUCCESS = range(200, 600), range(100, 300)
_CLOSES: Final = range(1000, 5000)
_EXITS: Final = range(-64, 200)  # of a bare number; `--exit-code` takes up to 255
_RPC: Final = range(-32_768, -31_999)
_NO_FRAME: Final = frozenset({1006, 1015})  # never sent: there was no close frame
_NO_CODE: Final = 1005  # never sent: the close frame had no code


class Reading(NamedTuple):
    """The failure that the typed text means (None: success), and a note about how it was read."""

    failure: Failure | None
    note: str = ""


def run(arguments: argparse.Namespace) -> int:
    """Print the failure; return 0, or 2 after one line about the problem."""
    try:
        reading = read(arguments)
    except ValueError as error:
        return complain("classify", str(error))
    if reading.note:
        complain("classify", reading.note)
    failure = reading.failure
    if arguments.json:
        return show(
            "classify", json.dumps(None if failure is None else failure.to_dict()), is_data=True
        )
    return show(
        "classify", "no failure: it means success" if failure is None else failure.explain()
    )


def read(arguments: argparse.Namespace) -> Reading:
    """Return the failure that the arguments mean. Raises ValueError that says what was expected."""
    text = (arguments.what or "").strip()
    wait = _wait(arguments.retry_after)
    if arguments.status is not None:
        reading = Reading(_status(arguments.status, text, wait))
    elif arguments.close_code is not None:
        reading = Reading(_close(arguments.close_code, text))
    elif arguments.exit_code is not None:
        reading = Reading(_exit(arguments.exit_code, text))
    elif arguments.errno is not None:
        reading = Reading(_errno(arguments.errno, text))
    elif arguments.mcp is not None:
        reading = Reading(Failure.from_mcp({"code": arguments.mcp, "message": text}))
    elif text:
        reading = _guess(text, wait)
    else:
        raise ValueError(
            "an error's text, code or number expected, or an option that names it, got nothing"
        )
    failure = reading.failure
    if wait is None or failure is None or failure.retry_after is not None:
        return reading
    if not failure.retryable:  # as for an HTTP response: no wait where a retry cannot help
        return Reading(
            failure, reading.note or "--retry-after says nothing here: repeating does not help"
        )
    return Reading(attrs.evolve(failure, retry_after=wait), reading.note)


def _wait(value: str | None) -> float | None:
    if value is None:
        return None
    seconds = parse_retry_after(value, current_world().wall())
    if seconds is None:
        raise ValueError(f"--retry-after: whole seconds or an HTTP date expected, got {value!r}")
    return seconds


# ---- without an option, by its form ---------------------------------------------------------------------------------


def _guess(text: str, wait: float | None) -> Reading:
    if _NUMBER.fullmatch(text):
        return _number(int(text), wait)
    failure, is_known = read_text(text)
    return Reading(failure, "" if is_known else "no rule knows this text: not retryable")


def _number(number: int, wait: float | None) -> Reading:
    if number in _STATUSES:
        return Reading(
            _status(number, "", wait), f"read as an HTTP status, as with --status {number}"
        )
    if number in _CLOSES:
        return Reading(_close(number, ""), f"read as a close code, as with --close-code {number}")
    if number in _EXITS:
        return Reading(_exit(number, ""), f"read as an exit code, as with --exit-code {number}")
    if number in _RPC:
        return Reading(
            Failure.from_mcp({"code": number}), f"read as a JSON-RPC code, as with --mcp {number}"
        )
    raise ValueError(
        f"an HTTP status, close code, exit code or JSON-RPC code expected, got {number}; "
        "--status, --close-code, --exit-code, --errno and --mcp say which it is"
    )


# ---- with an option -------------------------------------------------------------------------------------------------


def _status(status: int, body: str, wait: float | None) -> Failure | None:
    if status in _SUCCESS:
        return None
    headers = {} if wait is None else {"retry-after": str(math.ceil(wait))}
    return status_finding(status, headers, body).failure()


def _close(code: int, text: str) -> Failure:
    if code in _NO_FRAME:
        return classify_close(None, text, None)
    return classify_close(None if code == _NO_CODE else code, text, "peer")


def _exit(code: int, stderr: str) -> Failure | None:
    return exit_finding(code, stderr).failure() if code else None


def _errno(name: str, text: str) -> Failure | None:
    number = int(name) if name.isdecimal() and len(name) <= _DIGITS else ERRNOS.get(name.upper())
    if number is None or number not in errno.errorcode:
        raise ValueError(
            f"--errno: a name such as ECONNREFUSED, or its number, expected, got {name!r}"
        )
    return of_errno(number, text)
