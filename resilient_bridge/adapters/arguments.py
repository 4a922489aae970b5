"""Check and convert the arguments of adapters, and bound those of the calls that go through them.

Rule: each ConfigError names its argument. An argument of a call that is larger than its bound is
refused before anything is sent.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

from ..calls.policy import Policy
from ..calls.timeout.value import Timeout
from ..failure import Failure, RejectedError, config_error, error_for
from ..presets.bridge_policy import calls_of as _calls_of
from ..values.fields import check_flag, is_count


if TYPE_CHECKING:
    from ..failure import BridgeError


_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110 §5.6.2


def calls_of(policy: object, path: str) -> Policy:
    """Return the policy for calls: the given one, the `calls` of a BridgePolicy, or `resilient`."""
    if policy is None:
        from ..calls.recommended import resilient

        return resilient
    return _calls_of(policy, path)


def check_http_options(
    owner: str, idempotency_header: object, allow_plaintext_credentials: object
) -> None:
    """Raise ConfigError if an HTTP option of `owner` is not valid."""
    named = isinstance(idempotency_header, str) and _HEADER_NAME.fullmatch(idempotency_header)
    if idempotency_header is not None and not named:
        raise config_error(
            f"{owner}.idempotency_header", "the name of a header, or None", idempotency_header
        )
    check_flag(f"{owner}.allow_plaintext_credentials", allow_plaintext_credentials)


def check_sync(policy: Policy, path: str) -> None:
    """Raise ConfigError for a Timeout without `thread=True`, which cannot limit sync calls."""
    for layer in policy.layers:
        if isinstance(layer, Timeout) and not layer.thread:
            raise config_error(path, "Timeout(…, thread=True) or none around sync calls", layer)


def plaintext_refused(scheme: str, origin: str, whose: str) -> BridgeError:
    """Return the error for credentials that would cross a network in clear text (threat 42).

    `whose` names the class or function whose argument allows it.
    """
    return error_for(
        Failure.of(
            "CONN_INSECURE",
            f"credentials over plaintext refused: wanted {scheme}://, got {origin}",
            suggestions=(
                f"use {scheme}://, or the argument allow_plaintext_credentials of {whose}",
            ),
        )
    )


def keyed(policy: Policy, key: str) -> Policy:
    """Return a copy of the policy in which each layer without a key gets `key` for its state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user was warned when they created it
        return Policy(
            *(layer.with_key(key) for layer in policy.layers), name=policy.name, state=policy.state
        )


# ---- the size of a call's arguments ---------------------------------------------------------------


def checked_bytes(passed: Mapping[str, int] | None, path: str) -> Mapping[str, int]:
    """Return the most bytes of each argument, by name. ConfigError for one that is no count."""
    for name, most in (passed or {}).items():
        if not is_count(most):
            raise config_error(f"{path}[{name!r}]", "a number of bytes of at least 1", most)
    return dict(passed or {})


def named(
    method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments of a call by name, positional ones included."""
    return (
        {**dict(zip(signature(method).parameters, args, strict=False)), **kwargs}
        if args
        else kwargs
    )


def check_bytes(most: Mapping[str, int], arguments: Mapping[str, Any]) -> None:
    """Raise RejectedError (SYS_TOO_LARGE) for an argument that is larger than its bound.

    Text is measured as UTF-8, bytes as they are, and any other value as JSON.
    """
    for name, limit in most.items():
        if name in arguments and (size := _size(arguments[name])) > limit:
            text = f"{name} exceeds maximum size: wanted at most {limit} bytes, got {size}"
            raise RejectedError(
                Failure.of(
                    "SYS_TOO_LARGE", text, details={"argument": name, "size": size, "max": limit}
                )
            )


def _size(value: Any) -> int:
    if isinstance(value, bytes | bytearray):
        return len(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return len(text.encode("utf-8", "surrogatepass"))
