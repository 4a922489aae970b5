"""A limit on what calls may cost in money: it warns, and then it waits for a person.

Rule: a call is written down before it runs and counted after, and nothing that is known to be spent is ever forgotten: not by an
error, not by a cancellation, and with `path=` not by a crash.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial, update_wrapper
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar, cast, overload
from weakref import WeakSet

from ...calls.frame import CURRENT
from ...calls.run.protect import form_of
from ...calls.steps import settled
from ...classification import failure_or_none
from ...errors import Executed, config_error
from ...values.fields import Seconds, is_number, read_name, read_seconds
from ...world import current_world
from ...world.signal import Signal
from ..blocking import in_thread
from .spend_book import Book
from .spend_state import EXACT, Amount, Charge, SpendAccount, SpendStatus, amount_of


if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Coroutine
    from types import TracebackType
    from typing import Self

    from ...errors import Failure


_LIMITED = 429

P = ParamSpec("P")
T = TypeVar("T")

_BOOKS: Final[WeakSet[Book]] = WeakSet()
_BOOKS_LOCK: Final = Lock()


def books() -> list[Book]:
    """Return those of this process, for what shows the health of all of it. From any thread."""
    with _BOOKS_LOCK:
        return list(_BOOKS)


class SpendBudget:
    """At most `limit` may be spent: at `warn_at` of it a warning is told; at all of it `mode="hard"` pauses, and "soft" goes on.

    `async with budget.call(estimate=…) as call:` is a call that costs money, and `call.spend(…)` says what it has cost. In hard mode a call
    is let in while what is spent, what the running calls are expected to cost, and its own estimate are within the limit; the others wait
    in line, until running ones end, or somebody says `approve` or `cancel`. Without estimates nothing is known of the running ones: the
    limit is passed by as much as they cost together. Amounts are Decimal, int, str or float (through its repr), in whatever currency.

    With `path` what is spent, approved and cancelled survives a restart: a call is saved before it is let in, so that a crash counts its
    estimate, and saved again when it has been counted, in the file and in its backup: one of them may be damaged. If both are, nobody
    knows what was spent: all of the limit counts as spent, so that a hard budget is paused until more is approved, and a soft one warns.
    The file is taken and read when the budget is first used (StoreError if it cannot be, if another budget has it: SYS_STORE_IN_USE, or
    if a later version has written it: SYS_STATE_FOREIGN), and is a StateFile: damage is told. Any thread and event loop may use the object.
    """

    def __init__(
        self,
        limit: Amount,
        *,
        mode: Literal["soft", "hard"] = "hard",
        warn_at: float = 0.8,
        name: str = "spend",
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Begin with nothing spent. ConfigError names an argument that is wrong."""
        money = amount_of("SpendBudget.limit", limit, above=True)
        if mode not in ("soft", "hard"):
            raise config_error("SpendBudget.mode", "one of soft, hard", cast("Any", mode))
        if not is_number(warn_at) or not 0 < warn_at <= 1:
            raise config_error("SpendBudget.warn_at", "a number above 0, at most 1", warn_at)
        read_name("SpendBudget.name", name)
        self._book = Book(name, SpendAccount(money, mode=mode, warn_at=Decimal(repr(warn_at))), path)
        with _BOOKS_LOCK:
            _BOOKS.add(self._book)

    def __repr__(self) -> str:
        """A status line; it reads no file."""
        book = self._book
        now = book.status()
        state = now.state.name if book.is_open else "not read yet"
        spent = f"{now.spent:f}" if now.is_known else "unknown"
        return f"<SpendBudget {book.name} {book.mode} {state} spent={spent} reserved={now.reserved:f} limit={now.limit:f}>"

    def close(self) -> None:
        """Leave the file of `path` to another budget, in this process or another; whoever uses this one again takes it back.

        A budget that nobody has any more is closed, and so is what a process leaves behind. Raises ConfigError while a call runs or waits,
        and StoreError if what was spent last cannot be saved: it is not closed then.
        """
        self._book.close()

    def status(self) -> SpendStatus:
        """Return how it stands. With `path` the first use reads the file, on the thread that asks."""
        self._book.open()
        return self._book.status()

    def call(self, estimate: Amount = 0, *, timeout: Seconds | None = None) -> SpendCall:
        """Return a call that is expected to cost `estimate`, to be entered once, with `async with`, or in a thread with `with`.

        Entering waits for the budget, at most `timeout` seconds (0: not at all), and not beyond the deadline of the policy around it.
        Raises SpendLimitError when that is over or the budget is cancelled, and StoreError if the call cannot be saved: nothing may be
        called then. Leaving counts what `spend` was told in the block; if it was told nothing, the estimate, unless the block failed with
        an error that says that nothing has run (`classify(error).executed`), or with a 429.
        """
        seconds = None if timeout is None else read_seconds("SpendBudget.call.timeout", timeout, zero=True)
        return SpendCall(self._book, amount_of("SpendBudget.call.estimate", estimate), seconds)

    def spend(self, amount: Amount) -> None:
        """Count what was spent elsewhere. It is never refused: it is spent.

        This, `approve` and `cancel` block for as long as the disk takes, if there is a `path`: `await asyncio.to_thread(budget.spend, 2)`.
        They raise StoreError if it cannot be saved; it holds in this process all the same.
        """
        money = amount_of("SpendBudget.spend.amount", amount)
        self._book.write(lambda account: account.spend(money))

    def approve(self, more: Amount | None = None, *, limit: Amount | None = None) -> None:
        """Raise the limit by `more`, or to `limit` (one that is no higher changes nothing), and let in who waits, in their order.

        Raises SpendLimitError if the budget is cancelled, and ConfigError unless one of the two is given.
        """
        if (more is None) == (limit is None):
            raise config_error(
                "SpendBudget.approve", "one of more and limit", "none" if limit is None else "both"
            )
        field, value = ("more", more) if limit is None else ("limit", limit)
        money = amount_of(f"SpendBudget.approve.{field}", value, above=True)

        def approve(account: SpendAccount) -> bool:
            if not account.is_cancelled:
                account.approve(money if more is None else EXACT.add(account.limit, money))
            return account.is_cancelled

        if self._book.write(approve):
            raise self._book.refusal(None, None)

    def cancel(self) -> None:
        """Refuse every call from now on, and those that wait; what runs goes on, and is counted. There is no way back."""
        self._book.write(lambda account: account.cancel())

    @overload
    def guard(
        self,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *,
        cost: Callable[[T], Amount],
        estimate: Amount = 0,
        timeout: Seconds | None = None,
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def guard(
        self,
        function: Callable[P, T],
        /,
        *,
        cost: Callable[[T], Amount],
        estimate: Amount = 0,
        timeout: Seconds | None = None,
    ) -> Callable[P, T]: ...
    def guard(
        self,
        function: Callable[..., Any],
        /,
        *,
        cost: Callable[[Any], Amount],
        estimate: Amount = 0,
        timeout: Seconds | None = None,
    ) -> Callable[..., Any]:
        """Return `function`, sync or async, with every call of it inside of `budget.call`; `cost(result)` says what it has cost."""
        if isinstance(cast("object", function), type | staticmethod | classmethod) or not callable(function):
            raise config_error(
                "SpendBudget.guard.function", "a function, a method or a callable object", function
            )
        if not callable(cost):
            raise config_error("SpendBudget.guard.cost", "a function of the result", cost)
        form = form_of(function)
        if form not in ("sync", "async"):
            raise config_error(
                "SpendBudget.guard.function", "a function that returns its result, no stream", function
            )
        self.call(estimate, timeout=timeout)  # what is wrong with these is said now

        async def guarded_async(*args: Any, **kwargs: Any) -> Any:
            async with self.call(estimate, timeout=timeout) as call:
                result = await function(*args, **kwargs)
                call.spend_for(cost, result)
                return result

        def guarded(*args: Any, **kwargs: Any) -> Any:
            with self.call(estimate, timeout=timeout) as call:
                result = settled(function, function(*args, **kwargs))
                call.spend_for(cost, result)
                return result

        return update_wrapper(guarded_async if form == "async" else guarded, function)


class SpendCall:
    """One call that costs money; `budget.call(…)` makes it. Inside of its block the budget has let it in."""

    def __init__(self, book: Book, estimate: Decimal, timeout: float | None) -> None:
        self._book = book
        self._estimate = estimate
        self._timeout = timeout
        self._charge: Charge | None = None
        self._has_run = False

    def spend(self, amount: Amount) -> None:
        """Count what it has cost, or has cost since the last time; saved when the block is left. Later it counts on top of what was counted."""
        self._has_run = True  # who talks of a cost has called something, even if the amount is none
        money = amount_of("SpendCall.spend.amount", amount)
        self._book.change(lambda account: account.spend(money, self._charge))

    def spend_for(self, cost: Callable[[T], Amount], result: T) -> None:
        """Count `cost(result)`. What `cost` raises comes out; the call has run all the same."""
        self._has_run = True
        self.spend(cost(result))

    async def __aenter__(self) -> Self:
        book = self._book
        if not book.is_open:
            await in_thread(book.open)
        signal = Signal()
        charge = self._join(signal.set)
        try:
            patience = self._patience(charge)
            if patience is None or patience > 0:
                await signal.suspend(current_world(), patience)
            self._admitted(charge, patience)
            if book.file is not None:
                await in_thread(partial(book.save, once=True))
        except BaseException:
            book.change(lambda account: account.end(charge, has_run=False))
            if book.file is not None:
                await in_thread(book.save_or_tell)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)
        if self._book.file is not None:
            await in_thread(self._book.save_or_tell)

    def __enter__(self) -> Self:
        book = self._book
        book.open()
        signal = Signal()
        charge = self._join(signal.set)
        try:
            patience = self._patience(charge)
            if patience is None or patience > 0:
                signal.wait(patience)
            self._admitted(charge, patience)
            book.save(once=True)
        except BaseException:
            book.change(lambda account: account.end(charge, has_run=False))
            book.save_or_tell()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)
        self._book.save_or_tell()

    def _join(self, wake: Callable[[], bool]) -> Charge:
        if self._charge is not None:
            message = "a call is entered once: ask budget.call() for another"
            raise RuntimeError(message)
        self._charge = self._book.change(lambda account: account.join(self._estimate, wake))
        return self._charge

    def _patience(self, charge: Charge) -> float | None:
        """Seconds it may wait from here on: 0 if it need not, None for as long as it takes."""
        if charge.standing != "waiting":
            return 0.0
        bounds = [bound for bound in (self._timeout, CURRENT.get().remaining) if bound is not None]
        return min(bounds) if bounds else None

    def _admitted(self, charge: Charge, waited: float | None) -> None:
        """Raise for a charge that is refused, or still waits although its time is up."""
        if charge.standing != "admitted":
            raise self._book.refusal(charge, waited)

    def _end(self, error: BaseException | None) -> None:
        charge = self._charge
        if charge is not None:
            has_run = self._has_run or _may_have_run(error)
            self._book.change(lambda account: account.end(charge, has_run=has_run))


def _may_have_run(error: BaseException | None) -> bool:
    """Whether a block that ended so can have cost something."""
    if not isinstance(error, Exception):
        return True  # it went well, or was cancelled somewhere
    failure = failure_or_none(error)
    return failure is None or not (failure.executed is Executed.NO or _is_limited(failure))


def _is_limited(failure: Failure) -> bool:
    """Whether it was answered with a 429: no proof that nothing ran, but providers charge nothing for it."""
    return failure.code == "SYS_RATE_LIMITED" or failure.details.get("http_status") == _LIMITED
