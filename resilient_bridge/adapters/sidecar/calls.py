"""The requests of clients: who waits, who is sent, and what becomes of one whose answer will not come.

Rule: a request that may have run is sent again only with proof or permission, and every request ends in exactly one stated outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...calls.rate_limit.state import RateState
from ...errors import Executed, ThrottledError
from . import message, outcomes
from .lists import LISTS, cursor_of, hint_of
from .options import EVERY_TOOL
from .outcomes import PREFIX, Outcome
from .state import Call, Drop, GiveUp, Held, Phase


if TYPE_CHECKING:
    from .message import Key, Message
    from .outcomes import Ending
    from .restarts import Restarts
    from .state import ClientState, Session, State
    from .upstream import Loss


READS: Final = frozenset(
    {
        *LISTS,
        "completion/complete",
        "logging/setLevel",
        "prompts/get",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
        "tasks/get",
        "tasks/list",
        "tasks/result",
    }
)
"""Requests that change nothing, or may be made twice, by the protocol."""

LISTEN: Final = "subscriptions/listen"
_UNLIMITED: Final = frozenset({LISTEN, "tasks/result"})  # they last as long as they last
_MOST_LOSSES: Final = 3  # connections that one call may lose after it was sent: it may be what ends them
_NOTICE: Final = 5.0  # seconds between two notices of progress to a call that waits
_SHOWN: Final = (Outcome.UNKNOWN, Outcome.NOT_EXECUTED)  # to people, in a line
_TINY: Final = 1e-6  # progress has to grow, and the server's own first value has to be larger
_STALE_CURSOR: Final = -32602
_INVALID_REQUEST: Final = -32600


class Calls:
    """The requests of one relay's clients."""

    def __init__(self, state: State, restarts: Restarts) -> None:
        self._state = state
        self._options = state.options
        self._restarts = restarts
        self._running: dict[str, int] = {}  # by the name of a limit
        self._rates = {name: RateState(name, limit) for name, limit in state.options.rates.items()}

    # ---- from a client -----------------------------------------------------------------------------------------

    def accept(self, client: ClientState, request: Message, now: float) -> None:
        """A client made a request: send it, answer it, or let it wait."""
        key = request.key
        if key is None or key in client.calls:
            text = "an id that is under way already" if key is not None else "an id is needed"
            self._state.to_client(
                client, message.error(request.id, _INVALID_REQUEST, f"invalid request: {text}"), key
            )
            return
        call = Call(client, request, self._state.number(), now)
        client.calls[key] = call
        if self._options.deadline is not None and call.method not in _UNLIMITED:
            call.deadline_at = now + self._options.deadline
        if self._is_answered_from_memory(call) or self.is_refused(call, now):
            return
        self.wait(call, now)
        self.flush(now)

    def wait(self, call: Call, now: float, *, is_repeat: bool = False) -> None:
        """Have a call wait for its turn; one that was sent before keeps its place by its arrival."""
        call.waits_since, call.attempts_at = now, self._restarts.attempts
        call.next_notice_at = now + _NOTICE if call.request.progress_token is not None else None
        waiting = self._state.waiting
        waiting.append(call)
        if is_repeat:
            waiting.sort(key=lambda one: one.number)

    def hold(self, client: ClientState, note: Message, now: float) -> None:
        """Have a notification wait for a session; it is dropped when none comes in time."""
        self._state.held.append(Held(client, note, now + self._options.patience))
        self.flush(now)

    def cancel(self, client: ClientState, key: Key, note: Message, now: float) -> None:
        """The client no longer wants an answer: what was not sent never is; the server is told of what was."""
        call = client.calls.get(key)
        if call is None or call.is_cancelled or call.method == "initialize":
            return
        call.is_cancelled = True
        session = call.session
        if session is not None:
            if session.is_modern and not self._options.is_command:
                self._state.actions.append(GiveUp(session.number, call.server_id))
                session.pending.pop(call.server_id, None)
            else:
                self._state.to_server(session, note.with_request_id(call.server_id))
        self._end(call, Outcome.CANCELLED, now, reason="cancelled by the client", was_sent=call.sends > 0)
        self._state.actions.append(Drop(client.client, key))
        self.flush(now)

    # ---- to the server -----------------------------------------------------------------------------------------

    def flush(self, now: float) -> None:
        """Send what can be sent now, in the order of arrival."""
        state = self._state
        session = state.usable
        if session is None:
            return
        held, state.held = state.held, []
        for one in held:
            state.to_server(session, one.message)
        if not state.waiting:
            return
        later: list[Call] = []
        for call in state.waiting:
            if call.not_before > now or not self._has_slot(call):
                later.append(call)
            elif call.unproven_losses and call.permission == "idempotent" and self._is_overtaken(call):
                self.give_up(call, now)
            elif not self._is_missing(call, session, now):
                self._send(call, session, now)
        state.waiting = later

    def _send(self, call: Call, session: Session, now: float) -> None:
        call.session, call.server_id, call.sent_at = session, self._state.number(), now
        call.sends += 1
        seconds = self._options.timeout_of(call.name) if call.is_tool else None
        call.times_out_at = None if seconds is None else now + seconds
        call.permission = self._permission(call, session)
        self._state.writes += call.is_tool or call.permission != "read"
        call.write_mark = self._state.writes
        session.pending[call.server_id] = call
        request = call.request.with_id(call.server_id)
        if call.request.progress_token is not None:
            request = request.with_progress_token(call.server_id)
        self._state.to_server(session, request)

    def _permission(self, call: Call, session: Session) -> str:
        """Return "read" or "idempotent" where this request may be made again although it may have run, by what counts now."""
        if not call.is_tool:
            return "read" if call.method in READS and "task" not in call.request.params else ""
        if call.name in self._options.repeat:
            return "read"
        hint = hint_of(session.lists.tool(call.name))
        if "task" in call.request.params:  # what it makes is a task, and that is an effect
            return ""
        is_trusted = self._options.trust_hints or (self._options.is_command and hint == "read")
        return hint if is_trusted else ""

    # ---- limits ------------------------------------------------------------------------------------------------

    def is_refused(self, call: Call, now: float) -> bool:
        """Refuse what need not wait: the circuit is open, or a limit leaves no room in time."""
        seconds = self._restarts.open_for(now)
        if seconds is not None and self._state.usable is None:
            self.finish(call, outcomes.circuit_open(call.name, self._state.last_loss, seconds), now)
            return True
        if not call.is_tool:
            return False
        for name in (call.name, EVERY_TOOL):
            rate = self._rates.get(name)
            if rate is None:
                continue
            try:
                call.not_before = max(call.not_before, now + rate.reserve(now, self._options.patience))
            except ThrottledError as error:
                limit = rate.settings
                bound = f"{limit.calls} calls in {limit.per:g} s"
                self.finish(call, outcomes.limited(call.name, bound, error.failure.retry_after), now)
                return True
        return False

    def _has_slot(self, call: Call) -> bool:
        """Take the call's slots, if all are free."""
        if not call.is_tool or not self._options.concurrency or call.holds:
            return True
        names = [name for name in (call.name, EVERY_TOOL) if name in self._options.concurrency]
        if any(self._running.get(name, 0) >= self._options.concurrency[name] for name in names):
            return False
        for name in names:
            self._running[name] = self._running.get(name, 0) + 1
        call.holds = names
        return True

    def _free(self, call: Call) -> None:
        for name in call.holds:
            self._running[name] -= 1
        call.holds = []

    def _is_missing(self, call: Call, session: Session, now: float) -> bool:
        """Answer a call of a tool that the server had before a restart and has no longer."""
        lists = session.lists
        if not call.is_tool or call.name not in self._state.tools_ever or "tools/list" not in lists.complete:
            return False
        if lists.tool(call.name) is not None:
            return False
        self.finish(call, outcomes.gone(call.name, lists.names()), now)
        return True

    def _is_answered_from_memory(self, call: Call) -> bool:
        """Answer a list while the server is away: an empty or failed one makes clients forget their tools."""
        if call.method not in LISTS:
            return False
        state, cursor = self._state, cursor_of(call.request)
        current = state.current
        if current is not None and cursor and current.phase is Phase.READY:
            if not current.lists.knows_cursor(call.method, cursor) and state.known.knows_cursor(
                call.method, cursor
            ):
                text = "invalid cursor: it is of an earlier session of the server, begin again with the first page"
                answer = message.error(call.request.id, _STALE_CURSOR, text)
                self._deliver(call, answer, Outcome.FAILED, call.arrived_at)
                return True
            return False
        if current is not None and current.phase is Phase.READY:
            return False
        page = state.known.page(call.method, cursor)
        if page is None:
            return False
        self._deliver(
            call,
            message.result(call.request.id, page),
            Outcome.ANSWERED,
            call.arrived_at,
            reason="from memory",
        )
        return True

    # ---- what becomes of a call --------------------------------------------------------------------------------

    def answered(self, call: Call, answer: Message, now: float) -> None:
        """The server answered a call."""
        session = call.session
        if session is not None and not session.has_answered:
            session.has_answered = True
            self._restarts.worked(now)
        if call.is_cancelled:
            return
        result = answer.result
        is_failure = "error" in answer.fields or result.get("isError") is True
        answer = answer.with_id(call.request.id)
        if (
            call.is_tool
            and session is not None
            and not session.is_announced
            and self._state.restarted is not None
            and result
        ):
            session.is_announced = True
            path: tuple[str, ...] = ("result", "_meta", f"{PREFIX}/restarted")
            if isinstance(result.get("_meta"), dict):
                answer = answer.with_member(path, self._state.restarted)
            else:
                answer = answer.with_member(path[:2], {path[2]: self._state.restarted})
        self._deliver(call, answer, Outcome.FAILED if is_failure else Outcome.ANSWERED, now)

    def lost(self, call: Call, loss: Loss, now: float) -> None:
        """There will be no answer: make the call wait for another try, or say what is known."""
        call.session = call.times_out_at = None
        if call.is_cancelled:
            return
        call.unproven_losses += loss.executed is not Executed.NO
        if loss.executed is Executed.NO and loss.is_final:
            self.finish(call, outcomes.refused(call.name, loss), now)
        elif self._may_repeat(call, loss):
            seconds = loss.retry_after or 0.0
            if seconds > self._options.patience:
                self.finish(call, outcomes.unreachable(call.name, loss, 0, 0.0), now)
                return
            call.not_before = now + seconds
            self.wait(call, now, is_repeat=True)
        else:
            self.finish(call, outcomes.unknown(call.name, loss, self._options.check.get(call.name)), now)

    def _may_repeat(self, call: Call, loss: Loss) -> bool:
        if loss.executed is Executed.NO:
            return True
        if call.method == LISTEN:
            return True
        if call.unproven_losses >= _MOST_LOSSES:
            return False
        return call.permission == "read" or (call.permission == "idempotent" and not self._is_overtaken(call))

    def _is_overtaken(self, call: Call) -> bool:
        """Whether another call was sent since: a late repeat of a write would undo what that one has written."""
        return self._state.writes != call.write_mark

    def finish(self, call: Call, ending: Ending, now: float) -> None:
        """End a call with a statement of ours."""
        is_modern = bool(call.client.is_modern)
        answer = outcomes.answer(call.request.id, call.method, ending, is_modern=is_modern)
        self._deliver(call, answer, ending.outcome, now, reason=ending.code)

    def refuse_waiting(self, loss: Loss, now: float) -> None:
        """The server cannot be had now, or is left alone: whoever waits is told at once, whoever opens as well."""
        opening = [
            call
            for client in self._state.clients.values()
            for call in client.calls.values()
            if call.method == "initialize"
        ]
        seconds = self._restarts.open_for(now)
        for call in [*opening, *self._state.waiting]:
            if call.unproven_losses:
                self.give_up(call, now)
            elif loss.is_final or seconds is None:
                self.finish(call, outcomes.refused(call.name, loss), now)
            else:
                self.finish(call, outcomes.circuit_open(call.name, loss, seconds), now)

    def give_up(self, call: Call, now: float, *, is_closing: bool = False) -> None:
        """End a call that has waited, or run, as long as it may."""
        check = self._options.check.get(call.name)
        if is_closing:
            ending = outcomes.closing(
                call.name, was_sent=call.session is not None or call.unproven_losses > 0
            )
        elif call.session is not None:
            ending = outcomes.timed_out(call.name, now - (call.sent_at or now), check)
        elif call.unproven_losses and self._state.last_loss is not None:
            ending = outcomes.unknown(call.name, self._state.last_loss, check)
        else:
            ending = self._not_sent(call, now)
        self.finish(call, ending, now)

    def _not_sent(self, call: Call, now: float) -> Ending:
        if self._state.usable is not None:
            names = [name for name in (call.name, EVERY_TOOL) if name in self._options.concurrency]
            if names:
                limit = min(self._options.concurrency[name] for name in names)
                return outcomes.limited(
                    call.name, f"{limit} {'call' if limit == 1 else 'calls'} at a time", None
                )
        attempts = self._restarts.attempts - call.attempts_at
        loss = self._state.last_loss or NOT_STARTED
        return outcomes.unreachable(call.name, loss, attempts, now - call.waits_since)

    def _deliver(self, call: Call, answer: Message, outcome: Outcome, now: float, reason: str = "") -> None:
        key = call.request.key
        self._end(call, outcome, now, reason=reason, was_sent=call.sends > 0)
        self._state.to_client(call.client, answer, key)

    def _end(self, call: Call, outcome: Outcome, now: float, *, reason: str, was_sent: bool) -> None:
        state, key = self._state, call.request.key
        if key is not None:
            call.client.calls.pop(key, None)
        if call in state.waiting:
            state.waiting.remove(call)
        self._free(call)
        state.outcomes[str(outcome)] += 1
        fields: dict[str, Any] = {"call": call.number, "method": call.method, "outcome": str(outcome)}
        if call.name:
            fields["name"] = call.name
        if reason:
            fields["reason"] = reason
        if self._options.log_arguments and call.is_tool:
            fields["arguments"] = call.request.params.get("arguments")
        fields |= {"sends": call.sends, "was_sent": was_sent, "seconds": round(now - call.arrived_at, 6)}
        line = f'"{call.name}" ended as {outcome} ({reason})' if call.is_tool and outcome in _SHOWN else ""
        state.note("call_finished", line, **fields)

    # ---- time --------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Return when something is due, in monotonic seconds."""
        times = [one.until for one in self._state.held]
        for call in self._state.waiting:
            times.append(call.waits_since + self._options.patience)
            times += [at for at in (call.deadline_at, call.next_notice_at) if at is not None]
            if self._state.usable is not None and call.not_before:
                times.append(call.not_before)
        for session in self._state.sessions.values():
            for call_or_own in session.pending.values():
                times += [
                    at
                    for at in (call_or_own.times_out_at, getattr(call_or_own, "deadline_at", None))
                    if at is not None
                ]
        return min(times, default=None)

    def timer(self, now: float) -> list[Call]:
        """Do what is due; return the calls that were not answered in their time."""
        state = self._state
        state.held = [one for one in state.held if one.until > now]
        for call in list(state.waiting):
            is_late = call.deadline_at is not None and now >= call.deadline_at
            if is_late or (now >= call.waits_since + self._options.patience and call.not_before <= now):
                self.give_up(call, now)
            elif call.next_notice_at is not None and now >= call.next_notice_at:
                self._tell_progress(call, now)
        overdue: list[Call] = []
        for session in list(state.sessions.values()):
            for call in [
                one for one in session.pending.values() if isinstance(one, Call) and not one.is_cancelled
            ]:
                if any(at is not None and now >= at for at in (call.times_out_at, call.deadline_at)):
                    overdue.append(call)
                    note = message.notification(
                        "notifications/cancelled",
                        {"requestId": call.server_id, "reason": "no answer in time"},
                    )
                    if session.is_modern and not self._options.is_command:
                        state.actions.append(GiveUp(session.number, call.server_id))
                    else:
                        state.to_server(session, note)
                    self.give_up(call, now)
                    call.is_cancelled = True
        self.flush(now)
        return overdue

    def _tell_progress(self, call: Call, now: float) -> None:
        call.next_notice_at = now + _NOTICE
        call.progress += _TINY
        attempt = self._restarts.attempts - call.attempts_at
        text = (
            f"waiting for the server to come back, attempt {attempt + 1}"
            if self._state.usable is None
            else "waiting for its turn"
        )
        params = {"progressToken": call.request.progress_token, "progress": call.progress, "message": text}
        self._state.to_client(
            call.client, message.notification("notifications/progress", params), call.request.key
        )


def _not_started() -> Loss:
    from .upstream import Loss

    return Loss(reason="it has not started yet", executed=Executed.NO)


NOT_STARTED: Final = _not_started()
