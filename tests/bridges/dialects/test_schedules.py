"""Seeded schedules of faults over each dialect: nothing is lost, doubled or reordered in silence, and the judge would see it.

A sample runs always, a thousand for each dialect with `nox -s campaigns`.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest

import resilient_bridge as rb
from tests.bridges.dialects.cases import CASES
from tests.bridges.dialects.schedules import Seen, run
from tests.internals.protocol import Inbox, Outbox, positioned, recovery, replaying, resuming


FIRST, SAMPLE, ALL = 16, 5, 1_000  # of the sample some have stray frames
#: what a cut of a server that lives and holds everything ends in
PROVES = {"openhands", "openhands_legacy", "openhands_legacy with live events between those of a replay", "sequence", "sequence with holes", "since", "agno", "agno that misses events between its replay and its live ones", "socketio", "recursor", "recursor with server_id and message_ack", "mattermost", "centrifugo", "last_event_id", "sequence in a frame, with an end, a reset and an epoch"}  # fmt: skip


def _schedules(case, seeds) -> Seen:
    total = Seen()
    for seed in seeds:
        seen = run(case, seed)
        total.verdicts += seen.verdicts
        total.delivered += seen.delivered
        total.strays += seen.strays
        total.problems += seen.problems
    return total


@pytest.mark.requirement("X1")
@pytest.mark.requirement("X2")
@pytest.mark.requirement("X3")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_sample_of_schedules(case):
    """No problem in any, and RECOVERED where the server can prove it."""
    seen = _schedules(case, range(FIRST, FIRST + SAMPLE))
    assert seen.problems == []
    assert seen.delivered > 10 * SAMPLE
    assert seen.strays > 0
    if case.name in PROVES:
        assert seen.verdicts[rb.bridge.Verdict.RECOVERED] > seen.verdicts[rb.bridge.Verdict.UNKNOWN]
    else:
        assert not seen.verdicts[rb.bridge.Verdict.RECOVERED]
        assert seen.verdicts[rb.bridge.Verdict.UNKNOWN]


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_thousand_schedules(case):
    """As the sample, with other seeds."""
    seen = _schedules(case, range(10_000, 10_000 + ALL))
    assert seen.problems == []


def _no_gaps(self, hole):
    """A client that believes to be connected again is enough."""


def _always_recovered(evidence, policy):
    found = recovery.judge(evidence, policy)
    good = recovery.Finding(rb.bridge.Verdict.RECOVERED, "stated", "stated")
    deliveries = [each for each in found.deliveries if not isinstance(each, recovery.Hole)]
    return found._replace(findings=dict.fromkeys(found.findings, good), deliveries=deliveries)


def _all_known(self, event, text):
    """Any event at a known position is the one that was delivered, and proves the log."""
    return positioned.Match.TIME


def _greet_and_forget(self, hello, number):
    """A client that does not look at the name of its session."""
    self._positioned.bookmark.greet(hello, number)


def _repeats_all(self, entry, now, *, same_epoch, dedupes):
    """A client that sends again what it has no answer for."""
    return


def _no_holes(self, event, text, reached, now):
    """A client that takes every number above the last."""
    self.accept(event, text, now)


@pytest.mark.sample
@pytest.mark.parametrize(
    ("name", "target", "attribute", "wrong"),
    [
        ("sequence", positioned.Positioned, "report", _no_gaps),
        ("openhands_legacy", positioned.Positioned, "report", _no_gaps),
        ("sequence", resuming, "judge", _always_recovered),
        ("centrifugo", resuming, "judge", _always_recovered),
        ("sequence", positioned.Positioned, "match", _all_known),
        ("agno that misses events between its replay and its live ones", positioned.Positioned, "_next", _no_holes),
        ("mattermost", replaying.Replaying, "greet", _greet_and_forget),
        ("recursor", Inbox, "put_gap", _no_gaps),
        ("recursor", Outbox, "_unrepeatable", _repeats_all),
        ("centrifugo", Outbox, "_unrepeatable", _repeats_all),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_client_that_does_less_is_caught(name, target, attribute, wrong):
    """Each of these leaves one thing out, and the schedules see it."""
    case = next(case for case in CASES if case.name == name)
    with patch.object(target, attribute, wrong):
        assert any(run(case, seed).problems for seed in range(80))
