"""The arguments that several adapters take, and the errors of wrong ones.

A policy, the options of HTTP, which calls may be repeated (`idempotent=`), how large an argument may
be (`max_bytes=`), and the secrets in a request.

Rule: each ConfigError names its argument. An argument of a call that is too large is refused before
anything is sent.
"""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs

from ..calls import Policy, Timeout
from ..failure import Failure, RejectedError, config_error, error_for, is_sensitive
from ..presets.bridge_policy import calls_of as _calls_of
from ..values.fields import check_flag, is_count


if TYPE_CHECKING:
    from ..client.secrets import Secrets
    from ..failure import BridgeError


_HARMLESS: Final = frozenset({"accept", "accept-encoding", "accept-language", "cache-control", "content-type", "user-agent"})  # fmt: skip
"""Headers that everybody sends."""

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110 §5.6.2


def calls_of(policy: object, path: str, *, of_one_request: bool = False) -> Policy:
    """Return the policy for calls: the given one, the `calls` of a BridgePolicy, or the recommended one.

    `of_one_request`: each call is one request; then the recommended one has an adaptive limit.
    """
    if policy is None:
        from ..calls import resilient
        from ..calls.ports import of_one_request as limited

        return limited if of_one_request else resilient
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


# ---- which calls may be repeated -------------------------------------------------------------------------------


@attrs.frozen
class Call:
    """A call on a wrapped client or a link, as an `idempotent=` predicate sees it.

        def reads(call: rb.links.Call) -> bool:
            return call.method.startswith("get_")

        link = rb.reconnecting(lambda: Client("https://host/mcp"), idempotent=reads)

    `method` is dotted: "files.create".
    """

    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


Idempotent: TypeAlias = bool | Collection[str] | Callable[[Call], bool]
"""Which calls may be repeated although they may have run.

All or none (a bool), the methods named, or those that a predicate accepts.
"""


def checked_idempotent(passed: Idempotent | None, path: str) -> Idempotent | None:
    """Return the `idempotent=` argument checked, with names as a frozenset.

    ConfigError for a single string, and for an async predicate.
    """
    if passed is None or isinstance(passed, bool):
        return passed
    if callable(passed):
        called = getattr(type(passed), "__call__", None)  # noqa: B004 -- of an object whose `__call__` is async
        if inspect.iscoroutinefunction(passed) or inspect.iscoroutinefunction(called):
            raise config_error(
                path, "a predicate that is no async function: nobody awaits it", passed
            )
        return passed
    if isinstance(passed, str) or not isinstance(cast("object", passed), Collection):
        raise config_error(
            path, "True, False, names of methods, or a callable that takes a Call", passed
        )
    return frozenset(passed)


def permission(allowed: Idempotent | None, call: Call, name: str = "") -> bool | None:
    """Return what `idempotent=` says about a call, None if it says nothing about this one.

    `name` is what a collection of names calls it: a tool of MCP by the tool's name; else `method`.
    """
    if allowed is None or isinstance(allowed, bool):
        return allowed
    if callable(allowed):
        return permits(allowed, call)
    return True if (name or call.method) in allowed else None


def permits(predicate: Callable[[Call], bool], call: Call) -> bool:
    """Return what a predicate says about a call; ConfigError if that is not True or False.

    A coroutine is truthy, so an async predicate would permit every call.
    """
    verdict = cast("object", predicate(call))
    if isinstance(verdict, bool):
        return verdict
    if inspect.iscoroutine(verdict):
        verdict.close()  # or Python warns that it was never awaited
    raise config_error("idempotent", f"True or False from the predicate for {call.method}", verdict)


# ---- how large an argument may be -----------------------------------------------------------------------------


def checked_bytes(passed: Mapping[str, int] | None, path: str) -> Mapping[str, int]:
    """Return the most bytes of each argument, by name.

    ConfigError for what is no mapping, and for a bound that is no count.
    """
    if passed is None:
        return {}
    if not isinstance(cast("object", passed), Mapping):
        raise config_error(path, "a mapping of argument names to bytes, or None", passed)
    for name, most in passed.items():
        if not is_count(most):
            raise config_error(f"{path}[{name!r}]", "a number of bytes of at least 1", most)
    return dict(passed)


def named(
    method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments of a call by name, positional ones included."""
    return (
        {**dict(zip(inspect.signature(method).parameters, args, strict=False)), **kwargs}
        if args
        else kwargs
    )


def check_bytes(most: Mapping[str, int], arguments: Mapping[str, Any]) -> None:
    """Raise RejectedError (SYS_TOO_LARGE) for an argument that is larger than its bound.

    Text is measured as UTF-8, bytes as they are, and any other value as JSON.
    """
    for name, limit in most.items():
        if name not in arguments:
            continue
        value = arguments[name]
        if not isinstance(value, str | bytes | bytearray):
            value = json.dumps(value, ensure_ascii=False, default=str)
        size = len(value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value)
        if size > limit:
            text = f"{name} exceeds maximum size: wanted at most {limit} bytes, got {size}"
            raise RejectedError(
                Failure.of(
                    "SYS_TOO_LARGE", text, details={"argument": name, "size": size, "max": limit}
                )
            )


# ---- the secrets in a request --------------------------------------------------------------------------------


def secrets_in(client: object, url: str, headers: Mapping[str, str]) -> Secrets:
    """Return the secrets of a request, to mask in errors in case an answer echoes them.

    Of "Bearer X", X alone is one as well.
    """
    from ..client.arguments import secrets_of  # imported here: most adapters have no client
    from ..client.secrets import Secrets

    own: Mapping[str, str] = getattr(client, "headers", {})
    secrets = Secrets()
    learn_headers(secrets, headers)
    learn_headers(secrets, {name: value for name, value in own.items() if is_sensitive(name)})
    secrets.learn(*secrets_of(url))
    return secrets


def learn_headers(secrets: Secrets, headers: Mapping[str, str]) -> None:
    """Add the headers that were sent to the secrets, but for those that everybody sends."""
    sent = [value for name, value in headers.items() if name.lower() not in _HARMLESS]
    secrets.learn(*sent, *(value.rpartition(" ")[2] for value in sent))
