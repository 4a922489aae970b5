"""The findings of `doctor` as rows of a table, and as data.

Pure except `page_width`. Rule: a row says what was seen, or why nothing was seen.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import attrs

from .doctor_values import After, Findings, Loss, Retained
from .terminal import is_terminal


_COLUMNS: Final = 80
_LABEL: Final = 19  # columns
_NARROWEST: Final = 40
_INCLUDED: Final = {True: "yes", False: "no", None: "not seen"}
_REPETITIONS: Final = {
    "not tried": "not tried: --probe-type TYPE --probe-runs-twice sends a message twice",
    "no answer": "no answer to either, so nothing is known of a repetition",
    "refused": "refused by the server, so nothing is known of a repetition",
    "one answer": "one answer for two: the second may have been dropped",
    "two answers": "both answered alike: nothing shows that it ran once",
    "noticed": "the second was answered as a duplicate: it ran once",
}


class Row(NamedTuple):
    """The subject of a check, and its finding."""

    what: str
    found: str


def rows_of(findings: Findings) -> list[Row]:
    return [
        *_accepting(findings),
        *_events(findings),
        *_cut(findings),
        *_rest(findings),
    ]


class _Lines(textwrap.TextWrapper):
    """A text wrapper that breaks lines at spaces, and after the colons of a PATH."""

    # the pattern that `TextWrapper` splits at with break_on_hyphens=False
    wordsep_simple_re = re.compile(r"([\t\n\v\f\r ]+)|(?<=:)(?=/(?!/))")


def page_width() -> int:
    """Return the columns of a page: those of the terminal, at most 80; 80 without a terminal."""
    if not is_terminal(sys.stdout):
        return _COLUMNS
    return min(_COLUMNS, shutil.get_terminal_size((_COLUMNS, 24)).columns)


def table_of(rows: Sequence[Row], width: int) -> str:
    """Return the rows as lines of at most `width` columns, or of 40 if that is more."""
    width = max(_NARROWEST, width)
    lines: list[str] = []
    for row in rows:
        parts = _Lines(width - _LABEL, break_on_hyphens=False).wrap(row.found) or [""]
        lines += [
            f"{label:<{_LABEL}}{part}"
            for label, part in zip([row.what, *[""] * (len(parts) - 1)], parts, strict=True)
        ]
    return "\n".join(lines)


def data_of(findings: Findings) -> dict[str, Any]:
    return attrs.asdict(findings)


# ---- rows -----------------------------------------------------------------------------------------------------------


def _accepting(findings: Findings) -> Iterator[Row]:
    if findings.connected is None:
        yield Row("connected", "no")
    else:
        yield Row("connected", f"after {_seconds(findings.connected)}")
    if findings.accepted is None:
        yield Row("accepted", "no")
    else:
        how = {
            "answer": "after {}, by its answer",
            "greeting": "after {}, by its greeting",
            "none": "after {}, with the connection, as this dialect waits for no greeting",
        }[findings.greeting]
        asked = "; it asked who we are" if findings.was_challenged else ""
        yield Row("accepted", how.format(_seconds(findings.accepted)) + asked)
    named = [
        name
        for name, is_named in (
            ("our session", findings.names_session),
            ("its log", findings.names_log),
        )
        if is_named
    ]
    if named:
        yield Row("it names", " and ".join(named))
    if findings.join is not None:
        yield Row(
            "join", "answered" if findings.join == "answered" else "read, and not answered by name"
        )
    yield from _ping(findings)


def _ping(findings: Findings) -> Iterator[Row]:
    ping = findings.ping
    if ping is None or findings.accepted is None:
        return
    kind = "" if ping.by == "message" else "of the WebSocket, as the dialect has none: "
    if ping.seconds is not None:
        yield Row("ping", f"{kind}answered after {_seconds(ping.seconds)}")
    elif ping.was_sent:
        yield Row("ping", f"{kind}not answered")
    else:
        yield Row("ping", f"{kind}no answer was seen in this time")


def _events(findings: Findings) -> Iterator[Row]:
    before = findings.before
    if findings.accepted is None:
        return
    if not before.events:
        yield Row("events", "none came, so nothing is known of positions")
        return
    text = f"{_count(before.events, 'event')} before the cut"
    if not before.with_position:
        yield Row("events", f"{text}, none with a position")
    else:
        span = (
            ""
            if before.first is None
            else f", from {_shown(before.first)} to {_shown(before.last)}"
        )
        logs = f", in {before.channels} logs" if before.channels > 1 else ""
        yield Row("events", f"{text}, {before.with_position} with a position{span}{logs}")
    if before.numbering is not None:
        yield Row("numbers", before.numbering)
    if before.acks_wanted:
        yield Row(
            "to acknowledge",
            f"{_count(before.acks_wanted, 'event')}; none was acknowledged, so all of them stay with the server",
        )


def _cut(findings: Findings) -> Iterator[Row]:
    if not findings.was_cut:
        return
    yield Row("cut", "by this command, without a goodbye")
    after = findings.after
    if after is None:
        yield Row("accepted again", "no")
        return
    yield Row("accepted again", f"after {_seconds(after.seconds)}{_identity(after)}")
    yield Row("asked after", _asked(after))
    if after.asked is not None or after.channels:
        yield from _answer(after)
    if after.repeated:
        yield Row(
            "came again",
            f"{_count(after.repeated, 'event')} that had come before, without a question",
        )
    yield Row("verdict", _verdict(after))
    for channel, verdict in after.verdicts.items():
        yield Row("", f"{_shown(channel)}: {verdict}")


def _identity(after: After) -> str:
    named = (("session", after.same_session), ("log", after.same_log))
    return "".join(
        f", {'the same' if is_same else 'another'} {name}"
        for name, is_same in named
        if is_same is not None
    )


def _asked(after: After) -> str:
    if not after.channels:
        return "nothing: there was no position, or the dialect has no question"
    if after.channels > 1:
        return f"{after.channels} positions, {after.by}"
    if after.asked == "everything":
        return f"nothing in particular: everything, {after.by}"
    return f"{_shown(after.asked)}, {after.by}"


def _answer(after: After) -> Iterator[Row]:
    if not after.events:
        yield Row("answer", "empty" if after.is_answered else "none was seen")
    else:
        order = "" if after.order is None else f", {after.order}"
        pushed = ", also without a question" if after.is_pushed else ""
        yield Row(
            "answer", f"{_count(after.events, 'event')}{order}; {after.new} of them new{pushed}"
        )
    if after.includes_asked is not None:
        yield Row(
            "inclusive",
            "yes: the event asked after came again"
            if after.includes_asked
            else "no: it begins behind it",
        )
    yield Row("last one again", _INCLUDED[after.includes_last])
    if after.oldest is not None:
        yield Row("reaches back to", _shown(after.oldest))


def _verdict(after: After) -> str:
    if after.verdict is None:
        return "none in this time"
    proof = f", proof: {after.proof}" if after.proof else ""
    reason = f" ({after.reason})" if after.reason and after.reason != after.proof else ""
    return f"{after.verdict}{reason}{proof}"


def _rest(findings: Findings) -> Iterator[Row]:
    if findings.accepted is not None:
        start = findings.from_start
        unknown = "not shown: this dialect did not ask for it"
        yield Row(
            "from the start", unknown if start is None else f"it sends from {_shown(start)} on"
        )
        if findings.retained is not None:
            yield Row("keeps", _retained(findings.retained))
        if findings.states_dedupes is not None:
            yield Row("dedupes", f"it says {'yes' if findings.states_dedupes else 'no'}")
    if findings.is_found_out:
        yield Row("sent twice", _REPETITIONS[findings.repetition])
    for text, times in Counter(_loss(loss) for loss in findings.losses).items():
        yield Row("ended", text if times == 1 else f"{times} times: {text}")
    for refusal in findings.refusals:
        yield Row("error", refusal)
    for name in findings.gone_without:
        yield Row("does not know", name)
    if findings.unreadable:
        yield Row("not readable", f"{_count(findings.unreadable, 'frame')}: not of this dialect")


def _retained(retained: Retained) -> str:
    count = _count(retained.events, "event")
    amount = count if retained.is_all else f"at least {count}, as more was not asked for"
    if retained.age is None:
        return f"{amount}; none has a time, so how long is not shown"
    by = f"its {retained.stamped_by}" if retained.stamped_by else "its stamp"
    if retained.age < 0:
        return f"{amount}; by {by} the oldest is {_age(-retained.age)} ahead of the clock of this machine"
    return f"{amount}; by {by} the oldest is {_age(retained.age)} old"


def _age(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _loss(loss: Loss) -> str:
    numbers = (
        ("close code", loss.close_code),
        ("HTTP status", loss.http_status),
        ("code", loss.server_code),
    )
    named = ", ".join(f"{name} {number}" for name, number in numbers if number is not None)
    return f"{named}: {loss.text}" if named else loss.text


# ---- words ----------------------------------------------------------------------------------------------------------


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds < 10 else f"{seconds:.1f} s"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _shown(position: object) -> str:
    text = str(position)
    return text if len(text) <= 60 else text[:60] + "…"
