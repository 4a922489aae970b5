"""The error of a call that a rate limit did not let through, made to be cheap.

Rule: a fresh exception for every call (a shared one grows a traceback for ever), and its Failure is built when somebody reads
it. To a caller it is the public class: by `isinstance`, by name, and after a pickle.
"""

from __future__ import annotations

from typing import Any

from ... import errors


class ThrottledError(errors.ThrottledError):
    """The turn of this call is `retry_after` seconds away, longer than it may wait."""

    __module__ = errors.ThrottledError.__module__

    def __init__(self, key: str, calls: int, per: float, retry_after: float) -> None:
        self._fields = (key, calls, per, retry_after)

    def __getattr__(self, name: str) -> Any:
        if name != "_failure":
            raise AttributeError(name)
        key, calls, per, retry_after = self._fields
        self._failure = errors.Failure.of(
            "SYS_THROTTLED",
            f"rate limit {key} of {calls} in {per:g} s used up",
            retry_after=retry_after,
            details={"rate_limit": key, "calls": calls, "per": per},
        )
        return self._failure

    def __reduce__(self) -> tuple[Any, ...]:
        return (errors.ThrottledError, *super().__reduce__()[1:])
