"""The ledger catches every known-bad stream, and only those. Rule: the streams are written by hand, no client takes part."""

from __future__ import annotations

import random

import attrs

from resilient_bridge.testing import Judgement, Ledger
from tests.rows import each_row


@attrs.define
class Statement:
    """A message, as far as the ledger looks at it."""

    n: int
    maybe_duplicate: bool = False
    redelivered: bool = False
    replayed: bool = False

    @property
    def payload(self):
        return {"n": self.n}


@attrs.define
class Slip:
    """A receipt, as far as the ledger looks at it."""

    state: str = "queued"


class Connected: ...


class Disconnected: ...


class Joined: ...


@attrs.define
class StateChanged:
    state: str


@attrs.define
class Resumed:
    verdict: str


GAP = "gap"


def inbound(pushed, stream):
    """A ledger of what was pushed, and of a consumer's stream: serials, flagged ones as text, GAP for a marker."""
    ledger = Ledger()
    for n in pushed:
        ledger.pushed(n)
    for item in stream:
        if item is GAP:
            ledger.marked()
        elif isinstance(item, str):
            ledger.delivered(Statement(int(item), maybe_duplicate=True))
        else:
            ledger.delivered(Statement(item))
    return ledger


def outbound(states, applied, *, life="a", may_resend=False):
    """A ledger of sends with these final states, over one connection, and of what the bridge applied."""
    ledger = Ledger(lambda: life, may_resend=may_resend)
    ledger.saw(Connected())
    slips = [Slip() for _ in states]
    for n, slip in enumerate(slips, 1):
        ledger.sent(n, slip)
    ledger.saw(StateChanged("FLUSHING"))
    ledger.saw(Joined())
    for slip, state in zip(slips, states, strict=True):
        slip.state = state
    for item in applied:
        ledger.applied(*(item if isinstance(item, tuple) else (item, life)))
    return ledger


def broken(ledger):
    """The promises that a ledger finds broken, with the serials."""
    judged = ledger.judge()
    assert judged.passed == (judged == Judgement())
    return {name: value for name, value in attrs.asdict(judged).items() if value}


# ---- inbound
@each_row(
    ("stream", "found"),
    [
        ([1, 2, 3, 4, 5], {}),
        ([], {"lost": (1, 2, 3, 4, 5)}),
        ([GAP], {}),
        ([1, 2, 4, 5], {"lost": (3,)}),
        ([1, 2, GAP, 4, 5], {}),
        ([1, 2, 4, GAP, 5], {"lost": (3,)}),
        ([1, GAP, 2, 4, 5], {"lost": (3,)}),
        ([GAP, 1, 2, 4, 5], {"lost": (3,)}),
        ([GAP, 3, 4, 5], {}),
        ([1, 2, 3], {"lost": (4, 5)}),
        ([1, 2, 3, GAP], {}),
        ([1, 2, GAP, 3], {"lost": (4, 5)}),
        ([1, GAP, 3, 5], {"lost": (4,)}),
        ([1, GAP, 3, GAP, 5], {}),
        ([1, 2, 2, 3, 4, 5], {"duplicated": (2,)}),
        ([1, 2, "2", 3, 4, 5], {}),
        ([1, 3, 2, 4, 5], {"reordered": (2,)}),
        ([1, 3, "2", 4, 5], {}),
        ([1, 2, 9, 3, 4, 5], {"unexpected": (9,)}),
        ([1, 2, 3, GAP, "2", "3", 5], {}),
        ([1, 2, 3, GAP, "2", "3", 2, 5], {"duplicated": (2,)}),
        ([1, 5, 2, 3, 4], {"reordered": (2, 3, 4)}),
    ],
)
def test_each_known_bad_stream_is_named_and_each_good_one_passes(stream, found):
    """Lost, duplicated, reordered and unexpected messages are told apart; a gap covers exactly its own place."""
    assert broken(inbound(range(1, 6), stream)) == found


def test_a_redelivered_message_is_flagged_as_well():
    """After a restart of the process a message may come again, if it says so."""
    ledger = inbound([1], [1])
    ledger.delivered(Statement(1, redelivered=True))
    assert broken(ledger) == {}


def test_x04_only_a_marker_before_it_announces_a_replay_in_another_order():
    """Behind a gap marker a replay may come in its own order; without one, or if it is no replay, it is reordered."""
    for marked, replayed, found in ((True, True, ()), (False, True, (2,)), (True, False, (2,))):
        ledger = inbound([1, 2, 3], [1, 3])
        if marked:
            ledger.marked()
        ledger.delivered(Statement(2, replayed=replayed))
        assert ledger.judge().reordered == found
    ledger = inbound([1, 2, 3], [1, GAP, 3])  # this marker was for what came before 3
    ledger.delivered(Statement(2, replayed=True))
    assert ledger.judge().reordered == (2,)


def test_a_gap_covers_as_brute_force_says():
    """On 300 random streams the covered serials are those with a marker between their neighbours, by definition."""
    for seed in range(300):
        rng = random.Random(seed)
        stream = [n for n in range(1, 13) if rng.random() < 0.6]
        for _ in range(rng.randrange(3)):
            stream.insert(rng.randrange(len(stream) + 1), GAP)
        expected = []
        for n in set(range(1, 13)) - set(stream):
            smaller = max(
                (i for i, item in enumerate(stream) if item is not GAP and item < n), default=-1
            )
            larger = min(
                (i for i, item in enumerate(stream) if item is not GAP and item > n),
                default=len(stream),
            )
            if GAP not in stream[smaller + 1 : larger]:
                expected.append(n)
        assert broken(inbound(range(1, 13), stream)).get("lost", ()) == tuple(sorted(expected)), (
            seed
        )


# ---- outbound
@each_row(
    ("states", "applied", "found"),
    [
        (["confirmed", "confirmed"], [1, 2], {}),
        (["confirmed", "confirmed"], [2], {"unapplied": (1,)}),
        (["confirmed", "confirmed"], [1, 2, 1], {"reapplied": (1,)}),
        (["confirmed", "confirmed"], [2, 1], {"disordered": (1,)}),
        (["confirmed"], [1, 7], {"unsent": (7,)}),
        (["expired"], [1], {"ghosts": (1,)}),
        (["dropped"], [1], {"ghosts": (1,)}),
        (["withdrawn"], [1], {"ghosts": (1,)}),
        (["expired", "dropped", "withdrawn"], [], {}),
        (["unknown", "dead", "written"], [1, 2], {}),
        (["unknown", "dead", "written"], [], {}),
        (["queued"], [], {"untold": (1,)}),
        (["confirmed", "confirmed"], [1, 2, (2, "b")], {"reapplied": (2,)}),
        (["confirmed", "unknown"], [1, (2, "b")], {}),
        (["confirmed", "confirmed"], [2, (1, "b")], {"unapplied": (1,)}),
        (["written", "unknown", "dead"], [1, (3, "b"), (1, "c")], {"reapplied": (1,)}),
        (["dead", "dead", "dead"], [1, (3, "b"), (2, "b")], {"disordered": (2,)}),
        (["dead", "dead", "dead"], [3, (1, "b"), (2, "b")], {}),
        (["confirmed", "unknown", "confirmed"], [1, 3, 2, 2], {}),
    ],
)
def test_each_known_bad_outcome_is_named(states, applied, found):
    """A confirmation without an application, two in one life, a wrong order, ghosts and untold ends are told apart."""
    assert broken(outbound(states, applied)) == found


def test_another_life_may_apply_again_what_the_client_had_to_resend():
    """With `on_unknown="resend"` a repeat in another life of the bridge is allowed, and one in the same is not."""
    states, twice = ["confirmed", "confirmed"], [1, 2, (1, "b"), (2, "b")]
    assert broken(outbound(states, twice)) == {"reapplied": (1, 2)}
    assert broken(outbound(states, twice, may_resend=True)) == {}
    assert broken(outbound(states, [*twice, (2, "b")], may_resend=True)) == {"reapplied": (2,)}


def test_a_confirmation_counts_for_the_life_it_came_from():
    """What is confirmed before a restart that forgets must have been applied before it."""
    life = ["a"]
    ledger = Ledger(lambda: life[0])
    first, second = Slip(), Slip()
    ledger.saw(Connected())
    ledger.sent(1, first)
    first.state = "confirmed"
    life[0] = "b"
    ledger.saw(Disconnected())
    ledger.saw(Connected())
    ledger.sent(2, second)
    second.state = "confirmed"
    ledger.applied(1, "a")
    ledger.applied(2, "b")
    assert broken(ledger) == {}
    late = Ledger(lambda: "b")
    late.saw(Connected())
    late.sent(1, first)
    late.applied(1, "a")
    assert broken(late) == {"unapplied": (1,)}


def test_unknown_is_only_for_what_was_handed_out():
    """A message that was still queued when the link was lost cannot be UNKNOWN before the next one flushes."""
    ledger = Ledger()
    queued, written, offline = Slip(), Slip("written"), Slip()
    ledger.saw(StateChanged("FLUSHING"))
    ledger.saw(Joined())
    ledger.sent(1, queued)
    ledger.sent(2, written)
    ledger.saw(Disconnected())
    ledger.sent(3, offline)
    queued.state = written.state = offline.state = "unknown"
    ledger.saw(Resumed("UNKNOWN"))
    ledger.saw(StateChanged("FLUSHING"))
    assert broken(ledger) == {"unknown_unsent": (1, 3)}


# ---- re-joins and sums
def test_every_completed_rejoin_has_exactly_one_verdict():
    """A join without a verdict, or a verdict without a join, is a broken promise; the first join needs none."""
    ledger = Ledger()
    ledger.saw(StateChanged("FLUSHING"))
    ledger.saw(Joined())
    assert broken(ledger) == {}
    ledger.saw(StateChanged("FLUSHING"))
    assert broken(ledger) == {"unjudged": 1}
    ledger.saw(Resumed("GAP"))
    assert broken(ledger) == {}
    ledger.saw(Resumed("GAP"))
    assert broken(ledger) == {"unjudged": 1}


def test_totals_sum_up_both_directions():
    """The sums hold what the JSON of the demo promises, and count broken promises of both directions."""
    ledger = outbound(["confirmed", "confirmed", "unknown", "expired"], [2, 2])
    for n in (1, 2, 3, 4):
        ledger.pushed(n)
    for n in (1, 1, 4):
        ledger.delivered(Statement(n))
    ledger.saw(StateChanged("FLUSHING"))
    ledger.saw(Resumed("RECOVERED"))
    totals = ledger.totals()
    assert totals.pop("verdicts") == {"RECOVERED": 1, "GAP": 0, "UNKNOWN": 0}
    assert len(totals.pop("broken")) == 4
    assert totals == {
        "sent": 4,
        "confirmed": 2,
        "unknown": 1,
        "not_delivered": 1,
        "dead": 0,
        "pushed": 4,
        "received": 3,
        "covered": 0,
        "lost": 3,
        "duplicated": 2,
        "reordered": 0,
        "unexpected": 0,
        "reconnects": 1,
    }


def test_findings_name_the_first_serials():
    """A finding is one line: the promise, what it means, the first ten serials, how many more."""
    lines = inbound(range(1, 15), []).judge().findings()
    assert lines == [
        "lost: pushed and never delivered, and no gap covers them: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 4 more"
    ]
