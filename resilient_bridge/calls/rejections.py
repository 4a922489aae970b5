"""The errors of rejected calls, cheap to create: in an outage most calls end in one.

Rule: each call gets a new exception (a shared one would collect tracebacks), and its Failure is
built when it is first read. To a caller it is the public class: by `isinstance`, by name, and after
a pickle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import failure


if TYPE_CHECKING:
    from ..failure import Failure


class _Rejection(failure.RejectedError):
    """An error whose arguments stay in `args` until read: half the cost of a constructor."""

    if TYPE_CHECKING:

        def __init__(self, *values: Any) -> None: ...
    else:
        __init__ = Exception.__init__

    def __getattr__(self, name: str) -> Any:
        if name != "_failure":
            raise AttributeError(name)
        self._failure = self._failure_of(*self.args)
        return self._failure

    def _failure_of(self, *args: Any, **kwargs: Any) -> Failure:
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return (getattr(failure, type(self).__name__), *super().__reduce__()[1:])


class CircuitOpenError(_Rejection, failure.CircuitOpenError):
    """The circuit `key` rejects every call, for `reason`; `because` is the failure that opened it.

    `because` is None if that failure is unknown.
    """

    __module__ = failure.CircuitOpenError.__module__

    def _failure_of(
        self, key: str, state: str, reason: str, retry_after: float | None, because: Failure | None
    ) -> Failure:
        details: dict[str, Any] = {"circuit": key, "reason": reason}
        if because is not None:
            details["because"] = str(because)
        isolated = state == "isolated"  # isolated by hand until `reset`: waiting does not help
        return failure.Failure.of(
            "SYS_CIRCUIT_OPEN",
            f"circuit {key} {state.replace('_', '-')}",
            retryable=False if isolated else None,
            retry_after=retry_after,
            suggestions=(f"reset it: rb.calls.circuit({key!r}).reset()",) if isolated else (),
            details=details,
        )


class BulkheadFullError(_Rejection, failure.BulkheadFullError):
    """`calls` run already, and the queue is full, or the call waited `waited` seconds in vain."""

    __module__ = failure.BulkheadFullError.__module__

    def _failure_of(self, key: str, calls: int, waited: float | None) -> Failure:
        waiting = "" if waited is None else f", none ended within {waited:g} s"
        plural = "call runs" if calls == 1 else "calls run"
        return failure.Failure.of(
            "SYS_BULKHEAD_FULL",
            f"bulkhead {key} full: {calls} {plural} already{waiting}",
            details={"bulkhead": key, "calls": calls},
        )


class ThrottledError(_Rejection, failure.ThrottledError):
    """The turn of this call comes in `retry_after` seconds, which is longer than it may wait."""

    __module__ = failure.ThrottledError.__module__

    def _failure_of(self, key: str, calls: int, per: float, retry_after: float) -> Failure:
        return failure.Failure.of(
            "SYS_THROTTLED",
            f"rate limit {key} of {calls} in {per:g} s used up",
            retry_after=retry_after,
            details={"rate_limit": key, "calls": calls, "per": per},
        )
