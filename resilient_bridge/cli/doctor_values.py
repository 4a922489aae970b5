"""The findings of `doctor` as plain values. Rule: what was not seen is None, and never a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import attrs

from ..protocol.facts import Position


Order: TypeAlias = Literal["rising", "falling", "mixed"]
Numbering: TypeAlias = Literal["without holes", "with holes", "not rising"]
Repetition: TypeAlias = Literal[
    "not tried", "no answer", "refused", "one answer", "two answers", "noticed"
]


@attrs.frozen(kw_only=True)
class Loss:
    """How a connection ended that this command did not cut, or why there was none."""

    text: str
    code: str
    close_code: int | None = None
    http_status: int | None = None
    server_code: str | None = None


@attrs.frozen(kw_only=True)
class Ping:
    """A ping and its answer.

    `by` is "message", a ping of the dialect itself, or "websocket", a control frame. `seconds` is
    None without an answer.
    """

    by: Literal["message", "websocket"]
    was_sent: bool
    seconds: float | None = None


@attrs.frozen(kw_only=True)
class Before:
    """The events before the cut.

    `first` and `last` are positions, if all are of one log; `channels` counts the logs.
    """

    events: int
    with_position: int
    channels: int = 0
    first: Position | None = None
    last: Position | None = None
    numbering: Numbering | None = None
    acks_wanted: int = 0


@attrs.frozen(kw_only=True)
class After:
    """The result of the connection after the cut.

    `asked` is the requested position, "everything", or None without a request or for several logs;
    `by` says in which form. `events` counts those in the answer, `new` those of them that had not
    come before.

    `is_pushed`: the server sends a replay without a request. `repeated` counts events that came
    again without a request. `includes_asked`: the event at the requested position came again;
    `includes_last`: the last known one did. `oldest` is the time, or the position, of the oldest in
    the answer.
    """

    seconds: float
    asked: Position | Literal["everything"] | None = None
    by: str = ""
    channels: int = 0
    is_answered: bool = False
    is_pushed: bool = False
    repeated: int = 0
    events: int = 0
    new: int = 0
    order: Order | None = None
    includes_asked: bool | None = None
    includes_last: bool | None = None
    oldest: Position | None = None
    same_session: bool | None = None
    same_log: bool | None = None
    verdict: str | None = None
    reason: str = ""
    proof: str = ""
    verdicts: Mapping[str, str] = attrs.field(factory=dict[str, str])


@attrs.frozen(kw_only=True)
class Retained:
    """What the server retained: the number of `events` in a replay, and the `age` of the oldest.

    The age, in seconds, is from the event's own time to our clock, and None if no event has a time.
    `is_all`: the replay was requested from the start; otherwise there may be more. `stamped_by` is
    the name of the frame's time field, if the dialect does not define it.
    """

    events: int
    is_all: bool
    age: float | None = None
    stamped_by: str = ""


@attrs.frozen(kw_only=True)
class Findings:
    """All findings.

    `connected` and `accepted` are seconds after dialling. `from_start` is the time or position of
    the oldest event in a replay from the start.
    """

    connected: float | None = None
    accepted: float | None = None
    greeting: Literal["answer", "greeting", "none"] = "none"
    was_challenged: bool = False
    names_session: bool = False
    names_log: bool = False
    join: Literal["answered", "not answered"] | None = None
    ping: Ping | None = None
    before: Before = Before(events=0, with_position=0)
    was_cut: bool = False
    after: After | None = None
    from_start: Position | None = None
    retained: Retained | None = None
    losses: Sequence[Loss] = ()
    refusals: Sequence[str] = ()
    gone_without: Sequence[str] = ()
    unreadable: int = 0
    states_dedupes: bool | None = None
    repetition: Repetition = "not tried"
    has_failed: bool = False

    @property
    def is_found_out(self) -> bool:
        """Whether the bridge was reached, and accepted us again after the cut."""
        return (
            self.accepted is not None
            and not self.has_failed
            and (not self.was_cut or self.after is not None)
        )
