"""Replay meets what was already delivered: pure functions on sequences, and the heart of "no silent loss".

The server's log is one sequence. What we delivered is a prefix of it (our *tail* is the end of that prefix), an answer to
`request_replay` is a window of it, the side buffer is what arrived live on the new connection. Three facts decide all:

1. Only a message with a unique key can be found again for certain. The last one delivered is the *anchor*; id-less
   messages after it must agree with the window as far as both go. Anchoring on id-less messages drops real repeats.
2. An answer is a snapshot on an ordered stream: what arrived live *before* it is in it, at its end. So the overlap of
   answer and side buffer is known, not guessed, on every server that takes and sends its snapshot in one step. On one
   that does not, several overlaps may fit; then the smallest is taken and what may repeat is flagged: never a loss.
3. Timestamps order nothing. They only say where to start asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from .frames import canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .messages import Message
    from .watermark import Key, Mark, Watermark

__all__ = ["Item", "Join", "cut", "join_live", "without_repeats"]


class Item:
    """One replayable message with its text, from an answer or from the side buffer; comparable by content."""

    __slots__ = ("_canonical", "key", "message", "text")

    def __init__(self, message: Message, text: str) -> None:
        self.message = message
        self.text = text
        self.key: Key | None = None if message.id is None else (message.type, message.id)
        self._canonical: str | None = None

    @property
    def canonical(self) -> str:
        """The content in canonical JSON, computed when first compared."""
        if self._canonical is None:
            self._canonical = canonical(self.text)
        return self._canonical


class Cut(NamedTuple):
    """Where the news begin in an answer: `found` anchor, absent anchor, or an anchor whose surroundings disagree."""

    found: Literal["anchor", "absent", "mismatch"]
    index: int


class Join(NamedTuple):
    """How an answer and the side buffer fit: skip this many side items; the next `doubtful` ones may repeat the answer."""

    skip: int
    doubtful: int


_ABSENT: Final = Cut("absent", 0)


def without_repeats(items: Sequence[Item]) -> list[Item]:
    """`items` without later occurrences of a key: a server may broadcast one id twice, we deliver it once."""
    seen: set[Key] = set()
    kept: list[Item] = []
    for item in items:
        if item.key is not None:
            if item.key in seen:
                continue
            seen.add(item.key)
        kept.append(item)
    return kept


def cut(answer: Sequence[Item], watermark: Watermark) -> Cut:
    """Find our anchor in `answer` (already without repeats) and check that what follows it is what we delivered."""
    anchor, after = watermark.anchor()
    if anchor is None:
        return _ABSENT
    at = next((i for i, item in enumerate(answer) if item.key == anchor.key), None)
    if at is None:
        return _ABSENT
    following = answer[at + 1 : at + 1 + len(after)]
    if all(_same(item, mark) for item, mark in zip(following, after, strict=False)):
        return Cut("anchor", at + 1 + len(following))
    return Cut("mismatch", at + 1)


def _same(item: Item, mark: Mark) -> bool:
    return item.key == mark.key and (item.text == mark.text or item.canonical == canonical(mark.text))


def join_live(answer: Sequence[Item], side: Sequence[Item], arrived_before: int) -> Join:
    """How much of `side` the answer already holds; `arrived_before` of it reached us before the answer did."""
    in_answer = {item.key for item in answer if item.key is not None}
    # A key of the answer that sits at side[i] proves that at least i + 1 side items are in the answer.
    least = max((i + 1 for i, item in enumerate(side) if item.key in in_answer), default=0)
    most = min(len(answer), len(side))
    if least <= arrived_before <= most and _fits(answer, side, arrived_before):
        return Join(arrived_before, 0)
    fitting = [k for k in range(least, most + 1) if _fits(answer, side, k)]
    if not fitting:
        # The two disagree (a server that reorders, or drops): skip nothing that is not known by its key.
        return Join(0, 0)
    return Join(fitting[0], fitting[-1] - fitting[0])


def _fits(answer: Sequence[Item], side: Sequence[Item], k: int) -> bool:
    return all(
        a.key == b.key and a.canonical == b.canonical for a, b in zip(answer[len(answer) - k :], side[:k], strict=True)
    )
