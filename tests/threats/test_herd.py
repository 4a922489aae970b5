"""Row 24: a thousand clients lose one bridge together. Their returns are spread, in every second and for every outage.

Rule: our own Reconnection decides every wait; only the clock and the bridge are played.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

import resilient_bridge as rb
from resilient_bridge.classification import classify_close
from resilient_bridge.protocol import Now
from resilient_bridge.protocol.reconnection import Reconnection


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


@pytest.mark.parametrize("outage", [7, 15, 30, 60, 120, 240, 600, 3_600])
@pytest.mark.parametrize("code", [1006, 1012])
def test_row_24_thundering_herd(outage, code):
    """After an outage of any length the fullest second holds less than three times what the mean second does."""
    loss = classify_close(code, "", "peer") if code != 1006 else classify_close(None, "", None)
    found = arrivals(rb.presets.default.reconnect, outage, loss)
    bins = Counter(int(at) for at in found)
    window = max(bins) + 1
    assert len(found) == CLIENTS
    assert max(found) <= 45
    assert max(bins.values()) < 3 * CLIENTS / window, sorted(bins.items())


@pytest.mark.parametrize("code", [1006, 1012])
def test_row_24_a_short_restart(code):
    """Even the first wait is spread: after a restart of a second nobody meets more than half of the others."""
    loss = classify_close(code, "", "peer") if code != 1006 else classify_close(None, "", None)
    bins = Counter(int(at * 4) for at in arrivals(rb.presets.default.reconnect, 1.0, loss))
    assert max(bins.values()) < CLIENTS / 4  # of any quarter of a second


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
