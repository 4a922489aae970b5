"""The error of a call that a bulkhead did not let through, made to be cheap.

Rule: a fresh exception for every call (a shared one grows a traceback for ever), and its Failure is built when somebody reads
it. To a caller it is the public class: by `isinstance`, by name, and after a pickle.
"""

from __future__ import annotations

from typing import Any

from ... import errors


class BulkheadFullError(errors.BulkheadFullError):
    """`calls` run already, and no more may wait, or none could wait longer."""

    __module__ = errors.BulkheadFullError.__module__

    def __init__(self, key: str, calls: int, waited: float | None = None) -> None:
        self._fields = (key, calls, waited)

    def __getattr__(self, name: str) -> Any:
        if name != "_failure":
            raise AttributeError(name)
        key, calls, waited = self._fields
        waiting = "" if waited is None else f", none ended within {waited:g} s"
        plural = "call runs" if calls == 1 else "calls run"
        self._failure = errors.Failure.of(
            "SYS_BULKHEAD_FULL",
            f"bulkhead {key} full: {calls} {plural} already{waiting}",
            details={"bulkhead": key, "calls": calls},
        )
        return self._failure

    def __reduce__(self) -> tuple[Any, ...]:
        return (errors.BulkheadFullError, *super().__reduce__()[1:])
