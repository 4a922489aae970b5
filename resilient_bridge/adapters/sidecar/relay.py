"""The relay between MCP clients and a server that may crash, restart or forget its sessions.

No I/O and no clock.

A driver passes it every event with the time (`from_client`, `from_server`, `lost` …), and carries
out the `actions` that follow. Rule: a client's session never ends because of the server, and each
request ends in one stated outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...failure import Executed
from . import message
from .calls import Calls
from .effects import CallEffects
from .eras import CAPABILITIES, CHANGES, CLIENT, VERSION
from .lists import LISTS, cursor_of
from .notices import ask_client, deliver_notice, leave
from .restarts import Restarts
from .sessions import INITIALIZED, Sessions
from .set_up import take_back
from .shared import SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE
from .state import Call, ClientState, Own, Phase, State
from .status import STATUS_TOOL, add_status_tool, status_answer, status_of
from .upstream import Loss


if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from ...stores import Effects
    from .front import Client
    from .message import Message
    from .options import Sidecar
    from .state import Session

_INVALID_REQUEST: Final = -32600
_OLD: Final = Loss(reason="its session was forgotten by the server", executed=Executed.NO)
_NOT_OFFERED: Final[Mapping[str, Any]] = {}  # capabilities of several clients that share a server


class Relay:
    """The relay of one server, for one client or, with `is_shared`, for several.

    Times are monotonic seconds; `today` returns the date and time as text, `wall` the seconds of the
    wall clock. `effects` remembers calls in doubt; None: nothing does.
    """

    def __init__(
        self,
        options: Sidecar,
        rng: random.Random,
        today: Callable[[], str],
        *,
        is_shared: bool = False,
        effects: Effects | None = None,
        wall: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._state = State(options, is_shared=is_shared)
        self.actions = self._state.actions  # pending, oldest first; the driver removes them
        self._restarts = Restarts(options, rng)
        self._effects = CallEffects(self._state, effects, wall)
        self._calls = Calls(self._state, self._restarts, self._effects)
        self._sessions = Sessions(self._state, self._calls, self._restarts, today)

    # ---- clients -----------------------------------------------------------------------------------------------

    def connect(self, client: Client) -> None:
        found = self._state.clients[id(client)] = ClientState(client)
        found.restarts_reported = self._state.restarts

    def disconnect(self, client: Client, now: float) -> None:
        """Unregister a client session: its requests are cancelled, and the server is informed."""
        found = self._state.clients.get(id(client))
        if found is None:
            return
        self._state.clients.pop(id(client))
        self._calls.leave(found, now)
        leave(self._state, found)
        take_back(self._state, found, now)

    def from_client(self, client: Client, received: Message, now: float) -> None:
        """Handle a message of a client."""
        found = self._state.clients.get(id(client))
        if found is None:
            return
        if received.is_answer:
            self._answered_by_client(found, received)
        elif received.is_notification:
            self._noticed_by_client(found, received, now)
        else:
            self._asked_by_client(found, received, now)

    def _asked_by_client(self, client: ClientState, request: Message, now: float) -> None:
        if request.method == "initialize":
            self._initialize(client, request, now)
            return
        if VERSION in request.meta:
            client.is_modern = True
            # after `server/discover` alone, a client may still open a session
            if request.method != "server/discover":
                meta = request.meta
                self._state.envelope = {name: meta[name] for name in meta if name in _ENVELOPE}
        elif client.is_modern is None:
            client.is_modern = False
        if request.method == "ping":
            self._state.to_client(client, message.result(request.id, {}), request.key)
            return
        if (
            self._state.options.status_tool
            and request.method == "tools/call"
            and request.name == STATUS_TOOL
        ):
            answer = status_answer(request.id, self.status(now), is_modern=bool(client.is_modern))
            self._state.to_client(client, answer, request.key)
            return
        if client.opening is not None or client.is_modern:
            self._sessions.ensure(now)
        self._calls.accept(client, request, now)

    def _initialize(self, client: ClientState, request: Message, now: float) -> None:
        state = self._state
        is_open = (
            client.opening is not None
            and client.opening.key != request.key
            and self._is_open(client)
        )
        if is_open or request.key in client.calls:
            why = (
                "the session is initialized already"
                if is_open
                else "an id that is under way already"
            )
            text = f"invalid request: {why}"
            state.to_client(client, message.error(request.id, _INVALID_REQUEST, text), request.key)
            return
        client.opening, client.is_modern, client.is_initialized = request, False, False
        if state.opening is None or state.started is None:
            # Clients that share a server offer it no capabilities: the wrong one could answer.
            shown = (
                request.with_member(("params", "capabilities"), _NOT_OFFERED)
                if state.is_shared
                else request
            )
            state.opening = shown
        key = request.key
        if key is None:
            return
        call = Call(client, request, state.number(), now)
        call.deadline_at = now + state.options.start_timeout
        client.calls[key] = state.opening_calls[call.number] = call
        if state.started is None and self._calls.is_refused(call, now):
            return
        current = state.current
        if state.started is not None and (
            state.is_shared or current is None or current.phase is not Phase.OPENING
        ):
            self._sessions.answer_opening(client, state.started, now)
        elif current is not None and current.phase is Phase.READY and current.is_modern:
            self._sessions.greet(current, now)
        else:
            self._sessions.ensure(now)

    def _is_open(self, client: ClientState) -> bool:
        return self._state.started is not None and client.is_modern is False

    def _noticed_by_client(self, client: ClientState, note: Message, now: float) -> None:
        state = self._state
        current = state.current
        if note.method == INITIALIZED:
            client.is_initialized = True
            if current is not None:
                self._sessions.initialized(current, now)
        elif note.method == "notifications/cancelled":
            key = message.key_of(note.params.get("requestId"))
            if key is not None:
                self._calls.cancel(client, key, note, now)
        elif state.usable is not None:
            state.to_server(state.usable, note)
        else:
            self._calls.hold(client, note, now)

    def _answered_by_client(self, client: ClientState, answer: Message) -> None:
        number = answer.id
        asked = self._state.asked.get(number) if isinstance(number, int) else None
        if asked is None or asked.client is not client:
            self._state.strays += 1  # late: the session that asked has ended
            return
        del self._state.asked[number]
        self._state.to_server(asked.session, answer.with_id(asked.request.id))

    # ---- the server --------------------------------------------------------------------------------------------

    def opened(self, session: int, now: float) -> None:
        if (found := self._state.sessions.get(session)) is not None:
            self._sessions.opened(found, now)

    def from_server(self, session: int, received: Message, request: int | None, now: float) -> None:
        """Handle a message of the server; `request` is ours in whose stream it came, if known."""
        found = self._state.sessions.get(session)
        if found is None:
            return
        self._sessions.reached(found, received, now)
        if received.is_answer:
            self._answered_by_server(found, received, now)
        elif received.is_notification:
            if received.method in CHANGES and found is self._state.current:
                self._sessions.catalog.relist(found, received.method, now)
            deliver_notice(self._state, found, received, request)
        elif received.method == "ping":
            self._state.to_server(found, message.result(received.id, {}))
        else:
            ask_client(self._state, found, received, request)

    def _answered_by_server(self, session: Session, answer: Message, now: float) -> None:
        number = answer.id
        pending = (
            session.pending.pop(number, None)
            if isinstance(number, int) and not isinstance(number, bool)
            else None
        )
        if pending is None and number in session.forgotten:
            self._calls.heard(session, now)
            self._effects.came_late(session, answer)
        elif pending is None:
            self._state.strays += 1
            self._state.note("stray_answer", "", id=str(number)[:100])
        elif isinstance(pending, Own):
            pending.then(answer, None, now)
        else:
            self._calls.heard(session, now)
            if pending.method in LISTS and session.phase is Phase.RETIRED:
                # The list is outdated: the next session is asked for it.
                self._calls.lost(pending, _OLD, now)
                self._calls.flush(now)
                return
            if not answer.is_refusal:
                answer = self._learned(session, pending, answer)
            self._calls.answered(pending, answer, now)
        self._calls.flush(now)

    def _learned(self, session: Session, call: Call, answer: Message) -> Message:
        """Store what an answer says about the session; return it, with the status tool if due."""
        method, client = call.method, call.client
        if method in LISTS:
            cursor = cursor_of(call.request)
            following = self._sessions.catalog.learn(session, method, cursor, answer.result)
            if self._state.options.status_tool and method == "tools/list" and not following:
                return add_status_tool(answer)
        elif method == SET_LEVEL:
            client.log_level = call.request
        elif method == SUBSCRIBE:
            client.subscriptions[call.request.name] = call.request
        elif method == UNSUBSCRIBE:
            client.subscriptions.pop(call.request.name, None)
        return answer

    def unanswered(self, session: int, request: int, loss: Loss, now: float) -> None:
        if (found := self._state.sessions.get(session)) is not None:
            self._sessions.unanswered(found, request, loss, now)

    def output_line(self, session: int, line: str) -> None:
        """Keep a line of the server that comes before its session is ready, for error messages.

        Lines that do not begin with `server` are not the server's, and are ignored.
        """
        found = self._state.sessions.get(session)
        if found is not None and found.ready_at is None and line.startswith("server"):
            found.output.append(line.removeprefix("server: ").removeprefix("server, "))

    def lost(self, session: int, loss: Loss, now: float) -> None:
        if (found := self._state.sessions.get(session)) is not None:
            self._sessions.end(found, loss, now)

    # ---- time, and the end -------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Return when `timer` has something to do, in monotonic seconds; None for never."""
        times = [
            at for at in (self._calls.next_timer(), self._sessions.next_timer()) if at is not None
        ]
        times += [
            call.deadline_at for call in self._state.openings() if call.deadline_at is not None
        ]
        return min(times, default=None)

    def timer(self, now: float) -> None:
        for call in self._state.openings():
            if call.deadline_at is not None and now >= call.deadline_at:
                self._calls.give_up(call, now)
        self._sessions.timer(now)
        for call in self._calls.timer(now):
            if call.session is not None:
                self._sessions.ping(call.session, now)

    def schema_of(self, tool: str) -> Any:
        """Return the input schema that the server last sent for a tool; None if it sent none."""
        found = self._state.known.tool(tool)
        return None if found is None else found.get("inputSchema")

    def close(self, now: float) -> None:
        """End the sidecar: answer all open calls, and close every connection."""
        for client in self._state.clients.values():
            for call in list(client.calls.values()):
                self._calls.give_up(call, now, is_closing=True)
        self._sessions.close()

    @property
    def is_idle(self) -> bool:
        return not any(client.calls for client in self._state.clients.values())

    def status(self, now: float) -> Mapping[str, Any]:
        """Return the state of the server as JSON data: `status` and details."""
        return status_of(self._state, self._restarts, now)


_ENVELOPE: Final = frozenset({VERSION, CAPABILITIES, CLIENT})
