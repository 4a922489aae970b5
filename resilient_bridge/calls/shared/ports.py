"""What `Policy.state` has to be able to do: keep circuits and retry budgets where several processes find them.

Stores implement it; whoever protects calls uses nothing else of a store. Rule: nothing here waits, and nothing here fails. What needs
an answer from elsewhere is a `Question`, whose asker waits in its own way, and no longer than the `patience` of the store; a line that
`is_up` no more is not asked, and the process goes on alone until it is up again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable


if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from ...values.backoff import Backoff


Ending: TypeAlias = Literal["succeeded", "failed", "slow", "critical", "released"]
"""How a call ended, for its circuit; `released` says nothing and gives back the place of a probe."""

State: TypeAlias = Literal["closed", "open", "half_open", "isolated", "disabled"]
"""The state of a circuit."""

T_co = TypeVar("T_co", covariant=True)


class CircuitRules(Protocol):
    """The numbers that a circuit goes by."""

    @property
    def rate(self) -> float:
        """The share of failures that opens it, from above 0 to 1."""
        ...

    @property
    def window(self) -> int | timedelta:
        """The last calls that count, or those of this time."""
        ...

    @property
    def minimum(self) -> int | None:
        """How many calls say enough; None where nobody has said it."""
        ...

    @property
    def least(self) -> int:
        """How many calls say enough: `minimum`, or what stands for it."""
        ...

    @property
    def in_a_row(self) -> int | None:
        """How many failures in a row open it, None for every other rate."""
        ...

    @property
    def open_for(self) -> Backoff:
        """How long it stays open, the first time and the next ones."""
        ...

    @property
    def probes(self) -> int:
        """How many calls may try then, and have to succeed."""
        ...

    @property
    def lease(self) -> float:
        """Seconds after which a probe that has not ended loses its place."""
        ...


class BudgetRules(Protocol):
    """The numbers that a retry budget goes by."""

    @property
    def ratio(self) -> float:
        """Repeats for each call."""
        ...

    @property
    def floor(self) -> float:
        """Repeats a second that are always allowed."""
        ...


class CircuitView(NamedTuple):
    """A shared circuit as it was a moment ago. Seconds are counted from then."""

    state: State
    era: int  # grows at every change of state, whoever made it; 0: nothing has ever happened
    said: str  # the reason of the last change
    why: str  # the reason of the last opening or isolation
    because: str  # the code of the failure that opened it, empty where none did
    left: float  # seconds that it stays open
    failed: int
    seen: int
    margin: int  # failures that it takes at least to open it
    is_quiet: bool  # a success would change nothing
    openings: int  # in a row
    wait: float | None  # seconds of the last opening
    free: int  # probes that may be let through now
    hint: float  # seconds until the next place of a probe may be free


class CircuitAnswer(NamedTuple):
    """The circuit, and the place of a probe that the asker has got with the answer (0: none)."""

    view: CircuitView
    probe: int


class Question(Protocol[T_co]):
    """Something that a store was asked. Whoever asked ends it with `take` or `cancel`, once."""

    @property
    def patience(self) -> float:
        """Seconds that the asker waits at most."""
        ...

    def when_answered(self, wake: Callable[[], object], /) -> None:
        """Call `wake` once it is answered, in whatever thread that is; now, if it is."""
        ...

    def take(self, *, is_late: bool) -> T_co | None:
        """Return the answer; None if there is none, or none yet: it is not waited for any longer.

        `is_late`: the asker has waited for all of its patience; nobody else needs to, until the store answers again.
        """
        ...

    def cancel(self) -> None:
        """Nobody wants the answer: what it grants goes back."""
        ...


class CircuitLine(Protocol):
    """The line to one shared circuit. Every view of it is handed to `learn`, in their order, before a question is answered with it."""

    @property
    def is_up(self) -> bool:
        """Whether the store answers."""
        ...

    @property
    def is_watched(self) -> bool:
        """Whether views come by themselves, several a second: as long as the circuit is in use, and a little longer."""
        ...

    @property
    def unanswered(self) -> int:
        """How many failures were told that no view knows of yet; a huge number if one of them decides by itself."""
        ...

    def configure(self, rules: CircuitRules, /) -> None:
        """Go by other numbers from now on."""
        ...

    def use(self) -> None:
        """Note that the circuit is in use."""
        ...

    def tell(self, era: int, probe: int, ending: Ending, code: str, /) -> None:
        """Tell how a call ended that was let in in this era, as this probe (0: as none)."""
        ...

    def ask(self) -> Question[CircuitAnswer]:
        """Ask for the circuit as it is now, and for the place of a probe if one is needed."""
        ...

    def put(self, state: Literal["closed", "isolated", "disabled"], /) -> Question[CircuitAnswer]:
        """Set it by hand. A store that is away does it when it is back."""
        ...


class BudgetLine(Protocol):
    """The line to one shared retry budget."""

    @property
    def is_up(self) -> bool:
        """Whether the store answers."""
        ...

    def configure(self, rules: BudgetRules, /) -> None:
        """Go by other numbers from now on."""
        ...

    def deposit(self) -> None:
        """Count a call."""
        ...

    def ask(self) -> Question[bool]:
        """Ask for one more repeat."""
        ...

    def give_back(self) -> None:
        """Return a repeat that was not made."""
        ...


@runtime_checkable
class SharedState(Protocol):
    """Where circuits and retry budgets are shared between processes: `Policy(..., state=RedisState(url))`."""

    def circuit(self, key: str, rules: CircuitRules, learn: Callable[[CircuitView], None], /) -> CircuitLine:
        """Return the line to the circuit of this name. ConfigError for what the store needs and does not have."""
        ...

    def budget(self, key: str, rules: BudgetRules, /) -> BudgetLine:
        """Return the line to the retry budget of this name."""
        ...
