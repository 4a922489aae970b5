"""What is known of a server's positions.

How they compare, how far a log reaches, and what proves that nothing was lost.

Rule: without a proof the verdict is UNKNOWN. Silence is no proof: it ends the wait, and shows
nothing about what was lost.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import attrs

from ...values.fields import (
    Value,
    as_seconds,
    as_tuple,
    flag,
    path_of,
    refuse,
    short_seconds,
    tuple_of,
    whole,
    word,
)


VOLATILE: Final = ("replayed", "replay", "is_replay", "redelivered")
"""Fields with which servers mark what they send again."""


def _numbers_only(positions: Positions, attribute: attrs.Attribute[Any], value: object) -> None:
    if value and positions.order != "number":
        wanted = f'{attribute.default} with order "{positions.order}"'
        if attribute.name == "overlap":
            wanted += ", and repeats=True with a resume that asks from before Record.position"
        refuse(path_of(positions, attribute), wanted, value)


def _knows_anchors(positions: Positions, attribute: attrs.Attribute[Any], value: object) -> None:
    if value == "anchor" and not (positions.repeats or positions.shows_anchor):
        refuse(
            path_of(positions, attribute),
            "repeats=True, inclusive=True or an overlap beside it",
            "anchor",
        )


def _per_channel(positions: Positions, attribute: attrs.Attribute[Any], value: object) -> None:
    if value and not positions.per_channel:
        refuse(path_of(positions, attribute), "per_channel=True beside it", value)


def _is_sortable(positions: Positions, attribute: attrs.Attribute[Any], value: object) -> None:
    if value and (positions.order != "time" or positions.ends not in {"stated", "barrier"}):
        wanted = 'order="time" and an end that the server states or a barrier shows beside it'
        refuse(path_of(positions, attribute), wanted, f"{positions.order}, {positions.ends}")


def _fits_end(positions: Positions, attribute: attrs.Attribute[Any], value: object) -> None:
    is_word = isinstance(value, str) and value in {"session", "barrier"}
    if value is not None and not is_word:
        refuse(path_of(positions, attribute), '"session", "barrier" or None', value)
    if value == "barrier" and positions.ends != "barrier":
        refuse(path_of(positions, attribute), 'ends="barrier" beside it', positions.ends)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Positions(Value):
    """The positions of a server's events, and how a replay of them ends.

    `order`: "number" grows with each event, "time" may be shared by several, "opaque" says nothing.
    `per_channel`: each channel has a log of its own. `contiguous`: numbers without holes, so a hole
    is a loss; it is asked for once more, then reported as a gap with its numbers. `repeats`: a
    replay may hold what we have; `inclusive`: it begins with the event at the position that was
    asked for. `overlap`: ask so many positions early (`Record.after`), with the same effect. An
    answer without that event proves nothing.

    `interleaves`: live events may come between those of a replay. What came until the replay was
    over is then delivered in the order of its times; numbers are put in order in any case.

    What proves that the log is still the one we read? An event that we have and that comes again,
    with an id that is no counter, or with the time that the server gave it. What else is equal a
    restarted server's new log may repeat, so it proves nothing: the verdict is then at most UNKNOWN,
    whatever the server says about completeness. Three things identify the log without such an
    event: the `session` or `epoch` of `Hello`, or the `epoch` of `Replayed`; `names_log`: the name of a channel is that of its
    log, so a new log has a new channel; and `distinct`: you state that no two logs of this server
    hold equal events at one position. `volatile` are the fields of an event that a replay adds or
    changes; they are left out of every comparison.

    `ends` says when a replay is over: "stated", by a `Replayed`; "anchor", when it has brought what
    we know, and all behind it is in order; "barrier", by the answer to a ping behind the question;
    "quiet", after `quiet` seconds in which nothing came. `proof` besides `Replayed`, an anchor and
    contiguity: "session", the server names the session that we had (`Hello.session`); "barrier", it
    would have contradicted before the answer to the ping; None. ConfigError names a bad field.
    """

    order: Literal["number", "time", "opaque"] = attrs.field(default="number", validator=word)
    per_channel: bool = attrs.field(default=False, validator=flag)
    contiguous: bool = attrs.field(default=False, validator=[flag, _numbers_only])
    repeats: bool = attrs.field(default=False, validator=flag)
    inclusive: bool = attrs.field(default=False, validator=flag)
    overlap: int = attrs.field(default=0, validator=[whole, _numbers_only])
    ends: Literal["stated", "anchor", "barrier", "quiet"] = attrs.field(
        default="quiet", validator=[word, _knows_anchors]
    )
    interleaves: bool = attrs.field(default=False, validator=[flag, _is_sortable])
    proof: Literal["session", "barrier"] | None = attrs.field(default=None, validator=_fits_end)
    quiet: float = attrs.field(default=2.0, converter=as_seconds, validator=short_seconds)
    names_log: bool = attrs.field(default=False, validator=[flag, _per_channel])
    distinct: bool = attrs.field(default=False, validator=flag)
    volatile: tuple[str, ...] = attrs.field(
        default=VOLATILE,
        converter=as_tuple,
        validator=tuple_of(
            "the name of a field", lambda value: isinstance(value, str) and value != ""
        ),
    )

    @property
    def shows_anchor(self) -> bool:
        """Does the answer to a question begin with an event that we know?"""
        return self.inclusive or self.overlap > 0
