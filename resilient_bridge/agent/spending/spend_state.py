"""The account of a spend budget: it admits or queues calls, counts the money, and decides on
events.

No I/O.

Rule: amounts are exact, and spent money is counted even beyond the limit. Calls are admitted in the
order in which they join; an admitted call reserves its estimate until its cost is known.
"""

from __future__ import annotations

from collections import OrderedDict
from decimal import ROUND_UP, Context, Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from ...values.fields import is_number, refuse


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


Amount: TypeAlias = Decimal | int | float | str
"""An amount of money; a float is read as it is printed."""
SpendNews: TypeAlias = Literal["warning", "paused", "approved", "cancelled"]
"""The states of SpendChanged."""

EXACT: Final = Context(prec=64, rounding=ROUND_UP)
"""The decimal context of all sums: amounts up to 10^15 with 30 decimals add up exactly.

The context of the program is not used, because its precision may be lower.
"""
_MOST: Final = Decimal(10) ** 15
_FINEST: Final = Decimal(1).scaleb(-30)
_NOTHING: Final = Decimal(0)


class SpendState(StrEnum):
    """The state of a budget.

        budget = rb.agent.SpendBudget("10.00")
        print(budget.status().state is rb.agent.SpendState.RUNNING)      # True

    WARNING: the spent share has reached `warn_at`. PAUSED: calls in hard mode wait for an approval.
    CANCELLED is final.
    """

    RUNNING = "running"
    WARNING = "warning"
    PAUSED = "paused"
    CANCELLED = "cancelled"


@attrs.frozen(kw_only=True)
class SpendStatus:
    """A budget at one moment.

        status = rb.agent.SpendBudget("10.00").status()
        print(status.remaining, status.share)      # 10.00 0.0

    `reserved`: the estimates of the running calls, less the costs that they reported. `remaining`:
    limit - spent - reserved, negative after an overspend. `share`: spent / limit, 0.8 for 80 %.
    `is_known`: False if the files of the budget were lost; all of the limit counts as spent until
    more is approved.
    """

    state: SpendState
    spent: Decimal
    reserved: Decimal
    limit: Decimal
    remaining: Decimal
    share: float
    is_known: bool = True


class Charge:
    """One call in the account: its estimate, its reported cost (None: nothing reported), and its
    standing.

    `wake` is called once, by the thread that changes the account, when a waiting charge is admitted
    or refused. It returns False if the event loop of the call is closed.
    """

    __slots__ = ("estimate", "reported", "standing", "wake")

    def __init__(self, estimate: Decimal, wake: Callable[[], bool]) -> None:
        self.estimate = estimate
        self.wake = wake
        self.reported: Decimal | None = None
        self.standing: Literal["waiting", "admitted", "refused", "over"] = "waiting"

    @property
    def open(self) -> Decimal:
        """The part of the estimate that has not been reported as cost yet."""
        return max(_NOTHING, EXACT.subtract(self.estimate, self.reported or _NOTHING))


class Changes:
    """Charges to wake and events to emit after a change; each event has the new state, the spent
    amount and the limit then.
    """

    __slots__ = ("events", "woken")

    def __init__(self) -> None:
        self.woken: list[Charge] = []
        self.events: list[tuple[SpendNews, Decimal, Decimal]] = []


class SpendAccount:
    """Amounts spent, reserved and approved; running and waiting charges.

    Not thread-safe: the caller holds a lock.
    """

    def __init__(self, limit: Decimal, *, mode: Literal["soft", "hard"], warn_at: Decimal) -> None:
        self.limit = limit
        self.mode = mode
        self.spent = _NOTHING
        self.reserved = _NOTHING
        self.is_cancelled = False
        self.is_known = True
        self._own_limit = limit
        self._warn_at = warn_at
        self._is_warning_reported = False
        self._is_pause_reported = False
        self._queue: OrderedDict[Charge, None] = OrderedDict()
        self._running = 0
        self._changes = Changes()

    @property
    def status(self) -> SpendStatus:
        used = EXACT.add(self.spent, self.reserved)
        return SpendStatus(
            state=self._state(),
            spent=self.spent,
            reserved=self.reserved,
            limit=self.limit,
            remaining=EXACT.subtract(self.limit, used),
            share=float(EXACT.divide(self.spent, self.limit)),
            is_known=self.is_known,
        )

    @property
    def is_idle(self) -> bool:
        return not self._running and not self._queue

    def take_changes(self) -> Changes:
        """Return the charges to wake and the events to emit since the last call.

        The caller wakes and emits them after it has released its lock.
        """
        changes, self._changes = self._changes, Changes()
        return changes

    def join(self, estimate: Decimal, wake: Callable[[], bool]) -> Charge:
        """Add a charge and return it: admitted or refused at once, without `wake`, or waiting
        behind earlier ones.
        """
        charge = Charge(estimate, wake)
        if self.is_cancelled:
            charge.standing = "refused"
        elif self._queue or not self._has_room(charge):
            self._queue[charge] = None
            self._tell()
        else:
            self._admit(charge)
        return charge

    def spend(self, amount: Decimal, charge: Charge | None = None) -> None:
        """Count a spent amount; for an admitted charge it replaces that much of its estimate."""
        self.spent = EXACT.add(self.spent, amount)
        if charge is not None:
            before = charge.open
            charge.reported = EXACT.add(charge.reported or _NOTHING, amount)
            if charge.standing == "admitted":
                self._release(EXACT.subtract(before, charge.open))
        self._settle()

    def end(self, charge: Charge, *, has_run: bool) -> None:
        """End a charge in any standing.

        One that has run and reported nothing has spent its estimate.
        """
        standing, charge.standing = charge.standing, "over"
        self._queue.pop(charge, None)
        if standing == "admitted":
            self._running -= 1
            self._release(charge.open)
            if has_run and charge.reported is None:
                self.spent = EXACT.add(self.spent, charge.estimate)
        self._settle()

    def approve(self, limit: Decimal) -> None:
        """Raise the limit; one that is no higher changes nothing.

        A budget that stays paused emits SpendChanged to "paused" again.
        """
        if limit <= self.limit:
            return
        self.limit = limit
        self.is_known = True  # the approval says how much may be spent from here on
        self._note("approved")
        self._is_pause_reported = False
        self._settle()

    def cancel(self) -> None:
        if self.is_cancelled:
            return
        self.is_cancelled = True
        waiting, self._queue = self._queue, OrderedDict()
        for charge in waiting:
            charge.standing = "refused"
            self._changes.woken.append(charge)
        self._note("cancelled")

    def saved(self) -> dict[str, Any]:
        approved = EXACT.subtract(self.limit, self._own_limit)
        money = {"spent": self.spent, "reserved": self.reserved, "approved": approved}
        answers = {"cancelled": self.is_cancelled, "known": self.is_known}
        return {**{name: f"{value:f}" for name, value in money.items()}, **answers}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Restore an idle account from saved data.

        Saved reservations count as spent: their calls may have run.
        """
        self.limit = EXACT.add(self._own_limit, Decimal(value["approved"]))
        self.is_cancelled = bool(value["cancelled"])
        self.is_known = bool(value.get("known", True))
        spent = Decimal(value["spent"])
        self.spent = spent if self.is_known else max(spent, self.limit)
        self._is_warning_reported = self._is_warning()  # the crossing was reported when it happened
        self._is_pause_reported = False
        self.spend(Decimal(value["reserved"]))

    def lose(self) -> None:
        """Count all of the limit as spent, until more is approved: the spent amount is unknown."""
        self.is_known = False
        self.spend(max(_NOTHING, EXACT.subtract(self.limit, self.spent)))

    @staticmethod
    def check(value: Any) -> None:
        """Raise an error for a value that does not have the form of `saved`."""
        for name in ("spent", "reserved", "approved"):
            if not isinstance(value[name], str):
                raise TypeError(name)
            amount_of(name, value[name], most=_MOST * 1000)
        if not (
            isinstance(value["cancelled"], bool) and isinstance(value.get("known", True), bool)
        ):
            raise TypeError("cancelled, known")

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def _has_room(self, charge: Charge) -> bool:
        """Return whether a charge may run now: always in soft mode, else if its estimate is within
        the remaining amount.
        """
        if self.mode == "soft":
            return True
        used = EXACT.add(self.spent, self.reserved)
        return used < self.limit and EXACT.add(used, charge.estimate) <= self.limit

    def _is_paused(self) -> bool:
        """Return whether calls can only go on after an approval.

        The limit is spent, or the first waiting charge exceeds it even if no other call runs.
        """
        if self.mode == "soft" or self.is_cancelled:
            return False
        first = next(iter(self._queue), None)
        wanted = _NOTHING if first is None else first.estimate
        return self.spent >= self.limit or EXACT.add(self.spent, wanted) > self.limit

    def _is_warning(self) -> bool:
        return self.spent >= EXACT.multiply(self.limit, self._warn_at)

    def _state(self) -> SpendState:
        if self.is_cancelled:
            return SpendState.CANCELLED
        if self._is_paused():
            return SpendState.PAUSED
        return SpendState.WARNING if self._is_warning() else SpendState.RUNNING

    # ---- changes -----------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Admit waiting charges in order while they fit, and note the events."""
        while self._queue and self._has_room(charge := next(iter(self._queue))):
            self._queue.popitem(last=False)
            self._admit(charge)
            self._changes.woken.append(charge)
        self._tell()

    def _admit(self, charge: Charge) -> None:
        charge.standing = "admitted"
        self._running += 1
        self.reserved = EXACT.add(self.reserved, charge.estimate)

    def _release(self, amount: Decimal) -> None:
        self.reserved = EXACT.subtract(self.reserved, amount)

    def _tell(self) -> None:
        """Note "warning" or "paused" when its state is entered, not again while it lasts."""
        was_warned, self._is_warning_reported = self._is_warning_reported, self._is_warning()
        if self._is_warning_reported and not was_warned:
            self._note("warning")
        was_paused, self._is_pause_reported = self._is_pause_reported, self._is_paused()
        if self._is_pause_reported and not was_paused:
            self._note("paused")

    def _note(self, state: SpendNews) -> None:
        self._changes.events.append((state, self.spent, self.limit))


def amount_of(path: str, value: object, *, above: bool = False, most: Decimal = _MOST) -> Decimal:
    """Return an exact amount of money; a float is read through its repr, so that 0.1 is 0.1.

    Decimals beyond the thirtieth are rounded up. Raises ConfigError for anything that is no amount
    from 0 (or `above` 0) to `most`.
    """
    wanted = (
        f"an amount {'above' if above else 'from'} 0 to {_MOST:f}, as Decimal, int, str or float"
    )
    try:
        amount = _read(value)
    except InvalidOperation:
        amount = None
    if (
        amount is None
        or not amount.is_finite()
        or not 0 <= amount <= most
        or (above and not amount)
    ):
        refuse(
            path,
            wanted,
            value if isinstance(value, str | int | float | None) else repr(value)[:100],
        )
    exponent = amount.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -30:
        amount = amount.quantize(_FINEST, context=EXACT)
    return EXACT.plus(amount)  # -0 becomes 0


def _read(value: object) -> Decimal | None:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, str):
        return Decimal(value)
    if isinstance(value, float):
        return Decimal(repr(float(value)))
    return Decimal(value) if isinstance(value, int) and is_number(value) else None
