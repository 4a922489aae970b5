"""The state machine as data: whole, reachable, and told in the documented words."""

from __future__ import annotations

import itertools

import pytest

from resilient_bridge.bridge import BridgeState as S
from resilient_bridge.bridge import Dialect
from tests.internals.protocol import EXPECTED, LINKED, SENDING, TRANSITIONS
from tests.reference import REASONS
from tests.reference_layout import mermaid


PATH = [S.IDLE, S.CONNECTING, S.AUTHENTICATING, S.JOINING, S.REPLAYING, S.FLUSHING, S.READY]
TARGETS = {
    state: {target for (source, _), target in TRANSITIONS.items() if source is state} for state in S
}


def test_the_path_of_a_healthy_link():
    """Each state leads to the next; a first join skips REPLAYING."""
    for state, following in itertools.pairwise(PATH):
        assert following in TARGETS[state]
    assert S.FLUSHING in TARGETS[S.JOINING]


@pytest.mark.parametrize("state", PATH[1:])
def test_a_loss_leads_to_backoff_or_to_suspended_and_back(state):
    """From every state with an attempt or a link; both lead to CONNECTING and nowhere else but the end."""
    assert {S.BACKOFF, S.SUSPENDED, S.FAILED} <= TARGETS[state]
    assert TARGETS[S.BACKOFF] == {S.CONNECTING, S.SUSPENDED, S.FAILED, S.CLOSING}
    assert TARGETS[S.SUSPENDED] == {S.CONNECTING, S.FAILED, S.CLOSING}


def test_draining_is_only_from_where_something_can_be_sent():
    """FLUSHING and READY, and it leads to the end."""
    assert {source for (source, trigger) in TRANSITIONS if trigger == "drain"} == {
        S.FLUSHING,
        S.READY,
    }
    assert TARGETS[S.DRAINING] <= {S.CLOSING, S.FAILED}


def test_every_state_can_be_closed_once():
    """any -> CLOSING -> CLOSED, and CLOSED is the end."""
    assert {source for (source, trigger) in TRANSITIONS if trigger == "close"} == set(S) - {
        S.CLOSING,
        S.CLOSED,
    }
    assert TARGETS[S.CLOSING] == {S.CLOSED}
    assert TARGETS[S.CLOSED] == set()
    assert TARGETS[S.FAILED] == {S.CLOSING}


def test_every_state_is_reached():
    """From IDLE, along the edges."""
    seen, new = set(), {S.IDLE}
    while new:
        seen |= new
        new = set().union(*(TARGETS[state] for state in new)) - seen
    assert seen == set(S)


def test_the_phases_know_what_they_expect():
    """A list for every state with a link, of names that a dialect has; sending needs a link."""
    assert set(EXPECTED) == set(LINKED)
    assert SENDING <= LINKED
    fields = {name for names in EXPECTED.values() for name in names}
    assert all(hasattr(Dialect(), name) for name in fields)


def test_the_diagram_holds_every_edge():
    """The docs are generated from the table."""
    text = mermaid()
    assert text.splitlines()[0] == "stateDiagram-v2"
    for (source, trigger), target in TRANSITIONS.items():
        line = next(
            line for line in text.splitlines() if f" {source.name} --> {target.name}:" in line
        )
        assert trigger in line


def test_the_reasons_of_the_design_are_there():
    """delivery.md §2, word by word."""
    wanted = (
        "user heartbeat_timeout peer_closed connect_refused dns tls upgrade_rejected auth_expired auth_rejected session_lost "
        "protocol_error replay_timeout overflow suspected_sleep rate_capped poison superseded"
    )
    assert set(wanted.split()) <= REASONS.keys()
