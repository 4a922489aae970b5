"""The conversation on one connection: phases, validation, and an answer to every message.

Rule: each frame is handled at once and in order, with its effects and answers; the connection
itself belongs to another module. The phases are those of the specification: `connected` until auth,
`authenticated` until session_join, then `joined`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from .server_replay import replay_frame
from .server_session import BridgeMemory, Outlet, Session
from .server_wire import ENCODE, FrameError, Message, decode, new_id, parse_instant, violations


Phase = Literal["connected", "authenticated", "joined"]

_EXPECTED: Final[Mapping[Phase, list[str]]] = {
    "connected": ["auth"],
    "authenticated": ["session_join", "heartbeat_ping", "health_check"],
    "joined": [
        "session_join",
        "heartbeat_ping",
        "health_check",
        "request_replay",
        "session messages",
    ],
}
_NOT_FOUND: Final = [
    "Check session ID spelling",
    "Session may have expired",
    "Use GET /sessions to list active sessions",
]


class Dialogue:
    """The bridge's side of the protocol on one connection."""

    def __init__(self, line: Outlet, memory: BridgeMemory) -> None:
        self._line = line
        self._memory = memory
        self._session: Session | None = None
        self._previous_ack: str | None = None
        self.phase: Phase = "connected"

    def lost(self) -> None:
        self._memory.audience.pop(self._line, None)
        if self._session is not None:
            self._memory.detach(self._session, self._line)
            self._session = None

    def read(self, frame: str | bytes) -> None:
        memory = self._memory
        behaviour = memory.behaviour
        try:
            message = decode(frame)
        except FrameError as error:
            if behaviour.record:
                memory.frames.append({"raw": frame})
            self._refuse([error.violation], None)
            return
        if behaviour.record:
            memory.frames.append(message)
        if behaviour.poison is not None and isinstance(frame, str) and behaviour.poison in frame:
            self._line.end(behaviour.poison_code, "poison")
            return
        wrong = violations(message)
        if wrong:
            ident = message.get("id")
            self._refuse(wrong, ident if isinstance(ident, str) else None)
        elif message["type"] in behaviour.refused:
            self._refuse_type(message["type"], behaviour.refused[message["type"]])
        elif message["type"] not in behaviour.ignored:
            self._dispatch(message)

    def _dispatch(self, message: Message) -> None:
        kind: str = message["type"]
        phases, handle = _HANDLERS.get(kind, _SESSION_MESSAGE)
        if self.phase in phases:
            handle(self, message)
            return
        details = {"expected": _EXPECTED[self.phase], "received": kind, "current_phase": self.phase}
        self._error("PROTO_SEQUENCE_ERROR", "message out of sequence", message.get("id"), **details)

    # ---- answers
    def _send(
        self, text: str | Callable[[], str], *, then: Callable[[], None] | None = None
    ) -> None:
        """Send an answer, after `slow`; a function creates it then, from the state at that time.

        `then` is called when it was sent.
        """
        slow = self._memory.behaviour.slow
        if slow > 0:
            self._line.later(slow, text, then)
            return
        self._line.send(text if isinstance(text, str) else text())
        if then is not None:
            then()

    def _answer(
        self,
        kind: str,
        payload: Mapping[str, Any],
        ident: str | None,
        *,
        then: Callable[[], None] | None = None,
    ) -> None:
        self._send(ENCODE(self._memory.message(kind, payload, ident)), then=then)

    def _error(self, code: str, text: str, ident: str | None, **details: Any) -> None:
        self._answer("error", {"code": code, "message": text, **details}, ident)

    def _refuse(self, wrong: list[dict[str, Any]], ident: str | None) -> None:
        self._error("PROTO_INVALID_MESSAGE", "message validation failed", ident, violations=wrong)

    def _refuse_type(self, kind: str, code: str) -> None:
        if kind == "session_join" and self.phase == "authenticated":
            self.phase = "joined"  # a bridge without sessions has nothing to join
        fresh = new_id(self._memory.rng)
        self._error(code, f"Unknown message type: {kind}", fresh, request_type=kind)

    def _scripted_end(self, step: str) -> bool:
        code = self._memory.behaviour.accept_then_close
        if code is None or self._memory.behaviour.close_at != step:
            return False
        self._line.end(code, f"scripted close at {step}")
        return True

    # ---- one handler per kind of message
    def on_auth(self, message: Message) -> None:
        if self._scripted_end("auth"):
            return
        memory = self._memory
        code = memory.behaviour.auth_error
        if code is None and memory.token is not None:
            value = message["payload"].get("token")
            if not isinstance(value, str) or not hmac.compare_digest(
                value.encode(), memory.token.encode()
            ):
                code = "AUTH_INVALID_TOKEN"
        if code is not None:
            refusal = {
                "code": code,
                "message": "authentication refused",
                "recoverable": "EXPIRED" in code,
            }
            self._answer("connection_error", refusal, message["id"])
            if memory.behaviour.auth_refusal == "closed":
                self._line.end(4001, "authentication refused")
        elif memory.behaviour.no_session_memory:
            self.phase = "joined"
            hello: dict[str, Any] = {"client_id": new_id(memory.rng), "active_sessions": []}
            self._answer("connection_ack", hello, message["id"], then=self._queue)
        else:
            self.phase = "authenticated"
            alive = [session.id for session in memory.sessions.values() if not session.is_closed]
            hello = {"server_id": memory.server_id, "active_sessions": alive}
            self._answer("connection_ack", hello, message["id"])

    def _queue(self) -> None:
        """Push the queue again, and from then on what is new: never before it."""
        memory = self._memory
        memory.audience[self._line] = None
        for text in memory.queue[len(memory.queue) - memory.behaviour.push_queue :]:
            self._line.send(text)

    def on_join(self, message: Message) -> None:
        memory, payload = self._memory, message["payload"]
        name = payload.get("session_id")
        if memory.behaviour.no_session_memory or self._scripted_end("join"):
            return
        if name is not None and (not isinstance(name, str) or not name):
            wrong = {"field": "payload.session_id", "constraint": "required", "received": name}
            self._refuse([wrong], message["id"])
            return
        session = None if name is None else memory.sessions.get(name)
        if payload.get("resume") is True and not self._is_resumable(session, name, message["id"]):
            return
        if session is not None and session.is_closed:
            session = None  # its name may be used by a new session
        is_return = session is not None and session.link is not self._line
        if session is None:
            session = memory.open(name)
        if self._session is not None and self._session is not session:
            memory.detach(self._session, self._line)
        self._session, self.phase = session, "joined"
        memory.attach(session, self._line)
        joined: dict[str, Any] = {"session_id": session.id}
        if memory.behaviour.dedupes and memory.behaviour.says_dedupes:
            joined["dedupes"] = True
        self._answer("session_joined", joined, message["id"])
        if is_return:
            self._push_buffer(session)

    def _is_resumable(self, session: Session | None, name: str | None, ident: str) -> bool:
        if session is None:
            text = f"Session '{name}' not found"
            self._error("SESS_NOT_FOUND", text, ident, suggestions=_NOT_FOUND)
        elif session.is_closed:
            hints = ["Start a new session"]
            self._error("SESS_CLOSED", f"Session '{name}' is closed", ident, suggestions=hints)
        else:
            return True
        return False

    def _push_buffer(self, session: Session) -> None:
        behaviour = self._memory.behaviour
        if not behaviour.push_buffer or behaviour.replay in {"none", "unknown_type"}:
            return
        # the specification sends nothing rather than an empty buffer
        if self._memory.replay(session, None):
            as_strings = (
                behaviour.replay_entries == "strings" or behaviour.replay == "verbatim_seed"
            )
            self._send(
                lambda: replay_frame(
                    self._memory.replay(session, None),
                    as_strings=as_strings,
                    ident=None,
                    stamp=None,
                )
            )

    def on_replay(self, message: Message) -> None:
        memory, session, ident = self._memory, self._session, message["id"]
        behaviour = memory.behaviour
        if behaviour.replay in {"none", "pushed_only"}:
            return
        if session is None or behaviour.replay == "unknown_type":
            text = "unknown message type"
            answer_id = ident if behaviour.replay_ids else None
            self._error("UNKNOWN_TYPE", text, answer_id, request_type="request_replay")
            return
        since = message["payload"].get("since")
        instant = parse_instant(since)
        if since is not None and instant is None:
            wrong = {"field": "payload.since", "constraint": "iso8601", "received": since}
            self._refuse([wrong], ident)
            return

        def answer() -> str:
            return replay_frame(
                memory.replay(session, instant),
                as_strings=behaviour.replay_entries == "strings"
                or behaviour.replay == "verbatim_seed",
                ident=ident if behaviour.replay_ids else None,
                stamp=memory.stamps.show(memory.stamps.now(), behaviour),
            )

        for _ in range(2 if behaviour.answer_twice else 1):
            if behaviour.replay_delay > 0:
                # the answer as of now: later messages overtake it
                self._line.later(behaviour.replay_delay, answer())
            else:
                self._send(answer)

    def on_ping(self, _message: Message) -> None:
        behaviour = self._memory.behaviour
        if not behaviour.never_pong:
            for _ in range(2 if behaviour.pong_twice else 1):
                self._answer("heartbeat_pong", {}, None)

    def on_health(self, message: Message) -> None:
        self._answer("health_status", {"status": "ready"}, message["id"])

    def on_session_message(self, message: Message) -> None:
        memory, session = self._memory, self._session
        if session is not None and (session.is_closed or session.link is not self._line):
            text = f"Session '{session.id}' is closed"
            self._error("SESS_CLOSED", text, message["id"], suggestions=["Start a new session"])
            return
        key = message["payload"].get("idempotency_key") if session is not None else None
        known = memory.processed(key) if isinstance(key, str) else None
        if known is not None:
            self._ack(message["id"], "already_processed")
            if known[0] is not None:
                self._send(known[0])
            return
        try:
            answer = self._result(message) if message["type"].endswith("_request") else None
        except Exception as error:  # noqa: BLE001  # whatever the test's own callback raises is the bridge's failure
            self._error("SYS_INTERNAL_ERROR", f"{type(error).__name__}: {error}", message["id"])
            return  # not processed, so the key is not recorded: a resend is processed
        if memory.behaviour.record:
            memory.received.append(message)
        if isinstance(key, str):
            memory.record(key, answer)
        self._ack(message["id"], "applied")
        if answer is not None:
            if session is not None and memory.behaviour.buffer_answers:
                memory.keep(session, answer)
            self._send(answer)

    def _result(self, message: Message) -> str | None:
        memory = self._memory
        payload = message["payload"] if memory.on_request is None else memory.on_request(message)
        if payload is None:
            return None
        if memory.behaviour.no_session_memory:  # the real bridge correlates by this field
            payload = {**payload, "request_id": message["id"]}
        kind = message["type"].removesuffix("request") + "response"
        return ENCODE(memory.message(kind, payload, message["id"]))

    def _ack(self, ident: str, status: str) -> None:
        memory, session = self._memory, self._session
        behaviour = memory.behaviour
        if behaviour.acks == "none" or session is None:
            return
        # the id is a checked UUID: this needs no encoder
        text = f'{{"type":"message_ack","payload":{{"message_id":"{ident}","status":"{status}"}}}}'
        if behaviour.buffer_acks:
            memory.keep(session, text)
        self._send(text)
        if behaviour.ack_backwards and self._previous_ack is not None:
            self._send(self._previous_ack)
        self._previous_ack = text
        if behaviour.ack_beyond:
            self._foreign_ack({})
        if behaviour.ack_foreign:
            self._foreign_ack({"session_id": new_id(memory.rng)})

    def _foreign_ack(self, extra: Mapping[str, Any]) -> None:
        payload = {"message_id": new_id(self._memory.rng), "status": "applied", **extra}
        self._send(ENCODE({"type": "message_ack", "payload": payload}))


_Handler = tuple[frozenset[Phase], Callable[[Dialogue, Message], None]]
_ONCE_JOINED: Final[frozenset[Phase]] = frozenset({"joined"})
_ONCE_KNOWN: Final[frozenset[Phase]] = frozenset({"authenticated", "joined"})
_SESSION_MESSAGE: Final[_Handler] = (_ONCE_JOINED, Dialogue.on_session_message)
_HANDLERS: Final[Mapping[str, _Handler]] = {
    "auth": (frozenset({"connected"}), Dialogue.on_auth),
    "session_join": (_ONCE_KNOWN, Dialogue.on_join),
    "heartbeat_ping": (_ONCE_KNOWN, Dialogue.on_ping),
    "health_check": (_ONCE_KNOWN, Dialogue.on_health),
    "request_replay": (_ONCE_JOINED, Dialogue.on_replay),
}
