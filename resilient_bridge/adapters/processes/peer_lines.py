"""JSON-RPC 2.0 as lines of text: encoding, decoding, and the error that an answer stands for.

Rule: a line is one object. Output is ASCII, so that no other character can end a line; input is
checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

from ...failure import Category, Executed, Failure, classify, config_error, error_for
from ...values.fields import is_number


Fields: TypeAlias = dict[str, Any]
"""An object of JSON."""
_LONGEST_ID: Final = 1_000


def encode(by: str, method: object, params: object, number: int | None = None) -> bytes:
    """Return the line of a request, or of a notification if `number` is None.

    Raises ConfigError, naming `by`, for what cannot be sent.
    """
    if not isinstance(method, str) or not method:
        raise config_error(f"{by}.method", "a name that is not empty", type(method).__name__)
    fields: Fields = {"jsonrpc": "2.0", "method": method}
    if number is not None:
        fields["id"] = number
    if params is not None:
        if not isinstance(params, Mapping):
            raise config_error(f"{by}.params", "a mapping, or None", type(params).__name__)
        fields["params"] = dict(cast("Mapping[str, Any]", params))
    try:
        return _line(fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise config_error(f"{by}.params", "values that JSON can hold", str(error)) from error


def refusal(number: object) -> bytes:
    """Return the line that answers a request of the child: method not found."""
    return _line(
        {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "method not found"}}
    )


def decode(line: bytes) -> Fields | None:
    """Return the message in a line: an object with a method, or an answer with an id.

    None for any other line. `"jsonrpc": "2.0"` is required, because a log line can be JSON as well.
    """
    try:
        message: object = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    found = cast("Fields", message)
    if found.get("jsonrpc") != "2.0" or not _is_id(found.get("id")):
        return None
    if "method" in found:
        fits = isinstance(found["method"], str) and isinstance(
            found.get("params"), dict | list | None
        )
    else:
        fits = "id" in found
    return found if fits else None


def result_of(method: str, answer: Fields) -> Any:
    """Return the result of an answer.

    Raises the error that an error answer stands for, ProtocolError for an answer that is neither.
    """
    if answer.get("error") is None and "result" in answer:
        return answer["result"]
    failure = classify(answer) if isinstance(answer.get("error"), dict) else None
    if failure is None:
        failure = Failure.of(
            "PROTO_INVALID_MESSAGE",
            f"{method}: invalid answer: wanted a result or an error",
            # stdio Bus: what a worker answers wrongly is its failure, not the link's
            category=Category.UPSTREAM,
            executed=Executed.MAYBE,
            details={"received": sorted(answer)},
        )
    raise error_for(failure)


def _line(message: Fields) -> bytes:
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _is_id(found: object) -> bool:
    return (
        found is None or is_number(found) or (isinstance(found, str) and len(found) <= _LONGEST_ID)
    )
