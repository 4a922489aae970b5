"""Decides for each request of a client whether it waits, is sent or repeated, and how it ends.

Rule: a request that was sent is sent again only with proof that it did not run, or with permission.
Every accepted request ends in exactly one `Outcome`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from ...failure import Executed, redact
from . import message, outcomes
from .effects import Admitted
from .eras import LISTEN
from .instead import is_missing, remembered, stale, wanted_by_others
from .limits import Limits
from .outcomes import PREFIX, Ending, Outcome
from .permission import permission_of
from .shared import request_for_all
from .state import Call, Drop, GiveUp, Held, Own, Phase
from .upstream import NOT_GREETED, NOT_STARTED


if TYPE_CHECKING:
    from .effects import CallEffects
    from .message import Key, Message
    from .restarts import Restarts
    from .state import ClientState, Session, State
    from .upstream import Loss


_UNLIMITED: Final = frozenset({LISTEN, "tasks/result"})  # they stay open: no deadline
# losses after which a call is not repeated: the call itself may crash the server
_MOST_LOSSES: Final = 3
_NOTICE: Final = 5.0  # seconds between two progress notifications for a waiting call
_SHOWN: Final = (Outcome.UNKNOWN, Outcome.NOT_EXECUTED)  # of a tool: with a log line
_DOUBTFUL: Final = (Outcome.UNKNOWN, Outcome.CANCELLED)
# the step of our progress values: they have to grow, and the server's first value has to be larger
_TINY: Final = 1e-6
_INVALID_REQUEST: Final = -32600


class Calls:
    """The requests of one relay's clients."""

    def __init__(self, state: State, restarts: Restarts, effects: CallEffects) -> None:
        self._state = state
        self._effects = effects
        self._is_durable = state.options.effects is not None
        self._doubts = effects.rows  # empty nearly always, and then nothing is asked
        self._options = state.options
        self._restarts = restarts
        self._limits = Limits(state.options)

    # ---- from a client -----------------------------------------------------------------------------------------

    def accept(self, client: ClientState, request: Message, now: float) -> None:
        """Handle a client's request: send it, answer it, or let it wait."""
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
        if (answer := remembered(self._state, call)) is not None:
            self._deliver(call, answer, Outcome.ANSWERED, now, reason="from memory")
            return
        if (answer := wanted_by_others(self._state, call)) is not None:
            self._deliver(call, answer, Outcome.ANSWERED, now, reason="others listen")
            return
        if self.is_refused(call, now):
            return
        self.wait(call, now)
        self.flush(now)

    def wait(self, call: Call, now: float, *, is_repeat: bool = False) -> None:
        """Queue a call; a repeated call keeps its position in the order of arrival."""
        call.waits_since, call.attempts_at = now, self._restarts.attempts
        call.patient_until = now + self._options.patience - call.waited
        call.next_notice_at = now + _NOTICE if call.request.progress_token is not None else None
        waiting = self._state.waiting
        waiting.append(call)
        if is_repeat:
            waiting.sort(key=lambda one: one.number)

    def hold(self, client: ClientState, note: Message, now: float) -> None:
        """Queue a client's notification for a usable session; drop it after `patience` seconds."""
        self._state.held.append(Held(client, note, now + self._options.patience))
        self.flush(now)

    def cancel(self, client: ClientState, key: Key, note: Message, now: float) -> None:
        """Cancel a client's request: never send it, or cancel it at the server if it was sent."""
        call = client.calls.get(key)
        if call is None or call.method == "initialize":
            return
        self._cancel(call, note, now, "cancelled by the client")
        self.flush(now)

    def leave(self, client: ClientState, now: float) -> None:
        """Cancel the requests of a client that has left, and drop its queued notifications."""
        self._state.held = [one for one in self._state.held if one.client is not client]
        note = message.notification(
            "notifications/cancelled", {"requestId": 0, "reason": "the client left"}
        )
        for call in list(client.calls.values()):
            self._cancel(call, note, now, "the client left")
        self.flush(now)

    def _cancel(self, call: Call, note: Message, now: float, reason: str) -> None:
        may_have_run = call.session is not None or call.unproven_losses > 0
        self._forget(call, note)
        self._end(call, Outcome.CANCELLED, now, reason=reason, was_sent=may_have_run)
        if call.request.key is not None:
            self._state.actions.append(Drop(call.client.client, call.request.key))

    def _forget(self, call: Call, note: Message) -> None:
        """Cancel a request at the server it was sent to, and ignore a later answer to it."""
        session = call.session
        if session is None:
            return
        session.pending.pop(call.server_id, None)
        session.forgotten.append(call.server_id)
        self._effects.may_come_late(session, call)
        if session.is_modern and not self._options.is_command:
            self._state.actions.append(GiveUp(session.number, call.server_id))
        else:
            self._state.to_server(session, note.with_request_id(call.server_id))

    # ---- to the server -----------------------------------------------------------------------------------------

    def flush(self, now: float) -> None:
        """Send the queued notifications, then the waiting calls that may go, as they arrived."""
        state = self._state
        session = state.usable
        if session is None:
            return
        held, state.held = state.held, []
        for one in held:
            state.to_server(session, one.message)
        waiting, state.waiting = state.waiting, []
        later: list[Call] = []
        for call in waiting:
            if call.not_before > now:
                later.append(call)
                continue
            call.not_before = 0.0
            is_barred = call.unproven_losses > 0 and not self._is_still_permitted(call, session)
            is_unlisted = is_barred or (call.is_tool and self._is_durable)
            waits = is_unlisted and _is_listing(session)
            if waits or not (self._limits.take(call) and self._limits.starts(call, now)):
                later.append(call)
            elif is_barred:
                self.give_up(call, now)
            elif is_missing(state, call, session):
                self._end_missing(call, session, now)
            elif (answer := stale(state, call, session)) is not None:
                self._deliver(call, answer, Outcome.FAILED, now)
            elif call.is_tool and (self._is_durable or self._doubts):
                if not self._is_admitted(call, session, now):
                    later.append(call)
            else:
                self._send(call, session, now)
        state.waiting = later

    def _is_admitted(self, call: Call, session: Session, now: float) -> bool:
        """Send a call, or end it because of an identical one in doubt; False: it has to wait."""
        admitted = self._effects.admit(call, session, now)
        if admitted is Admitted.WAITS:
            self._limits.free(call)
            return False
        if admitted is Admitted.SENT:
            self._send(call, session, now)
        elif isinstance(admitted, Ending):
            self.finish(call, admitted, now)
        else:
            self._deliver(call, admitted, Outcome.ANSWERED, now, reason="an identical call ran")
        return True

    def _send(self, call: Call, session: Session, now: float) -> None:
        call.session, call.server_id, call.sent_at = session, self._state.number(), now
        call.waited += now - call.waits_since
        call.sends += 1
        seconds = self._options.timeout_of(call.name) if call.is_tool else None
        call.times_out_at = None if seconds is None else now + seconds
        call.permission = permission_of(self._options, call, session.lists)
        self._state.writes += call.is_tool or call.permission != "read"
        call.write_mark = self._state.writes
        session.pending[call.server_id] = call
        for at in (call.times_out_at, call.deadline_at):
            self._state.watch(session, call.server_id, at)
        request = request_for_all(self._state, call).with_id(call.server_id)
        if call.request.progress_token is not None:
            request = request.with_progress_token(call.server_id)
        self._state.to_server(session, request)

    def _end_missing(self, call: Call, session: Session, now: float) -> None:
        if call.unproven_losses:
            self.give_up(call, now)
        else:
            self.finish(call, outcomes.gone(call.name, session.lists.names()), now)

    def is_refused(self, call: Call, now: float) -> bool:
        """Refuse a call if the circuit is open or a rate delays it too long; return whether."""
        seconds = self._restarts.open_for(now)
        if seconds is not None and self._state.usable is None:
            self.finish(call, outcomes.circuit_open(call.name, self._state.last_loss, seconds), now)
            return True
        ending = self._limits.refusal(call, now)
        if ending is not None:
            self.finish(call, ending, now)
        return ending is not None

    # ---- what becomes of a call --------------------------------------------------------------------------------

    def heard(self, session: Session, now: float) -> None:
        """Record that a session has answered a client's request: its server works."""
        if not session.has_answered:
            session.has_answered = True
            if session is self._state.current:
                self._restarts.worked(now)

    def answered(self, call: Call, answer: Message, now: float) -> None:
        """Handle the server's answer to a call."""
        session, result = call.session, answer.result
        is_failure = answer.is_refusal or result.get("isError") is True
        answer = answer.with_id(call.request.id)
        state, client = self._state, call.client
        is_news = session is state.current and client.restarts_reported < state.restarts
        if call.is_tool and is_news and state.restarted is not None and result:
            client.restarts_reported = state.restarts
            path: tuple[str, ...] = ("result", "_meta", f"{PREFIX}/restarted")
            if isinstance(result.get("_meta"), dict):
                answer = answer.with_member(path, state.restarted)
            else:
                answer = answer.with_member(path[:2], {path[2]: state.restarted})
        self._deliver(call, answer, Outcome.FAILED if is_failure else Outcome.ANSWERED, now)

    def lost(self, call: Call, loss: Loss, now: float) -> None:
        """Handle a lost answer: queue the call again, or answer it without the server."""
        session = call.session
        call.session = call.times_out_at = None
        if loss.executed is not Executed.NO:
            self._record_doubt(call, session, loss)
        if (answer := remembered(self._state, call)) is not None:
            self._deliver(call, answer, Outcome.ANSWERED, now, reason="from memory")
            return
        pause = self._pause_after(call, session, loss, now)
        if self._may_repeat(call, loss) and (
            call.waited + pause <= self._options.patience or _lasts(call)
        ):
            call.not_before = now + pause
            self.wait(call, now, is_repeat=True)
        elif call.loss is not None:
            self.finish(
                call,
                outcomes.unknown(call.name, call.loss, self._options.check.get(call.name)),
                now,
            )
        elif loss.is_final:
            self.finish(call, outcomes.refused(call.name, loss), now)
        else:
            self.finish(call, outcomes.unreachable(call.name, loss, 0, 0.0), now)

    def _record_doubt(self, call: Call, session: Session | None, loss: Loss) -> None:
        """Record that a call may have run, and what was known about it then.

        A proxy's word that the server is away counts once for a session: it repeats it.
        """
        number = 0 if session is None else session.number
        call.unproven_losses += not loss.is_away or call.lost_in != number
        call.loss, call.lost_in = loss, number
        for lists in (
            session.lists if session is not None else self._state.known,
            self._state.known,
        ):
            if call.permission is None:
                call.permission = permission_of(self._options, call, lists)
        call.is_guarded |= call.permission == "idempotent"

    def _pause_after(self, call: Call, session: Session | None, loss: Loss, now: float) -> float:
        """Count a try; return the seconds before the next.

        That is `retry_after`, and while the session is kept at least the backoff.
        """
        if call.sent_at is not None and now - call.sent_at >= self._options.patience:
            call.tries, call.waited = 0, 0.0  # the try lasted: reset
        call.tries += 1
        pause = loss.retry_after or 0.0
        is_current = session is not None and session is self._state.current
        return max(pause, self._restarts.pause(call.tries)) if is_current else pause

    def _may_repeat(self, call: Call, loss: Loss) -> bool:
        if loss.executed is Executed.NO:
            return not loss.is_final
        if call.method == LISTEN:
            return True
        if call.unproven_losses >= _MOST_LOSSES:
            return False
        # None: the list of tools that the next session is asked for decides
        return call.permission != "" and not (call.is_guarded and self._is_overtaken(call))

    def _is_still_permitted(self, call: Call, session: Session) -> bool:
        """Return whether a call that may have run may be repeated in this session."""
        if call.method == LISTEN:
            return True
        found = permission_of(self._options, call, session.lists)
        if found is None:
            found = call.permission
        call.is_guarded |= found == "idempotent"
        return bool(found) and not (call.is_guarded and self._is_overtaken(call))

    def _is_overtaken(self, call: Call) -> bool:
        """Return whether a later call that may write was sent: a repeat of this could undo it."""
        return self._state.writes != call.write_mark

    def finish(self, call: Call, ending: Ending, now: float) -> None:
        """End a call, and send `ending` to its client as the answer."""
        is_modern = bool(call.client.is_modern)
        answer = outcomes.answer(call.request.id, call.method, ending, is_modern=is_modern)
        self._deliver(call, answer, ending.outcome, now, reason=ending.code)

    def refuse_waiting(self, loss: Loss, now: float) -> None:
        """End the waiting requests, except open streams: the circuit is open or no start is due."""
        seconds = self._restarts.open_for(now)
        for call in [*self._state.openings(), *self._state.waiting]:
            if _lasts(call):
                continue
            if call.unproven_losses:
                self.give_up(call, now)
            elif loss.is_final or seconds is None:
                self.finish(call, outcomes.refused(call.name, loss), now)
            else:
                self.finish(call, outcomes.circuit_open(call.name, loss, seconds), now)

    def give_up(self, call: Call, now: float, *, is_closing: bool = False) -> None:
        """End a call without an answer of the server, as unknown or as not executed."""
        check = self._options.check.get(call.name)
        if is_closing:
            ending = outcomes.closing(
                call.name, was_sent=call.session is not None or call.unproven_losses > 0
            )
        elif call.session is not None:
            ending = outcomes.timed_out(call.name, now - (call.sent_at or now), check)
        elif call.loss is not None:
            ending = outcomes.unknown(call.name, call.loss, check)
        else:
            ending = self._not_sent(call, now)
        self.finish(call, ending, now)

    def _not_sent(self, call: Call, now: float) -> Ending:
        if self._state.usable is not None and (ending := self._limits.too_long(call)) is not None:
            return ending
        attempts = self._restarts.attempts - call.attempts_at
        current = self._state.current
        first = (
            NOT_GREETED if current is not None and current.phase is Phase.GREETING else NOT_STARTED
        )
        loss = self._state.last_loss or first.with_words(
            current.output if current is not None else ()
        )
        return outcomes.unreachable(call.name, loss, attempts, now - call.waits_since)

    def _deliver(
        self, call: Call, answer: Message, outcome: Outcome, now: float, reason: str = ""
    ) -> None:
        key = call.request.key
        was_sent = call.sends > 0 and outcome is not Outcome.NOT_EXECUTED
        self._end(call, outcome, now, reason=reason, was_sent=was_sent)
        self._state.to_client(call.client, answer, key)

    def _end(
        self, call: Call, outcome: Outcome, now: float, *, reason: str, was_sent: bool
    ) -> None:
        state, key = self._state, call.request.key
        if key is not None:
            call.client.calls.pop(key, None)
        state.opening_calls.pop(call.number, None)
        if call in state.waiting:
            state.waiting.remove(call)
        self._limits.free(call)
        if call.effect is not None or (call.is_tool and outcome in _DOUBTFUL):
            self._effects.ended(call, outcome, now, was_sent=was_sent)
        state.outcomes[str(outcome)] += 1
        fields: dict[str, Any] = {
            "call": call.number,
            "method": call.method,
            "outcome": str(outcome),
        }
        name = call.name if call.is_tool else redact(call.name)
        if name:
            fields["name"] = name
        if reason:
            fields["reason"] = reason
        if self._options.log_arguments and call.is_tool:
            fields["arguments"] = call.request.params.get("arguments")
        fields |= {
            "sends": call.sends,
            "was_sent": was_sent,
            "seconds": round(now - call.arrived_at, 6),
        }
        line = (
            f'"{name}" ended as {outcome} ({reason})' if call.is_tool and outcome in _SHOWN else ""
        )
        state.note("call_finished", line, **fields)

    # ---- time --------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Return when `timer` has something to do, in monotonic seconds; None for never."""
        times = [one.until for one in self._state.held]
        for call in self._state.waiting:
            patient_until = None if _lasts(call) else call.patient_until
            times += [
                at
                for at in (patient_until, call.deadline_at, call.next_notice_at)
                if at is not None
            ]
            if self._state.usable is not None and call.not_before:
                times.append(call.not_before)
        if (due := self._state.next_due()) is not None:
            times.append(due)
        return min(times, default=None)

    def timer(self, now: float) -> list[Call]:
        """Do what is due; return the calls that were sent and not answered in time."""
        state = self._state
        state.held = [one for one in state.held if one.until > now]
        self.flush(now)  # first, so that a call that may be sent now is not given up
        for call in list(state.waiting):
            if _is_past(call.deadline_at, now) or (now >= call.patient_until and not _lasts(call)):
                self.give_up(call, now)
            elif _is_past(call.next_notice_at, now):
                self._tell_progress(call, now)
        overdue = [
            call
            for session in state.sessions.values()
            for call in session.pending.values()
            if isinstance(call, Call)
            and (_is_past(call.times_out_at, now) or _is_past(call.deadline_at, now))
        ]
        note = message.notification(
            "notifications/cancelled", {"requestId": 0, "reason": "no answer in time"}
        )
        for call in overdue:
            self._forget(call, note)
            self.give_up(call, now)
        self.flush(now)
        return overdue

    def _tell_progress(self, call: Call, now: float) -> None:
        call.next_notice_at = now + _NOTICE
        call.progress = max(call.progress + _TINY, math.nextafter(call.progress, math.inf))
        if math.isinf(call.progress):  # no number is larger
            return
        call.has_reported = True
        attempt = self._restarts.attempts - call.attempts_at
        text = (
            f"waiting for the server to come back, attempt {attempt + 1}"
            if self._state.usable is None
            else "waiting for its turn"
        )
        params = {
            "progressToken": call.request.progress_token,
            "progress": call.progress,
            "message": text,
        }
        self._state.to_client(
            call.client, message.notification("notifications/progress", params), call.request.key
        )


def _is_past(at: float | None, now: float) -> bool:
    return at is not None and now >= at


def _is_listing(session: Session) -> bool:
    """Return whether the session has not yet answered which tools it has."""
    return any(
        isinstance(one, Own) and one.method == "tools/list" for one in session.pending.values()
    )


def _lasts(call: Call) -> bool:
    """Return whether a call is an acknowledged listen stream: it stays open without a server."""
    return call.has_acknowledged
