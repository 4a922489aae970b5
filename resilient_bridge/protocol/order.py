"""Whether a replay answer is in the order of the live stream: the evidence that it is not, and what
must be delivered then.

Servers answer with `ORDER BY timestamp`, and equal timestamps are normal, so the newest message may
stand before our anchor. Rule: an entry that we never had is delivered wherever it stands; an entry
below everything that we remember was judged before.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from .frames import canonical
from .messages import parse_timestamp


if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from .facts import Frame
    from .merge import Cut, Item
    from .watermark import Key, Mark, Memory, Watermark

_RESOLUTION: Final = timedelta(seconds=1)  # of timestamps, at worst


class Order(NamedTuple):
    """The evidence in an answer with our anchor against its own order.

    `new`: the indices of entries, with an id, that stand before the anchor and were never
    delivered. `is_live`: the answer is in live order as far as can be known. `is_sure`: what was
    taken for older than our memory cannot be new. `has_more`: the only evidence is that messages
    without an id stand before the anchor more often than they were delivered.
    """

    new: tuple[int, ...]
    is_live: bool
    is_sure: bool
    has_more: bool = False


def stamps_of(items: Sequence[Item]) -> list[datetime | None]:
    """The timestamp of each item; a missing one inherits the previous."""
    found: list[datetime | None] = []
    last: datetime | None = None
    for item in items:
        last = item.message.timestamp or last
        found.append(last)
    return found


def order_of(
    answer: Sequence[Item],
    cut: Cut,
    watermark: Watermark,
    memory: Memory,
    since: datetime | None,
    *,
    earliest: datetime | None,
) -> Order:
    """Examine what stands before the anchor of `answer`, and which of our messages stand behind it.

    `since`: what the server was asked for. If a clock went back, older messages fail that test in
    the middle of an answer. `earliest`: the smallest timestamp that a new message can have.
    """
    new: list[int] = []
    is_known_before, is_sure = False, True
    for at, stamp in enumerate(stamps_of(answer[: cut.anchor])):
        item = answer[at]
        if item.key is None or not item.counts:
            continue
        if item.key in watermark or watermark.is_used_up(item.key):
            # what may have been forgotten before may stand before other forgotten messages
            is_known_before |= item.key not in watermark.passed_by
        elif item.key not in memory.edge:
            if is_known_before or not memory.is_older(stamp):
                new.append(at)
            else:
                is_sure = is_sure and not memory.may_be_new(item.key, stamp, earliest)
    before = answer[: cut.anchor]
    is_live = (
        not new
        and _is_run(before, watermark, since, is_whole=memory.is_whole)
        and not _is_shuffled(answer, cut, watermark)
    )
    has_more = False
    if is_live and (watermark.is_shuffled or watermark.seam > 0):
        more = surplus(answer, watermark, memory)
        if watermark.is_shuffled and more:
            # If a server has sorted before, the position of an id-less message proves nothing.
            is_live = False
        elif watermark.seam > 0:
            # Behind a join without proof no run of our messages shows what was moved between them,
            # or was lost then.
            has_more = any(at < cut.anchor for at in more)
    return Order(tuple(new), is_live and not has_more, is_sure, has_more)


def _is_run(
    before: Sequence[Item], watermark: Watermark, since: datetime | None, *, is_whole: bool
) -> bool:
    """Return whether, backwards from the anchor, the answer and what we were delivered agree as far
    as both go.

    A server that sorts moves id-less messages as well, which no key reveals. `is_whole`: nothing
    can stand before the first message that we had.
    """
    items = [item for item in before if item.counts]
    marks = watermark.run_before_anchor()
    skipped: set[Key] = set()
    at = len(items) - 1
    for index, mark in enumerate(marks):
        while at >= 0 and not _agrees(items[at], mark) and _may_be_skipped(items[at], watermark):
            key = items[at].key
            if key is not None:
                skipped.add(key)
            at -= 1
        if at < 0:
            # The answer ends here. Its messages from before this mark show that the mark should be
            # in it, too.
            return (
                mark.key is not None
                or mark.doubtful
                or not any(m.key in skipped for m in marks[index:])
            )
        if _agrees(items[at], mark):
            at -= 1
        elif not (mark.doubtful or mark.floating or _is_below(mark, since)):
            return False
    is_from_start = is_whole and not watermark.seam and not watermark.is_behind_gap
    rest = items[: at + 1] if is_from_start else []
    return all(_may_be_skipped(item, watermark) for item in rest)


def _may_be_skipped(item: Item, watermark: Watermark) -> bool:
    """Return whether the message may stand anywhere: it was sent twice, or is an answer to a
    request, which was never part of the stream.
    """
    if item.key is None:
        return "request_id" in item.message.payload
    return item.key in watermark or watermark.is_used_up(item.key)


def _is_below(mark: Mark, since: datetime | None) -> bool:
    """Return whether the server may have left it out, because its timestamp is not after the
    requested one.
    """
    stamp = parse_timestamp(mark.stamp)
    return since is not None and (stamp is None or stamp <= since + _RESOLUTION)


def _agrees(item: Item, mark: Mark) -> bool:
    if item.key is not None or mark.key is not None:
        return item.key == mark.key
    return item.text == mark.text or item.canonical == canonical(mark.text)


def _is_shuffled(answer: Sequence[Item], cut: Cut, watermark: Watermark) -> bool:
    """Return whether something delivered before the anchor stands behind it, where id-less messages
    could have moved as well.
    """
    behind = [item for item in answer[cut.anchor + 1 :] if item.counts]
    if all(item.key is not None for item in behind):
        return False
    marks = (watermark.by_key.get(item.key) for item in behind if item.key is not None)
    return any(mark is not None and not mark.floating for mark in marks)


def surplus(answer: Sequence[Item], watermark: Watermark, memory: Memory) -> set[int]:
    """Return the indices of id-less entries that `answer` holds more often than we were delivered:
    some of them may be new.
    """
    had = Counter(canonical(mark.text) for mark in watermark.tail if mark.key is None)
    found: set[int] = set()
    is_known_before = False
    for at, (item, stamp) in enumerate(zip(answer, stamps_of(answer), strict=True)):
        if item.key is not None:
            is_known_before |= item.key in watermark
        elif not is_known_before and (memory.is_older(stamp) or memory.may_have_had(stamp)):
            continue
        elif had[item.canonical] > 0:
            had[item.canonical] -= 1
        else:
            found.add(at)
    return found


def unshown(before: Sequence[Item], watermark: Watermark) -> Counter[Frame]:
    """Return the content of delivered id-less messages that `before`, an answer up to our position,
    does not hold.

    If such content stands behind our position instead, it may be new, or the message that we have,
    moved there by a server that sorts.
    """
    had = Counter(canonical(mark.text) for mark in watermark.tail if mark.key is None)
    had.subtract(item.canonical for item in before if item.key is None)
    return had
