"""Policies inside of policies: which calls are counted together, and how many there may be. Pure.

Rule: the innermost policy repeats, because it is nearest to the wire, and what it used up counts for those around it. So three attempts
inside four make four calls, not twelve and not three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .frame import enclosing


if TYPE_CHECKING:
    from .frame import CallFrame


def retries_around(first: CallFrame) -> tuple[CallFrame, ...]:
    """Return the attempts around a call whose policies have a Retry, the nearest first: their repeats and ours are counted together."""
    found: list[CallFrame] = []
    around = first.outer
    while around is not None and around.before_of is None:
        if around.plan is not None and around.plan.attempts is not None and not around.is_over:
            found.append(around)
        around = enclosing(around)
    return tuple(found)


def largest_cap(attempts: object, around: tuple[CallFrame, ...]) -> int | None:
    """Return the largest `attempts` of nested policies; None where there is one alone, or tenacity's stop decides."""
    if not around or not isinstance(attempts, int):
        return None
    caps = [attempt.plan.attempts for attempt in around if attempt.plan]
    return max([attempts, *(cap for cap in caps if isinstance(cap, int))])


def calls_in(attempt: CallFrame) -> int:
    """Return how many calls an attempt stands for: as many as a policy inside of it made of one operation, and at least one."""
    return 1 if attempt.inside is None else max(1, attempt.inside.most)
