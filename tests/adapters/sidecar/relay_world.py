"""One seeded run of the relay between model clients and a model server that crashes, forgets, limits, hangs and changes its tools.

Everything follows from the seed. The server counts the effects of every call, so that each statement of the relay can be judged: `run(seed)`
raises `BrokenError` with what does not hold. Time is virtual; a run takes milliseconds.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from resilient_bridge.adapters import Sidecar
from resilient_bridge.errors import Executed
from tests.adapters.sidecar.harness import ALL, AWAY, CUT, DIED, FORGOTTEN, REFUSED, outcome, tool
from tests.internals.adapters import (
    Close,
    Drop,
    GiveUp,
    Key,
    Loss,
    Message,
    Note,
    Open,
    Relay,
    ToClient,
    ToServer,
    message,
)


ACTIVE: Final = 120.0  # virtual seconds in which clients ask and things break
REST: Final = 400.0  # after which every call has to be at its end
STEPS: Final = 60_000
IDS: Final = (1, 2, 3, "1", "2", 4.5, 10**20)
TOOLS: Final = (
    tool("order"),
    tool("look", readOnlyHint=True),
    tool("put", idempotentHint=True),
    tool("named"),
)
REQUESTS: Final = "order order look put put named extra unlisted read list vendor".split()


class BrokenError(AssertionError):
    """An invariant does not hold."""


@attrs.define(eq=False)
class Asked:
    """A request of a client, what the server did with it, and what the client was told."""

    person: Person
    id: Any
    kind: str
    marker: int
    effects: int = 0
    # each: its place in the order of all sends, and its fate
    sends: list[list[Any]] = attrs.field(factory=list)
    reported: str | None = None

    @property
    def is_call(self) -> bool:
        """Whether it calls a tool."""
        return self.kind not in ("read", "list", "vendor")


class Person:
    """A client, with its requests under way."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self.open: dict[Key, Asked] = {}
        self.is_there = True

    def deliver(self, received: Message, _request: Key | None) -> None:
        """Judge an answer; answer a request of the server."""
        world = self.world
        if received.is_request:
            world.after(
                0.1,
                lambda: world.from_client(self, message.result(received.id, {"by": self.number})),
            )
        if not received.is_answer or received.id == "init":
            return
        asked = self.open.pop(received.key, None) if received.key is not None else None
        if asked is None:
            raise BrokenError(f"an answer to nothing, or a second one: {received.text}")
        world.judge(asked, received)

    def drop(self, key: Key) -> None:
        """A request ends without an answer."""
        asked = self.open.pop(key, None)
        if asked is None:
            raise BrokenError(f"the end of nothing: {key}")
        asked.reported = "cancelled"


@attrs.define
class Run:
    """What happened in one run."""

    outcomes: Counter[str] = attrs.field(factory=Counter)
    sessions: int = 0
    effects: int = 0


class World:
    """The clock, the clients and the server of one run."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.now, self.serial, self.order = 100.0, 0, 0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.is_url, self.is_shared, self.is_modern = (
            rng.random() < 0.5,
            rng.random() < 0.5,
            rng.random() < 0.4,
        )
        self.trusts = rng.random() < 0.5
        self.has_proxy = random.Random(f"proxy {seed}").random() < 0.5
        where: dict[str, Any] = (
            {"url": "http://127.0.0.1:1"} if self.is_url else {"command": ("s",)}
        )
        self.options = Sidecar(
            **where,
            patience=rng.choice([3, 10, 30]),
            timeout=rng.choice([4, 15]),
            deadline=rng.choice([8, 40, 100]),
            trust_hints=self.trusts,
            idempotent=("named",),
            concurrency=rng.choice([{}, {"order": 1}, {"*": 2, "put": 1}]),
            start_timeout=20,
        )
        self.relay = Relay(
            self.options, random.Random(seed), lambda: "now", is_shared=self.is_shared
        )
        self.people: list[Person] = []
        self.all: list[Asked] = []
        self.under_way: dict[tuple[int, Any], Asked] = {}  # by session and id
        self.alive: dict[int, int] = {}  # session: the version of its list of tools
        self.gone: set[int] = set()  # connections that the relay was told about, or has closed
        self.last_at: dict[int, float] = {}
        self.version, self.is_down, self.faults = 1, False, True
        self.listed = ""
        self.news = self.news_due = 0
        self.run = Run()
        self.finished = 0

    # ---- the machine -------------------------------------------------------------------------------------------

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something later."""
        self.serial += 1
        heapq.heappush(self.events, (self.now + seconds, self.serial, what))

    def tell(self, what: Callable[..., None], *facts: Any) -> None:
        """Tell the relay something, then do what it wants."""
        what(*facts, self.now)
        actions = self.relay.actions
        while actions:
            match actions.popleft():
                case ToClient(client, received, key):
                    client.deliver(received, key)
                case Drop(client, key):
                    client.drop(key)
                case Open(session):
                    self.start(session)
                case Close(session):
                    self.alive.pop(session, None)
                    self.gone.add(session)
                case ToServer(session, received):
                    self.send(session, received)
                case GiveUp():
                    pass
                case Note(record, _):
                    self.finished += record["event"] == "call_finished"
                    self.news += (
                        record["event"] == "list_changed" and record["list"] == "tools/list"
                    )

    def from_client(self, person: Person, received: Message) -> None:
        """A client says something, if it is still there."""
        if person.is_there:
            self.tell(self.relay.from_client, person, received)

    def go(self, until: float) -> None:
        """Let time pass."""
        for _ in range(STEPS):
            due = self.relay.next_timer()
            event_at = self.events[0][0] if self.events else None
            at = min((one for one in (due, event_at) if one is not None), default=None)
            if at is None or at > until:
                self.now = until
                return
            self.now = max(self.now, at)
            if event_at is not None and event_at <= self.now:
                heapq.heappop(self.events)[2]()
            else:
                self.tell(self.relay.timer)
                after = self.relay.next_timer()
                if after is not None and after <= self.now and not self.events:
                    self.tell(self.relay.timer)
                    if self.relay.next_timer() == after:
                        raise BrokenError(f"a timer that never clears, at {after}")
        raise BrokenError("it does not come to rest")

    # ---- the server --------------------------------------------------------------------------------------------

    def start(self, session: int) -> None:
        """A connection is made: a child may fail to start, or be slow; over HTTP there is nothing to start."""
        self.run.sessions += 1
        roll = self.rng.random() if self.faults and not self.is_url else 1.0
        delay = (
            0.0 if self.is_url else self.rng.choice([0.05, 0.5, 2.0, 25.0 if self.faults else 1.0])
        )

        def begin() -> None:
            if session in self.gone:
                return
            if roll < 0.15:
                self.end(session, Loss(reason="exit code 1", executed=Executed.NO))
                return
            if self.faults and self.rng.random() < 0.3:
                self.version += 1
            self.alive[session] = self.version
            self.tell(self.relay.opened, session)

        self.after(delay, begin)

    def end(self, session: int, loss: Loss) -> None:
        """A child ends. What was never handed to its pipe is said not to have run, where that is seen."""
        if session in self.gone:
            return
        self.gone.add(session)
        self.alive.pop(session, None)
        for (number, own), asked in list(self.under_way.items()):
            if number == session:
                del self.under_way[number, own]
                is_unsent = asked.sends[-1][1] == "on the way"
                if is_unsent and self.rng.random() < 0.5:
                    asked.sends[-1][1] = "no"
                    self.tell(
                        self.relay.unanswered,
                        session,
                        own,
                        attrs.evolve(loss, executed=Executed.NO),
                    )
                else:
                    asked.sends[-1][1] = "maybe"
        self.tell(self.relay.lost, session, loss)

    def send(self, session: int, received: Message) -> None:
        """A message is on its way to the server; those of one connection stay in their order."""
        if not received.is_request:
            return
        marker = received.params.get("marker", received.params.get("arguments", {}).get("marker"))
        if isinstance(marker, int):
            self.sent(session, received, self.all[marker])
        at = max(self.now + self.rng.choice([0.0, 0.01, 0.05]), self.last_at.get(session, 0.0))
        self.last_at[session] = at
        self.after(at - self.now, lambda: self.arrived(session, received))

    def sent(self, session: int, received: Message, asked: Asked) -> None:
        """Judge that a request is sent, perhaps again."""
        if asked.reported is not None:
            raise BrokenError(f"{asked.kind} is sent after it has ended as {asked.reported}")
        earlier = [position for position, fate in asked.sends if fate not in ("no", "answered")]
        if asked.is_call and earlier:
            by_name = asked.kind == "named"
            read = asked.kind == "look" and (self.trusts or not self.is_url)
            put = asked.kind == "put" and self.trusts
            if not (by_name or read or put):
                raise BrokenError(f"{asked.kind} is sent again although it may have run")
            later = [one for one in self.all if one is not asked and one.is_call]
            if put and any(position > earlier[0] for one in later for position, _ in one.sends):
                raise BrokenError("an idempotent write is sent again after a later call")
        self.order += 1
        asked.sends.append([self.order, "on the way"])
        self.under_way[session, received.id] = asked

    def arrived(self, session: int, received: Message) -> None:
        """The server gets a request: it answers, or something happens."""
        asked = self.under_way.get((session, received.id))
        if session in self.gone:
            return
        if self.is_down:
            # M01: nobody listens, or a proxy says so, which proves nothing
            self.unanswered(session, received, AWAY if self.has_proxy else REFUSED)
        elif session not in self.alive:
            self.unanswered(session, received, FORGOTTEN)
        elif asked is None:
            self.answer_own(session, received)
        else:
            asked.sends[-1][1] = "open"
            self.work(session, received, asked)

    def answer_own(self, session: int, received: Message) -> None:
        """Answer what the relay asks for itself."""
        if self.faults and self.rng.random() < 0.05:
            if self.is_url:
                self.unanswered(session, received, AWAY)
            else:
                self.end(session, DIED)
            return
        known: dict[str, Mapping[str, Any]] = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": ALL},
            "tools/list": {"tools": self.tools_of(session)},
            "prompts/list": {"prompts": []},
            "resources/list": {"resources": []},
            "resources/templates/list": {"resourceTemplates": []},
        }
        self.after(0.02, lambda: self.reply(session, received, known.get(received.method, {})))

    def tools_of(self, session: int) -> list[dict[str, Any]]:
        """Return what a session's server lists."""
        version = self.alive[session] % 3
        return [
            *TOOLS,
            *([tool("extra")] if version == 1 else [tool("more")] if version == 2 else []),
        ]

    def work(self, session: int, received: Message, asked: Asked) -> None:
        """A client's request: its effect, then its answer, or a loss on either side of it."""
        roll = self.rng.random() if self.faults else 1.0
        if roll < 0.06 and self.is_url:
            no = Loss(
                reason="HTTP 429", executed=Executed.NO, retry_after=self.rng.choice([None, 1, 50])
            )
            self.unanswered(session, received, no)
            return
        if roll < 0.12:
            self.break_off(session, received)
            return
        if roll < 0.24:
            asked.effects += 1
            self.break_off(session, received)
            return
        asked.effects += 1
        if roll < 0.28 and asked.is_call:
            return  # it hangs
        if asked.is_call and self.rng.random() < 0.2:
            self.ask_back(session, received)
        value = {"content": [], "marker": asked.marker, "isError": self.rng.random() < 0.1}
        if asked.kind == "list":
            value["tools"] = self.tools_of(session)
        delay = self.rng.choice([0.0, 0.02, 0.5, 3.0])
        self.after(delay, lambda: self.reply(session, received, value))

    def ask_back(self, session: int, received: Message) -> None:
        """The server reports progress, and asks the client something."""
        token = received.meta.get("progressToken")
        if token is not None:
            note = message.notification(
                "notifications/progress", {"progressToken": token, "progress": 1}
            )
            self.after(0.01, lambda: self.say(session, note, received.id))
        if not self.is_modern:
            self.after(
                0.01,
                lambda: self.say(session, message.request("q", "sampling/createMessage", {}), None),
            )

    def say(self, session: int, received: Message, about: Any) -> None:
        """The server says something of its own."""
        if session in self.alive:
            self.tell(self.relay.from_server, session, received, about)

    def break_off(self, session: int, received: Message) -> None:
        """The answer does not come: the child dies, or the stream is cut."""
        if self.is_url:
            self.unanswered(
                session, received, self.rng.choice([AWAY, CUT, Loss(reason="HTTP 500")])
            )
        else:
            self.end(session, DIED)

    def unanswered(self, session: int, received: Message, loss: Loss) -> None:
        """Tell the relay that a request has no answer."""
        asked = self.under_way.pop((session, received.id), None)
        if asked is not None:
            asked.sends[-1][1] = "no" if loss.executed is Executed.NO else "maybe"
        self.tell(self.relay.unanswered, session, received.id, loss)

    def reply(self, session: int, received: Message, value: Mapping[str, Any]) -> None:
        """The answer comes, if the connection is still there."""
        if session in self.gone or session not in self.alive:
            return
        asked = self.under_way.pop((session, received.id), None)
        if asked is not None:
            asked.sends[-1][1] = "answered"
        current = self.relay._state.current
        if received.method == "tools/list" and getattr(current, "number", None) == session:
            names = [one["name"] for one in value["tools"]]
            before, self.listed = self.listed, "/".join(names)
            self.news_due += before not in ("", self.listed) and self.run.sessions > 1
        self.tell(self.relay.from_server, session, message.result(received.id, value), received.id)

    # ---- what the clients are told -----------------------------------------------------------------------------

    def judge(self, asked: Asked, received: Message) -> None:
        """Judge an answer by what the server has done."""
        asked.reported = outcome(received) or "answered"
        self.run.outcomes[asked.reported] += 1
        if asked.reported == "unknown" and all(fate == "no" for _, fate in asked.sends):
            raise BrokenError(f"{asked.kind} provably did not run, and is told as unknown")
        if asked.kind != "list" and received.result.get("marker", asked.marker) != asked.marker:
            raise BrokenError(
                f"the answer to {received.result['marker']} as the answer to {asked.marker}"
            )
        if (
            asked.reported == "answered"
            and asked.kind != "list"
            and "result" in received.fields
            and not asked.effects
        ):
            raise BrokenError(f"{asked.kind} is answered and has not run")
