"""A store of shared state for tests: it answers at once, later, or never, and records what was reported to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.internals.calls import CircuitAnswer, CircuitView


CLOSED = CircuitView(
    state="closed",
    era=7,
    reason="",
    why="",
    because="",
    remaining=0.0,
    failed=0,
    seen=5,
    margin=5,
    is_quiet=True,
    openings=0,
    wait=None,
    free=0,
    hint=0.0,
)


def view(state: str = "closed", **how: Any) -> CircuitView:
    """A view of a circuit in era 7 that opens after five failures, with the given fields changed."""
    return CLOSED._replace(state=state, **how)


OPEN = view(
    "open",
    era=8,
    why="consecutive_failures_5",
    reason="consecutive_failures_5",
    remaining=30.0,
    margin=1,
)
HALF_OPEN = view("half_open", era=9, reason="reset_timeout_elapsed", free=1, margin=1)


class Asked:
    """A question that the test answers."""

    patience = 0.05

    def __init__(self) -> None:
        self.answer: Any = None
        self.was_late = self.is_cancelled = self.is_answered = False
        self._wake: Callable[[], object] | None = None

    def give(self, answer: Any) -> None:
        """Answer it."""
        self.answer, self.is_answered = answer, True
        if self._wake is not None:
            self._wake()

    def when_answered(self, wake: Callable[[], object], /) -> None:
        self._wake = wake
        if self.is_answered:
            wake()

    def take(self, *, is_late: bool) -> Any:
        self.was_late = is_late and not self.is_answered
        return self.answer

    def cancel(self) -> None:
        self.is_cancelled = True


class Line:
    """A line to a circuit or a budget. `answers`: the immediate answers to the next questions; without one they wait."""

    def __init__(self, learn: Callable[[CircuitView], None] | None = None) -> None:
        self.is_up = True
        self.is_watched = True
        self.unanswered = 0
        self.deposits = self.returned = self.uses = 0
        self.reported: list[tuple[int, int, str, str]] = []
        self.asked: list[Asked] = []
        self.answers: list[Any] = []
        self.configured: list[object] = []
        self.put_to: list[str] = []
        self._learn = learn

    def learn(self, seen: CircuitView) -> None:
        """The store pushes a view."""
        assert self._learn is not None
        self._learn(seen)

    def configure(self, value: object, /) -> None:
        self.configured.append(value)

    def use(self) -> None:
        self.uses += 1

    def tell(self, *report: Any) -> None:
        self.reported.append(report)

    def deposit(self) -> None:
        self.deposits += 1

    def give_back(self) -> None:
        self.returned += 1

    def ask(self) -> Asked:
        asked = Asked()
        self.asked.append(asked)
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, CircuitAnswer):
                self.learn(answer.view)
            asked.give(answer)
        return asked

    def put(self, state: str, /) -> Asked:
        self.put_to.append(state)
        return self.ask()


class Store:
    """A `Policy.state` whose store is the test."""

    def __init__(self) -> None:
        self.circuits: dict[str, Line] = {}
        self.budgets: dict[str, Line] = {}

    def circuit(self, key: str, breaker: object, learn: Callable[[CircuitView], None], /) -> Line:
        return self.circuits.setdefault(key, Line(learn))

    def budget(self, key: str, budget: object, /) -> Line:
        return self.budgets.setdefault(key, Line())

    def __repr__(self) -> str:
        return "Store()"
