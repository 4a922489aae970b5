"""The concurrency and rate limits of tool calls. No I/O, no clock.

Rule: a call over a limit waits, in the order of arrival. One that a rate would delay for longer
than `patience` is refused at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...calls.ports import RateState
from ...failure import ThrottledError
from . import outcomes
from .options import EVERY_TOOL


if TYPE_CHECKING:
    from .options import Sidecar
    from .outcomes import Ending
    from .state import Call


class Limits:
    """The limits of one relay, by the name of a tool, or `EVERY_TOOL` for all together."""

    def __init__(self, options: Sidecar) -> None:
        self._options = options
        self._running: dict[str, int] = {}
        self._rates = {name: RateState(name, limit) for name, limit in options.rates.items()}

    def refusal(self, call: Call, now: float) -> Ending | None:
        """Charge a call to its rates, and set when it may be sent.

        Returns the ending of a call that would wait for longer than `patience`, charging nothing;
        None for any other.
        """
        for name in (call.name, EVERY_TOOL):
            rate = self._rates.get(name)
            if rate is None or not call.is_tool:
                continue
            try:
                call.not_before = max(
                    call.not_before, now + rate.reserve(now, self._options.patience)
                )
                call.charged.append(rate)
                call.unstarted.append(rate)
            except ThrottledError as error:
                _give_back(call)
                limit = rate.settings
                bound = (
                    f"{limit.calls} {'call' if limit.calls == 1 else 'calls'} in {limit.per:g} s"
                )
                return outcomes.limited(call.name, bound, error.failure.retry_after)
        return None

    def take(self, call: Call) -> bool:
        """Take the slots that a call needs, if all are free; return whether it has them.

        A call keeps its slots while it waits for another try.
        """
        names = self._names(call)
        if call.holds or not names:
            return True
        if any(self._running.get(name, 0) >= self._options.concurrency[name] for name in names):
            return False
        for name in names:
            self._running[name] = self._running.get(name, 0) + 1
        call.holds = names
        return True

    def starts(self, call: Call, now: float) -> bool:
        """Use the turns of a call that is about to be sent.

        Return False, and set when it may be sent, if one came too late to be used: many came while
        the server was away, and it is not to get all of these calls at once.
        """
        while call.unstarted:
            wait = call.unstarted[0].start(now)
            if wait > 0:
                call.not_before = now + wait
                return False
            del call.unstarted[0]
        return True

    def free(self, call: Call) -> None:
        """Release the slots of an ended call, and its charges if it was never sent."""
        for name in call.holds:
            self._running[name] -= 1
        call.holds = []
        if not call.sends:
            _give_back(call)

    def too_long(self, call: Call) -> Ending | None:
        """Return the ending of a call that waited too long for a slot; None if it needs none."""
        names = self._names(call)
        if not names:
            return None
        most = min(self._options.concurrency[name] for name in names)
        return outcomes.limited(
            call.name, f"{most} {'call' if most == 1 else 'calls'} at a time", None
        )

    def _names(self, call: Call) -> list[str]:
        if not call.is_tool:
            return []
        return [name for name in (call.name, EVERY_TOOL) if name in self._options.concurrency]


def _give_back(call: Call) -> None:
    for rate in call.charged:
        rate.cancel()
    call.charged, call.unstarted = [], []
