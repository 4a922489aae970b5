"""Row 24: a thousand clients lose one bridge together. Their returns are spread, in every second and for every outage.

Rule: our own Reconnection decides every wait; only the clock and the bridge are played.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import classify_close
from resilient_bridge.protocol import Now
from tests.internals.protocol import Reconnection


CLIENTS = 1_000
REFUSED = rb.Failure.of("CONN_REFUSED")


def arrivals(policy, outage, loss):
    """When each client comes back, in seconds after the bridge does; an attempt during the outage is refused at once."""
    found = []
    for number in range(CLIENTS):
        client = Reconnection(policy, random.Random(number), superseded=(4409,), can_refresh=False)
        client.connected()
        client.ready(Now(-100.0, -100.0))
        client.pong()
        at, failure = 0.0, loss
        while True:
            decision = client.lost(failure, Now(at, at))
            assert decision.retry
            at += decision.wait
            if at >= outage:
                found.append(at - outage)
                break
            failure = REFUSED
    return found


LOST = classify_close(None, "", None)
RESTARTED = classify_close(1012, "service restart", "peer")


@pytest.mark.parametrize("outage", [1, 3, 7, 15, 30, 60, 120, 600])
@pytest.mark.parametrize("loss", [LOST, RESTARTED], ids=["lost", "restarted"])
def test_row_24_thundering_herd(outage, loss):
    """After an outage of any length the fullest second holds less than three times what the mean second does.

    The mean is that of the time in which 95 % come back: the last few would make any herd look spread.
    """
    found = sorted(arrivals(rb.presets.default.reconnect, outage, loss))
    bins = Counter(int(at) for at in found)
    most = int(CLIENTS * 0.95)
    mean = most / (int(found[most - 1]) - int(found[0]) + 1)
    assert len(found) == CLIENTS
    assert found[-1] <= 45
    assert max(bins.values()) < 3 * mean, sorted(bins.items())


@pytest.mark.parametrize("loss", [LOST, RESTARTED], ids=["lost", "restarted"])
def test_row_24_the_first_wait_is_spread(loss):
    """After a restart of a second no quarter of a second meets more than a quarter of the clients."""
    bins = Counter(int(at * 4) for at in arrivals(rb.presets.default.reconnect, 1.0, loss))
    assert max(bins.values()) < CLIENTS / 4


def test_row_24_no_two_clients_keep_step():
    """Two clients that lost the same link at the same moment do not try together, not even the first time."""
    policy = rb.presets.default.reconnect
    waits = {
        Reconnection(policy, random.Random(seed), superseded=(), can_refresh=False)
        .lost(REFUSED, Now(0.0, 0.0))
        .wait
        for seed in range(CLIENTS)
    }
    assert len(waits) == CLIENTS
