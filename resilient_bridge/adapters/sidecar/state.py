"""The data of one relay: its clients, their requests, the server's sessions, and the next actions.

Rule: plain data. `calls`, `sessions` and `relay` decide; nothing here reads a clock or does I/O.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from .lists import Lists, Seen
from .message import object_of


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...calls.ports import Effect, RateState
    from .front import Client
    from .message import Key, Message
    from .options import Sidecar
    from .upstream import Loss

    Then: TypeAlias = Callable[[Message | None, Loss | None, float], None]


_OUTPUT_LINES: Final = 5
_MOST_ENDED: Final = 100  # times of requests that have ended, before they are removed


class Phase(StrEnum):
    """The state of a session with the server."""

    OPENING = "opening"  # the connection is opened: the child starts
    GREETING = "greeting"  # its answer to initialize is awaited
    SETTLING = "settling"  # it is set up again: log level, subscriptions, lists
    READY = "ready"
    UNREACHABLE = "unreachable"  # the server is away, or may be; the session may still exist
    RETIRED = "retired"  # its last answers are awaited, and nothing new is sent
    LOST = "lost"


class Session:
    """One session with the server: a child, or a session over HTTP."""

    def __init__(self, number: int, now: float, *, is_modern: bool) -> None:
        self.number = number
        self.phase = Phase.OPENING
        self.is_modern = is_modern
        self.opened_at = now
        self.ready_at: float | None = None
        self.pending: dict[int, Call | Own] = {}  # by the id that was sent to the server
        self.lists = Lists()
        self.has_answered = False  # at least one request of a client
        self.is_initialized = False  # `notifications/initialized` was sent
        self.is_listed = False  # its tools were requested
        # the lines that the server printed beside messages, until the session is ready
        self.output: deque[str] = deque(maxlen=_OUTPUT_LINES)
        self.setting_up: set[str] = set()  # lists that are awaited before it is ready
        # the lists that the clients could see before, to compare with its own
        self.before: dict[str, Seen] = {}
        self.away_from = 0  # the number of the last request before the server went away
        self.is_reported_away = False  # the clients' log says that it is away
        self.unread_lists: set[str] = set()  # to be read when it is back
        # calls that have ended, whose answer may still come
        self.late: OrderedDict[Any, Call] = OrderedDict()
        # requests whose answers are no longer wanted
        self.forgotten: deque[int] = deque(maxlen=1_000)


class ClientState:
    """One client session."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.is_modern: bool | None = None  # None: not known yet
        self.opening: Message | None = None  # its initialize
        self.is_initialized = False
        self.calls: dict[Key, Call] = {}
        self.log_level: Message | None = None  # its last logging/setLevel
        self.subscriptions: dict[str, Message] = {}  # by uri: the request that was granted
        self.asks_roots = False
        self.restarts_reported = 0  # `State.restarts` when a tool result last reported a new server

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return object_of(
            self.opening.params.get("capabilities") if self.opening is not None else None
        )


class Call:
    """One request of a client, from its arrival to its end."""

    def __init__(self, client: ClientState, request: Message, number: int, now: float) -> None:
        self.client = client
        self.request = request
        self.number = number  # in the events
        self.method = request.method
        self.is_tool = request.method == "tools/call"
        self.name = request.name or ("" if self.is_tool else request.method)
        self.arrived_at = self.waits_since = now
        self.attempts_at = 0  # `Restarts.attempts` when it began to wait
        self.deadline_at: float | None = None
        self.patient_until = 0.0
        self.waited = 0.0  # seconds of waiting since it arrived, or since a try that lasted
        self.tries = 0  # lost tries in a row
        self.not_before = 0.0  # when it may be sent, while it waits
        self.session: Session | None = None  # in which it was sent
        self.server_id = 0
        self.sent_at: float | None = None
        self.times_out_at: float | None = None
        self.sends = 0
        self.unproven_losses = 0  # connections lost after it was sent: it may have run in each
        self.loss: Loss | None = None  # the last of them
        self.lost_in = 0  # the number of its session
        self.unknown_sessions = 0  # in which it was sent, and which the server did not know
        self.is_guarded = False  # not to be repeated once a later call was sent
        # as `permission_of` returned it when it was sent; after a loss, as it was known then
        self.permission: str | None = ""
        self.write_mark = 0  # `State.writes` when it was sent
        self.progress = 0.0  # the largest value that was sent to the client
        self.next_notice_at: float | None = None
        self.has_reported = False  # we have sent progress of our own
        self.holds: list[str] = []  # the limits of which it has a slot
        self.charged: list[RateState] = []  # the rates that it was charged for
        self.unstarted: list[RateState] = []  # of these, those whose turn it has not used
        self.has_acknowledged = False  # a listen stream was acknowledged to the client
        self.effect: Effect | None = None  # its row among the effects
        self.is_verifying = False  # a read tool was asked what became of an identical call
        self.verdict: tuple[int, Any] = (0, None)  # what that said, of the call with this number


class Own:
    """A request of our own to the server.

    `then(answer, loss, now)` gets the answer, or the loss, or neither if no answer came in time.
    """

    def __init__(self, method: str, then: Then, until: float) -> None:
        self.method = method
        self.then = then
        self.times_out_at = until


class Held(NamedTuple):
    """A notification of a client that waits for a session."""

    client: ClientState
    message: Message
    until: float


class Asked(NamedTuple):
    """A request of the server that a client is to answer."""

    session: Session
    request: Message
    client: ClientState


class ToClient(NamedTuple):
    """Deliver a message to a client, in the stream of its request `request` if there is one."""

    client: Client
    message: Message
    request: Key | None


class Drop(NamedTuple):
    """End the client's request without an answer."""

    client: Client
    request: Key


class ToServer(NamedTuple):
    """Send a message to the server."""

    session: int
    message: Message


class GiveUp(NamedTuple):
    """Close the stream of a request whose answer is no longer wanted."""

    session: int
    request: int


class KnowTools(NamedTuple):
    """Pass the tools to the connection: some name arguments that are also sent as headers."""

    session: int
    tools: list[Mapping[str, Any]]


class Open(NamedTuple):
    """Open a connection for this session."""

    session: int


class Close(NamedTuple):
    """Close the connection of this session."""

    session: int


class Note(NamedTuple):
    """Write a record to the event log, and a line for people if `line` is not empty."""

    record: Mapping[str, Any]
    line: str


Action: TypeAlias = ToClient | Drop | ToServer | GiveUp | KnowTools | Open | Close | Note


class State:
    """The complete state of one relay."""

    def __init__(self, options: Sidecar, *, is_shared: bool) -> None:
        self.options = options
        self.is_shared = is_shared
        self.actions: deque[Action] = deque()
        self.clients: dict[int, ClientState] = {}
        self.sessions: dict[int, Session] = {}
        self.current: Session | None = None
        self.waiting: list[Call] = []  # in the order of their arrival
        self.opening_calls: dict[int, Call] = {}  # the `initialize` requests that are not answered
        # a heap of the times of requests that were sent: (when, its id, its session); some have ended
        self.due: list[tuple[float, int, int]] = []
        self.held: list[Held] = []
        self.asked: dict[int, Asked] = {}  # requests of the server to a client, by our id
        self.numbers = 0  # ids of our own, and of calls
        self.started: Message | None = None  # the server's first answer to initialize
        self.opening: Message | None = None  # the initialize that every session gets
        self.envelope: Mapping[str, Any] = {}  # the client's data in its last request of 2026-07-28
        self.known = Lists()  # the lists that the clients could last see
        self.tools_ever: set[str] = set()
        self.has_checked_names = False  # the names of tools in the options, against the first list
        self.repeated_shown = ""  # which tools are repeated, as last reported to people
        self.outcomes: Counter[str] = Counter()
        self.writes = 0  # tool calls, and other requests that may write, sent so far
        self.restarts = 0
        self.strays = 0
        self.last_loss: Loss | None = None
        # for the `_meta` of a client's first tool result after a restart
        self.restarted: Mapping[str, Any] | None = None

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def openings(self) -> list[Call]:
        """Return the clients' `initialize` requests that are not answered yet."""
        return list(self.opening_calls.values())

    def watch(self, session: Session, number: int, at: float | None) -> None:
        """Remember that a request that is sent is due at a time, if there is one."""
        if at is None:
            return
        heappush(self.due, (at, number, session.number))
        if len(self.due) > _MOST_ENDED + 4 * sum(
            len(one.pending) for one in self.sessions.values()
        ):
            self.due = [one for one in self.due if self._is_pending(one)]
            heapify(self.due)

    def next_due(self) -> float | None:
        """Return when the first of the requests that were sent is due; None for never."""
        while self.due and not self._is_pending(self.due[0]):
            heappop(self.due)
        return self.due[0][0] if self.due else None

    def _is_pending(self, due: tuple[float, int, int]) -> bool:
        session = self.sessions.get(due[2])
        return session is not None and due[1] in session.pending

    def ask(self, session: Session, request: Message, then: Then, until: float) -> None:
        """Send a request of our own; `then` is called once, as in `Own`."""
        number = self.number()
        session.pending[number] = Own(request.method, then, until)
        self.watch(session, number, until)
        self.to_server(session, request.with_id(number).with_progress_token(number))

    def to_client(self, client: ClientState, message: Message, request: Key | None = None) -> None:
        self.actions.append(ToClient(client.client, message, request))

    def to_server(self, session: Session, message: Message) -> None:
        self.actions.append(ToServer(session.number, message))

    def note(self, event: str, line: str = "", **fields: Any) -> None:
        """Add an action: record an event."""
        self.actions.append(Note({"event": event, **fields}, line))

    @property
    def is_awaited(self) -> bool:
        return bool(self.waiting or self.opening_calls)

    @property
    def usable(self) -> Session | None:
        """The session in which requests can be sent at this moment."""
        current = self.current
        return current if current is not None and current.phase is Phase.READY else None
