"""The lines of a RedisState to adaptive limits: one to each limit, and one to the list of them.

The list says to a process which limits are in force, so that a call without one asks nothing. It is
polled while calls are made, and tells Redis of those in force here, so that a Redis that lost
everything has it again. A limit is polled while calls of it run or wait, which renews the lease of
what this process has.

Rule: the last proposal is the one that is sent, until it is answered. Numbers are sent once.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from ...calls.shared import PRESENT, LimitShare, RemoteLimitView
from ...world import REAL
from .exchange import Line
from .question import PendingQuestion
from .scripts import LIMIT, LIMITS


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from ...calls.shared import LimitProposal
    from .exchange import Command, Exchange

    Learn: TypeAlias = Callable[[RemoteLimitView | None, int | None], None]


_LEASE: Final = 10.0  # seconds after which a process that does not answer has nothing any more
_LEAVE: Final = "-"
_NOTHING: Final = "0"


class RedisLimits(Line):
    """The line to the list of limits that are in force."""

    is_polled = True

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange, "")
        self.is_served = False
        self._here: WeakSet[RedisLimit] = WeakSet()
        self.begin_anew()

    def begin_anew(self) -> None:
        self.is_watched = False
        self._names: frozenset[str] = frozenset()
        self._questions: list[PendingQuestion[bool]] = []
        self._asked: list[PendingQuestion[bool]] = []

    # ---- for calls ------------------------------------------------------------------------------

    def ask(self) -> PendingQuestion[bool] | None:
        """Note that a call is made; ask which limits are in force, unless it is known."""
        exchange = self._exchange
        self.use()
        if self.is_watched or not exchange.is_up:
            return None
        question = PendingQuestion[bool](exchange.timeout, exchange.late, _drop)
        with exchange.lock:
            if exchange.is_up:
                self._questions.append(question)
                exchange.send(self, 0.0)
                return question
        return None

    def is_limited(self) -> bool:
        """Return whether some limit is in force."""
        return bool(self._names)

    def has(self, name: str, /) -> bool:
        """Return whether the limit of this name is in force."""
        return self._exchange.is_up and name in self._names

    def line(self, name: str, learn: Learn, /) -> RedisLimit:
        """Return a new line to the limit of this name."""
        line = RedisLimit(self._exchange, name, learn, self)
        self._exchange.serve(line)
        with self._exchange.lock:  # its thread walks through them
            self._here.add(line)
        return line

    def list_now(self) -> None:
        """Tell Redis at once which limits are in force here; with the lock held."""
        self.use()
        self._exchange.send(self, 0.0)

    # ---- for the exchange -----------------------------------------------------------------------

    def command(self) -> Command:
        self._asked, self._questions = self._questions, []
        now, arguments = REAL.monotonic(), list[str]()
        for line in list(self._here):
            if line.until > now:
                arguments += (line.key, f"{(line.until - now) * 1_000:.0f}")
        return LIMITS, "limits", arguments

    def answered(self, reply: list[Any]) -> None:
        self._names = frozenset(name.decode("ascii", "replace") for name in reply)
        with self._exchange.lock:
            asked, self._asked = self._asked, []
        for question in asked:
            question.answer(bool(self._names))

    def lost(self) -> list[PendingQuestion[bool]]:
        questions = [*self._asked, *self._questions]
        self.begin_anew()
        return questions


class RedisLimit(Line):
    """The line to one limit."""

    is_polled = True

    def __init__(self, exchange: Exchange, key: str, learn: Learn, limits: RedisLimits) -> None:
        super().__init__(exchange, key)
        self._learn = learn
        self._limits = limits
        self.begin_anew()

    def begin_anew(self) -> None:
        self._user = REAL.new_token()
        self._version = ""
        self._proposal: LimitProposal | None = None
        self._sent: LimitProposal | None = None
        self._proposed_at = -inf
        self._due_since: float | None = None
        self._sent_at: float | None = None
        self.until = -inf  # when it is forgotten, by our clock

    @property
    def ahead(self) -> float | None:
        return self._exchange.known_ahead

    @property
    def asked_at(self) -> float | None:
        return self._due_since if self._sent_at is None else self._sent_at

    @property
    def patience(self) -> float:
        return self._exchange.timeout

    def late(self) -> None:
        self._exchange.late()

    def propose(self, proposal: LimitProposal | None, /) -> None:
        """Send this in the next exchange, which is at once."""
        exchange = self._exchange
        with exchange.lock:
            if proposal is not None and not exchange.is_closed:  # then it gives back what it has
                self._take(proposal)
            if exchange.is_up:
                if self._due_since is None:
                    self._due_since = REAL.monotonic()
                exchange.send(self, 0.0)

    def _take(self, proposal: LimitProposal) -> None:
        """Send this proposal from now on."""
        self._proposal, self._proposed_at = proposal, REAL.monotonic()
        # polled as long as this process has something, which is its lease
        self.used_at = REAL.monotonic() if _written(proposal.share) == _NOTHING else inf
        until = REAL.monotonic() + proposal.seconds
        is_new, self.until = until > self.until + 1, until
        if is_new and self._exchange.is_up:
            self._limits.list_now()

    def ending(self) -> bool:
        """Give back what this process has."""
        if self._proposal is None or not self._version:
            return False
        nothing = LimitShare(0, 0, inf, 0.0)
        self._proposal = self._proposal._replace(numbers=None, share=nothing)
        self.used_at = -inf
        return True

    def ended(self) -> None:
        self._learn(None, None)

    # ---- for the exchange -----------------------------------------------------------------------

    def command(self) -> Command:
        sent = self._sent = self._proposal
        self._sent_at, self._due_since = self._due_since, None
        numbers, seconds, share = "", 0.0, _LEAVE
        if sent is not None:
            numbers = " ".join(map(repr, sent.numbers or ()))
            seconds, share = sent.seconds, _written(sent.share)
            if REAL.monotonic() - self._proposed_at > PRESENT:  # its loop is blocked
                share = _written(sent.share._replace(first=inf))
        # a limit that is about to be forgotten is written all the same: a call waits for it
        ttl, lease = f"{max(1.0, seconds * 1_000):.0f}", f"{_LEASE * 1_000_000:.0f}"
        return LIMIT, f"limit:{self.key}", [self._user, self._version, numbers, ttl, lease, share]

    def answered(self, reply: list[Any]) -> None:
        version, clock, text = (reply[index].decode("ascii", "replace") for index in (1, 2, 3))
        ahead = self._exchange.ahead(int(clock) / 1_000_000)
        with self._exchange.lock:
            sent, self._sent, self._sent_at = self._sent, None, None
            is_written = bool(reply[0])
            is_other = version != self._version and not is_written
            self._version = version
            if sent is not None and self._proposal is sent:
                self._proposal = sent._replace(numbers=None)
        view = RemoteLimitView(
            numbers=_numbers(text) if is_other or not version else None,
            others=tuple(each for row in reply[4] if (each := _share(row)) is not None),
            ahead=ahead,
        )
        # A listener may raise these: in this thread they end no program.
        with suppress(KeyboardInterrupt, SystemExit):
            self._learn(view, sent.number if is_written and sent is not None else None)

    def lost(self) -> list[RedisLimit]:
        """Return itself: `answer` is called when the lock is free."""
        self._sent = self._sent_at = self._due_since = None
        if self._proposal is not None:
            self._proposal = self._proposal._replace(numbers=None)
        return [self]

    def answer(self, answer: None, /) -> None:  # noqa: ARG002 -- there is none
        """Tell the limit that it is alone."""
        self._learn(None, None)


def _drop(_: bool, /) -> None:
    """Give nothing back: an answer that no call takes grants nothing."""


def _written(share: LimitShare) -> str:
    if not (share.running or share.earlier or share.first < inf):
        return _NOTHING
    return f"{share.running} {share.earlier} {share.first!r}"


def _share(row: bytes) -> LimitShare | None:
    """Parse what another process has; None if that is not ours."""
    try:
        at, running, earlier, first = row.split()
        return LimitShare(int(running), int(earlier), float(first), int(at) / 1_000_000)
    except ValueError:
        return None


def _numbers(text: str) -> tuple[float, ...]:
    """Parse numbers; what cannot be parsed is one that no limit has."""
    try:
        return tuple(map(float, text.split()))
    except ValueError:
        return (inf,)
