"""Rules for clients of services: botocore (AWS) and gRPC.

Rule: the code that the service sends decides. botocore retries by itself, and a gRPC channel
reconnects, so no error of theirs proves that a call did not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .contents import wait_from_headers
from .dispatch import Rows
from .failure import Finding, short_of
from .rpc import mapping_of
from .statuses import status_finding, stream_finding
from .texts import text_finding
from .vocabulary import Category, Executed


# ---- botocore ------------------------------------------------------------------------------------------------------

_THROTTLED: Final = Finding(code="SYS_RATE_LIMITED")
_FORBIDDEN: Final = Finding(code="AUTH_FORBIDDEN")
_PASSING: Final = Finding(code="SYS_UNAVAILABLE")
_REFUSED: Final = Finding(code="SYS_UPSTREAM_REJECTED")


def _client_error(error: Any) -> Finding:
    """The rule for what AWS answers, in a response or in an event stream: its code decides."""
    answer = mapping_of(error.response)
    inner, about = mapping_of(answer.get("Error")), mapping_of(answer.get("ResponseMetadata"))
    code, status, headers = inner.get("Code"), about.get("HTTPStatusCode"), about.get("HTTPHeaders")
    body = {"__type": code, "message": inner.get("Message")}
    if isinstance(status, int) and status >= 400:
        found = status_finding(status, headers, body)
    else:
        found = stream_finding(body)
    details = {
        **found.details,
        **{
            key: value
            for key, value in (("reason", code), ("request_id", about.get("RequestId")))
            if isinstance(value, str) and key not in found.details
        },
    }
    return found.evolve(executed=Executed.MAYBE, proof="", details=details)


_CREDENTIALS: Final = Finding(
    code="SYS_CONFIG_INVALID",
    message="credentials missing",
    suggestions=("set the access key, a profile or a role",),
)
_LOST: Final = Finding(code="CONN_RESET")
_UNREACHED: Final = Finding(code="CONN_UNREACHABLE", message="connection failed")
_TIMEOUT: Final = Finding(code="CONN_TIMEOUT", message="timed out")

# ---- gRPC ----------------------------------------------------------------------------------------------------------

_CANCELLED: Final = _REFUSED.evolve(message="call cancelled")
_GRPC: Final[Mapping[str, Finding]] = {
    "CANCELLED": _CANCELLED,
    "UNKNOWN": _REFUSED.evolve(message="server failed, and does not say why"),
    "INVALID_ARGUMENT": _REFUSED.evolve(suggestions=("correct the arguments",)),
    "DEADLINE_EXCEEDED": Finding(code="SYS_TIMEOUT", message="deadline exceeded"),
    "NOT_FOUND": _REFUSED.evolve(message="not found"),
    "ALREADY_EXISTS": _REFUSED.evolve(message="exists already"),
    "PERMISSION_DENIED": _FORBIDDEN,
    "RESOURCE_EXHAUSTED": _THROTTLED,
    "FAILED_PRECONDITION": _REFUSED.evolve(
        message="not possible in this state",
        suggestions=("bring it into the state it needs",),
    ),
    "ABORTED": _PASSING.evolve(message="aborted by the server"),
    "OUT_OF_RANGE": _REFUSED,
    "UNIMPLEMENTED": _REFUSED.evolve(
        message="method not offered",
        suggestions=("check the method's name and the versions",),
    ),
    "INTERNAL": _PASSING.evolve(message="server failed"),
    "UNAVAILABLE": _PASSING,
    "DATA_LOSS": _REFUSED.evolve(message="data lost or damaged at the server"),
    "UNAUTHENTICATED": Finding(code="AUTH_INVALID_TOKEN"),
}


def _rpc_error(error: Any) -> Finding | None:
    name = getattr(error.code(), "name", None)
    found = _GRPC.get(name) if isinstance(name, str) else None
    if found is None:
        return None
    text = error.details()
    text = text if isinstance(text, str) else ""
    details: dict[str, Any] = {"reason": "not_found" if name == "NOT_FOUND" else name}
    if name == "UNAVAILABLE" and (on_the_way := text_finding(text)) is not None:
        found = on_the_way.evolve(
            message="", category=Category.TRANSPORT, executed=Executed.MAYBE, proof=""
        )
    wait = _pushback(error)
    if wait is not None and found.failure().retryable:
        found = found.evolve(retry_after=wait)
    return found.evolve(message=found.summary + short_of(text), details=details)


def _pushback(error: Any) -> float | None:
    """Read the wait in a server's metadata: `grpc-retry-pushback-ms` or `retry-after`."""
    try:
        metadata: dict[str, Any] = dict(error.trailing_metadata() or ())
    except Exception:  # noqa: BLE001 (an error without a call has none)
        return None
    named = {
        "retry-after-ms": metadata.get("grpc-retry-pushback-ms"),
        "retry-after": metadata.get("retry-after"),
    }
    return wait_from_headers(named, None)[0]


ROWS: Final = Rows(
    {
        ("botocore", "ClientError"): _client_error,
        ("botocore", "ConnectTimeoutError"): Finding(code="CONN_TIMEOUT"),
        ("botocore", "ReadTimeoutError"): _TIMEOUT,
        ("botocore", "ConnectionClosedError"): _LOST,
        ("botocore", "ResponseStreamingError"): _LOST,
        ("botocore", "IncompleteReadError"): _LOST,
        ("botocore", "HTTPClientError"): _LOST,
        ("botocore", "ConnectionError"): _UNREACHED,
        ("botocore", "NoCredentialsError"): _CREDENTIALS,
        ("botocore", "PartialCredentialsError"): _CREDENTIALS,
        ("botocore", "CredentialRetrievalError"): Finding(code="AUTH_REFRESH_FAILED"),
        ("botocore", "TokenRetrievalError"): Finding(code="AUTH_REFRESH_FAILED"),
        ("botocore", "UnauthorizedSSOTokenError"): Finding(code="AUTH_TOKEN_EXPIRED"),
        ("botocore", "NoRegionError"): Finding(code="SYS_CONFIG_INVALID", message="region missing"),
        ("botocore", "ParamValidationError"): Finding(
            code="SYS_CONFIG_INVALID",
            message="parameters not valid",
            suggestions=("correct the parameters it names",),
        ),
        ("grpc", "RpcError"): _rpc_error,
    },
    wrappers={("botocore", "ConnectionError"): "", ("botocore", "HTTPClientError"): ""},
    leaves=frozenset({("botocore", "ConnectTimeoutError"), ("botocore", "ReadTimeoutError")}),
)
