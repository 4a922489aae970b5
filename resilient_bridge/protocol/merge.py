"""Merges a replay with what was already delivered: pure functions on sequences, which "no silent
loss" depends on.

The server's log is one sequence. What we delivered is a prefix of it (our *tail* is the end of that
prefix), an answer to `request_replay` is a window of it, the side buffer is what arrived live on
the new connection. Three facts decide everything:

1. Only a message with a unique key can be found again for certain. The last one delivered is the *anchor*; id-less
   messages after it must agree with the window as far as both go. Anchoring on id-less messages drops real repeats.
2. An answer is a snapshot on an ordered stream: what arrived live *before* it is in it, at its end. So the overlap of
   answer and side buffer is known, not guessed, on every server that takes and sends its snapshot in one step. One that
   does not gives itself away: the pong to the ping behind the question overtakes the answer. There several overlaps may
   fit; then the smallest is taken and what may repeat is flagged: never a loss.
3. Timestamps order nothing. They only say where to start asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from .frames import canonical


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .facts import Frame
    from .messages import Message
    from .watermark import Key, Mark, Watermark


class Item:
    """One message with its text, from an answer or from the side buffer; comparable by content.

    `counts`: it is part of the position. A reply to one of our sends is not: some servers replay
    their replies, some do not, so it can neither be an anchor nor be missed.
    """

    __slots__ = ("_canonical", "counts", "key", "message", "text")

    def __init__(self, message: Message, text: Frame, *, counts: bool = True) -> None:
        self.counts = counts
        self.message = message
        self.text = text
        self.key: Key | None = None if message.id is None else (message.type, message.id)
        self._canonical: Frame | None = None

    @property
    def canonical(self) -> Frame:
        """The content in canonical JSON, computed when first compared."""
        if self._canonical is None:
            self._canonical = canonical(self.text)
        return self._canonical


class Cut(NamedTuple):
    """Where the new messages start in an answer: `found` anchor, absent anchor, or an anchor whose
    surroundings disagree.

    The messages from `at` on are to be delivered; those before `sure` may have been delivered
    already. `anchor` is its index.
    """

    found: Literal["anchor", "absent", "mismatch"]
    at: int
    sure: int
    anchor: int = 0


class Join(NamedTuple):
    """How an answer and the side buffer fit.

    Skip this many side items; the next `doubtful` ones may repeat the answer.

    `subsumed`: the side buffer already holds all of the answer, which adds nothing (a server that
    cut its answer short). `disagrees`: what arrived before the answer is not at its end, as it is
    on a server that replays in the order of its live stream.
    """

    skip: int
    doubtful: int
    subsumed: bool = False
    disagrees: bool = False


_ABSENT: Final = Cut("absent", 0, 0)


def without_repeats(items: Sequence[Item]) -> list[Item]:
    """Return `items` without later occurrences of a key: a server may broadcast one id twice, we
    deliver it once.
    """
    seen: set[Key] = set()
    unique: list[Item] = []
    for item in items:
        if item.key is not None:
            if item.key in seen:
                continue
            seen.add(item.key)
        unique.append(item)
    return unique


def cut(answer: Sequence[Item], watermark: Watermark) -> Cut:
    """Find our anchor in `answer`, and check that what follows it is what was delivered.

    The answer has no repeats any more.
    """
    anchor, after = watermark.anchor()
    if anchor is None:
        return _ABSENT
    counted = [(index, item) for index, item in enumerate(answer) if item.counts]
    at = next((i for i, (_, item) in enumerate(counted) if item.key == anchor.key), None)
    if at is None:
        return _ABSENT
    ends = {at + 1}
    for mark in after:
        ends = {end for start in ends for end in _after(mark, start, counted)}
        if not ends:
            return Cut("mismatch", counted[at][0] + 1, 0, counted[at][0])
    return Cut(
        "anchor", counted[min(ends) - 1][0] + 1, counted[max(ends) - 1][0] + 1, counted[at][0]
    )


def _after(mark: Mark, start: int, counted: Sequence[tuple[int, Item]]) -> Iterator[int]:
    """Return where the server's log can stand after `mark`: one further if it is there, and
    unchanged if it may be missing.
    """
    if start == len(counted):
        yield start  # they agree as far as both go
        return
    if _same(counted[start][1], mark):
        yield start + 1
    if mark.doubtful:
        yield start


def _same(item: Item, mark: Mark) -> bool:
    return item.key == mark.key and (
        item.text == mark.text or item.canonical == canonical(mark.text)
    )


def join_live(
    answer: Sequence[Item], side: Sequence[Item], arrived_before: int | None, *, proven: bool
) -> Join:
    """Return how much of `side` the answer already holds.

    `arrived_before` of its items were received before the answer.

    Both must be of messages that count. `arrived_before` is None where the server may have taken
    its snapshot earlier than it sent it. `proven`: the answer holds our anchor, so nothing may be
    lost here; without proof a gap is reported anyway, and then neither repeating nor reordering may
    happen.
    """
    ends = _ends(answer, side)
    disagrees = not ends or (arrived_before is not None and arrived_before not in ends)
    if arrived_before is not None and arrived_before in ends:
        end, doubtful = arrived_before, 0
    elif not ends:
        # The two disagree (a server that reorders, or drops): skip nothing that is not known by its key.
        end, doubtful = 0, 0
    elif proven:
        end, doubtful = ends[0], ends[-1] - ends[0]
    else:
        end, doubtful = ends[-1], 0
    if end > len(answer):
        return Join(0, 0, subsumed=True, disagrees=disagrees)
    return Join(end, doubtful, disagrees=disagrees)


def _ends(answer: Sequence[Item], side: Sequence[Item]) -> list[int]:
    """Return where in `side` the answer can end.

    That is after so many side items that all items in both are equal.
    """
    if not answer or not side:
        return [0]
    index_of = {item.key: at for at, item in enumerate(answer) if item.key is not None}
    # A key in both leaves one possible end.
    proofs = {
        at + len(answer) - index_of[item.key]
        for at, item in enumerate(side)
        if item.key in index_of
    }
    common = _common_suffixes(answer, side)
    ends = [end for end in range(len(side) + 1) if common[end] >= min(len(answer), end)]
    return [end for end in ends if not proofs or proofs == {end}]


def _common_suffixes(answer: Sequence[Item], side: Sequence[Item]) -> list[int]:
    """For each end in `side`, return how many items up to there equal the end of `answer`.

    This is the Z-function, in linear time.
    """
    names: dict[tuple[Key | None, Frame], int] = {}
    backwards = [
        names.setdefault((item.key, item.canonical), len(names)) for item in reversed(answer)
    ]
    backwards.append(-1)
    backwards += [
        names.setdefault((item.key, item.canonical), len(names)) for item in reversed(side)
    ]
    equal = [0] * len(backwards)
    remaining = right = 0
    for at in range(1, len(backwards)):
        length = min(right - at, equal[at - remaining]) if at < right else 0
        while at + length < len(backwards) and backwards[length] == backwards[at + length]:
            length += 1
        equal[at] = length
        if at + length > right:
            remaining, right = at, at + length
    return [0, *equal[len(answer) + 1 :][::-1]]
