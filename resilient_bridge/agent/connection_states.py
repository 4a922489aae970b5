"""The connection state of a local daemon's client in four dimensions, and its invalid combinations.

Rule: ConnectionStates checks the invariants and reads no clock. ConnectionTracker adds time,
history and the log, and never raises on a reported change.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

import attrs

from ..failure import BridgeError, config_error, redact, text_of
from ..locks import new_lock
from ..telemetry.events import BridgeState, CircuitChanged, StateChanged
from ..telemetry.hub import listen, say
from ..values.fields import Value, one_of
from ..world import current_world


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Protocol, Self, Unpack

    from ..telemetry.event import Event

    class Link(Protocol):
        """A BridgeClient or a `reconnecting` link."""

        @property
        def state(self) -> BridgeState: ...
        def events(self) -> AsyncIterator[Event]: ...


Server: TypeAlias = Literal["down", "booting", "up"]
"""The state of the server's process."""
Extension: TypeAlias = Literal["disconnected", "connected", "active"]
"""The state of the browser extension."""
CircuitIs: TypeAlias = Literal["closed", "open", "half-open"]
"""The state of the circuit breaker."""
Polling: TypeAlias = Literal["stopped", "running"]
"""Whether the server is asked for its state again and again."""

_CHANGES: Final = 32  # changes kept in the diagnostics of a violation
_REPORTS: Final = 8  # diagnostics kept


class Dimensions(TypedDict, total=False):
    """The dimensions by name; `half_open`, the spelling of `rb.calls.circuit(…).state`, is accepted."""

    server: Server
    extension: Extension
    circuit: CircuitIs | Literal["half_open"]
    polling: Polling


_DOWN: Final = Dimensions(server="down", extension="disconnected", polling="running")
_UP: Final = Dimensions(server="up", extension="disconnected", polling="running")
_READY: Final = Dimensions(server="up", extension="connected", polling="running")
_OVER: Final = Dimensions(extension="disconnected", polling="stopped")
_OF_STATE: Final[Mapping[BridgeState, Dimensions]] = {
    BridgeState.IDLE: _OVER,
    BridgeState.CONNECTING: _DOWN,
    BridgeState.AUTHENTICATING: _UP,
    BridgeState.JOINING: _UP,
    BridgeState.REPLAYING: _UP,
    BridgeState.FLUSHING: _UP,
    BridgeState.READY: _READY,
    BridgeState.DRAINING: _READY,
    BridgeState.BACKOFF: _DOWN,
    BridgeState.SUSPENDED: _DOWN,
    BridgeState.FAILED: {**_DOWN, **_OVER},
    BridgeState.CLOSING: _OVER,
    BridgeState.CLOSED: _OVER,
}
# A circuit that is isolated lets nothing through, one that is disabled everything.
_OF_CIRCUIT: Final[Mapping[str, CircuitIs]] = {
    "closed": "closed",
    "disabled": "closed",
    "open": "open",
    "isolated": "open",
    "half_open": "half-open",
}


def _as_circuit(value: Any) -> CircuitIs:
    state: CircuitIs = "half-open" if value == "half_open" else value
    return state


@attrs.frozen(kw_only=True, repr=False, eq=False)
class ConnectionStates(Value):
    """The states of the server, its extension, the circuit breaker and the polling at one moment.

        states = rb.agent.ConnectionStates(server="up", extension="connected")
        print(len(states.violations()))      # 1
        print(states.evolve(polling="running").violations())      # ()

    Immutable and compared by content; `evolve` returns a changed copy. An invalid combination can
    be built, because it can be observed; `violations()` lists the violated invariants. ConfigError
    names a dimension with an unknown word.
    """

    server: Server = attrs.field(default="down", validator=one_of("down", "booting", "up"))
    extension: Extension = attrs.field(
        default="disconnected", validator=one_of("disconnected", "connected", "active")
    )
    circuit: CircuitIs = attrs.field(
        default="closed", converter=_as_circuit, validator=one_of("closed", "open", "half-open")
    )
    polling: Polling = attrs.field(default="stopped", validator=one_of("stopped", "running"))

    def evolve(self, **changes: Unpack[Dimensions]) -> Self:  # type: ignore[override]
        """Return a copy with some states replaced."""
        for name in changes:
            if name not in Dimensions.__annotations__:
                raise config_error(
                    "ConnectionStates", f"one of {', '.join(Dimensions.__annotations__)}", name
                )
        return attrs.evolve(self, **changes)

    def violations(self) -> tuple[str, ...]:
        """Return the violated invariants, a line for each; an empty tuple if all hold.

        The extension is disconnected while the server is down; the circuit is not closed while the
        server boots; the extension is disconnected while the polling is stopped. An active
        extension counts as connected.
        """
        server, extension = self.server, self.extension
        found: list[str] = []
        if extension != "disconnected" and server == "down":
            found.append(
                f"extension: wanted disconnected while the server is down, got {extension}"
            )
        if server == "booting" and self.circuit == "closed":
            found.append(
                "circuit: wanted open or half-open while the server is booting, got closed"
            )
        if extension != "disconnected" and self.polling == "stopped":
            found.append(f"polling: wanted running while the extension is {extension}, got stopped")
        return tuple(found)


@attrs.frozen
class StateChange:
    """One reported change: when, why, and the states after it."""

    at: datetime
    reason: str
    states: ConnectionStates


@attrs.frozen(kw_only=True)
class Diagnostics:
    """The diagnostics of a violation: the last changes, the violating one included, oldest first."""

    at: datetime
    violations: tuple[str, ...]
    states: ConnectionStates
    changes: tuple[StateChange, ...]


class ConnectionTracker:
    """Records the state changes of one connection. Thread-safe.

        tracker = rb.agent.ConnectionTracker()
        tracker.change("the server answered", server="up")
        print(tracker.states.server)      # up

    A violation is logged once while it lasts, as a warning of the logger `resilient_bridge`. The
    last 8 Diagnostics are kept, with up to 32 changes each. A change with a violation is recorded
    too.
    """

    def __init__(self, states: ConnectionStates | None = None) -> None:
        """Start with these states, or with the defaults of ConnectionStates."""
        self._states = states or ConnectionStates()
        self._changes: deque[StateChange] = deque(maxlen=_CHANGES)
        self._reports: deque[Diagnostics] = deque(maxlen=_REPORTS)
        self._lasting: set[str] = set()  # violations already logged
        self._lock = new_lock()

    @property
    def states(self) -> ConnectionStates:
        """The states after the last change."""
        return self._states

    @property
    def diagnostics(self) -> tuple[Diagnostics, ...]:
        """The diagnostics of the last violations, oldest first."""
        return tuple(self._reports)

    def change(self, reason: str, /, **changes: Unpack[Dimensions]) -> ConnectionStates:
        """Record a change and its reason; return the states after it. Never raises.

        An unknown dimension or word is recorded as a violation, and leaves the states unchanged.
        """
        refused = ""
        with self._lock:
            try:
                self._states = self._states.evolve(**changes)
            except BridgeError as error:
                refused = error.failure.message
            at, shown, states = current_world().now(), redact(_reason_text(reason)), self._states
            self._changes.append(StateChange(at, shown, states))
            found = {*states.violations(), refused} - {""}
            new = tuple(sorted(found - self._lasting))
            self._lasting = found
            if new:
                recent = tuple(self._changes)
                self._reports.append(
                    Diagnostics(at=at, violations=new, states=states, changes=recent)
                )
        if new:
            say("warning", f"impossible connection state after {shown}: {'; '.join(new)}")
        return states

    async def watch(self, link: Link, /) -> None:
        """Record the changes of a BridgeClient or of a `reconnecting` link, until it ends.

        Run it in a task, from the start: `asyncio.create_task(tracker.watch(link))`. The server is
        up while there is a connection, the extension connected while the link is READY, and polling
        runs until the link ends. The circuit is that of a `reconnecting` link's calls. What a link
        cannot know (a server that boots, an active extension) is for `change`. Raises ConfigError
        from another event loop than the link's.
        """
        stream, state = link.events(), link.state
        self.change("watched", **_OF_STATE[state])

        def note(event: Event) -> None:
            if isinstance(event, CircuitChanged):
                self._note_circuit(link, event.reason)

        with listen(note):
            self._note_circuit(link, "watched")
            async for event in stream:
                if isinstance(event, StateChanged):
                    self.change(event.reason, **_OF_STATE[event.state])

    def _note_circuit(self, link: Link, reason: str) -> None:
        """Record the state of the link's circuit, if it has one and that has changed."""
        asked = getattr(link, "__circuit__", None)
        found = None if asked is None else asked()
        if found is not None and _OF_CIRCUIT[found.state] != self._states.circuit:
            self.change(reason, circuit=_OF_CIRCUIT[found.state])

    def __repr__(self) -> str:
        """Return the states, and the number of kept diagnostics."""
        now = self._states
        shown = f"server={now.server} extension={now.extension} circuit={now.circuit} polling={now.polling}"
        return f"<ConnectionTracker {shown} violations={len(self._reports)}>"


def _reason_text(reason: object) -> str:
    """Return a reason as text: for an exception its class and message."""
    if isinstance(reason, BaseException):
        return f"{type(reason).__name__}: {text_of(reason)}".removesuffix(": ")
    return reason if isinstance(reason, str) else type(reason).__name__
