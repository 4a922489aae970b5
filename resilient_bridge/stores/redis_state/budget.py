"""The line of a RedisState to one retry budget: it reports calls, asks for and returns retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .exchange import LINGER, POLL, Line
from .question import PendingQuestion
from .scripts import BUDGET


if TYPE_CHECKING:
    from ...calls.shared import BudgetRules
    from .exchange import Command, Exchange


_BUDGET_TTL: Final = 60_000  # milliseconds


class RedisBudget(Line):
    """The line to one retry budget."""

    def __init__(self, exchange: Exchange, key: str, rules: BudgetRules) -> None:
        super().__init__(exchange, key)
        self._rules = rules
        self.begin_anew()

    def begin_anew(self) -> None:
        self._calls = 0
        self._returned = 0
        self._questions: list[PendingQuestion[bool]] = []
        self._asked: list[PendingQuestion[bool]] = []

    def configure(self, rules: BudgetRules, /) -> None:
        self._rules = rules

    def deposit(self) -> None:
        """Count a call, if calls earn retries."""
        exchange = self._exchange
        if self._rules.ratio:
            with exchange.lock:
                self._calls += 1
                if self._calls == 1:
                    exchange.send(self, POLL)

    def ask(self) -> PendingQuestion[bool]:
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
        with self._exchange.lock:
            self._returned += 1
            self._exchange.send(self, LINGER)

    def _unwanted(self, answer: bool) -> None:
        if answer:
            self.give_back()

    def command(self) -> Command:
        self._asked, self._questions = self._questions, []
        rules = self._rules
        numbers = (
            rules.ratio,
            rules.floor,
            self._calls,
            len(self._asked),
            self._returned,
            _BUDGET_TTL,
        )
        self._calls = self._returned = 0
        return BUDGET, f"budget:{self.key}", [repr(number) for number in numbers]

    def lost(self) -> list[PendingQuestion[bool]]:
        questions = [*self._asked, *self._questions]
        self.begin_anew()
        return questions

    def answered(self, reply: list[Any]) -> None:
        """Answer the questions, the first ones with True: as many as retries were granted."""
        granted = int(reply[0])
        with self._exchange.lock:
            asked, self._asked = self._asked, []
        for index, question in enumerate(asked):
            question.answer(index < granted)
