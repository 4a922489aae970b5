"""What `doctor` finds out, as plain values. Rule: what was not seen is None, and never a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import attrs

from ..protocol.facts import Position


Order: TypeAlias = Literal["rising", "falling", "mixed"]
Numbering: TypeAlias = Literal["without holes", "with holes", "not rising"]
Repetition: TypeAlias = Literal["not tried", "no answer", "refused", "one answer", "two answers", "noticed"]


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
    """`by` "message": one of the dialect's own; "websocket": a control frame. `seconds` None: it was not answered."""

    by: Literal["message", "websocket"]
    was_sent: bool
    seconds: float | None = None


@attrs.frozen(kw_only=True)
class Before:
    """The events before the cut. `first` and `last` are positions, where all are of one log; `channels` counts the logs."""

    events: int
    with_position: int
    channels: int = 0
    first: Position | None = None
    last: Position | None = None
    numbering: Numbering | None = None
    acks_wanted: int = 0


@attrs.frozen(kw_only=True)
class After:
    """What the connection after the cut brought.

    `asked` is what was asked after ("everything", or None where nothing was asked), `by` how. `events`: how many came in the answer, `new` of them
    were missing; `is_pushed`: it sends a replay without being asked; `repeated`: how many events came again without a question. `includes_asked`: the event that was asked after came again; `includes_last`: the last one that was known did.
    `oldest`: the stamp, or the position, of the oldest in the answer.
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
    """What the server still had: how many `events` a replay gave, and the `age` of the oldest in seconds, by its own stamp and our clock.

    `is_all`: the replay was asked for from the start; otherwise there may be more. `age` is None where no event has a time; `stamped_by` names
    the field of the frame, where the dialect does not say which one has it.
    """

    events: int
    is_all: bool
    age: float | None = None
    stamped_by: str = ""


@attrs.frozen(kw_only=True)
class Findings:
    """Everything that was found out. `connected` and `accepted` are seconds; `from_start`: the oldest that came when the start was asked for."""

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
        """Was the bridge reached, and did it take us again after the cut?"""
        return (
            self.accepted is not None and not self.has_failed and (not self.was_cut or self.after is not None)
        )
