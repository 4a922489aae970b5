"""A store of remote limits: a server in this process, as far away as a test says, with a clock of its own.

In virtual time by default; with a `clock` and `later` of its own a test decides when each message arrives.

Rule: it decides as the script of a RedisState does; tests/stores/test_redis_limit_scripts.py holds both against each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from math import inf
from typing import Any, NamedTuple

from tests.internals.calls import LimitShare, RemoteLimitView


LEASE = 10.0


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _call_later(seconds: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, call)


class Reply(NamedTuple):
    """What the server answers to one proposal."""

    is_written: bool
    version: int
    numbers: tuple[float, ...] | None
    others: tuple[LimitShare, ...]
    now: float


class Server:
    """The server: limits with a version, and what each user has. Its clock is so far ahead of the loop's."""

    def __init__(self, ahead: float = 1_000_000.0, clock: Callable[[], float] = _loop_time) -> None:
        self.ahead, self.clock = ahead, clock
        self.limits: dict[str, Any] = {}
        self.proposals = self.rejected = 0
        self._versions = count(1)

    def now(self) -> float:
        return self.clock() + self.ahead

    def exchange(self, name: str, user: int, known: int, proposal: Any) -> Reply:
        """Do what the script does."""
        now = self.now()
        limit = self.limits.get(name)
        if limit is not None and limit["until"] <= now:
            limit = None
        is_written = False
        if limit is not None:
            limit["rows"] = {key: row for key, row in limit["rows"].items() if row.at + LEASE > now}
        if proposal is not None:
            is_proposal = bool(proposal.numbers)
            self.proposals += is_proposal
            if is_proposal and (limit is None or limit["version"] == known):
                is_written = True
                rows = {} if limit is None else limit["rows"]
                known = next(self._versions)
                limit = {"version": known, "numbers": proposal.numbers, "rows": rows}
                limit["until"] = now + proposal.seconds
            self.rejected += is_proposal and not is_written
            if limit is not None and (is_written or not is_proposal):
                share = proposal.share
                limit["rows"].pop(user, None)
                if share.running or share.earlier or share.first < inf:
                    limit["rows"][user] = share._replace(at=now)
            elif limit is not None and user in limit["rows"]:
                limit["rows"][user] = limit["rows"][user]._replace(at=now)
            if limit is not None:
                self.limits[name] = limit
        if limit is None:
            return Reply(False, 0, (), (), now)
        others = tuple(row for key, row in limit["rows"].items() if key != user)
        numbers = None if limit["version"] == known else limit["numbers"]
        return Reply(is_written, limit["version"], numbers, others, now)


class Line:
    """The line of one user; one exchange is under way at a time."""

    patience = 0.1
    _users = count(1)

    def __init__(self, store: Store, name: str, learn: Any) -> None:
        self.store, self.name, self.learn = store, name, learn
        self.user = next(Line._users)
        self.version = 0
        self.proposal: Any = None
        self.is_due = self.is_under_way = False
        self.due_since: float | None = None
        self.sent_at: float | None = None

    @property
    def is_up(self) -> bool:
        return self.store.is_up

    @property
    def ahead(self) -> float | None:
        return self.store.ahead

    @property
    def asked_at(self) -> float | None:
        return self.due_since if self.sent_at is None else self.sent_at

    def late(self) -> None:
        self.store.lose()

    def propose(self, proposal: Any, /) -> None:
        if proposal is not None:
            self.proposal = proposal
        self.is_due = True
        if self.is_up and self.due_since is None:
            self.due_since = self.store.server.clock()
        self.send()

    def send(self) -> None:
        if self.is_due and self.is_up and not self.is_under_way and not self.store.is_slow:
            self.is_due, self.is_under_way = False, True
            self.sent_at, self.due_since = self.due_since, None
            self.store.later(self.store.latency, partial(self._arrive, self.proposal))

    def _arrive(self, sent: Any) -> None:
        reply = self.store.server.exchange(self.name, self.user, self.version, sent)
        self.store.later(self.store.latency, partial(self._answer, sent, reply))

    def _answer(self, sent: Any, reply: Reply) -> None:
        self.is_under_way, self.sent_at = False, None
        if not self.is_up:
            return
        self.store.ahead = self.store.server.ahead
        self.version = reply.version
        if sent is not None and self.proposal is sent:
            self.proposal = sent._replace(numbers=None)
        number = sent.number if reply.is_written else None
        self.learn(RemoteLimitView(reply.numbers, reply.others, self.store.ahead), number)
        self.send()


class Store:
    """A `Policy.state`, of one process: `latency` is the way to the server, one way."""

    def __init__(
        self,
        server: Server,
        latency: float = 0.0005,
        later: Callable[[float, Callable[[], None]], None] = _call_later,
    ) -> None:
        self.server, self.latency, self.later = server, latency, later
        self.ahead: float | None = None
        self.is_up = True
        self.is_slow = False
        self.lines: list[Line] = []

    def is_common(self, _: object, /) -> bool:
        return True

    def limits(self) -> Store:
        return self

    def ask(self) -> None:
        return None

    def is_limited(self) -> bool:
        return self.is_up and bool(self.server.limits)

    def has(self, name: str, /) -> bool:
        return self.is_up and name in self.server.limits

    def line(self, name: str, learn: Any, /) -> Line:
        self.lines.append(Line(self, name, learn))
        return self.lines[-1]

    def lose(self) -> None:
        """The server does not answer any more."""
        if self.is_up:
            self.is_up = False
            for line in self.lines:
                line.sent_at = line.due_since = None
                line.learn(None, None)

    def find(self) -> None:
        """It answers again."""
        self.is_up, self.is_slow = True, False
        for line in self.lines:
            line.is_under_way, line.is_due = False, True
            line.send()

    def __repr__(self) -> str:
        return "Store()"
