"""What `classify` says of every case that its tables know: golden.json, made from the list golden_rows.json.

    python -m tests.failure.golden      # renews golden.json: in a commit that changes nothing else and says why

Each code is a case. A row of the list is another, as data: a class by its name and what an error of it carries, a status with its headers and
body, a close, an exit, an errno, a text, a payload. Each is read bare and, where it can be, below other exceptions, in groups
and as a response. Of a failure the file has what differs from the row of its code, and a sum of its renderings; of a
case in another place, what differs from the bare one.

Rule: nothing here looks into the tables but for the names of the codes, so that they can be written anew.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import hashlib
import itertools
import json
import re
import socket
import ssl
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import httpx
import requests

import resilient_bridge as rb
from resilient_bridge.failure import (
    CODES,
    Category,
    Failure,
    Kind,
    classify,
    classify_close,
    classify_error_payload,
    error_for,
    exit_finding,
    matches,
)


ROWS = Path(__file__).with_name("golden_rows.json")
GOLDEN = Path(__file__).with_name("golden.json")
AT: Final = datetime(2026, 11, 29, tzinfo=UTC)
REAL = {"builtins": builtins, "asyncio": asyncio, "socket": socket, "ssl": ssl, "json": json}
_CLASSES: dict[tuple[str, str], type[BaseException]] = {}
_BODY = {"error": {"code": "rate_limit_exceeded", "message": "slow down, try again in 3s"}}


def named(package: str, name: str) -> type[BaseException]:
    """A class of this name in this package: Python's own, or one that is made."""
    real = getattr(REAL.get(package), name, None)
    if real is not None:
        return real
    if (package, name) not in _CLASSES:
        fields = {"__module__": f"{package}.errors"}
        _CLASSES[package, name] = type(name, (Exception,), fields)
    return _CLASSES[package, name]


def _made(cls: type[BaseException], *args: object) -> BaseException:
    try:
        return cls(*args)
    except TypeError:
        return cls.__new__(cls)


def _carrying(error: BaseException, status: int, headers: Any, body: object) -> BaseException:
    """The error with what an error of some library carries besides its text."""
    content = b"" if body is None else json.dumps(body).encode()
    response = SimpleNamespace(
        status_code=status, status=status, headers=headers, body=content, content=content
    )
    fields = {
        "response": response,
        "status_code": status,
        "status": status,
        "headers": headers,
        "body": body,
        "code": status,
        "message": "as it says",
        "details": body,
        "error": SimpleNamespace(code=-32001, message="timed out", data=None),
        "history": (),
        "request_id": "req_1",
        "returncode": 75,
        "stderr": "busy",
        "stdout": "",
        "cmd": ["tool", "x"],
        "timeout": 3,
        "retryable": True,
        "got": b"x",
    }
    for name, value in fields.items():
        try:
            setattr(error, name, value)
        except (AttributeError, TypeError):
            continue
    return error


def _of_class(row: dict[str, Any]) -> BaseException:
    error = _made(named(row["package"], row["name"]), "as it says")
    if row["carries"] == "nothing":
        return error
    return _carrying(error, int(row["carries"]), {"retry-after": "7"}, _BODY)


def _of_status(row: dict[str, Any]) -> BaseException:
    error = _made(named("openai", "APIStatusError"), "as it says")
    return _carrying(error, row["status"], row["headers"], row["body"])


def _of_tls(row: dict[str, Any]) -> BaseException:
    error = ssl.SSLCertVerificationError(1, "as it says")
    error.verify_code = row["number"]
    return error


def _of_alert(row: dict[str, Any]) -> BaseException:
    error = ssl.SSLError(1, "as it says")
    error.reason = row["reason"]
    return error


def _of_grpc(row: dict[str, Any]) -> BaseException:
    error: Any = named("grpc", "RpcError")("as it says")
    error.code = lambda: SimpleNamespace(name=row["name"])
    error.details = lambda: row["words"]
    error.trailing_metadata = lambda: list(row["metadata"].items())
    return error


def _of_aws(row: dict[str, Any]) -> BaseException:
    error: Any = named("botocore", "ClientError")("as it says")
    meta = {"HTTPStatusCode": row["status"], "HTTPHeaders": {}, "RequestId": "r1"}
    error.response = {"Error": {"Code": row["code"], "Message": "m"}, "ResponseMetadata": meta}
    return error


def _of_close(row: dict[str, Any]) -> BaseException:
    error: Any = named("websockets", "ConnectionClosed")("as it says")
    frame = SimpleNamespace(code=row["code"], reason=row["text"])
    error.rcvd = frame if row["by"] == "peer" else None
    error.sent = frame if row["by"] == "us" else None
    error.rcvd_then_sent = True
    return error


def _of_name(row: dict[str, Any]) -> BaseException:
    error: Any = named("openai", "APIError")("as it says")
    error.body = {"error": {"code": row["name"], "message": "as the provider says"}}
    return error


ERRORS = {
    "code": lambda row: error_for(Failure.of(row["code"])),
    "class": _of_class,
    "errno": lambda row: OSError(getattr(errno, row["name"]), "as it says"),
    "builtin": lambda row: _made(getattr(builtins, row["name"]), *row["args"]),
    "gai": lambda row: socket.gaierror(row["number"], "as it says"),
    "tls": _of_tls,
    "tls_alert": _of_alert,
    "text": lambda row: RuntimeError(row["text"]),
    "close": _of_close,
    "status": _of_status,
    "named": _of_name,
    "grpc": _of_grpc,
    "aws": _of_aws,
}
"""What makes the exception of a row, for the kinds that have one."""
ONLY_BARE = {"text", "named", "status"}
"""Kinds whose exceptions are read alone: what is around them does not depend on what they say."""


def _below(package: str, name: str, error: BaseException) -> BaseException:
    outer = _made(named(package, name), "the outer one")
    outer.__cause__ = error
    return outer


def _refused(error: BaseException) -> BaseException:
    outer = rb.NotExecutedError(Failure.of("SYS_NOT_EXECUTED"))
    outer.__cause__ = error
    return outer


def _grouped(*errors: BaseException) -> BaseException:
    return BaseExceptionGroup("several", errors)


def _plain(value: object) -> object:
    return json.loads(json.dumps(value, default=repr))


def as_data(failure: Failure | None) -> dict[str, Any]:
    """A failure as data: its code, what differs from the row of the code, and a sum of its renderings."""
    if failure is None:
        return {"code": None}
    usual = Failure.of(failure.code).to_dict()
    fields = {
        name: value
        for name, value in failure.to_dict().items()
        if name == "code" or value != usual[name]
    }
    texts = (
        str(failure),
        repr(failure),
        failure.explain(),
        failure.to_llm(),
        json.dumps([failure.to_report(AT), failure.to_mcp()], sort_keys=True),
    )
    sum_of = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8]
    return {**_plain(fields), "sum": sum_of}  # type: ignore[dict-item]


def read(subject: object) -> dict[str, Any]:
    """What `classify` says of it, as data; `raised` for what is no failure."""
    try:
        failure = classify(subject)
    except BaseException as error:
        if error is not subject:
            raise
        return {"raised": type(error).__name__}
    finally:
        # an exception and its traceback hold each other, and there are thousands
        subject = None
    return as_data(failure)


def _others(kind: str, row: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """The row in other places than alone, with the name of each."""
    if kind == "text":
        yield "itself", row["text"]
    if kind == "status":
        body = None if row["body"] is None else json.dumps(row["body"]).encode()
        response = httpx.Response(row["status"], headers=row["headers"], content=body)
        yield "response", response
        request = httpx.Request("POST", "https://peer.example/")
        yield "raised", httpx.HTTPStatusError("x", request=request, response=response)
        yield "read", _requests(row["status"], row["headers"], body)
    if kind not in ERRORS or kind in ONLY_BARE:
        return
    make = ERRORS[kind]
    yield "below httpx", _below("httpx", "ConnectError", make(row))
    yield "below openai", _below("openai", "APIConnectionError", make(row))
    yield "below urllib3", _below("urllib3", "ProtocolError", make(row))
    if kind == "builtin":
        yield "below another", _below("acme", "OuterError", make(row))
    yield "not executed", _refused(make(row))
    yield "in a group", _grouped(make(row))
    yield "with a reset", _grouped(ConnectionResetError(104, "x"), make(row))
    yield "with a defect", _grouped(make(row), asyncio.CancelledError(), KeyError("x"))


def _requests(status: int, headers: dict[str, str], body: bytes | None) -> requests.Response:
    answer = requests.Response()
    answer.status_code, answer._content = status, body or b""
    answer.headers.update(headers)
    return answer


def _bare(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    if kind in ERRORS:
        return read(ERRORS[kind](row))
    if kind == "exit":
        found = exit_finding(row["code"], row["stderr"], "", row["program"])
        return as_data(found if isinstance(found, Failure) else found.failure())
    if kind == "upgrade":
        error: Any = named("websockets", "InvalidStatus")("as it says")
        error.response = SimpleNamespace(status_code=row["status"], headers={}, body=b"")
        return read(error)
    if kind == "payload":
        return as_data(classify_error_payload(row["payload"]))
    if kind == "rpc":
        return {
            **read({"jsonrpc": "2.0", "id": 1, "error": row["error"]}),
            "from_mcp": as_data(Failure.from_mcp(row["error"])),
        }
    assert kind == "answer"
    return read(row["answer"])


def rows() -> list[dict[str, Any]]:
    """A row for each code, and those of the list."""
    codes = [{"id": f"code {code}", "kind": "code", "code": code} for code in CODES]
    return [*codes, *json.loads(ROWS.read_text(encoding="utf-8"))]


def verdicts() -> dict[str, dict[str, Any]]:
    """Every row with what is said of it, bare and elsewhere."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows():
        kind = row["kind"]
        alone = _bare(kind, row)
        if kind == "close":
            closed = as_data(classify_close(row["code"], row["text"], row["by"]))
            alone["closed"] = _differing(closed, alone)
        entry = found[row["id"]] = {"alone": alone}
        for where, subject in _others(kind, row):
            entry[where] = _differing(read(subject), alone)
    return found


WHATS: dict[str, Any] = {
    "Exception": Exception,
    "BaseException": BaseException,
    "OSError": OSError,
    "ConnectionError": ConnectionError,
    "ConnectionResetError": ConnectionResetError,
    "TimeoutError": TimeoutError,
    "RuntimeError": RuntimeError,
    "BridgeError": rb.BridgeError,
    "RejectedError": rb.errors.RejectedError,
    "AuthError": rb.errors.AuthError,
    "CircuitOpenError": rb.CircuitOpenError,
    "named openai error": rb.named("openai", "APIStatusError"),
    "named httpx error": rb.named("httpx", "NetworkError"),
    "named BridgeError": rb.named("resilient_bridge", "BridgeError"),
    "named OSError": rb.named("builtins", "OSError"),
    **{str(number): number for number in (429, 503, 401, 1011, 4001, -32001)},
    **{
        code: code for code in ("SYS_RATE_LIMITED", "CONN_RESET", "SYS_UNAVAILABLE", "TOOL_TIMEOUT")
    },
    "words": re.compile("rate limited|as it says"),
    "other words": re.compile("provider"),
    **{str(kind): kind for kind in Kind},
    **{str(category): category for category in Category},
    "a predicate": lambda failure: failure.retry_after is not None,
}
"""Names of failures, as rules and registrations have them."""
_MATCHED = ("alone", "below httpx", "in a group", "with a reset", "with a defect")


def matched() -> dict[str, dict[str, Any]]:
    """For each name of a failure: how many rows it names, and the sum of their ids."""
    failures: list[tuple[str, Failure]] = []
    for row in rows():
        kind = row["kind"]
        if kind not in ERRORS or kind == "text":
            continue
        places = [("alone", ERRORS[kind](row)), *_others(kind, row)]
        for where, subject in places:
            if where in _MATCHED and not _stops(subject):
                failures.append((f"{row['id']} {where}", classify(subject)))
    found = {}
    for name, what in WHATS.items():
        fitting = [label for label, failure in failures if matches((what,), failure)]
        digest = hashlib.sha256("\n".join(fitting).encode()).hexdigest()[:8]
        found[f"matches {name}"] = {"rows": len(fitting), "sum": digest}
    return found


def _stops(subject: object) -> bool:
    """Whether it is no failure: a cancellation, the end of the program."""
    try:
        classify(subject)
    except BaseException:  # noqa: BLE001 -- classify raises again what is no failure
        return True
    return False


_REGISTERED = (
    "Exception",
    "OSError",
    "ConnectionError",
    "BridgeError",
    "named openai error",
    "named OSError",
    "429",
    "1011",
    "CONN_RESET",
    "SYS_RATE_LIMITED",
    "words",
    "other words",
)


def registered() -> dict[str, dict[str, Any]]:
    """For each two registered names: which of them decides about each of some errors."""
    chosen = [row for row in rows() if row["kind"] in ("class", "status", "builtin", "close")]
    subjects = [ERRORS[row["kind"]](row) for row in chosen[::47]]
    subjects += [_below("httpx", "ConnectError", ConnectionResetError(104, "x"))]
    letters = {"TOOL_EXECUTION_FAILED": "1", "SYS_STATE_DAMAGED": "2"}
    found = {}
    for first, second in itertools.product(_REGISTERED, repeat=2):
        with (
            classify.register(WHATS[first], code="TOOL_EXECUTION_FAILED"),
            classify.register(WHATS[second], code="SYS_STATE_DAMAGED"),
        ):
            codes = [classify(subject).code for subject in subjects if not _stops(subject)]
        deciding = "".join(letters.get(code, ".") for code in codes)
        found[f"registered {first}, {second}"] = {"by": deciding}
    return found


def _differing(these: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    changed = {name: value for name, value in these.items() if base.get(name) != value}
    missing = [name for name in base if name not in these and name not in ("from_mcp", "closed")]
    return changed | ({"without": missing} if missing else {})


def everything() -> dict[str, dict[str, Any]]:
    """All that the file has."""
    return {**verdicts(), **matched(), **registered()}


def text_of(found: dict[str, dict[str, Any]]) -> str:
    """The file: a row a line."""
    lines = (
        f"{json.dumps(row)}: {json.dumps(entry, ensure_ascii=False, sort_keys=True)}"
        for row, entry in found.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    GOLDEN.write_text(text_of(everything()), encoding="utf-8")
    sys.stdout.write(f"{GOLDEN}: {len(json.loads(GOLDEN.read_text()))} rows\n")
