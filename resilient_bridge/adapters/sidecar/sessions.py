"""The sessions with the server: each is opened, greeted, set up as the one before it was, and made again when it ends.

Rule: what the clients were told when they opened stays true for as long as they are there. A new session is compared with the one
before; a client hears of what is different, and of nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...errors import Executed
from . import message
from .lists import LISTS, MOST_PAGES, hint_of
from .notices import tell_changed
from .outcomes import restarted_note
from .shared import UNSUBSCRIBE, is_wanted_by_others, level_for_all
from .state import Close, KnowTools, Open, Own, Phase, Session
from .upstream import Loss


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .calls import Calls
    from .message import Message
    from .restarts import Restarts
    from .state import ClientState, State


INITIALIZED: Final = "notifications/initialized"
_STABLE: Final = 30.0  # seconds after which a session that nobody used has proven that the server works
_SETTLING: Final = 5.0  # seconds that a new session may take to be set up before calls go on without
_LAST_ANSWERS: Final = 2.0  # seconds for the calls of a session that the server has forgotten
_ANSWER: Final = 30.0  # seconds for an answer to a request of our own
_PING: Final = 10.0  # seconds for an answer to a ping, after a call was not answered in its time


class Sessions:
    """The sessions of one relay."""

    def __init__(self, state: State, calls: Calls, restarts: Restarts, today: Callable[[], str]) -> None:
        self._state = state
        self._options = state.options
        self._calls = calls
        self._restarts = restarts
        self._today = today
        self._is_knocking = False  # a server that nobody could reach is asked whether it is there

    # ---- opening -----------------------------------------------------------------------------------------------

    def ensure(self, now: float) -> None:
        """See that there is a session, or a time for the next start."""
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
        """The connection is there."""
        if session.phase is not Phase.OPENING:
            return
        if self._state.opening is None:
            self._settled(session, now)
        else:
            self.greet(session, now)

    def greet(self, session: Session, now: float) -> None:
        """Say to the server what the client has said to us."""
        opening = self._state.opening
        if opening is None:
            return
        session.phase, session.is_modern = Phase.GREETING, False
        self._ask(
            session,
            opening,
            lambda answer, loss, at: self._greeted(session, answer, loss, at),
            now + self._options.start_timeout,
        )

    def _greeted(self, session: Session, answer: Message | None, loss: Loss | None, now: float) -> None:
        state = self._state
        if answer is None:
            timeout = Loss(
                reason=f"no answer to initialize within {self._options.start_timeout:g} s",
                executed=Executed.NO,
            )
            self.end(session, loss or timeout, now)
        elif "error" in answer.fields:
            text = str(answer.error.get("message", ""))[:200]
            refusal = Loss(
                reason=f"the server refused to initialize: {text}",
                executed=Executed.NO,
                is_final=state.started is None,
            )
            for client in state.clients.values():  # its own words are more than ours
                self._answer_opening(client, answer, now)
            self.end(session, refusal, now)
        else:
            session.phase = Phase.SETTLING
            is_first, state.started = state.started is None, state.started or answer
            if not is_first:
                self._compare_capabilities(answer)
            for client in list(state.clients.values()):
                self._answer_opening(client, state.started, now)
            if any(client.is_initialized for client in state.clients.values()):
                self.initialized(session, now)

    def answer_opening(self, client: ClientState, now: float) -> None:
        """Tell a client what the first was told when the server was opened."""
        if self._state.started is not None:
            self._answer_opening(client, self._state.started, now)

    def _answer_opening(self, client: ClientState, answer: Message, now: float) -> None:
        for call in list(client.calls.values()):
            if call.method == "initialize":
                self._calls.answered(call, _announcing(answer), now)

    def initialized(self, session: Session, now: float) -> None:
        """The client is ready: say so, and set the session up as the one before it was."""
        if session.is_initialized or session.phase is not Phase.SETTLING:
            return
        session.is_initialized = True
        self._state.to_server(session, message.notification(INITIALIZED))
        if self._state.restarts:
            self._set_up_again(session, now)
        elif self._has(session, "tools"):
            self._list(session, "tools/list", now)
        if not session.setting_up:
            self._settled(session, now)

    def _set_up_again(self, session: Session, now: float) -> None:
        """Say again what the server has forgotten: the log level, the subscriptions; and ask for its lists."""
        until = now + _SETTLING
        if (level := level_for_all(self._state)) is not None:
            self._ask(session, level, _ignore, until)
        for client in self._state.clients.values():
            for uri, request in list(client.subscriptions.items()):
                self._subscribe_again(session, client, uri, request, until)
            if client.asks_roots and "roots" in client.capabilities:
                self._state.to_server(session, message.notification("notifications/roots/list_changed"))
        for method, (_, capability, _notice) in LISTS.items():
            if self._has(session, capability):
                number = self._list(session, method, now)
                if method == "tools/list":
                    session.setting_up.add(
                        number
                    )  # calls wait for it: it says what is gone, and what may be repeated

    def _subscribe_again(
        self, session: Session, client: ClientState, uri: str, request: Message, until: float
    ) -> None:
        def then(answer: Message | None, _loss: Loss | None, _now: float) -> None:
            if answer is None:
                return
            if "error" in answer.fields:  # it is gone
                client.subscriptions.pop(uri, None)
                self._state.to_client(client, message.notification("notifications/resources/list_changed"))
            else:  # what changed meanwhile is not known
                self._state.to_client(
                    client, message.notification("notifications/resources/updated", {"uri": uri})
                )

        self._ask(session, request, then, until)

    def _settled(self, session: Session, now: float) -> None:
        if session.phase not in (Phase.SETTLING, Phase.OPENING) or self._state.current is not session:
            return
        if session.is_modern and session.phase is Phase.OPENING:
            session.phase = Phase.SETTLING
            self._list_again_modern(session, now)
            if session.setting_up:
                return
        session.phase, session.ready_at = Phase.READY, now
        state = self._state
        state.note("server_ready", "the server is back" if state.restarts else "", restarts=state.restarts)
        self._calls.flush(now)

    def _list_again_modern(self, session: Session, now: float) -> None:
        """In the era without sessions a request carries what its client is; ours carry what the last one did."""
        if self._state.envelope and self._state.restarts:
            for method in LISTS:
                if self._state.known.page(method, "") is not None:
                    number = self._list(session, method, now)
                    if method == "tools/list":
                        session.is_listed = True
                        session.setting_up.add(number)
        self._list_once(session, now)

    def _list_once(self, session: Session, now: float) -> None:
        """Ask for the tools, unless that was done: their hints say what may be repeated."""
        if self._state.envelope and not session.is_listed:
            session.is_listed = True
            self._list(session, "tools/list", now)

    def leave(self, client: ClientState, now: float) -> None:
        """A client is gone that shared the server: take back what only that one wanted."""
        state, session = self._state, self._state.usable
        if not state.is_shared or session is None:
            return
        for uri in client.subscriptions:
            if not is_wanted_by_others(state, client, uri):
                self._ask(session, message.request(0, UNSUBSCRIBE, {"uri": uri}), _ignore, now + _ANSWER)
        if client.log_level is not None and (level := level_for_all(state)) is not None:
            self._ask(session, level, _ignore, now + _ANSWER)

    # ---- lists -------------------------------------------------------------------------------------------------

    def relist(self, session: Session, notice: str, now: float) -> None:
        """The server says that a list has changed: what it says of its tools counts from now on."""
        for method, (_, _, changed) in LISTS.items():
            if changed == notice:
                session.lists.forget(method)
                if method == "tools/list" and (not session.is_modern or self._state.envelope):
                    self._list(session, method, now, is_announced=True)

    def learn(self, session: Session, method: str, cursor: str, result: Mapping[str, Any]) -> str:
        """Take a page of a list; return the cursor of the next one, "" at the end."""
        following = session.lists.learn(method, cursor, result)
        self._state.known.learn(method, cursor, result)
        if method == "tools/list" and method in session.lists.complete:
            self._state.tools_ever.update(session.lists.names())
            self._say_what_is_repeated(session)
            if session.is_modern and not self._options.is_command:
                self._state.actions.append(KnowTools(session.number, session.lists.items(method)))
        return following

    def _list(self, session: Session, method: str, now: float, *, is_announced: bool = False) -> int:
        """Ask for a list, page by page; then say what changed, unless the clients know."""
        seen = self._state.known.seen(method) if self._state.restarts and not is_announced else None
        pages = 0

        def ask(cursor: str) -> int:
            params: dict[str, Any] = {"cursor": cursor} if cursor else {}
            if session.is_modern:
                params["_meta"] = dict(self._state.envelope)
            return self._ask(
                session,
                message.request(0, method, params or None),
                lambda answer, _loss, at: got(cursor, answer, at),
                now + (_SETTLING if self._state.restarts else _ANSWER),
            )

        def got(cursor: str, answer: Message | None, at: float) -> None:
            nonlocal pages
            pages += 1
            if answer is not None and "error" not in answer.fields:
                following = self.learn(session, method, cursor, answer.result)
                if following and pages < MOST_PAGES:
                    number = ask(following)
                    if first in session.setting_up:
                        session.setting_up.discard(first)
                        session.setting_up.add(number)
                        firsts.append(number)
                    return
                if seen is not None and session.lists.differs(method, seen):
                    self._tell_changed(method)
            session.setting_up.difference_update(firsts)
            if session.phase is Phase.SETTLING and not session.setting_up:
                self._settled(session, at)

        first = ask("")
        firsts = [first]
        return first

    def _tell_changed(self, method: str) -> None:
        notice = LISTS[method][2]
        self._state.note("list_changed", f"{method} is not what it was before the restart", list=method)
        tell_changed(self._state, notice)

    def _say_what_is_repeated(self, session: Session) -> None:
        options = self._options
        names = [
            name
            for name in session.lists.names()
            if name in options.repeat
            or hint_of(session.lists.tool(name)) in _TRUSTED[options.trust_hints, options.is_command]
        ]
        shown = f"repeated after a loss: {', '.join(names)}" if names else "no tool is repeated after a loss"
        if shown != self._state.repeated_shown:
            self._state.repeated_shown = shown
            self._state.note("tools_known", f"tools: {len(session.lists.names())}; {shown}", repeated=names)

    def _has(self, session: Session, capability: str) -> bool:
        del session
        started = self._state.started
        found = started.result.get("capabilities") if started is not None else None
        return isinstance(found, dict) and capability in found

    def _compare_capabilities(self, answer: Message) -> None:
        before = self._state.started.result.get("capabilities") if self._state.started is not None else {}
        after = answer.result.get("capabilities")
        more = sorted(
            set(after if isinstance(after, dict) else ()) - set(before if isinstance(before, dict) else ())
        )
        if more:
            line = f"the server can do more than before ({', '.join(more)}): restart the client to use it"
            self._state.note("capabilities_changed", line, more=more)

    # ---- requests of our own -----------------------------------------------------------------------------------

    def _ask(
        self,
        session: Session,
        request: Message,
        then: Callable[[Message | None, Loss | None, float], None],
        until: float | None,
    ) -> int:
        number = self._state.number()
        session.pending[number] = Own(request.method, then, until)
        self._state.to_server(session, request.with_id(number).with_progress_token(number))
        return number

    def ping(self, session: Session, now: float) -> None:
        """A call was not answered in its time: find out whether the server answers anything at all."""
        if session.is_modern or session.phase is not Phase.READY:
            return
        if any(isinstance(one, Own) and one.method == "ping" for one in session.pending.values()):
            return

        def then(answer: Message | None, loss: Loss | None, at: float) -> None:
            if answer is None and loss is None:
                self.end(
                    session, Loss(reason=f"the server hangs: no answer to a ping within {_PING:g} s"), at
                )

        self._ask(session, message.request(0, "ping"), then, now + _PING)

    def _knock(self, session: Session, now: float) -> None:
        """Ask a server that nobody could reach whether it is there: with a request that changes nothing."""

        def then(answer: Message | None, loss: Loss | None, at: float) -> None:
            if answer is None and self._is_knocking and session.phase is Phase.UNREACHABLE:
                silence = Loss(reason=f"no answer within {_PING:g} s", executed=Executed.NO)
                self._unreachable(session, loss or silence, at)

        self._is_knocking = True
        self._restarts.attempts += 1
        method, params = (
            ("server/discover", {"_meta": dict(self._state.envelope)})
            if session.is_modern
            else ("ping", None)
        )
        self._ask(session, message.request(0, method, params), then, now + _PING)

    # ---- the end of one ----------------------------------------------------------------------------------------

    def unanswered(self, session: Session, number: int, loss: Loss, now: float) -> None:
        """A request will have no answer; what that says about the session is done first."""
        pending = session.pending.pop(number, None)
        if pending is None and number not in session.forgotten:
            return
        self._state.last_loss = loss
        if loss.is_session_gone:
            self._retire(session, loss, now)
        elif loss.is_unreachable and session.phase in (Phase.READY, Phase.UNREACHABLE):
            self._unreachable(session, loss, now)
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
        """Nobody listens at its address. The session may still exist, so it is kept, and asked again later."""
        if session.phase is Phase.READY:
            session.phase = Phase.UNREACHABLE
            self._state.note(
                "server_unreachable", f"the server is not reachable ({loss.reason})", reason=loss.reason
            )
        if self._is_knocking or self._restarts.next_at is None:
            self._is_knocking = False
            self._restarts.ended(loss, now, has_worked=False)

    def reached(self, session: Session, now: float) -> None:
        """Something came from the server."""
        if session.phase is Phase.UNREACHABLE:
            session.phase, self._is_knocking = Phase.READY, False
            session.has_answered = False  # it has to show again that it works
            self._restarts.begin(now)
            self._state.note("server_reached", "the server is reachable again")
            self._calls.flush(now)

    def _retire(self, session: Session, loss: Loss, now: float) -> None:
        """The server has forgotten the session: the next is made at once, and the last answers of this one are awaited."""
        if session.phase in (Phase.RETIRED, Phase.LOST):
            return
        session.phase = Phase.RETIRED
        session.opened_at = now
        self._replaced(session, loss, now)

    def end(self, session: Session, loss: Loss, now: float) -> None:
        """The connection ended, or is given up: every request in it has `loss` for its fate."""
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
                state.to_client(asked.client, message.notification("notifications/cancelled", params))
        pending, session.pending = session.pending, {}
        for number, one in pending.items():
            if isinstance(one, Own):
                one.then(None, loss, now)
            else:
                self._calls.lost(one, loss.of(number), now)
        self._refuse(loss, now)
        self._calls.flush(now)

    def _refuse(self, loss: Loss, now: float) -> None:
        """Let nobody wait for a server that will not be started soon."""
        state = self._state
        if state.current is None and (self._restarts.next_at is None or self._restarts.open_for(now)):
            self._calls.refuse_waiting(loss, now)

    def _replaced(self, session: Session, loss: Loss, now: float) -> None:
        state = self._state
        if state.current is not session:
            return
        state.current, state.last_loss, self._is_knocking = None, loss, False
        is_stable = session.ready_at is not None and now - session.ready_at >= _STABLE
        due = self._restarts.ended(loss, now, has_worked=session.has_answered or is_stable)
        if loss.is_session_gone and session.has_answered:
            due = self._restarts.next_at = now
        if session.ready_at is not None:
            state.restarts += 1
            state.restarted = restarted_note(state.restarts, loss.reason, self._today())
        words = f"; last words: {loss.words}" if loss.words else ""
        wait = due - now
        then = "started again at once" if wait <= 0 else f"started again in {wait:.1f} s"
        state.note(
            "server_lost",
            f"the server ended: {loss.reason}, {then}{words}",
            reason=loss.reason,
            wait=round(wait, 3),
        )
        if loss.is_final:  # nothing changes by itself: the next call tries again
            self._restarts.next_at = None

    # ---- time --------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Return when a start, or an end, is due."""
        due = self._restarts.next_at
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
        """Do what is due."""
        state = self._state
        for session in list(state.sessions.values()):
            if session.phase is Phase.RETIRED and (
                not session.pending or now >= session.opened_at + _LAST_ANSWERS
            ):
                self.end(session, Loss(reason="its session was forgotten by the server"), now)
            elif session.phase is Phase.OPENING and now >= session.opened_at + self._options.start_timeout:
                text = f"it did not start within {self._options.start_timeout:g} s"
                self.end(session, Loss(reason=text, executed=Executed.NO), now)
            else:
                self._end_own(session, now)
        due = self._restarts.next_at
        if due is None or now < due or not self._is_to_be_tried:
            return
        if state.current is None:
            self._open(now)
        elif state.current.phase is Phase.UNREACHABLE:
            self._restarts.next_at = None
            self._knock(state.current, now)

    @property
    def _is_to_be_tried(self) -> bool:
        """Whether there is somebody to start the server for, and something to start."""
        current = self._state.current
        return bool(self._state.clients) and (current is None or current.phase is Phase.UNREACHABLE)

    def _end_own(self, session: Session, now: float) -> None:
        """End the requests of our own that were not answered in their time; what follows may end the others."""
        for number, one in list(session.pending.items()):
            is_due = isinstance(one, Own) and one.times_out_at is not None and now >= one.times_out_at
            if isinstance(one, Own) and is_due and session.pending.pop(number, None) is not None:
                session.forgotten.append(number)
                one.then(None, None, now)


_TRUSTED: Final[Mapping[tuple[bool, bool], tuple[str, ...]]] = {
    (True, True): ("read", "idempotent"),
    (True, False): ("read", "idempotent"),
    (False, True): ("read",),
    (False, False): (),
}
"""Which hints count, by (hints are trusted, the server is a command of ours)."""


def _announcing(answer: Message) -> Message:
    """Return the answer to initialize with the changes of lists announced: it is we who tell of them."""
    found = answer.result.get("capabilities")
    for name in ("tools", "prompts", "resources"):
        if (
            isinstance(found, dict)
            and isinstance(found.get(name), dict)
            and found[name].get("listChanged") is not True
        ):
            answer = answer.with_member(("result", "capabilities", name, "listChanged"), True)
    return answer


def _ignore(answer: Message | None, loss: Loss | None, now: float) -> None:
    """Nothing follows from the answer."""
    del answer, loss, now
