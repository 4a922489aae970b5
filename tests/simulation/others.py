"""Habits of bridges that others wrote: they sort, mix in, push again, run every copy, or know no sessions."""

from __future__ import annotations

import random
from typing import Any

import attrs

import resilient_bridge as rb


def others(
    seed: int, behaviour: dict[str, Any], policy: rb.bridge.BridgePolicy
) -> rb.bridge.BridgePolicy:
    """Habits of bridges that others wrote, drawn apart, so that the runs before there were any stay what they were."""
    rng = random.Random(f"{seed}/others")
    if rng.random() < 0.12 and behaviour["timestamps"] != "none":
        behaviour["replay_order"] = rng.choice(["timestamp", "type"])
    if rng.random() < 0.08:
        behaviour["foreign_entries"] = rng.choice([1, 3])
    if rng.random() < 0.15:
        # Such a bridge never says that it dedupes, and a user who says so in its place is wrong.
        behaviour["dedupes"] = False
        policy = policy.evolve(dialect=rb.bridge.Dialect())
    if rng.random() < 0.1:
        behaviour["says_dedupes"] = False
    dialect = policy.dialect
    if behaviour["no_session_memory"]:
        behaviour["push_queue"] = rng.choice([0, 1_000])
        if rng.random() < 0.7:
            dialect = attrs.evolve(dialect, join=None, joined=None)
    elif rng.random() < 0.08:
        dialect = attrs.evolve(dialect, max_frame_bytes=1_500)
    return policy.evolve(dialect=dialect)


def excused(
    behaviour: dict[str, Any],
    policy: rb.bridge.BridgePolicy,
    verdicts: dict[str, int],
    *,
    has_lost_answer: bool,
) -> set[str]:
    """The reasons for which a re-join need not be RECOVERED on such a bridge, whatever it holds.

    `has_lost_answer`: a connection was lost before its answer came, so that the next ones ask for less.
    """
    reasons: set[str] = set()
    is_odd = behaviour.get("replay_order", "live") != "live" or behaviour.get("foreign_entries")
    # What an earlier gap lost and a later answer holds is delivered then, and stands before the anchor.
    if is_odd or verdicts["GAP"] or verdicts["UNKNOWN"] > 1:
        reasons |= {"order"}
    if is_odd:
        reasons |= {"mismatch"}
    if has_lost_answer and behaviour["replay"] == "verbatim_seed":
        reasons |= {
            "empty"
        }  # it answers a `since` with nothing, and all of it is not asked for again
    if has_small_frames(policy):
        reasons |= {"too_large", "empty", "truncated"}  # less is asked for, and not twice
    return reasons


def has_small_frames(policy: rb.bridge.BridgePolicy) -> bool:
    """Whether an answer may be larger than a frame may be."""
    return policy.dialect.max_frame_bytes < 10_000
