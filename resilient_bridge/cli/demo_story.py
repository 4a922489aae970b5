"""What the demo tells: events of the client as lines for somebody who sees it for the first time, and the ledger.

Rule: plain text that needs no colour, one line per thing that happened, no payload and no secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TextIO

from .. import events
from ..errors import Failure
from .printing import is_unread
from .status_line import StatusLine
from .terminal import CLEAR, can_be_cleared, columns, fitted, is_coloured


_COLOURS: Final = {"RECOVERED": "32", "GAP": "35", "UNKNOWN": "36", "BROKEN": "31", "FAILED": "31"}
_REASONS: Final[Mapping[str, str]] = {
    "heartbeat_timeout": "no answer to the heartbeat",
    "connect_refused": "the connection was refused",
    "connection_lost": "the connection is gone",
    "timeout": "no answer in time",
    "session_lost": "the bridge does not know the session any more",
    "connect_failed": "the connection broke off while it was made",
    "protocol_error": "what came is not the protocol",
}
_VERDICTS: Final[Mapping[str, str]] = {
    "anchor": "the last message we had was found in the replay, so nothing is missing",
    "new_session": "the session is gone, a new one was joined: what was missed cannot come back",
    "truncated": "the replay does not reach back to the last message we had",
    "mismatch": "the replay disagrees with what we had",
    "empty": "the bridge answered with an empty replay: nobody can tell what was missed",
    "no_replay": "the bridge has no replay: nobody can tell what was missed",
    "no_anchor": "no message with an id had arrived before: nobody can tell what was missed",
    "timeout": "the bridge did not answer in time: nobody can tell what was missed",
    "order": "the replay is in another order than the live stream: nobody can tell whether anything is missing",
    "too_large": "the replay does not fit through this line: it was not asked for again",
    "side_buffer_full": "too much arrived during the join: nobody can tell what was missed",
}
_HANGING: Final = 19  # where the text of a line begins


class Story:
    """Writes timed lines. `counts` returns (queued, unconfirmed) of the outbox at that moment."""

    def __init__(
        self,
        out: TextIO,
        clock: Callable[[], float],
        counts: Callable[[], tuple[int, int]],
        on_unread: Callable[[], object] | None = None,
    ) -> None:
        self._out: TextIO | None = out
        self._on_unread = on_unread  # called once, when nobody reads the lines any more: `demo | head`
        self._clock = clock
        self._counts = counts
        self._began = clock()
        self._coloured = is_coloured(out)
        self._phases: list[str] = []
        self._state = ""
        self._status_line: StatusLine | None = None
        self._connecting_at = self._began

    # ---- lines
    def title(self, text: str) -> None:
        """A line without a time."""
        self._write(text)

    def line(self, who: str, text: str, mark: str = "") -> None:
        """A timed line; `mark` is its first word, which has a colour on a terminal."""
        colour = _COLOURS.get(mark.rstrip(":"), "33" if who in {"FAULT", "KILL"} else "")
        shown = f"{mark} {text}" if mark else text
        self._write(f"{self._clock() - self._began:6.2f} s  {who:<7} {shown}", mark, colour)

    def status(self, text: Callable[[], str]) -> StatusLine:
        """A line below the others that says how far it is, while it is entered; on a terminal alone."""
        out = self._out
        self._status_line = StatusLine(
            self._put,
            lambda: f"{self._clock() - self._began:6.2f} s  {self._state}; {text()}; {self._outbox()}",
            lambda: columns(out) if can_be_cleared(out) else None,
        )
        return self._status_line

    def _write(self, text: str, mark: str = "", colour: str = "") -> None:
        text = fitted(text, columns(self._out), hanging=_HANGING)
        if mark and colour and self._coloured:  # afterwards, because it takes no room
            text = text.replace(mark, f"\x1b[{colour}m{mark}\x1b[0m", 1)
        self._put(f"{CLEAR if self._status_line is not None and self._status_line.is_drawn else ''}{text}\n")

    def _put(self, text: str) -> None:
        if self._out is None:
            return
        try:
            print(text, end="", file=self._out, flush=True)
        except OSError as error:
            if not is_unread(error):
                raise
            self._out = None
            if self._on_unread is not None:
                self._on_unread()

    # ---- what the client says
    def tell(self, event: events.Event) -> None:
        """One event of the client."""
        if isinstance(event, events.StateChanged):
            self._phase(event)
        elif isinstance(event, events.Disconnected):
            self.line("client", _shown(event.reason, event.failure), "lost:")
        elif isinstance(event, events.ReconnectScheduled):
            why = _shown(event.reason, None)
            self.line(
                "client",
                f"({why}): attempt {event.attempt} in {event.wait:.2f} s; {self._outbox()}",
                "BACKOFF",
            )
        elif isinstance(event, events.Joined):
            self._pass("a new session: there is nothing to catch up with")
        elif isinstance(event, events.Resumed):
            self._pass("")
            text = _VERDICTS.get(event.reason, event.reason)
            self.line("client", f"{text} ({event.replayed} replayed)", f"{event.verdict.value}:")
        elif isinstance(event, events.Suspended):
            text = f"disconnected mode after {event.attempts} failed attempts; it goes on trying"
            self.line("client", text, "SUSPENDED:")
        elif isinstance(event, events.GaveUp):
            self.line("client", f"{event.failure}", "FAILED:")
        elif isinstance(event, _RARE):
            self.line("client", repr(event))

    def _phase(self, event: events.StateChanged) -> None:
        state = event.state
        self._state = state.value
        if state in _ON_THE_WAY:
            self._phases.append(state.value)
        elif state is events.BridgeState.READY:
            took = (self._clock() - self._connecting_at) * 1000
            self._phases.append(state.value)
            self._pass(f"after {took:.0f} ms; {self._outbox()}")
        elif self._phases:
            self._pass(f"and no further: {_shown(event.reason, None)}")
        if state is events.BridgeState.CONNECTING:
            self._connecting_at = self._clock()
        elif state in _ENDS:
            self.line("client", f"{state.value} ({event.reason})")

    def _pass(self, text: str) -> None:
        phases, self._phases = " > ".join(self._phases), []
        self.line("client", f"{phases} {text}".rstrip())

    def _outbox(self) -> str:
        queued, unconfirmed = self._counts()
        return f"outbox: {queued} to send, {unconfirmed} sent and not confirmed"


_ON_THE_WAY: Final = frozenset(
    {
        events.BridgeState.CONNECTING,
        events.BridgeState.AUTHENTICATING,
        events.BridgeState.JOINING,
        events.BridgeState.REPLAYING,
        events.BridgeState.FLUSHING,
    }
)
_ENDS: Final = frozenset({events.BridgeState.DRAINING, events.BridgeState.CLOSED})
_RARE: Final = (events.MessageRejected, events.MessageQuarantined, events.MessageDropped, events.ClockJumped)


def _shown(reason: str, failure: Failure | None) -> str:
    if failure is not None:
        return str(failure)
    if reason.startswith("peer_closed(1012"):
        return "the bridge said it restarts (1012)"
    return _REASONS.get(reason, reason)


def ledger_lines(totals: Mapping[str, Any]) -> list[str]:
    """The ledger at the end, as a table of both directions."""
    verdicts: Mapping[str, int] = totals["verdicts"]
    text = ", ".join(f"{name} {count}" for name, count in verdicts.items())
    up = "sent {sent}, confirmed {confirmed}, outcome unknown {unknown}, not delivered {not_delivered}, refused {dead}"
    down = "pushed {pushed}, received {received}, missing under a gap that was reported {covered}"
    broke = "lost {lost}   duplicated {duplicated}   reordered {reordered}   unexpected {unexpected}"
    lines = [
        "",
        "ledger",
        f"  to the bridge    {up.format(**totals)}",
        f"  from the bridge  {down.format(**totals)}",
        f"  re-joins         {totals['reconnects']}: {text}",
        f"  {broke.format(**totals)}",
    ]
    return [*lines, *judgement(totals["broken"], "nothing was lost, repeated or reordered without saying so")]


def judgement(broken: Sequence[str], promise: str) -> list[str]:
    """The last lines of a ledger: the promises that broke, or what was kept."""
    if broken:
        return ["", "BROKEN", *(f"  {finding}" for finding in broken)]
    return [f"kept: {promise}"]
