"""The line of a RedisState to one circuit: reports of calls, requests for probes, manual states.

Rule: endings (how calls ended) are sent in the order in which they were reported; those that wait
together are one row. A state set by hand survives an outage of Redis; endings do not.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from ...calls.shared import CircuitAnswer, CircuitView
from .exchange import LINGER, Line
from .question import PendingQuestion
from .scripts import CIRCUIT


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal, TypeAlias

    from ...calls.shared import CircuitRules, Ending, State
    from .exchange import Command, Exchange

    # era, probe, endings, code of the last failure
    Row: TypeAlias = tuple[int, int, list[str], list[str]]


_DECIDES: Final = 1_000_000  # failures that an ending counts as if it can change the circuit alone
_SORTS: Final = {"succeeded": "s", "failed": "f", "slow": "F", "critical": "c", "released": "r"}
_WAITS: Final = 8  # the script gets the open times of so many openings beyond the last
_HOUR: Final = 3_600_000  # milliseconds
_BY_HAND: Final = 30 * 24 * _HOUR


class RedisCircuit(Line):
    """The line to one circuit."""

    is_polled = True

    def __init__(
        self,
        exchange: Exchange,
        key: str,
        rules: CircuitRules,
        learn: Callable[[CircuitView], None],
    ) -> None:
        super().__init__(exchange, key)
        self._rules = rules
        self._learn = learn
        self._openings = 0
        self._margin = 1
        self._put: State | None = None
        self._unwanted: list[Row] = []  # permits that came too late, to be given back
        self.begin_anew()

    def begin_anew(self) -> None:
        self.unanswered = 0
        self.is_watched = False
        self._rows: list[Row] = []
        self._questions: list[PendingQuestion[CircuitAnswer]] = []
        self._sent = 0  # how many of the unanswered are under way
        self._asked: list[PendingQuestion[CircuitAnswer]] = []
        self._putting: State | None = None

    def configure(self, rules: CircuitRules, /) -> None:
        self._rules = rules

    def tell(self, era: int, probe: int, ending: Ending, code: str, /) -> None:
        exchange, sort = self._exchange, _SORTS[ending]
        with exchange.lock:
            if not exchange.is_up:
                return
            last = self._rows[-1] if self._rows else None
            if last is not None and not probe and last[:2] == (era, 0):
                last[2].append(sort)
                last[3][0] = code or last[3][0]
            else:
                self._rows.append((era, probe, [sort], [code]))
            if probe or ending == "critical":
                self.unanswered += _DECIDES
            elif ending != "succeeded":
                self.unanswered += 1
            exchange.send(self, 0.0 if self.unanswered >= self._margin else LINGER)

    def ask(self) -> PendingQuestion[CircuitAnswer]:
        """Ask for the circuit as it is now, and for the permit of a probe if one is needed."""
        return self._question(None)

    def put(
        self, state: Literal["closed", "isolated", "disabled"], /
    ) -> PendingQuestion[CircuitAnswer]:
        return self._question(state)

    def _question(self, put: State | None) -> PendingQuestion[CircuitAnswer]:
        exchange = self._exchange
        question = PendingQuestion[CircuitAnswer](exchange.timeout, exchange.late, self._give_back)
        with exchange.lock:
            if put is not None:
                self._put = put
            if exchange.is_up:
                self._questions.append(question)
                self.use()
                exchange.send(self, 0.0)
                return question
        question.answer(None)
        return question

    def _give_back(self, answer: CircuitAnswer) -> None:
        if answer.probe:
            self.tell(answer.view.era, answer.probe, "released", "")

    # ---- for the exchange, with its lock held -------------------------------------------------------------------

    def command(self) -> Command:
        rows, self._rows = [*self._unwanted, *self._rows], []
        self._asked, self._questions = self._questions, []
        self._putting, self._put = self._put, None
        self._sent = self.unanswered
        wanted = 0 if self._putting is not None else len(self._asked)
        arguments = [*_numbers(self._rules, self._openings), str(wanted), self._putting or ""]
        for era, probe, outcomes, code in rows:
            arguments += (str(era), str(probe), "".join(outcomes), code[0])
        return CIRCUIT, f"circuit:{self.key}", arguments

    def lost(self) -> list[PendingQuestion[CircuitAnswer]]:
        """Forget the reports, but not a state set by hand; return the unanswered questions."""
        questions = [*self._asked, *self._questions]
        put = self._put or self._putting
        self.begin_anew()
        self._put = put
        return questions

    def too_late(self, reply: list[Any]) -> None:
        """Give back the permits of probes in this answer once Redis is available again."""
        self._unwanted += _released(*_view(reply))

    # ---- for the exchange, without the lock -----------------------------------------------------------------------

    def answered(self, reply: list[Any]) -> None:
        """Learn the view, then answer the questions with it."""
        view, probes = _view(reply)
        # A listener may raise these: in this thread they end no program.
        with suppress(KeyboardInterrupt, SystemExit):
            self._learn(view)
        with self._exchange.lock:
            self._openings, self._margin = view.openings, view.margin
            self.unanswered -= self._sent
            asked, self._asked, self._putting, self._sent = self._asked, [], None, 0
            granted = [probes.pop() if probes else 0 for _ in asked]
            self._unwanted = _released(view, probes)  # of questions that a late call has ended
        for question, probe in zip(asked, granted, strict=True):
            question.answer(CircuitAnswer(view, probe))


def _numbers(rules: CircuitRules, openings: int) -> list[str]:
    window = rules.window
    in_a_row = rules.in_a_row
    if in_a_row is not None:
        kind, size, need, span = "row", str(in_a_row), str(in_a_row), 0.0
    elif isinstance(window, int):
        kind, size, need, span = "calls", str(window), repr(rules.rate), 0.0
    else:
        span = window.total_seconds() * 1_000
        kind, size, need = f"span:{span:g}", repr(span / 20), repr(rules.rate)
    waits = _waits(rules, openings)
    lease = rules.lease * 1_000
    ttl = _HOUR + 2 * int(span + lease + max(waits) * 1_000)
    shown = " ".join(f"{wait:.3f}" for wait in waits)
    need = f"{need} {rules.least}"
    return [kind, size, need, str(rules.probes), f"{lease:.0f}", str(ttl), str(_BY_HAND), shown]


def _waits(rules: CircuitRules, openings: int) -> list[float]:
    """Return how long the circuit stays open the first time, the second time, and so on."""
    schedule = rules.open_for
    if schedule.shape == "constant" and not schedule.is_random:
        return [schedule.seconds[0]]
    waits = schedule.waits()
    return [next(waits) for _ in range(openings + _WAITS)]


def _released(view: CircuitView, probes: list[int]) -> list[Row]:
    return [(view.era, probe, [_SORTS["released"]], [""]) for probe in probes]


def _view(reply: list[Any]) -> tuple[CircuitView, list[int]]:
    """Parse an answer: the circuit, and the permits of probes that it grants."""
    parts = [
        item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in reply
    ]
    view = CircuitView(
        state=cast("State", parts[0]),
        era=int(parts[1]),
        reason=parts[2],
        why=parts[3],
        because=parts[4],
        remaining=int(parts[5]) / 1_000,
        failed=int(parts[6]),
        seen=int(parts[7]),
        margin=int(parts[8]),
        is_quiet=parts[9] == "1",
        openings=int(parts[10]),
        wait=float(parts[11]) if parts[11] else None,
        free=int(parts[12]),
        hint=int(parts[13]) / 1_000,
    )
    return view, [int(probe) for probe in parts[14].split()]
