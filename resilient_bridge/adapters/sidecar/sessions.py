"""The sessions with the server: opened, initialized, set up like the last one, and replaced.

Rule: a client keeps the answer to its `initialize` as long as it is connected. A new session is
compared with the one before, and clients are notified of differences only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...failure import Executed, redact
from . import message
from .catalog import Catalog
from .lists import LISTS
from .message import object_of
from .set_up import say_again
from .state import Call, Close, Open, Own, Phase, Session
from .upstream import Loss


if TYPE_CHECKING:
    from collections.abc import Callable

    from .calls import Calls
    from .message import Message
    from .restarts import Restarts
    from .state import ClientState, State


INITIALIZED: Final = "notifications/initialized"
_STABLE: Final = 30.0  # seconds after which an unused session has proven that the server works
_LAST_ANSWERS: Final = 2.0  # seconds for the calls of a session that the server has forgotten
_PING: Final = 10.0  # seconds for an answer to a ping, after a call was not answered in its time
_MOST_UNKNOWN: Final = 3  # sessions that the server does not know, when it gets the same call
_DOUBT: Final = 2.0  # seconds for an answer to a ping, after a connection broke


class Sessions:
    """The sessions of one relay."""

    def __init__(
        self, state: State, calls: Calls, restarts: Restarts, today: Callable[[], str]
    ) -> None:
        self._state = state
        self._options = state.options
        self._calls = calls
        self._restarts = restarts
        self._today = today
        self.catalog = Catalog(state, self._settle)
        self._is_knocking = False  # an unreachable server is probed

    # ---- opening -----------------------------------------------------------------------------------------------

    def ensure(self, now: float) -> None:
        """Open a session if there is none, or schedule one while the circuit is open."""
        current = self._state.current
        if current is not None:
            if current.is_modern and current.phase is Phase.READY:
                self._list_once(current, now)
            return
        if self._restarts.next_at is not None:
            return
        wait = self._restarts.open_for(now)
        if wait is None:
            self._open(now)
        else:
            self._restarts.next_at = now + wait

    def _open(self, now: float) -> None:
        state = self._state
        session = Session(state.number(), now, is_modern=state.opening is None)
        state.sessions[session.number] = state.current = session
        self._restarts.begin(now)
        state.actions.append(Open(session.number))

    def opened(self, session: Session, now: float) -> None:
        if session.phase is not Phase.OPENING:
            return
        if self._state.opening is None:
            self._settled(session, now)
        else:
            self.greet(session, now)

    def greet(self, session: Session, now: float) -> None:
        """Send the server the `initialize` of the client."""
        opening = self._state.opening
        if opening is None:
            return
        session.phase, session.is_modern = Phase.GREETING, False
        self._state.ask(
            session,
            opening,
            lambda answer, loss, at: self._greeted(session, answer, loss, at),
            now + self._options.start_timeout,
        )

    def _greeted(
        self, session: Session, answer: Message | None, loss: Loss | None, now: float
    ) -> None:
        state = self._state
        if answer is None:
            text = f"no answer to initialize within {self._options.start_timeout:g} s"
            timeout = Loss(reason=text, executed=Executed.NO).with_words(session.output)
            if loss is not None and loss.is_unusable:  # as a refusal: the next one would be like it
                text = f"the answer to initialize cannot be used: {loss.reason}"
                loss = Loss(reason=text, executed=Executed.NO, is_final=state.started is None)
            self.end(session, loss or timeout, now)
        elif answer.is_refusal:
            text = redact(str(answer.error.get("message", "")), limit=200)
            refusal = Loss(
                reason=f"the server refused to initialize: {text}",
                executed=Executed.NO,
                is_final=state.started is None,
            )
            for client in state.clients.values():  # the server's own error says more than ours
                self.answer_opening(client, answer, now)
            self.end(session, refusal, now)
        else:
            session.phase = Phase.SETTLING
            is_first, state.started = state.started is None, state.started or answer
            if not is_first:
                self._compare_capabilities(answer)
            for client in list(state.clients.values()):
                self.answer_opening(client, state.started, now)
            # A shared server waits for no client: one that never says so would hold up the others.
            if state.is_shared or any(client.is_initialized for client in state.clients.values()):
                self.initialized(session, now)

    def answer_opening(self, client: ClientState, answer: Message, now: float) -> None:
        """Answer a client's `initialize` with the server's answer."""
        for call in list(client.calls.values()):
            if call.method == "initialize":
                self._calls.answered(call, _announcing(answer), now)

    def initialized(self, session: Session, now: float) -> None:
        """Send `notifications/initialized`, and set the session up like the one before it."""
        if session.is_initialized or session.phase is not Phase.SETTLING:
            return
        session.is_initialized = True
        self._state.to_server(session, message.notification(INITIALIZED))
        if self._state.restarts:
            say_again(self._state, session, now)
            self.catalog.remember(session)
            for method, (_, capability, _notice) in LISTS.items():
                # calls wait for the tools: which are gone, and which may be repeated
                if self._has(capability):
                    self.catalog.read(session, method, now, is_awaited=method == "tools/list")
        elif self._has("tools"):
            self.catalog.read(session, "tools/list", now)
        self._settle(session, now)

    def _settle(self, session: Session, now: float) -> None:
        is_greeted = session.is_initialized or session.is_modern
        if session.phase is Phase.SETTLING and is_greeted and not session.setting_up:
            self._settled(session, now)

    def _settled(self, session: Session, now: float) -> None:
        if (
            session.phase not in (Phase.SETTLING, Phase.OPENING)
            or self._state.current is not session
        ):
            return
        if session.is_modern and session.phase is Phase.OPENING:
            session.phase = Phase.SETTLING
            self._list_again_modern(session, now)
            if session.setting_up:
                return
        session.phase, session.ready_at = Phase.READY, now
        state = self._state
        state.note(
            "server_ready", "the server is back" if state.restarts else "", restarts=state.restarts
        )
        self._calls.flush(now)

    def _list_again_modern(self, session: Session, now: float) -> None:
        """Read the known lists again in 2026-07-28, with the client data of the last request."""
        if self._state.envelope and self._state.restarts:
            self.catalog.remember(session)
            for method in list(session.before):
                session.is_listed |= method == "tools/list"
                self.catalog.read(session, method, now, is_awaited=method == "tools/list")
        self._list_once(session, now)

    def _list_once(self, session: Session, now: float) -> None:
        """Read the tools, unless that was done: their hints say which may be repeated."""
        if self._state.envelope and not session.is_listed:
            session.is_listed = True
            self.catalog.read(session, "tools/list", now)

    def _has(self, capability: str) -> bool:
        started = self._state.started
        return started is not None and capability in object_of(started.result.get("capabilities"))

    def _compare_capabilities(self, answer: Message) -> None:
        started = self._state.started
        before = object_of(started.result.get("capabilities") if started is not None else None)
        more = sorted(set(object_of(answer.result.get("capabilities"))) - set(before))
        if more:
            line = f"the server can do more than before ({', '.join(more)}): restart the client to use it"
            self._state.note("capabilities_changed", line, more=more)

    # ---- requests of our own -----------------------------------------------------------------------------------

    def ping(self, session: Session, now: float) -> None:
        """Ping after a call was not answered in time; end the session if the ping is not either."""
        if session.is_modern or session.phase is not Phase.READY:
            return
        if any(isinstance(one, Own) and one.method == "ping" for one in session.pending.values()):
            return

        def then(answer: Message | None, loss: Loss | None, at: float) -> None:
            if answer is None and loss is None:
                self.end(
                    session,
                    Loss(reason=f"the server hangs: no answer to a ping within {_PING:g} s"),
                    at,
                )

        self._state.ask(session, message.request(0, "ping"), then, now + _PING)

    def _knock(self, session: Session, now: float) -> None:
        """Probe a server that is away, or may be, with a request that changes nothing."""

        def then(answer: Message | None, loss: Loss | None, at: float) -> None:
            if (
                answer is not None
                or not self._is_knocking
                or session.phase is not Phase.UNREACHABLE
            ):
                return
            if loss is None and not session.is_reported_away:
                self._is_back(session, at)  # silence does not say that it is away: it may be busy
            else:
                silence = Loss(reason=f"no answer within {_PING:g} s", executed=Executed.NO)
                self._unreachable(session, loss or silence, at)

        self._is_knocking = True
        self._restarts.attempts += 1
        method, params = (
            ("server/discover", {"_meta": dict(self._state.envelope)})
            if session.is_modern
            else ("ping", None)
        )
        seconds = _PING if session.is_reported_away else _DOUBT
        self._state.ask(session, message.request(0, method, params), then, now + seconds)

    # ---- the end of one ----------------------------------------------------------------------------------------

    def unanswered(self, session: Session, number: int, loss: Loss, now: float) -> None:
        """Handle a request without an answer: first its effect on the session, then the request."""
        pending = session.pending.pop(number, None)
        if pending is None and number not in session.forgotten:
            return
        self._state.last_loss = loss
        loss = _of_one_call(pending, loss)
        if loss.is_session_gone:
            self._retire(session, loss, now)
        elif loss.is_away and session.phase is Phase.SETTLING and self._state.restarts:
            # what was set up so far is uncertain: the next one begins anew
            if pending is not None:
                session.pending[number] = pending
            self.end(session, loss, now)
            return
        elif loss.is_away and session.phase in (Phase.READY, Phase.UNREACHABLE):
            self._unreachable(session, loss, now)
        elif loss.is_cut and session.phase is Phase.READY:
            self._doubt(session, now)
        if isinstance(pending, Own):
            pending.then(None, loss, now)
        elif pending is not None:
            self._calls.lost(pending, loss, now)
        self._refuse(loss, now)
        self._calls.flush(now)

    def close(self) -> None:
        """End every connection; none is made again."""
        self._restarts.next_at = None
        self._state.current = None
        for session in self._state.sessions.values():
            session.phase = Phase.LOST
            self._state.actions.append(Close(session.number))
        self._state.sessions.clear()

    def _unreachable(self, session: Session, loss: Loss, now: float) -> None:
        """Handle a server that is away: keep the session, send no calls, probe the server later."""
        if session.phase is Phase.READY:
            session.phase, session.away_from = Phase.UNREACHABLE, self._state.numbers
        if not session.is_reported_away:
            session.is_reported_away = True
            self._state.note(
                "server_unreachable",
                f"the server is not reachable ({loss.reason})",
                reason=loss.reason,
            )
        if self._is_knocking or self._restarts.next_at is None:
            self._is_knocking = False
            self._restarts.ended(loss, now, has_worked=session.has_answered, is_away=True)
            session.has_answered = False  # it has to prove again that it works

    def _doubt(self, session: Session, now: float) -> None:
        """Handle a broken connection: the server may be away, so probe it before it gets a call."""
        session.phase, session.away_from = Phase.UNREACHABLE, self._state.numbers
        self._is_knocking, self._restarts.next_at = False, now

    def reached(self, session: Session, answer: Message, now: float) -> None:
        """Handle an answer: it ends the state of being away if it is one to a later request."""
        number = answer.id
        is_later = isinstance(number, int) and number > session.away_from
        if session.phase is Phase.UNREACHABLE and answer.is_answer and is_later:
            self._is_back(session, now)

    def _is_back(self, session: Session, now: float) -> None:
        session.phase, self._is_knocking, self._restarts.next_at = Phase.READY, False, None
        if session.is_reported_away:
            session.is_reported_away = False
            self._restarts.begin(now)
            self._state.note("server_reached", "the server is reachable again")
        unread, session.unread_lists = session.unread_lists, set()
        for method in sorted(unread):
            self.catalog.read(session, method, now)
        self._calls.flush(now)

    def _retire(self, session: Session, loss: Loss, now: float) -> None:
        """Replace at once a session that the server forgot, and wait for its last answers."""
        if session.phase in (Phase.RETIRED, Phase.LOST):
            return
        session.phase = Phase.RETIRED
        session.opened_at = now
        self._replaced(session, loss, now)

    def end(self, session: Session, loss: Loss, now: float) -> None:
        """End a session whose connection ended, or is given up: every request in it gets `loss`."""
        if session.phase is Phase.LOST:
            return
        was_retired, session.phase = session.phase is Phase.RETIRED, Phase.LOST
        state = self._state
        state.sessions.pop(session.number, None)
        state.actions.append(Close(session.number))
        if not was_retired:
            self._replaced(session, loss, now)
        for number, asked in list(state.asked.items()):
            if asked.session is session:
                del state.asked[number]
                params = {"requestId": number, "reason": "the server was restarted"}
                state.to_client(
                    asked.client, message.notification("notifications/cancelled", params)
                )
        pending, session.pending = session.pending, {}
        for number, one in pending.items():
            if isinstance(one, Own):
                one.then(None, loss, now)
            else:
                self._calls.lost(one, loss.of(number), now)
        self._refuse(loss, now)
        self._calls.flush(now)

    def _refuse(self, loss: Loss, now: float) -> None:
        """Refuse the waiting calls if no start is due or the circuit is open."""
        state = self._state
        if state.current is None and (
            self._restarts.next_at is None or self._restarts.open_for(now)
        ):
            self._calls.refuse_waiting(loss, now)

    def _replaced(self, session: Session, loss: Loss, now: float) -> None:
        state = self._state
        if state.current is not session:
            return
        state.current, state.last_loss, self._is_knocking = None, loss, False
        is_stable = session.ready_at is not None and now - session.ready_at >= _STABLE
        due = self._restarts.ended(
            loss,
            now,
            has_worked=session.has_answered or is_stable,
            is_away=loss.is_away or (loss.is_session_gone and state.started is not None),
        )
        if loss.is_away and state.started is None:
            self._wait_for_first(state.openings())
        if loss.is_session_gone and session.has_answered:
            due = self._restarts.next_at = now
        if session.ready_at is not None:
            state.restarts += 1
            state.restarted = {"at": self._today(), "count": state.restarts, "reason": loss.reason}
        # After a final loss only the next call tries again. That of a url that has worked is not
        # final: it may be a redeploy.
        is_final = loss.is_final and (state.started is None or self._options.is_command)
        if is_final:
            self._restarts.next_at = None
        wait = due - now
        soon = "started again at once" if wait <= 0 else f"started again in {wait:.1f} s"
        began = "the server did not start" if session.ready_at is None else "the server ended"
        last = loss.words.splitlines()[-1:]  # the log has the lines before it already
        line = f"{began}: {loss.reason}, {'not tried again before it is asked for' if is_final else soon}"
        fields = {} if is_final else {"wait": round(wait, 3)}
        state.note(
            "server_lost", "; last words: ".join([line, *last]), reason=loss.reason, **fields
        )

    def _wait_for_first(self, openings: list[Call]) -> None:
        """Limit the wait for a server that was never there to the patience, as of any call."""
        for call in openings:
            patient_until = call.arrived_at + self._options.patience
            call.deadline_at = min(patient_until, call.deadline_at or patient_until)

    # ---- time --------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Return when a start, or the end of a session, is due; None for never."""
        due = self._restarts.due(self._state)
        times = [due] if due is not None and self._is_to_be_tried else []
        times += [
            one.opened_at + _LAST_ANSWERS
            for one in self._state.sessions.values()
            if one.phase is Phase.RETIRED
        ]
        current = self._state.current
        if current is not None and current.phase is Phase.OPENING:
            times.append(current.opened_at + self._options.start_timeout)
        return min(times, default=None)

    def timer(self, now: float) -> None:
        state = self._state
        for session in list(state.sessions.values()):
            if session.phase is Phase.RETIRED and (
                not session.pending or now >= session.opened_at + _LAST_ANSWERS
            ):
                self.end(session, Loss(reason="its session was forgotten by the server"), now)
            elif (
                session.phase is Phase.OPENING
                and now >= session.opened_at + self._options.start_timeout
            ):
                text = f"it did not start within {self._options.start_timeout:g} s"
                self.end(session, Loss(reason=text, executed=Executed.NO), now)
            else:
                _end_overdue(session, now)
        due = self._restarts.due(state)
        if due is None or now < due or not self._is_to_be_tried:
            return
        if state.current is None:
            self._open(now)
        elif state.current.phase is Phase.UNREACHABLE:
            self._restarts.next_at = None
            self._knock(state.current, now)

    @property
    def _is_to_be_tried(self) -> bool:
        """Whether there is a client, and no session or one that is unreachable."""
        current = self._state.current
        return bool(self._state.clients) and (current is None or current.phase is Phase.UNREACHABLE)


def _of_one_call(pending: Call | Own | None, loss: Loss) -> Loss:
    """Return the loss; that of the call alone, if several sessions in a row were unknown for it."""
    if not loss.is_session_gone or not isinstance(pending, Call):
        return loss
    pending.unknown_sessions += 1
    if pending.unknown_sessions < _MOST_UNKNOWN:
        return loss
    reason = f"{loss.reason}, also in new sessions"
    return Loss(reason=reason, executed=loss.executed, is_final=True, words=loss.words)


def _end_overdue(session: Session, now: float) -> None:
    """End our own requests that were not answered in time; a callback may end further ones."""
    for number, one in list(session.pending.items()):
        if (
            isinstance(one, Own)
            and now >= one.times_out_at
            and session.pending.pop(number, None) is not None
        ):
            session.forgotten.append(number)
            one.then(None, None, now)


def _announcing(answer: Message) -> Message:
    """Return the answer to `initialize` with `listChanged`: the relay itself announces changes."""
    found = object_of(answer.result.get("capabilities"))
    for name in ("tools", "prompts", "resources"):
        if (
            isinstance(found.get(name), dict)
            and object_of(found[name]).get("listChanged") is not True
        ):
            answer = answer.with_member(("result", "capabilities", name, "listChanged"), True)
    return answer
