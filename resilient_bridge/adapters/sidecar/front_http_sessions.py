"""The sessions of an HTTP front and their relays: created, found, ended after an idle time.

Rule: each session has a relay of its own, and all requests without a session have one; a shared
front has a single relay for all. A relay that is not shared is closed with its session, or when
requests without a session have not come for the idle time. It counts until it is closed, because
its server may run until then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ...world import current_world
from .front_http_modern import ModernClients
from .front_http_session import HttpSession


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .front import Relayed
    from .front_http_limits import HttpLimits


_CLOSE_SECONDS: Final = 20.0  # seconds for all relays; each has bounds of its own
_RANKS: Final = ("ok", "degraded", "down")


class Use:
    """Counts the HTTP requests that use an object, as a context manager.

    After `seconds` without one it calls `on_idle`.
    """

    def __init__(self, seconds: float, on_idle: Callable[[], None]) -> None:
        self._seconds, self._on_idle = seconds, on_idle
        self._count = 0
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._count += 1
        self._cancel()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count and not self._is_over:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._on_idle)

    def stop(self) -> None:
        self._is_over = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class HttpSessions:
    """The client sessions of an HTTP front. Used in the event loop's thread only."""

    def __init__(
        self,
        make_relay: Callable[[], Relayed],
        limits: HttpLimits,
        *,
        shared: bool,
        on_refused: Callable[[str, str], None] = lambda _, __: None,
    ) -> None:
        """Start without sessions; with `shared` the one relay is created now.

        `on_refused` gets a reason, and words for people.
        """
        self._make_relay, self._limits, self._on_refused = make_relay, limits, on_refused
        self._shared = make_relay() if shared else None
        self._sessions: dict[str, tuple[HttpSession, Use]] = {}
        self._modern: tuple[ModernClients, Use] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def open(self) -> tuple[HttpSession, Use] | None:
        """Create a session and return it; None if there are as many sessions or servers as may be."""
        if len(self._sessions) >= self._limits.sessions:
            text = f"a session: {self._limits.sessions} are open (--sessions)"
            self._on_refused("sessions", text)
            return None
        if not self._has_room():
            return None
        world = current_world()
        name = world.new_token() + world.new_token()
        session = HttpSession(name, self._shared or self._make_relay(), self._limits, self._ended)
        self._sessions[name] = session, Use(self._limits.idle_seconds, session.end)
        return self._sessions[name]

    def find(self, id: str) -> tuple[HttpSession, Use] | None:
        return self._sessions.get(id)

    def modern(self) -> tuple[ModernClients, Use] | None:
        """Return the handler of requests without a session; None if no server may be added."""
        if self._modern is None:
            if not self._has_room():
                return None
            clients = ModernClients(self._shared or self._make_relay(), self._limits)
            self._modern = clients, Use(self._limits.idle_seconds, self._end_modern)
        return self._modern

    def _has_room(self) -> bool:
        """Return whether a relay may be added, and report it if not."""
        if self._shared is not None:
            return True
        relays = len(self._sessions) + len(self._closing) + (self._modern is not None)
        if relays < self._limits.servers:
            return True
        self._on_refused("servers", f"a session: {self._limits.servers} servers run (--servers)")
        return False

    def status(self) -> Mapping[str, Any]:
        """Return the worst status of all servers, and each server's own in `servers`."""
        relays = (
            [self._shared]
            if self._shared
            else [session.relay for session, _ in self._sessions.values()]
        )
        if self._modern is not None and self._shared is None:
            relays.append(self._modern[0].relay)
        servers = [relay.status() for relay in relays]
        worst = max((_RANKS.index(server["status"]) for server in servers), default=0)
        return {"status": _RANKS[worst], "sessions": len(self._sessions), "servers": servers}

    async def close(self) -> None:
        """End all sessions and close all relays, in bounded time."""
        for session, _ in [*self._sessions.values()]:
            session.end()
        self._end_modern()
        if self._shared is not None:
            self._close(self._shared)
        if self._closing:
            _, late = await asyncio.wait(self._closing, timeout=_CLOSE_SECONDS)
            for task in late:
                task.cancel()

    def _ended(self, session: HttpSession) -> None:
        _, use = self._sessions.pop(session.id)
        use.stop()
        if self._shared is None:
            self._close(session.relay)

    def _end_modern(self) -> None:
        if self._modern is None:
            return
        clients, use = self._modern
        self._modern = None
        use.stop()
        clients.end()
        if self._shared is None:
            self._close(clients.relay)

    def _close(self, relay: Relayed) -> None:
        task = asyncio.get_running_loop().create_task(relay.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
