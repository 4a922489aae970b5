"""Why a call that failed once was not repeated, as a note on its error and one line in the log.

Rule: it is said where a repeat was possible: there is a Retry with attempts left, and a permission.
A failure that is known to last says enough by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...failure import class_name
from ...failure.record import note_once
from ...failure.source_text import shown
from ...telemetry.hub import say


if TYPE_CHECKING:
    from ...failure import Failure
    from .value import Retry


_UNKNOWN: Final = "SYS_INTERNAL_ERROR"
_OPEN: Final = "SYS_CIRCUIT_OPEN"
_MOST: Final = 256  # classes of one owner
_LONGEST: Final = 100  # characters of what `on=` names
_AROUND: Final = "put a policy around the function that reads the body: @policy(idempotent=True)"
_CUT: Final = (
    "not repeated: the answer had begun when its body was cut, and a transport repeats up to the headers; "
    + _AROUND
)
_CUT_IN_DOUBT: Final = (
    "not repeated: it may have run, its answer had begun when the body was cut; find out before you send it again. "
    f"If twice does no harm: {_AROUND}"
)


def why_unrepeated(failure: Failure, error: BaseException, retry: Retry) -> str:
    """Return the note for a failure that the policy does not repeat; empty if it is known to last."""
    name = class_name(error)
    if failure.code == _OPEN:
        return ""  # it is meant to fail fast, and says so
    if failure.retryable:
        named: Any = retry.on[0] if len(retry.on) == 1 else retry.on
        on = shown(named)
        on = on if len(on) <= _LONGEST else on[: _LONGEST - 1] + "…"
        return f"not repeated: {name} ({failure.code}) can pass, but Retry(on={on}) leaves it out; name it there"
    if failure.code == _UNKNOWN:
        return f"not repeated: {name} is not known to be transient; name it in Retry(on=…)"
    return ""


def log_unrepeated(logged: set[str], owner: str, error: BaseException, note: str) -> None:
    """Log a note once for each class and owner; `logged` keeps which."""
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name not in logged and len(logged) < _MOST:
        logged.add(name)
        say("info", f"{owner}: {note}")


def tell_cut(logged: set[str], owner: str, error: Exception, *, may_repeat: bool) -> None:
    """Add the note about an HTTP body that broke while it was read to its error, and log it once.

    A request that may not be repeated may have run: its reader has to find out first.
    """
    note = _CUT if may_repeat else _CUT_IN_DOUBT
    if note_once(error, note):
        log_unrepeated(logged, owner, error, note)
