"""What a spend budget knows and decides: who is let in, who waits, what is spent, and what people are told of it. Pure.

Rule: money is exact, and money that is spent is counted, whatever the limit says. Who asks first is let in first; what is let in
counts its estimate until its cost is known.
"""

from __future__ import annotations

from decimal import ROUND_UP, Context, Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from ...telemetry import events
from ...values.fields import is_number, refuse


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


Amount: TypeAlias = Decimal | int | float | str
SpendEventType: TypeAlias = (
    type[events.SpendWarned]
    | type[events.SpendPaused]
    | type[events.SpendApproved]
    | type[events.SpendCancelled]
)

EXACT: Final = Context(prec=64, rounding=ROUND_UP)
"""Our own, because a program may have set its precision to 6 digits: sums of amounts up to 10^15 with 30 decimals are exact in it."""
_MOST: Final = Decimal(10) ** 15
_FINEST: Final = Decimal(1).scaleb(-30)
_NOTHING: Final = Decimal(0)


class SpendState(StrEnum):
    """How a budget stands: RUNNING, WARNING from the threshold on, PAUSED at a hard limit until approved, CANCELLED for good."""

    RUNNING = "running"
    WARNING = "warning"
    PAUSED = "paused"
    CANCELLED = "cancelled"


@attrs.frozen(kw_only=True)
class SpendStatus:
    """A budget at one moment.

    `reserved`: the estimates of the calls that run. `remaining`: what neither is spent nor reserved, below zero by the overage.
    `share`: spent / limit, 0.8 for 80 %. `is_known`: False if the files of the budget were lost: what was spent is not known then, and all
    of the limit counts as spent, until something is approved.
    """

    state: SpendState
    spent: Decimal
    reserved: Decimal
    limit: Decimal
    remaining: Decimal
    share: float
    is_known: bool = True


class Charge:
    """One call, from its question to its end: its estimate, what it has told of its cost (None: nothing), and how it stands.

    `wake` is called once, by whoever changes the account, when a charge that waits is admitted or refused.
    """

    __slots__ = ("estimate", "reported", "standing", "wake")

    def __init__(self, estimate: Decimal, wake: Callable[[], bool]) -> None:
        self.estimate = estimate
        self.wake = wake
        self.reported: Decimal | None = None
        self.standing: Literal["waiting", "admitted", "refused", "over"] = "waiting"

    @property
    def open(self) -> Decimal:
        """What of the estimate is not told yet."""
        return max(_NOTHING, EXACT.subtract(self.estimate, self.reported or _NOTHING))


class Changes:
    """What has to be done about a change: whom to wake, and what to tell, each with what was spent and the limit at that moment."""

    __slots__ = ("events", "woken")

    def __init__(self) -> None:
        self.woken: list[Charge] = []
        self.events: list[tuple[SpendEventType, Decimal, Decimal]] = []


class SpendAccount:
    """What is spent, reserved and approved, who runs and who waits. Not for several threads at once: the caller has a lock."""

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
        self._queue: dict[Charge, None] = {}  # in their order
        self._running = 0
        self._changes = Changes()

    @property
    def status(self) -> SpendStatus:
        """How it stands."""
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
    def footing(self) -> tuple[Decimal, Decimal, bool, bool]:
        """What must never be forgotten: it is another value after a change that must not be lost."""
        return self.spent, self.limit, self.is_cancelled, self.is_known

    @property
    def is_idle(self) -> bool:
        """Whether nobody runs and nobody waits."""
        return not self._running and not self._queue

    def take_changes(self) -> Changes:
        """Return what has to be done since the last time; it is the caller's to do, outside of its lock."""
        changes, self._changes = self._changes, Changes()
        return changes

    def join(self, estimate: Decimal, wake: Callable[[], bool]) -> Charge:
        """Ask for a call: the charge is admitted or refused at once, without being woken, or waits behind those that came before."""
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
        """Count what was spent; of an admitted charge, it takes the place of that much of its estimate."""
        self.spent = EXACT.add(self.spent, amount)
        if charge is not None:
            before = charge.open
            charge.reported = EXACT.add(charge.reported or _NOTHING, amount)
            if charge.standing == "admitted":
                self._release(EXACT.subtract(before, charge.open))
        self._settle()

    def end(self, charge: Charge, *, has_run: bool) -> None:
        """End a charge, however it stands. One that has run and told nothing has spent its estimate."""
        standing, charge.standing = charge.standing, "over"
        self._queue.pop(charge, None)
        if standing == "admitted":
            self._running -= 1
            self._release(charge.open)
            if has_run and charge.reported is None:
                self.spent = EXACT.add(self.spent, charge.estimate)
        self._settle()

    def approve(self, limit: Decimal) -> None:
        """Raise the limit; one that is no higher changes nothing. What stays paused all the same is told again."""
        if limit <= self.limit:
            return
        self.limit = limit
        self.is_known = True  # whoever approves says how much may be spent from here on
        self._note(events.SpendApproved)
        self._is_pause_reported = False
        self._settle()

    def cancel(self) -> None:
        """Refuse everybody from now on, those first who wait."""
        if self.is_cancelled:
            return
        self.is_cancelled = True
        waiting, self._queue = self._queue, {}
        for charge in waiting:
            charge.standing = "refused"
            self._changes.woken.append(charge)
        self._note(events.SpendCancelled)

    def saved(self) -> dict[str, Any]:
        """Return what has to survive this process, as JSON."""
        approved = EXACT.subtract(self.limit, self._own_limit)
        money = {"spent": self.spent, "reserved": self.reserved, "approved": approved}
        answers = {"cancelled": self.is_cancelled, "known": self.is_known}
        return {**{name: f"{value:f}" for name, value in money.items()}, **answers}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from what was saved, in an idle account. Whatever was reserved then is spent: nobody can say any more that it is not."""
        self.limit = EXACT.add(self._own_limit, Decimal(value["approved"]))
        self.is_cancelled = bool(value["cancelled"])
        self.is_known = bool(value.get("known", True))
        spent = Decimal(value["spent"])
        self.spent = spent if self.is_known else max(spent, self.limit)
        self._is_warning_reported = self._is_warning()  # that crossing was told by who made it
        self._is_pause_reported = False
        self.spend(Decimal(value["reserved"]))

    def lose(self) -> None:
        """Go on without knowing what was spent: there may be nothing left, so all of the limit counts as spent, until more is approved."""
        self.is_known = False
        self.spend(max(_NOTHING, EXACT.subtract(self.limit, self.spent)))

    @staticmethod
    def check(value: Any) -> None:
        """Raise for a value that `saved` has not made."""
        for name in ("spent", "reserved", "approved"):
            if not isinstance(value[name], str):
                raise TypeError(name)
            amount_of(name, value[name], most=_MOST * 1000)
        if not (isinstance(value["cancelled"], bool) and isinstance(value.get("known", True), bool)):
            raise TypeError("cancelled, known")

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def _has_room(self, charge: Charge) -> bool:
        """Whether a charge may run beside those that do: there is something left, and its estimate is not more than that."""
        if self.mode == "soft":
            return True
        used = EXACT.add(self.spent, self.reserved)
        return used < self.limit and EXACT.add(used, charge.estimate) <= self.limit

    def _is_paused(self) -> bool:
        """Whether only an approval helps: the limit is spent, or the first in line would not fit even if nobody else ran."""
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
        """Admit from the front of the line whoever fits, and tell what has come to pass."""
        while self._queue and self._has_room(charge := next(iter(self._queue))):
            del self._queue[charge]
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
        """Tell a threshold when it is crossed, and not again before it was left."""
        was_warned, self._is_warning_reported = self._is_warning_reported, self._is_warning()
        if self._is_warning_reported and not was_warned:
            self._note(events.SpendWarned)
        was_paused, self._is_pause_reported = self._is_pause_reported, self._is_paused()
        if self._is_pause_reported and not was_paused:
            self._note(events.SpendPaused)

    def _note(self, event: SpendEventType) -> None:
        self._changes.events.append((event, self.spent, self.limit))


def amount_of(path: str, value: object, *, above: bool = False, most: Decimal = _MOST) -> Decimal:
    """Return an amount of money, exactly; a float through its repr, so that 0.1 is 0.1. ConfigError for what is none.

    Decimals beyond the thirtieth are rounded up.
    """
    wanted = f"an amount {'above' if above else 'from'} 0 to {_MOST:f}, as Decimal, int, str or float"
    try:
        amount = _read(value)
    except InvalidOperation:
        amount = None
    if amount is None or not amount.is_finite() or not 0 <= amount <= most or (above and not amount):
        refuse(path, wanted, value if isinstance(value, str | int | float | None) else repr(value)[:100])
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
