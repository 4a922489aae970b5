"""Keeps a tool call that is identical to one in doubt from being sent again.

With a file of effects (`--effects`) each call that may not be repeated is written there before it is
sent, and held by an identical one until that has an end. Without it only doubts are remembered, in
memory, and each holds once, for a minute: most servers say nothing of their tools, and a search must
not be refused for long. A tool that its server calls destructive is held as with a file.

Rule: what may be repeated by permission passes. A session is no scope: after a kill it is another.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from ...calls.ports import asked_for, call_options, resolved
from ...failure import ConfigError, StoreError
from . import message, outcomes
from .message import list_of, object_of
from .outcomes import PREFIX, Outcome
from .permission import permission_of


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...calls.ports import Effect
    from ...stores import Effects
    from .message import Message
    from .outcomes import Ending
    from .state import Call, Session, State
    from .upstream import Loss


_ONCE: Final = 60.0  # seconds for which a doubt in memory holds an identical call, once
_VERIFY: Final = 30.0  # seconds for the answer of a read tool
_MOST_LATE: Final = 1_000  # calls of a session whose answer may still come


class Admitted(Enum):
    """What becomes of a call that could be sent."""

    SENT = "sent"
    WAITS = "waits"  # for the answer of a read tool


class CallEffects:
    """The gate of one relay. Without a ledger every call passes."""

    def __init__(self, state: State, ledger: Effects | None, wall: Callable[[], float]) -> None:
        self._state = state
        self._options = state.options
        self._ledger = ledger
        self._wall = wall
        #: The calls that it remembers.
        self.rows: Mapping[str, Effect] = {} if ledger is None else ledger.rows

    def admit(self, call: Call, session: Session, now: float) -> Admitted | Ending | Message:
        """Return whether a call may be sent now, or how it ends instead."""
        ledger = self._ledger
        if ledger is None or not call.is_tool or call.effect is not None:
            return Admitted.SENT
        if call.is_verifying:
            return Admitted.WAITS
        is_durable = self._options.effects is not None
        if permission_of(self._options, call, session.lists):
            return Admitted.SENT
        try:
            return self._admit(call, session, now, is_durable=is_durable)
        except (StoreError, ConfigError) as error:
            if not is_durable:  # there are a thousand doubts already: no other call waits for them
                return Admitted.SENT
            return outcomes.unreadable(call.name, error.failure.message)

    def _admit(
        self, call: Call, session: Session, now: float, *, is_durable: bool
    ) -> Admitted | Ending | Message:
        ledger, wall = self._ledger, self._wall()
        assert ledger is not None  # noqa: S101 -- see `admit`
        asked = self._asked(call, session)
        number, verdict = call.verdict
        replaces = number if verdict is outcomes.NOT_RUN else 0
        found = ledger.begin(asked, now, wall, replaces=replaces)
        effect = found.effect
        if found.is_new:
            if found.replaced is not None:
                resolved(found.replaced, found.how)
            if is_durable:
                call.effect = effect
            else:  # only what ends in doubt is remembered
                ledger.drop(effect)
            return Admitted.SENT
        is_strict = is_durable or _is_destructive(session.lists.tool(call.name))
        if not is_strict and effect.age(now, wall) >= _ONCE:
            ledger.took(effect)
            return Admitted.SENT
        answer, is_late = (effect.answer, True) if effect.has_answer else (verdict, False)
        if isinstance(answer, dict) and ledger.took(effect, answer):
            result = cast("dict[str, Any]", answer)
            resolved(effect, "late_answer" if is_late else "verified")
            return message.result(call.request.id, result)
        if (
            number != effect.number
            and not effect.is_running
            and self._ask(call, session, effect, now)
        ):
            return Admitted.WAITS
        return self._held(call, effect, now, wall, is_strict=is_strict)

    def _held(
        self, call: Call, effect: Effect, now: float, wall: float, *, is_strict: bool
    ) -> Ending:
        assert self._ledger is not None  # noqa: S101 -- see `admit`
        began = datetime.fromtimestamp(effect.began, UTC).isoformat(timespec="seconds")
        check = self._options.check.get(call.name) or self._options.verify.get(call.name)
        if effect.state != "open":
            self._ledger.took(effect)
            return outcomes.already_ran(call.name, began, check)
        remaining = None
        if is_strict:
            remaining = max(0.0, self._ledger.hold - effect.age(now, wall))
        else:
            self._ledger.took(effect)
        is_running = effect.is_running
        return outcomes.in_doubt(call.name, began, check, remaining, is_running=is_running)

    def _asked(self, call: Call, session: Session | None) -> Any:
        """Return the call as it is compared: with the defaults of its tool's schema."""
        assert self._ledger is not None  # noqa: S101 -- see `admit`
        tool = None if session is None else session.lists.tool(call.name)
        tool = tool or self._state.known.tool(call.name)
        schema = object_of(tool.get("inputSchema") if tool is not None else None)
        arguments = with_defaults(schema, object_of(call.request.params.get("arguments")))
        key = call.request.meta.get(f"{PREFIX}/key")
        is_again = call.request.meta.get(f"{PREFIX}/again") is True
        with call_options(key if isinstance(key, str) and key else None, again=is_again):
            return asked_for(call.name, self._ledger.rule(call.name), arguments)

    # ---- the read tool

    def _ask(self, call: Call, session: Session, effect: Effect, now: float) -> bool:
        """Ask the read tool of a tool what became of a call; return whether there is one to ask."""
        name = self._options.verify.get(call.name)
        if name is None:
            return False
        tool = session.lists.tool(name)
        schema = object_of(tool.get("inputSchema") if tool is not None else None)
        arguments = object_of(call.request.params.get("arguments"))
        known = object_of(schema.get("properties"))
        shared = {field: value for field, value in arguments.items() if field in known}
        if not shared:  # its answer would be about every call
            return False
        params: dict[str, Any] = {"name": name, "arguments": shared}
        if session.is_modern:
            params["_meta"] = dict(self._state.envelope)
        call.is_verifying = True

        def then(answer: Message | None, _loss: Loss | None, _now: float) -> None:
            call.is_verifying = False
            verdict = None if answer is None else verdict_of(answer)
            if verdict is outcomes.NOT_RUN and self._may_still_come(effect):
                verdict = None
            call.verdict = effect.number, verdict

        self._state.ask(session, message.request(0, "tools/call", params), then, now + _VERIFY)
        return True

    def _may_still_come(self, effect: Effect) -> bool:
        """Return whether the server that got a call still runs, and has not answered it."""
        return any(
            late.effect is effect
            for session in self._state.sessions.values()
            for late in session.late.values()
        )

    # ---- the end of a call

    def ended(self, call: Call, outcome: Outcome, now: float, *, was_sent: bool) -> None:
        """Note how a call has ended."""
        ledger = self._ledger
        if ledger is None or not call.is_tool:
            return
        wall = self._wall()
        is_doubt = outcome is Outcome.UNKNOWN or (outcome is Outcome.CANCELLED and was_sent)
        if call.effect is None:
            if is_doubt and call.sends and self._options.effects is None:
                self._remember(call, now, wall)
            return
        if is_doubt:
            ledger.leave(call.effect, wall)
        elif outcome in (Outcome.ANSWERED, Outcome.FAILED):
            ledger.end(call.effect, wall)
            ledger.took(call.effect)
        else:
            ledger.drop(call.effect)

    def _remember(self, call: Call, now: float, wall: float) -> None:
        """Remember a doubt in memory."""
        if call.permission or self._ledger is None:
            return
        try:
            asked = self._asked(call, self._state.current)._replace(is_again=True)
            call.effect = self._ledger.begin(asked, now, wall).effect
            self._ledger.leave(call.effect, wall)
        except (StoreError, ConfigError):  # there are a thousand already: a new one is not held
            return

    def may_come_late(self, session: Session, call: Call) -> None:
        """Note that the answer to a call which its client does not wait for may still come."""
        if self._ledger is None or not call.is_tool:
            return
        session.late[call.server_id] = call
        if len(session.late) > _MOST_LATE:
            session.late.popitem(last=False)

    def came_late(self, session: Session, answer: Message) -> None:
        """Keep an answer that came after its call had ended, for the next identical call."""
        call = session.late.pop(answer.id, None)
        if call is not None and call.effect is not None and self._ledger is not None:
            result = () if answer.is_refusal else (dict(answer.result),)
            self._ledger.end(call.effect, self._wall(), *result)


def with_defaults(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with the defaults of a JSON schema, also in objects that are there."""
    found = dict(arguments)
    for name, each in object_of(schema.get("properties")).items():
        field = object_of(each)
        if name not in found and "default" in field:
            found[name] = field["default"]
        elif isinstance(found.get(name), dict):
            found[name] = with_defaults(field, found[name])
    return found


def verdict_of(answer: Message) -> Any:
    """Return what the answer of a read tool says: its result if the call ran, NOT_RUN, or None.

    An empty answer says that it did not run: no content, or JSON that is null, false, empty, or an
    object with one empty list, as servers wrap lists.
    """
    result = answer.result
    if answer.is_refusal or result.get("isError") is True:
        return None
    if isinstance(result.get("structuredContent"), dict):
        is_empty = _is_empty(result["structuredContent"])
    else:
        content = list_of(result.get("content"))
        texts = [str(object_of(one).get("text", "")) for one in content]
        is_text = all(object_of(one).get("type") == "text" for one in content)
        is_empty = is_text and all(_is_empty_text(text) for text in texts)
    return outcomes.NOT_RUN if is_empty else dict(result)


def _is_empty(value: Any) -> bool:
    fields = object_of(value)
    if len(fields) == 1:
        value = next(iter(fields.values()))
    return value is None or value is False or value in ("", [], {})


def _is_empty_text(text: str) -> bool:
    return text.strip() in {"", "null", "None", "false", "[]", "{}"}


def _is_destructive(tool: Mapping[str, Any] | None) -> bool:
    annotations = object_of(tool.get("annotations") if tool is not None else None)
    return annotations.get("destructiveHint") is True
