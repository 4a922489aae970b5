"""The error of a call that a circuit did not let through, made to be cheap: in an outage most calls end in one.

Rule: a fresh exception for every call (a shared one grows a traceback for ever), and its Failure is built when somebody reads
it. To a caller it is the public class: by `isinstance`, by name, and after a pickle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import errors


if TYPE_CHECKING:
    from ...errors import Failure


class CircuitOpenError(errors.CircuitOpenError):
    """The circuit `key` lets nothing through, for `reason`; `because` is the failure that opened it, where known."""

    __module__ = errors.CircuitOpenError.__module__

    if TYPE_CHECKING:

        def __init__(
            self, key: str, state: str, reason: str, retry_after: float | None, because: Failure | None
        ) -> None: ...
    else:  # the arguments stay in `args` until they are read: half the price of a constructor of its own
        __init__ = Exception.__init__

    def __getattr__(self, name: str) -> Any:
        if name != "_failure":
            raise AttributeError(name)
        key, state, reason, retry_after, because = self.args
        details: dict[str, Any] = {"circuit": key, "reason": reason}
        if because is not None:
            details["because"] = str(because)
        isolated = state == "isolated"  # by hand, until a hand resets it: waiting does not help
        self._failure = errors.Failure.of(
            "SYS_CIRCUIT_OPEN",
            f"circuit {key} {state.replace('_', '-')}",
            retryable=False if isolated else None,
            retry_after=retry_after,
            suggestions=(f"reset it: rb.circuit({key!r}).reset()",) if isolated else (),
            details=details,
        )
        return self._failure

    def __reduce__(self) -> tuple[Any, ...]:
        return (errors.CircuitOpenError, *super().__reduce__()[1:])
