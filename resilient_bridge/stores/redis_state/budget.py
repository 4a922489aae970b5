"""The line of a RedisState to one retry budget: the calls that earn, who asks for a repeat, and what was not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .exchange import POLL
from .scripts import BUDGET
from .shared_line import LINGER, Line, PendingQuestion


if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...calls.shared.ports import BudgetRules
    from .exchange import Asked, Exchange
    from .scripts import Script


_BUDGET_TTL: Final = 60_000


class RedisBudget(Line):
    """The line to one retry budget."""

    def __init__(self, exchange: Exchange, key: str, rules: BudgetRules) -> None:
        super().__init__(exchange, key)
        self._rules = rules
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what was told and asked."""
        self._calls = 0
        self._returned = 0
        self._questions: list[PendingQuestion[bool]] = []
        self._asked: list[PendingQuestion[bool]] = []

    def configure(self, rules: BudgetRules, /) -> None:
        """Go by other numbers from now on."""
        self._rules = rules

    def deposit(self) -> None:
        """Count a call; where no share of the calls is allowed, nobody needs to know."""
        exchange = self._exchange
        if self._rules.ratio:
            with exchange.lock:
                self._calls += 1
                if self._calls == 1:
                    exchange.send(self, POLL)

    def ask(self) -> PendingQuestion[bool]:
        """Ask for one more repeat."""
        exchange = self._exchange
        question = PendingQuestion[bool](exchange.timeout, exchange.late, self._unwanted)
        with exchange.lock:
            if exchange.is_up:
                self._questions.append(question)
                exchange.send(self, 0.0)
                return question
        question.answer(None)
        return question

    def give_back(self) -> None:
        """Return a repeat that was not made."""
        with self._exchange.lock:
            self._returned += 1
            self._exchange.send(self, LINGER)

    def _unwanted(self, answer: bool) -> None:
        if answer:
            self.give_back()

    def command(self) -> tuple[Script, str, list[str]]:
        """Return what is to be sent, and note that it is under way."""
        self._asked, self._questions = self._questions, []
        counts = (self._calls, len(self._asked), self._returned, _BUDGET_TTL)
        self._calls = self._returned = 0
        return (
            BUDGET,
            f"budget:{self.key}",
            [*map(repr, (self._rules.ratio, self._rules.floor)), *map(str, counts)],
        )

    def lost(self) -> Sequence[Asked]:
        """Nobody knows what became of what was sent. Return the questions that get no answer."""
        questions = [*self._asked, *self._questions]
        self.begin_anew()
        return questions

    def answered(self, reply: list[Any]) -> None:
        """Hand on what the store said."""
        granted = int(reply[0])
        with self._exchange.lock:
            asked, self._asked = self._asked, []
        for index, question in enumerate(asked):
            question.answer(index < granted)
