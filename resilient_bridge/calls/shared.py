"""The interfaces of `Policy.state`: what several processes share.

Circuits and retry budgets (`SharedState`), and adaptive limits: held (`SharedLimitState`) or remote
(`RemoteLimitState`). Stores implement it, and calls use nothing else of a store. Rule: no method
blocks and none fails. A request that needs an answer returns a `Question`; the caller waits for it
in its own way, no longer than the store's `patience`. While a line is not `is_up`, it is not asked,
and the process decides alone.

A limit on this machine is held for the microseconds in which it is read, changed and written. A
remote one is changed here first, and the change is proposed: it is written if nobody else has
written since, and made again from what they wrote if somebody has.

Numbers and shares that a store has are by its own clock, which all processes agree on: that of the
machine, or that of the server. `ahead` is by how many seconds it is ahead of the caller's clock.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeGuard,
    TypeVar,
    runtime_checkable,
)


if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from ..values.backoff import Backoff


Ending: TypeAlias = Literal["succeeded", "failed", "slow", "critical", "released"]
"""How a call ended, for its circuit; `released` says nothing and returns the permit of a probe."""

State: TypeAlias = Literal["closed", "open", "half_open", "isolated", "disabled"]
"""The state of a circuit."""

T_co = TypeVar("T_co", covariant=True)


class CircuitRules:
    """The numbers that a circuit goes by: those of a Breaker."""

    rate: float  # the share of failures that opens it, from above 0 to 1
    window: int | timedelta  # the last N calls, or the calls of this last time span
    least: int  # how many calls there must be before the rate counts
    in_a_row: int | None  # how many failures in a row open it, None for every other rate
    open_for: Backoff  # how long it stays open, the first time and at each further opening
    probes: int  # how many probes a half-open circuit admits; all have to succeed
    lease: float  # seconds after which a probe that has not ended loses its permit


class BudgetRules(Protocol):
    """The numbers that a retry budget goes by."""

    @property
    def ratio(self) -> float:
        """Retries earned by each call."""
        ...

    @property
    def floor(self) -> float:
        """Retries per second that are always allowed."""
        ...


class CircuitView(NamedTuple):
    """A shared circuit as it was a moment ago. Seconds are counted from then."""

    state: State
    era: int  # grows at every change of state, by any process; 0: it has never changed
    reason: str  # the reason of the last change
    why: str  # the reason of the last opening or isolation
    because: str  # the code of the failure that opened it, empty if none did
    remaining: float  # seconds that it stays open
    failed: int
    seen: int
    margin: int  # failures that it takes at least to open it
    is_quiet: bool  # a success would change nothing
    openings: int  # in a row
    wait: float | None  # seconds of the last opening
    free: int  # probes that may be admitted now
    hint: float  # seconds until the next probe may be admitted


class CircuitAnswer(NamedTuple):
    """The circuit, and the number of the probe that the answer admits (0: none)."""

    view: CircuitView
    probe: int


class Question(Protocol[T_co]):
    """A request to a store. The caller ends it once, with `take` or `cancel`."""

    @property
    def patience(self) -> float:
        """The longest that the caller waits, in seconds."""
        ...

    def when_answered(self, wake: Callable[[], object], /) -> None:
        """Call `wake` when the answer arrives, in any thread; at once if it is there already."""

    def take(self, *, is_late: bool) -> T_co | None:
        """Return the answer, or None if there is none yet; the question is over either way.

        `is_late`: the caller has waited for its whole patience; no other caller needs to, until the
        store answers again.
        """
        ...

    def cancel(self) -> None:
        """Drop the question: what its answer grants is returned to the store."""


class CircuitLine(Protocol):
    """The line to one shared circuit.

    Every view is passed to `learn`, in order, before a question is answered with it.
    """

    @property
    def is_up(self) -> bool:
        """Whether the store answers."""
        ...

    @property
    def is_watched(self) -> bool:
        """Whether the store pushes views, several per second.

        It does while the circuit is in use, and a little longer.
        """
        ...

    @property
    def unanswered(self) -> int:
        """How many reported failures no view includes yet.

        A huge number if one of them alone can open the circuit (critical, or a probe's).
        """
        ...

    def configure(self, rules: CircuitRules, /) -> None:
        """Go by other numbers from now on."""

    def use(self) -> None:
        """Note that the circuit is in use."""

    def tell(self, era: int, probe: int, ending: Ending, code: str, /) -> None:
        """Report how a call ended that was admitted in this era, as this probe (0: not a probe)."""

    def ask(self) -> Question[CircuitAnswer]:
        """Ask for the circuit as it is now, and for the permit of a probe if one is needed."""
        ...

    def put(self, state: Literal["closed", "isolated", "disabled"], /) -> Question[CircuitAnswer]:
        """Set the state by hand. If the store is unreachable, it is set when the store is back."""
        ...


class BudgetLine(Protocol):
    """The line to one shared retry budget."""

    @property
    def is_up(self) -> bool:
        """Whether the store answers."""
        ...

    def configure(self, rules: BudgetRules, /) -> None:
        """Go by other numbers from now on."""

    def deposit(self) -> None:
        """Count a call."""

    def ask(self) -> Question[bool]:
        """Ask for one more retry."""
        ...

    def give_back(self) -> None:
        """Return a retry that was not made."""


@runtime_checkable
class SharedState(Protocol):
    """Where processes share circuits and retry budgets: `Policy(..., state=RedisState(url))`."""

    def circuit(
        self, key: str, rules: CircuitRules, learn: Callable[[CircuitView], None], /
    ) -> CircuitLine:
        """Return the line to the circuit of this name.

        ConfigError for what the store needs and does not have.
        """
        ...

    def budget(self, key: str, rules: BudgetRules, /) -> BudgetLine:
        """Return the line to the retry budget of this name."""
        ...


PRESENT: Final = 1.0
"""Seconds after which a user of a limit whose calls have not looked is not waited for."""


class LimitShare(NamedTuple):
    """What one user of a shared limit has of it, in one process."""

    running: int  # the places that its calls hold
    earlier: int  # its calls in flight that began before the limit, so they have no places
    first: float  # when the first of its waiting calls arrived, inf if none waits
    at: float  # when it wrote this


class LimitView(NamedTuple):
    """A shared limit: what was learnt, as the numbers that were written last, and all other users.

    No numbers: nobody has written any.
    """

    numbers: tuple[float, ...]
    others: tuple[LimitShare, ...]


class LimitLine(Protocol):
    """The line of one user to one shared limit."""

    @property
    def is_up(self) -> bool:
        """Whether the store can be used; if not, the process decides alone."""
        ...

    def hold(self, now: float, /) -> LimitView | None:
        """Hold the limit, so that nobody else reads or changes it, and return it.

        None, and nothing is held, if that takes longer than a few milliseconds, or is impossible.
        """
        ...

    def write(self, numbers: tuple[float, ...], share: LimitShare, until: float, /) -> None:
        """Write what was learnt and this user's share, and hold the limit no more.

        After `until` it is forgotten.
        """

    def release(self) -> None:
        """Hold the limit no more; nothing is written."""


@runtime_checkable
class SharedLimitState(Protocol):
    """Where the processes of a machine share adaptive limits: `Policy(..., state=MachineState(path))`.

    All times are those of its monotonic clock, so nothing is ahead of it.
    """

    def limit(self, name: str, /) -> LimitLine:
        """Return a new line to the limit of this name: a digest, which anybody may see."""
        ...

    def is_limited(self, now: float, /) -> bool:
        """Return whether some limit may be in force, of whatever name."""
        ...

    def is_common(self, clock: object, /) -> bool:
        """Return whether this clock is the same in all processes; if not, nothing is shared."""
        ...

    def report(self) -> None:
        """Emit whether the store failed or works again, if that is new; called without any lock."""


class LimitProposal(NamedTuple):
    """What one user would write to a remote limit."""

    number: int  # grows with each change; of the last one that is included
    numbers: tuple[float, ...] | None  # what was learnt; None: only the share is another
    share: LimitShare
    seconds: float  # after which the limit is forgotten


class RemoteLimitView(NamedTuple):
    """A remote limit, as a LimitView; numbers are None if they are those of the view before."""

    numbers: tuple[float, ...] | None
    others: tuple[LimitShare, ...]
    ahead: float  # seconds by which the clock of these times is ahead of the caller's


class RemoteLimitLine(Protocol):
    """The line of one user to one remote limit.

    It calls `learn(view, number)` after each answer, in any thread and without a lock of its own:
    what is included up to this number was written, None: nothing. `learn(None, None)`: the store
    does not answer, and the process decides alone from now on.
    """

    @property
    def is_up(self) -> bool:
        """Whether the store answers."""
        ...

    @property
    def ahead(self) -> float | None:
        """By how many seconds the store's clock is ahead of this process's; None: not known yet."""
        ...

    @property
    def asked_at(self) -> float | None:
        """When the oldest proposal was made that is not answered; None: there is none."""
        ...

    @property
    def patience(self) -> float:
        """The longest that a call waits for an answer, in seconds."""
        ...

    def propose(self, proposal: LimitProposal | None, /) -> None:
        """Write this, in place of an earlier proposal that was not sent yet; None: only look.

        Numbers are written only if nobody has written since the last view. While the store does
        not answer, the proposal is kept for later.
        """

    def late(self) -> None:
        """Note that a call has waited for the whole patience: the store does not answer."""


class LimitDirectory(Protocol):
    """Which remote limits are in force."""

    def ask(self) -> Question[bool] | None:
        """Note that a call is made, and ask for it if it is not known.

        None if it is, or if the store does not answer.
        """
        ...

    def is_limited(self) -> bool:
        """Return whether some limit is in force, of whatever name."""
        ...

    def has(self, name: str, /) -> bool:
        """Return whether the limit of this name is in force."""
        ...

    def line(
        self, name: str, learn: Callable[[RemoteLimitView | None, int | None], None], /
    ) -> RemoteLimitLine:
        """Return a new line to the limit of this name: a digest, which anybody may see."""
        ...


@runtime_checkable
class RemoteLimitState(Protocol):
    """Where the processes of many machines share adaptive limits.

    All times are those of the server's clock; see `RemoteLimitLine.ahead`.
    """

    def is_common(self, clock: object, /) -> bool:
        """Return whether this clock goes as that of the server; if not, nothing is shared."""
        ...

    def limits(self) -> LimitDirectory:
        """Return the limits of this store. ConfigError for what it needs and does not have."""
        ...


Store: TypeAlias = "SharedState | SharedLimitState | RemoteLimitState"
"""What `Policy.state` may be."""


def shares_circuits(store: object) -> TypeGuard[SharedState]:
    """Return whether circuits and retry budgets are shared through this store."""
    return isinstance(store, SharedState)


def shares_limits(store: object) -> TypeGuard[SharedLimitState | RemoteLimitState]:
    """Return whether adaptive limits are shared through this store."""
    return isinstance(store, SharedLimitState | RemoteLimitState)
