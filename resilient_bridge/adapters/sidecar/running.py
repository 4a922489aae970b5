"""The driver of a relay: carries out its actions and passes events to it.

It alone gives the relay a clock and connections.

Rule: everything runs in the thread of one event loop. Actions are carried out one after the other;
those of an event that occurs meanwhile are queued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ...failure import Executed, redact
from ...world import current_world
from .relay import Relay
from .state import Close, Drop, GiveUp, KnowTools, Note, Open, ToClient, ToServer
from .upstream import Loss, LostError


if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ...stores import Effects
    from .front import Client
    from .message import Message
    from .options import Sidecar
    from .state import Action
    from .upstream import Receiver, Upstream

    MakeUpstream: TypeAlias = Callable[[Receiver], Upstream]
    OnNote: TypeAlias = Callable[[Mapping[str, Any], str], None]


class RunningRelay:
    """Runs a `Relay`; implements `Relayed` for a front.

    `on_note` gets each record of an event, with a line for people or "".
    """

    def __init__(
        self,
        options: Sidecar,
        make: MakeUpstream,
        on_note: OnNote,
        *,
        is_shared: bool = False,
        effects: Effects | None = None,
    ) -> None:
        world = current_world()
        self.relay = Relay(
            options,
            world.new_rng(),
            lambda: world.now().isoformat(timespec="seconds"),
            is_shared=is_shared,
            effects=effects,
            wall=world.wall,
        )
        self._make = make
        self.on_note = on_note
        self._loop = asyncio.get_running_loop()
        self._upstreams: dict[int, Upstream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._is_working = self._is_closed = False
        self._is_reading = True
        self._idle = asyncio.Event()

    # ---- what a front asks -------------------------------------------------------------------------------------

    def connect(self, client: Client) -> None:
        self.relay.connect(client)

    def receive(self, client: Client, message: Message) -> None:
        if not self._is_closed:
            self.relay.from_client(client, message, self._loop.time())
            self._work()

    def disconnect(self, client: Client) -> None:
        self.relay.disconnect(client, self._loop.time())
        self._work()

    def status(self) -> Mapping[str, Any]:
        return self.relay.status(self._loop.time())

    def schema_of(self, tool: str) -> Any:
        return self.relay.schema_of(tool)

    def set_reading(self, *, is_reading: bool) -> None:
        """Pause or resume reading what the server sends by itself."""
        self._is_reading = is_reading
        for upstream in self._upstreams.values():
            upstream.set_reading(is_reading=is_reading)

    async def finish(self, seconds: float) -> None:
        """Wait until no request is in progress, for at most `seconds`."""
        until = self._loop.time() + seconds
        while not self.relay.is_idle and (remaining := until - self._loop.time()) > 0:
            self._idle.clear()
            try:
                async with asyncio.timeout(remaining):
                    await self._idle.wait()
            except TimeoutError:
                return

    async def close(self) -> None:
        """Answer all open calls, and close every connection, in bounded time; may be repeated."""
        if not self._is_closed:
            self.relay.close(self._loop.time())
            self._work()
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    # ---- what the relay asks -----------------------------------------------------------------------------------

    def _work(self) -> None:
        if self._is_working:
            return
        self._is_working = True
        try:
            actions = self.relay.actions
            while actions:
                self._do(actions.popleft())
        finally:
            self._is_working = False
        if self.relay.is_idle:
            self._idle.set()
        self._set_timer()

    def _do(self, action: Action) -> None:
        match action:
            case ToClient(client, message, request):
                client.deliver(message, request)
            case Drop(client, key):
                client.drop(key)
            case Note(record, line):
                self.on_note(record, line)
            case Open(session):
                upstream = self._upstreams[session] = self._make(_Receiver(self, session))
                self._start(self._open(session, upstream))
            case _:
                self._do_upstream(action)

    def _do_upstream(self, action: ToServer | GiveUp | KnowTools | Close) -> None:
        upstream = self._upstreams.get(action.session)
        match action:
            case _ if upstream is None:  # its connection has ended
                pass
            case ToServer(_, message):
                upstream.send(message)
            case GiveUp(_, number):
                upstream.cancel(number)
            case KnowTools(_, tools):
                upstream.know_tools(tools)
            case Close(session):
                del self._upstreams[session]
                self._start(upstream.close())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, name="resilient_bridge sidecar")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.on_note({"event": "error"}, f"{type(error).__name__}: {redact(str(error))}")

    async def _open(self, session: int, upstream: Upstream) -> None:
        try:
            await upstream.open()
        except LostError as error:
            self.tell(self.relay.lost, session, error.loss)
        except Exception as error:  # noqa: BLE001 -- any error means that there is no connection
            loss = Loss(
                reason=f"{type(error).__name__}: {redact(str(error))}", executed=Executed.NO
            )
            self.tell(self.relay.lost, session, loss)
        else:
            if not self._is_reading:  # paused before it was open
                upstream.set_reading(is_reading=False)
            self.tell(self.relay.opened, session)

    def _set_timer(self) -> None:
        due = None if self._is_closed else self.relay.next_timer()
        if due == self._timer_at and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = None if due is None else self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = self._timer_at = None
        self.relay.timer(self._loop.time())
        self._work()

    def tell(self, what: Callable[..., None], *facts: Any) -> None:
        """Pass an event to the relay, with the time; do nothing once closed."""
        if not self._is_closed:
            what(*facts, self._loop.time())
            self._work()


class _Receiver:
    """Passes the events of one session's connection to the relay."""

    def __init__(self, running: RunningRelay, session: int) -> None:
        self._running = running
        self._session = session

    def on_message(self, message: Message, request: int | None) -> None:
        self._running.tell(self._running.relay.from_server, self._session, message, request)

    def on_unanswered(self, request: int, loss: Loss) -> None:
        self._running.tell(self._running.relay.unanswered, self._session, request, loss)

    def on_lost(self, loss: Loss) -> None:
        self._running.tell(self._running.relay.lost, self._session, loss)

    def on_note(self, text: str) -> None:
        self._running.relay.output_line(self._session, text)
        self._running.on_note({"event": "line"}, text)
