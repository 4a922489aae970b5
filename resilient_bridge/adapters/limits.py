"""Limits on the size of arguments: one that is too large is refused before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from ..failure import Failure, RejectedError, config_error
from ..values.fields import is_count


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
