"""What `resilient-bridge demo` prints: a table with one line for each fault, and a score of four lines.

Rule: rows and scores are pure, from facts to text. `Screen` prints them, and fits them to a
terminal.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TextIO

import attrs

from ..world import REAL
from .options import FAULTS, KILLS
from .status_line import StatusLine
from .terminal import CLEAR, can_be_cleared, columns, fitted, is_coloured


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


NAMES: Final = {**FAULTS, **KILLS}
"""What the table calls each fault and kill."""
SUCCESS: Final = "kept: nothing was lost, repeated or reordered without a report"
SUCCESS_OF_CALLS: Final = (
    "kept: no call ran twice without permission, and none was reported as what it was not"
)
_LABELS: Final = 10  # columns before a line of the score begins
COLOURS: Final = {
    **dict.fromkeys(("RECOVERED", "ANSWERED"), 32),
    **dict.fromkeys(("UNKNOWN", "MAY HAVE RUN"), 36),
    **dict.fromkeys(("GAP", "NOT EXECUTED"), 35),
    "BROKEN": 31,
}
"""The words that have a colour on a terminal, and its number (ANSI)."""
COLOURED: Final = re.compile(rf"\b({'|'.join(COLOURS)})\b")
_REASONS: Final = {
    "anchor": "full replay",
    "truncated": "short replay",
    "empty": "empty replay",
}
_SERVER: Final = {
    "answer": "answers",
    "killed": "killed before call",
    "away": "cannot be started",
    "before": "dies before it runs",
    "after": "dies after it ran",
    "middle": "dies in its answer",
    "hang": "never answers",
}
_OUTCOMES: Final = {
    "answered": "ANSWERED",
    "unknown": "MAY HAVE RUN",
    "not_executed": "NOT EXECUTED",
}
READ: Final = "list_orders"
"""The tool of the trap that only reads."""
_PERMISSIONS: Final = {READ: "only reads", "put": "you allow it"}


@attrs.frozen(kw_only=True)
class Outage:
    """A fault, from its beginning until the client was READY again.

    `queued`: the most messages that waited to be sent or confirmed. `missing`: pushed by the bridge
    in this time and never received; `is_reported`: the client reported a gap there.
    """

    FORM: ClassVar[Mapping[str, str]] = {
        "what happened": "<21", "lasted": ">6", "queued": ">6", "replayed": ">8", "verdict": "<10", "why": "",
    }  # fmt: skip
    fault: str
    seconds: float
    queued: int
    replayed: int
    verdict: str
    reason: str
    missing: int
    is_reported: bool

    @property
    def what(self) -> str:
        return NAMES[self.fault]

    @property
    def cells(self) -> Sequence[object]:
        reason = _REASONS.get(self.reason, self.reason.replace("_", " "))
        is_silent = self.missing and not self.is_reported
        why = (
            f"{self.missing} missing, not reported"
            if is_silent
            else f"{self.missing} missing: {reason}"
        )
        return self.what, f"{self.seconds:.1f} s", self.queued, self.replayed, self.verdict, why


@attrs.frozen(kw_only=True)
class Call:
    """A tool call, and what happened to its server.

    `ran`: how often, by the server's own ledger. `sends`: how often the sidecar sent it. `outcome`:
    what the client was told.
    """

    FORM: ClassVar[Mapping[str, str]] = {
        "the server": "<19", "took": ">6", "tool": "<11", "ran": ">3", "outcome": "<13", "why": "",
    }  # fmt: skip
    server: str
    tool: str
    marker: str
    seconds: float
    ran: int
    sends: int
    outcome: str
    is_restarted: bool

    @property
    def cells(self) -> Sequence[object]:
        return (
            _SERVER.get(self.server, self.server),
            f"{self.seconds:.1f} s",
            self.tool,
            self.ran,
            _OUTCOMES.get(self.outcome, self.outcome),
            self._why(),
        )

    def _why(self) -> str:
        if self.outcome == "unknown":
            return "reported, not repeated"
        if self.outcome == "not_executed":
            return "safe to call again"
        if self.sends > 1:
            return f"repeated: {_PERMISSIONS.get(self.tool, 'was unread')}"
        return "sent after a restart" if self.is_restarted else "at once"


def line(form: Mapping[str, str], cells: Sequence[object], width: int | None = None) -> str:
    """Return a line of a table; where it is wider than `width`, its last cell has a line of its own."""
    shown = [f"{cell!s:{form_of}}" for cell, form_of in zip(cells, form.values(), strict=True)]
    whole, head = " ".join(shown), " ".join(shown[:-1]).rstrip()
    return whole if width is None or len(whole) <= width else f"{head}\n    {shown[-1]}"


def score_of_messages(totals: Mapping[str, Any]) -> list[str]:
    """Return the score of a run with messages: sent, received with the causes, errors, the verdict."""
    causes = Counter[str]()
    for outage in totals["outages"]:
        causes[outage.what] += outage.missing * outage.is_reported
    covered, missing, pushed = totals["covered"], totals["missing"], totals["pushed"]
    causes["at other times"] = covered - causes.total()
    received = f"{pushed - missing} of {pushed}, {missing} missing"
    if covered:
        found = "each" if covered == missing else f"{covered} of them"
        by_cause = ", ".join(f"{what} {count}" for what, count in causes.items() if count)
        received += f", {found} in a gap that the client reported: {by_cause}"
    if again := totals["received"] - (pushed - missing):
        received += f"; {again} received again, and flagged"
    ends = {"not delivered": totals["not_delivered"], "refused": totals["dead"]}
    sent = "{sent}: {confirmed} confirmed, {unknown} outcome unknown".format_map(totals)
    sent += "".join(f", {count} {end}" for end, count in ends.items() if count)
    sent += f"; {totals['resent']} sent again, and applied once" if totals["resent"] else ""
    return _score(
        totals,
        SUCCESS,
        sent=sent,
        received=received,
        errors="{lost} lost without a report, {duplicated} duplicates, {reordered} out of order, {unexpected} unexpected".format_map(
            totals
        ),
    )


def score_of_calls(totals: Mapping[str, Any]) -> list[str]:
    """Return the score of a run with tool calls: the calls, the server, its ledger, the verdict."""
    return _score(
        totals,
        SUCCESS_OF_CALLS,
        calls="{sent}: {answered} answered ({restarted} after a restart), {unknown} may have run (reported, not repeated), "
        "{not_executed} not executed".format_map(totals),
        server="started {starts} times; the client's session went on".format_map(totals),
        ledger="ran twice without permission {ran_twice}, said not executed but ran {ran_unsaid}, answered but never ran {never_ran}; "
        "of the {unknown} that may have run {unknown_ran} did".format_map(totals),
    )


def _score(totals: Mapping[str, Any], success: str, **lines: str) -> list[str]:
    broken = totals["broken"]
    return [
        *(f"{label:<{_LABELS}}{text}" for label, text in lines.items()),
        *(["BROKEN", *(f"  {text}" for text in broken)] if broken else [success]),
    ]


def wrapped(text: str, width: int | None) -> str:
    """Return a line in lines of at most `width`; one of the score goes on below its text."""
    return fitted(text, width, hanging=_LABELS if text[:_LABELS].endswith("  ") else 0)


class Screen:
    """Prints to `out`; on a terminal with colours, and with a line below that is redrawn.

    `stopped` is set by a signal, or when the reader of `out` has gone. `live` returns the line that
    is redrawn.
    """

    def __init__(self, out: TextIO) -> None:
        self.stopped = asyncio.Event()
        self.live: Callable[[], str] = lambda: "starting"
        self._out, self._began = out, REAL.monotonic()
        self._put = partial(print, end="", file=out, flush=True)
        width = lambda: columns(out) if can_be_cleared(out) else None  # noqa: E731 -- it fits a line
        self.status = StatusLine(self._put, self._now, width)

    def _now(self) -> str:
        return f"{REAL.monotonic() - self._began:5.1f} s  {self.live()}"

    def show(self, *lines: str) -> None:
        """Print lines, on a terminal wrapped."""
        text = "\n".join(wrapped(one, columns(self._out)) for one in lines)
        if is_coloured(self._out):
            text = COLOURED.sub(lambda found: f"\x1b[{COLOURS[found[0]]}m{found[0]}\x1b[0m", text)
        self._put(f"{CLEAR if self.status.is_drawn else ''}{text}\n")

    def row(self, form: Mapping[str, str], cells: Sequence[object]) -> None:
        """Print a line of a table; set `stopped` if the reader of `out` has gone."""
        with suppress(BrokenPipeError):
            self.show(*line(form, cells, columns(self._out)).split("\n"))
            return
        self.stopped.set()


async def until(fact: Callable[[], object], seconds: float) -> bool:
    """Wait until `fact` is true, for at most `seconds`; return whether it is."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not fact():  # noqa: ASYNC110 -- the conditions have no common event
                await asyncio.sleep(0.01)
    return bool(fact())
