"""BridgeServer: a real WebSocket bridge inside the test, correct by default, faulty on request.

Rule: it implements the seed's protocol from the seed's text alone and shares no code with the
client it tests. Time comes from the running loop and the given wall clock, ids from the given
random source: under a simulated loop a run repeats exactly.
"""

from __future__ import annotations

import random
import ssl as ssl_module
import time
from collections.abc import Callable, Mapping
from types import EllipsisType
from typing import Any, Literal

import attrs
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request

from ..failure.teaching import taught
from .server_faults import Behaviour
from .server_link import Link, Tasks
from .server_listener import EmbeddedBridge, Refusal
from .server_session import BridgeMemory, Session
from .server_wire import Message, new_id


class _Door:
    """What the listener reads from the bridge's memory, again at each request."""

    def __init__(self, memory: BridgeMemory) -> None:
        self._memory = memory

    @property
    def starting_for(self) -> float:
        return self._memory.behaviour.starting_for

    @property
    def max_frame_bytes(self) -> int:
        return self._memory.behaviour.max_frame_bytes

    def seconds(self) -> float:
        return self._memory.stamps.seconds()

    def health(self) -> dict[str, Any]:
        return {"sessions": len(self._memory.sessions)}

    def refusal(self, _request: Request) -> Refusal | None:
        behaviour = self._memory.behaviour
        if behaviour.reject_upgrade is None:
            return None
        body: dict[str, Any] = {"error": "Rejected", "message": "upgrade rejected"}
        if behaviour.reject_code is not None:  # an error body as the specification prints it (R9)
            hints = ["Check session ID spelling", "Session may have expired"]
            body = {**body, "code": behaviour.reject_code, "suggestions": hints}
        return Refusal(behaviour.reject_upgrade, body, behaviour.retry_after)

    def accept(self, connection: ServerConnection, tasks: Tasks) -> Link:
        return Link(connection, self._memory, tasks)


class BridgeServer(EmbeddedBridge):
    """An embedded bridge on loopback, at `server.url`.

        async with rb.testing.BridgeServer() as server, rb.BridgeClient(server.url) as bridge:
            await bridge.wait_ready()
            await server.push("note", {"text": "hello"})
            async for message in bridge:
                print(message.payload["text"])      # hello

    It keeps sessions 5 minutes after a drop, replays up to 100 KB and 30 minutes with an inclusive,
    stable `since`, processes a message with a known idempotency key once in 5 minutes, and serves
    GET /health. Keyword arguments beyond the named ones are fields of `Behaviour`.
    """

    @taught
    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        ssl: ssl_module.SSLContext | None = None,
        wall: Callable[[], float] = time.time,  # the default of an injected clock
        rng: random.Random | None = None,
        **behaviour: Any,
    ) -> None:
        self._scheme_end = "s" if ssl is not None else ""
        self._memory = BridgeMemory(Behaviour(**behaviour), wall, rng or random.Random())
        self._memory.token = token
        super().__init__(_Door(self._memory), host, port, ssl)

    # ---- start and stop
    async def aclose(self) -> None:
        """Close every connection with 1001 and stop; no task, timer or connection is left."""
        await super().aclose()
        for session in self._memory.sessions.values():
            session.disarm()

    async def restart(self, *, lose_sessions: bool = False, down: float = 0.0) -> None:
        """Close every connection with 1012, stop listening for `down` seconds, and listen on the
        same port again.

        With `lose_sessions` the process forgets sessions and keys and has a new server_id.
        """
        await self._restart(self._memory.forget if lose_sessions else None, down)

    # ---- actions of a test
    async def push(
        self,
        type: str,
        payload: Mapping[str, Any],
        /,
        *,
        id: str | EllipsisType | None = ...,
        session: str | None = None,
    ) -> Message:
        """Push a message to the session joined last, or to the one named, and return it as it was
        sent.

        It enters the replay buffer whether or not somebody is connected. Without `id` it gets a
        fresh one, except types that start with `stream_`, which have none. Raises LookupError
        before the first join, or for a session that does not exist. If the session joined last has
        expired, the message is lost, but still listed in `pushed`.
        """
        if isinstance(id, EllipsisType):
            id = None if type.startswith("stream_") else new_id(self._memory.rng)  # noqa: A001
        message = self._memory.push(type, payload, id, session)
        await self._listener.give_way(len(self._memory.pushed))
        return message

    async def push_raw(self, frame: str | bytes, /) -> None:
        """Send all connected clients a text or binary frame as it is, unreplayed; see GARBAGE."""
        for link in tuple(self._listener.links):
            link.send_raw(frame)

    async def cut(
        self,
        how: Literal["abort", "fin", "blackhole", "close"] = "abort",
        *,
        seconds: float = 0.0,
        code: int = 1011,
    ) -> None:
        """Cut every link: a TCP reset, an end of stream, silence in both directions, or a close
        frame with `code`.

        For `seconds` new connections are reset, or get no answer in a black hole. The black hole
        then ends and passes what it held (with 0 it lasts until the peer gives up). Returns without
        waiting for the end of the cut. On a loop with `cut_links(how, seconds)` the simulated
        network does it.
        """
        if how != "close":
            await self._listener.cut(how, seconds)
            return
        if seconds > 0:
            self._listener.refuse(seconds, silently=False)
        await self._listener.close_links(code, "scripted close")

    async def truncate_replay(self, keep: int | None, /) -> None:
        """Limit the replay buffers to this many newest messages from now on; None lifts it."""
        for session in self._memory.sessions.values():
            session.buffer.keep = keep
            self._memory.replay(session, None)  # trims

    def expire_sessions(self) -> None:
        """End every session as the grace time does: a resume gets SESS_NOT_FOUND, a link 4404."""
        for session in tuple(self._memory.sessions.values()):
            self._memory.expire(session)

    def close_session(self, session: str | None = None) -> None:
        """Close the latest session, or this one: operations on it, and resumes, get SESS_CLOSED."""
        self._find(session).close()

    def step_clock(self, seconds: float) -> None:
        """Step the bridge's wall clock, backwards if negative; its durations are not affected."""
        self._memory.stamps.offset += seconds

    def _find(self, name: str | None) -> Session:
        name = self.session if name is None else name
        session = None if name is None else self._memory.sessions.get(name)
        if session is None:
            msg = f"a living session expected, got {name!r}"
            raise LookupError(msg)
        return session

    # ---- settings of a test
    @property
    def behaviour(self) -> Behaviour:
        """The behaviour from the next frame on; may be assigned at any time; see `behave`."""
        return self._memory.behaviour

    @behaviour.setter
    def behaviour(self, value: Behaviour) -> None:
        self._memory.behaviour = value

    def behave(self, **changes: Any) -> None:
        """Change some fields of `behaviour`; the others stay."""
        self.behaviour = attrs.evolve(self.behaviour, **changes)

    @property
    def token(self) -> str | None:
        """The token that auth must carry; None accepts every client."""
        return self._memory.token

    @token.setter
    def token(self, value: str | None) -> None:
        self._memory.token = value

    @property
    def on_request(self) -> Callable[[Message], Mapping[str, Any] | None] | None:
        """Gives the payload of `X_response` for a message `X_request`; None sends no answer.

        Without one the answer echoes the request's payload. If it raises, the answer is
        SYS_INTERNAL_ERROR and the message counts as not processed.
        """
        return self._memory.on_request

    @on_request.setter
    def on_request(self, value: Callable[[Message], Mapping[str, Any] | None] | None) -> None:
        self._memory.on_request = value

    # ---- observations of a test
    @property
    def url(self) -> str:
        """The address for clients; known once the bridge was started."""
        return f"ws{self._scheme_end}://{self._netloc()}/ws"

    @property
    def health_url(self) -> str:
        """GET gives 200 when ready, 503 while starting or stopping; a stopped bridge refuses."""
        return f"http{self._scheme_end}://{self._netloc()}/health"

    @property
    def server_id(self) -> str:
        """The identity stated in connection_ack; new after a restart that lost the sessions."""
        return self._memory.server_id

    @property
    def session(self) -> str | None:
        """The id of the session joined last, expired or not; None before the first join."""
        return self._memory.latest

    @property
    def received(self) -> list[Message]:
        """Each applied session message once, in order."""
        return self._memory.received

    @property
    def frames(self) -> list[Message]:
        """Every received frame, duplicates too; one that is no JSON object as `{"raw": frame}`."""
        return self._memory.frames

    @property
    def pushed(self) -> list[Message]:
        """Every pushed message as it was sent, in order, delivered or not."""
        return self._memory.pushed

    def pushed_to(self, session: str) -> list[Message]:
        """The pushed messages of one session, in order."""
        return self._memory.pushed_to(session)

    @property
    def connect_times(self) -> list[float]:
        """The loop's time of every accepted upgrade."""
        return self._listener.connect_times

    @property
    def attempt_times(self) -> list[float]:
        """The loop's time of every requested upgrade, the rejected ones included."""
        return self._listener.attempt_times
