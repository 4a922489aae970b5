"""A limit on the money that calls may cost: it warns, then pauses until a person approves more.

Rule: a call is recorded before it runs, and its cost is counted after it. A spent amount is kept
after an error and after a cancellation, and with `path=` after a crash.
"""

from __future__ import annotations

from decimal import Decimal
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar, cast, overload
from weakref import WeakSet

from ...calls.ports import form_of, remaining, settled
from ...failure import Executed, config_error, failure_or_none
from ...failure.teaching import taught
from ...locks import new_lock
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


_LIMITED = 429

P = ParamSpec("P")
T = TypeVar("T")

_BOOKS: Final[WeakSet[Book]] = WeakSet()
_BOOKS_LOCK: Final = new_lock()


def books() -> list[Book]:
    """Return the books of all budgets in this process, for its health report. Thread-safe."""
    with _BOOKS_LOCK:
        return list(_BOOKS)


class SpendBudget:
    """A spend limit for calls: it warns at the share `warn_at`, and in hard mode pauses at `limit`.

        budget = rb.agent.SpendBudget("10.00")
        async with budget.call(estimate="0.50") as call:
            call.spend("0.45")      # what your call has cost
        print(budget.status().remaining)      # 9.55

    `async with budget.call(estimate=…) as call:` is a call that costs money, and `call.spend(…)`
    counts its cost. In hard mode a call is admitted while the spent money, the estimates of the
    running calls and its own estimate are within the limit; the others wait in order until running
    calls end, or until `approve` or `cancel`. Without estimates the running calls may exceed the
    limit by their cost. Soft mode only warns. Amounts are Decimal, int, str or float (through its
    repr), in any one currency. Thread-safe; any event loop may use the object.

    With `path` the spent and approved amounts, and a cancellation, survive a restart. A call is
    saved before its block runs, so that a crash counts its estimate. It is saved again with its
    cost, to the file and to its backup, so that one of them may be damaged. If both are, the spent
    amount is unknown, and all of the limit counts as spent: a hard budget pauses until more is
    approved, a soft one warns.

    The file is locked and read at the first use. Raises StoreError if it cannot be read or written,
    if another budget has it (SYS_STORE_IN_USE), or if a later version wrote it (SYS_STATE_FOREIGN).
    Damage is emitted as an event.
    """

    @taught
    def __init__(
        self,
        limit: Amount,
        *,
        mode: Literal["soft", "hard"] = "hard",
        warn_at: float = 0.8,
        name: str = "spend",
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Start with nothing spent. ConfigError names a wrong argument."""
        money = amount_of("SpendBudget.limit", limit, above=True)
        if mode not in ("soft", "hard"):
            raise config_error("SpendBudget.mode", "one of soft, hard", cast("Any", mode))
        if not is_number(warn_at) or not 0 < warn_at <= 1:
            raise config_error("SpendBudget.warn_at", "a number above 0, at most 1", warn_at)
        read_name("SpendBudget.name", name)
        self._book = Book(
            name, SpendAccount(money, mode=mode, warn_at=Decimal(repr(warn_at))), path
        )
        with _BOOKS_LOCK:
            _BOOKS.add(self._book)

    def __repr__(self) -> str:
        """Return a status line, without reading the file."""
        book = self._book
        now = book.status()
        state = now.state.name if book.is_open else "not read yet"
        spent = f"{now.spent:f}" if now.is_known else "unknown"
        return f"<SpendBudget {book.name} {book.mode} {state} spent={spent} reserved={now.reserved:f} limit={now.limit:f}>"

    def close(self) -> None:
        """Save, and release the lock of the file, so that another budget can use it; the next use
        locks it again.

        A garbage-collected budget and an ended process release it too. Raises ConfigError while a
        call runs or waits, and StoreError if the last changes cannot be saved; the budget stays
        open then.
        """
        self._book.close()

    def status(self) -> SpendStatus:
        """Return the status. With `path` the first use reads the file, and blocks."""
        self._book.open()
        return self._book.status()

    def call(self, estimate: Amount = 0, *, timeout: Seconds | None = None) -> SpendCall:
        """Return a context manager for one call that is expected to cost `estimate`.

        It is entered once, with `async with`, or in a thread with `with`. Entering waits until the
        call is admitted, at most `timeout` seconds (0: not at all), and not beyond the deadline of
        the policy around it. It raises SpendLimitError when that time is over or the budget is
        cancelled, and StoreError if the call cannot be saved; the block does not run then.

        The cost is the sum of the amounts that `spend` counted. Without any, leaving counts the
        estimate, unless the block failed with an error that says that nothing has run
        (`classify(error).executed`), or with a 429.
        """
        seconds = (
            None
            if timeout is None
            else read_seconds("SpendBudget.call.timeout", timeout, zero=True)
        )
        return SpendCall(self._book, amount_of("SpendBudget.call.estimate", estimate), seconds)

    def spend(self, amount: Amount) -> None:
        """Count an amount that was spent elsewhere. It is never refused.

        With `path` this, `approve` and `cancel` block while they write: `await
        asyncio.to_thread(budget.spend, 2)`. They raise StoreError if the change cannot be saved;
        the change still applies in this process.
        """
        money = amount_of("SpendBudget.spend.amount", amount)
        self._book.write(lambda account: account.spend(money))

    def approve(self, more: Amount | None = None, *, limit: Amount | None = None) -> None:
        """Raise the limit by `more`, or to `limit`, and admit waiting calls in their order.

        A `limit` that is no higher changes nothing. Raises SpendLimitError if the budget is
        cancelled, and ConfigError unless exactly one of the two is given.
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
        """Refuse the waiting calls and all later ones permanently; running calls go on, and are
        counted.
        """
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
        """Wrap `function`, sync or async: each call runs inside `budget.call`, and costs
        `cost(result)`.
        """
        if isinstance(cast("object", function), type | staticmethod | classmethod) or not callable(
            function
        ):
            raise config_error(
                "SpendBudget.guard.function", "a function, a method or a callable object", function
            )
        if not callable(cost):
            raise config_error("SpendBudget.guard.cost", "a function of the result", cost)
        form = form_of(function)
        if form not in ("sync", "async"):
            raise config_error(
                "SpendBudget.guard.function",
                "a function that returns its result, no stream",
                function,
            )
        self.call(estimate, timeout=timeout)  # checks the arguments now

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
    """The context manager of one call that costs money, made by `budget.call(…)`; its block runs
    once admitted.
    """

    def __init__(self, book: Book, estimate: Decimal, timeout: float | None) -> None:
        self._book = book
        self._estimate = estimate
        self._timeout = timeout
        self._charge: Charge | None = None
        self._has_run = False

    def spend(self, amount: Amount) -> None:
        """Count a cost of the call, in addition to earlier ones.

        It is saved when the block is left.

        After the block it is counted too, but saved only with the next change that is saved.
        """
        self._has_run = True  # a cost of 0 says that something ran
        money = amount_of("SpendCall.spend.amount", amount)
        self._book.change(lambda account: account.spend(money, self._charge))

    def spend_for(self, cost: Callable[[T], Amount], result: T) -> None:
        """Count `cost(result)`. Errors of `cost` are raised; the call counts as run."""
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
                await in_thread(book.save)
        except BaseException:
            book.change(lambda account: account.end(charge, has_run=False))
            if book.file is not None:
                await in_thread(book.save_or_tell)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
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
            book.save()
        except BaseException:
            book.change(lambda account: account.end(charge, has_run=False))
            book.save_or_tell()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
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
        """Return the seconds that the call may wait: 0 if it does not have to, None for no limit."""
        if charge.standing != "waiting":
            return 0.0
        bounds = [bound for bound in (self._timeout, remaining()) if bound is not None]
        return min(bounds) if bounds else None

    def _admitted(self, charge: Charge, waited: float | None) -> None:
        """Raise SpendLimitError for a charge that was refused, or still waits after its time limit."""
        if charge.standing != "admitted":
            raise self._book.refusal(charge, waited)

    def _end(self, error: BaseException | None) -> None:
        charge = self._charge
        if charge is not None:
            has_run = self._has_run or _may_have_run(error)
            self._book.change(lambda account: account.end(charge, has_run=has_run))


def _may_have_run(error: BaseException | None) -> bool:
    """Return whether a block that ended with this error can have cost something."""
    if not isinstance(error, Exception):
        return True  # it succeeded, or was cancelled
    failure = failure_or_none(error)
    if failure is None:
        return True
    # A 429 does not prove that nothing ran, but providers do not charge for it.
    is_limited = (
        failure.code == "SYS_RATE_LIMITED" or failure.details.get("http_status") == _LIMITED
    )
    return not (failure.executed is Executed.NO or is_limited)
