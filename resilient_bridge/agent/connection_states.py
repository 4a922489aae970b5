"""Where the client of a local daemon stands, in four dimensions at once, and which combinations cannot be.

Rule: what may be true together is decided by a value that knows no clock. The tracker below adds time, memory and the log, and
never stands in the way of whoever reports a change.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

import attrs

from ..errors import BridgeError, config_error, redact, text_of
from ..telemetry.log import say
from ..values.fields import Value, one_of
from ..world import current_world


if TYPE_CHECKING:
    from typing import Self, Unpack


Server: TypeAlias = Literal["down", "booting", "up"]
Extension: TypeAlias = Literal["disconnected", "connected", "active"]
CircuitIs: TypeAlias = Literal["closed", "open", "half-open"]
Polling: TypeAlias = Literal["stopped", "running"]

_CHANGES: Final = 32  # told with a violation: what led to it
_REPORTS: Final = 8  # violations remembered


class Dimensions(TypedDict, total=False):
    """What can be changed, each by its name; `half_open`, as `rb.circuit(…).state` says it, will do."""

    server: Server
    extension: Extension
    circuit: CircuitIs | Literal["half_open"]
    polling: Polling


def _as_circuit(value: Any) -> CircuitIs:
    state: CircuitIs = "half-open" if value == "half_open" else value
    return state


@attrs.frozen(kw_only=True, repr=False, eq=False)
class ConnectionStates(Value):
    """The server, the extension behind it, the circuit towards it and the polling, at one instant.

    A value: equal by content, and changed by `evolve`. An impossible combination can be built, because it can be seen; its
    `violations()` say so. ConfigError names a dimension with a word that it does not have.
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
        """Return these states with some of them replaced; the original stays as it was."""
        for name in changes:
            if name not in Dimensions.__annotations__:
                raise config_error(
                    "ConnectionStates", f"one of {', '.join(Dimensions.__annotations__)}", name
                )
        return attrs.evolve(self, **changes)

    def violations(self) -> tuple[str, ...]:
        """Return what cannot be true together, a line for each; empty when all is well.

        No extension without a server; no closed circuit while the server boots; no extension without polling. An active
        extension is connected, too.
        """
        server, extension = self.server, self.extension
        found: list[str] = []
        if extension != "disconnected" and server == "down":
            found.append(f"extension: wanted disconnected while the server is down, got {extension}")
        if server == "booting" and self.circuit == "closed":
            found.append("circuit: wanted open or half-open while the server is booting, got closed")
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
    """What was known when the states became impossible: the last changes, the violating one included, oldest first."""

    at: datetime
    violations: tuple[str, ...]
    states: ConnectionStates
    changes: tuple[StateChange, ...]


class ConnectionTracker:
    """Follows the states of one connection from change to change; any thread may report one.

    A violation is logged once, as a warning of the logger `resilient_bridge`, for as long as it lasts, and its Diagnostics are
    kept: the last 8, with up to 32 changes each. The change is taken all the same: it is what was seen.
    """

    def __init__(self, states: ConnectionStates | None = None) -> None:
        """Begin with these states, or with nothing running."""
        self._states = states or ConnectionStates()
        self._changes: deque[StateChange] = deque(maxlen=_CHANGES)
        self._reports: deque[Diagnostics] = deque(maxlen=_REPORTS)
        self._lasting: set[str] = set()  # violations that have been told
        self._lock = Lock()

    @property
    def states(self) -> ConnectionStates:
        """The states after the last change."""
        return self._states

    @property
    def diagnostics(self) -> tuple[Diagnostics, ...]:
        """What was collected at each violation, oldest first."""
        return tuple(self._reports)

    def change(self, reason: str, /, **changes: Unpack[Dimensions]) -> ConnectionStates:
        """Note that something changed, and why; return the states after it. Never raises.

        A dimension or a word that does not exist is a violation of its own, and changes nothing.
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
                self._reports.append(Diagnostics(at=at, violations=new, states=states, changes=recent))
        if new:
            say("warning", f"impossible connection state after {shown}: {'; '.join(new)}")
        return states

    def __repr__(self) -> str:
        """Return the states, and how many violations were seen lately."""
        now = self._states
        shown = f"server={now.server} extension={now.extension} circuit={now.circuit} polling={now.polling}"
        return f"<ConnectionTracker {shown} violations={len(self._reports)}>"


def _reason_text(reason: object) -> str:
    """Return a reason as text, whatever was given: an exception says what it is."""
    if isinstance(reason, BaseException):
        return f"{type(reason).__name__}: {text_of(reason)}".removesuffix(": ")
    return reason if isinstance(reason, str) else type(reason).__name__
