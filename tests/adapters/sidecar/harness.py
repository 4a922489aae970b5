"""A relay without I/O, played by hand: clients that remember what they got, a server that answers what a test wants, and a clock that a test turns.

Rule: it does what `running.py` does, and no more. Every step takes all actions out, and time stands still until `wait`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from resilient_bridge.adapters import Sidecar
from resilient_bridge.errors import Executed
from resilient_bridge.stores import Effects
from tests.internals.adapters import (
    PREFIX,
    Action,
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
    parse,
)


NEVER_SENT: Final = Loss(reason="connection refused", executed=Executed.NO)
REFUSED: Final = Loss(reason="connection refused", executed=Executed.NO, is_away=True)
FORGOTTEN: Final = Loss(reason="HTTP 404", executed=Executed.NO, is_session_gone=True)
DENIED: Final = Loss(reason="HTTP 401", executed=Executed.NO, is_final=True)
CUT: Final = Loss(reason="the answer was cut off", is_cut=True)
AWAY: Final = Loss(reason="HTTP 502", is_away=True)
DIED: Final = Loss(reason="exit code 137")
MODERN: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
ALL: Final = {
    "tools": {},
    "prompts": {},
    "resources": {"subscribe": True},
    "logging": {},
    "completions": {},
}
MOST_STEPS: Final = 2_000  # timers in one `wait`: more are a busy loop


def tool(name: str, **annotations: Any) -> dict[str, Any]:
    """Return a tool as a list of tools has it."""
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": annotations}


def result_text(answer: Message) -> str:
    """Return the text of a tool's result, or of an error."""
    if answer.error:
        return str(answer.error["message"])
    return str(answer.result["content"][0]["text"])


def outcome(answer: Message) -> str:
    """Return the outcome that an answer of ours states for machines; "" in an answer of the server."""
    meta = answer.error.get("data", {}) if answer.error else answer.result.get("_meta", {})
    return str(meta.get(f"{PREFIX}/outcome", ""))


class Person:
    """A client session; it remembers what it got, and in which stream."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self.got: list[tuple[Message, Key | None]] = []
        self.dropped: list[Key] = []

    def deliver(self, message: Message, request: Key | None) -> None:
        """Remember it."""
        assert parse(message.text).fields == message.fields, (
            "the text and what was read of it differ"
        )
        self.got.append((message, request))

    def drop(self, request: Key) -> None:
        """Remember it."""
        self.dropped.append(request)

    def ask(self, id: object, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Make a request."""
        self.say(message.request(id, method, params))

    def call(self, id: object, name: str, **params: Any) -> None:
        """Call a tool."""
        self.ask(id, "tools/call", {"name": name, **params})

    def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self.say(message.notification(method, params))

    def say(self, received: Message) -> None:
        """Send any message."""
        harness = self._harness
        harness.step(lambda: harness.relay.from_client(self, received, harness.now))

    def answers(self, id: object) -> list[Message]:
        """Return all answers to a request."""
        return [one for one, _ in self.got if one.is_answer and one.key == message.key_of(id)]

    def answer(self, id: object) -> Message:
        """Return the one answer to a request."""
        (found,) = self.answers(id)
        return found

    def heard(self, method: str) -> list[Message]:
        """Return the notifications of a kind, and the server's requests."""
        return [one for one, _ in self.got if one.method == method]

    def open(
        self, capabilities: Mapping[str, Any] | None = None, version: str = "2025-06-18"
    ) -> Person:
        """Initialise as a client does that speaks the protocol with sessions."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "c"},
        }
        self.ask("init", "initialize", params)
        if self.answers("init"):
            self.tell("notifications/initialized")
        return self

    def leave(self) -> None:
        """End the session."""
        harness = self._harness
        harness.step(lambda: harness.relay.disconnect(self, harness.now))


class Sent(NamedTuple):
    """A message that the server has got."""

    session: int
    message: Message


class Harness:
    """A relay with its clock and its server.

    `auto` has what the server answers by itself, by method: a result, or a function of the request. What is not in it stays in `asked`.
    `ledger`: what remembers calls in doubt, as the driver gives it.
    """

    def __init__(
        self,
        *,
        is_shared: bool = False,
        url: bool = False,
        seed: int = 1,
        ledger: Effects | None = None,
        **options: Any,
    ) -> None:
        where: dict[str, Any] = (
            {"url": "http://127.0.0.1:1/mcp"} if url else {"command": ("server",)}
        )
        self.relay = Relay(
            Sidecar(**where, **options),
            random.Random(seed),
            lambda: "2026-01-01",
            is_shared=is_shared,
            effects=ledger,
            wall=lambda: 1_700_000_000.0 + self.now,
        )
        self.now = 1_000.0
        self.tools: list[dict[str, Any]] = [tool("order")]
        self.auto: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": ALL,
                "serverInfo": {"name": "s", "version": "1"},
            },
            "tools/list": lambda _: {"tools": self.tools},
            "prompts/list": {"prompts": []},
            "resources/list": {"resources": []},
            "resources/templates/list": {"resourceTemplates": []},
            "logging/setLevel": {},
            "resources/subscribe": {},
            "resources/unsubscribe": {},
            "ping": {},
        }
        self.opens_at_once = True
        self.sessions: list[int] = []  # asked for, oldest first
        self.closed: list[int] = []
        self.abandoned: list[GiveUp] = []
        self.sent: list[Sent] = []  # everything that the server has got
        self.asked: list[Sent] = []  # requests that it has not answered
        self.notes: list[Mapping[str, Any]] = []
        self.lines: list[str] = []
        self._is_in_step = False

    def client(self) -> Person:
        """Have a client connect."""
        person = Person(self)
        self.relay.connect(person)
        return person

    @property
    def session(self) -> int:
        """The number of the latest session."""
        return self.sessions[-1]

    # ---- steps -------------------------------------------------------------------------------------------------

    def step(self, what: Callable[[], None]) -> None:
        """Tell the relay something, then do what it wants."""
        what()
        actions = self.relay.actions
        while actions:
            self._do(actions.popleft())

    def _do(self, action: Action) -> None:
        match action:
            case ToClient(client, received, key):
                client.deliver(received, key)
            case Drop(client, key):
                client.drop(key)
            case Note(record, line):
                self.notes.append(record)
                self.lines.append(line)
            case Open(session):
                self.sessions.append(session)
                if self.opens_at_once:
                    self.relay.opened(session, self.now)
            case Close(session):
                self.closed.append(session)
                self.asked = [one for one in self.asked if one.session != session]
            case GiveUp():
                self.abandoned.append(action)
            case ToServer(session, received):
                if session not in self.closed:
                    self._received(Sent(session, received))

    def _received(self, sent: Sent) -> None:
        self.sent.append(sent)
        if not sent.message.is_request:
            return
        answer = self.auto.get(sent.message.method)
        if answer is None:
            self.asked.append(sent)
            return
        value = answer(sent.message) if callable(answer) else answer
        reply = message.result(sent.message.id, value)
        self.relay.from_server(sent.session, reply, sent.message.id, self.now)

    # ---- the server --------------------------------------------------------------------------------------------

    def take(self, method: str = "tools/call") -> Sent:
        """Return the oldest request of a kind that is not answered, and take it for answered."""
        found = next(one for one in self.asked if one.message.method == method)
        self.asked.remove(found)
        return found

    def reply(self, sent: Sent, value: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Answer a request: with a result, or with `error`."""
        if "error" in fields:
            received = message.error(sent.message.id, fields["error"], fields.get("text", "no"))
        else:
            received = message.result(sent.message.id, {"content": []} if value is None else value)
        self.serve(received, sent.session, sent.message.id)

    def serve(
        self, received: Message, session: int | None = None, request: int | None = None
    ) -> None:
        """Have the server send something."""
        number = self.session if session is None else session
        self.step(lambda: self.relay.from_server(number, received, request, self.now))

    def lose(self, sent: Sent, loss: Loss) -> None:
        """Have a request end without an answer, as over HTTP."""
        self.step(lambda: self.relay.unanswered(sent.session, sent.message.id, loss, self.now))

    def die(self, loss: Loss = DIED, session: int | None = None) -> None:
        """End the connection."""
        number = self.session if session is None else session
        self.asked = [one for one in self.asked if one.session != number]
        self.step(lambda: self.relay.lost(number, loss, self.now))

    def open_now(self) -> None:
        """Say that the connection of the latest session is there."""
        self.step(lambda: self.relay.opened(self.session, self.now))

    # ---- time --------------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Let time pass, from timer to timer."""
        until = self.now + seconds
        for _ in range(MOST_STEPS):
            due = self.relay.next_timer()
            if due is None or due > until:
                self.now = until
                return
            self.now = max(self.now, due)
            self.step(lambda: self.relay.timer(self.now))
            after = self.relay.next_timer()
            assert after is None or after > self.now or after != due, (
                f"the timer at {due} never clears"
            )
        raise AssertionError(f"more than {MOST_STEPS} timers in {seconds} s")

    # ---- what there is to see ----------------------------------------------------------------------------------

    def got(self, method: str) -> list[Message]:
        """Return what the server has got of a kind."""
        return [one.message for one in self.sent if one.message.method == method]

    def records(self, event: str) -> list[Mapping[str, Any]]:
        """Return the records of a kind."""
        return [one for one in self.notes if one["event"] == event]

    def ended(self) -> list[str]:
        """Return how calls of tools have ended, in their order."""
        return [
            one["outcome"] for one in self.records("call_finished") if one["method"] == "tools/call"
        ]


def ready(**options: Any) -> tuple[Harness, Person]:
    """Return a relay whose server is up, and its client."""
    harness = Harness(**options)
    return harness, harness.client().open()


def away(harness: Harness) -> None:
    """Have the server end, and not come back for now."""
    harness.opens_at_once = False
    harness.die()
    harness.wait(0)
