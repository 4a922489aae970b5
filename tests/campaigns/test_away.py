"""M01: an MCP server behind nginx and npm's http-proxy that is killed, deployed anew and hangs; effects are counted on its disk.

Rule: a sample runs in CI, all of it with `nox -s campaigns`; `python -m tests.campaigns.away` prints docs/reference/evidence.md.
"""

from __future__ import annotations

import pytest

from tests.campaigns import away
from tests.campaigns.away import LESS, NEAR, fronts_of, play
from tests.peers.nginx import PROGRAM
from tests.peers.node_proxy import IS_THERE


pytestmark = [pytest.mark.real, pytest.mark.sample, pytest.mark.timeout(900)]

CALLS = 300


def _skip_without(front: str) -> None:
    if front.startswith("nginx") and PROGRAM is None:
        pytest.skip("nginx is missing: apt-get install nginx-light")
    if front == "http-proxy" and not IS_THERE:
        pytest.skip("npm's http-proxy is missing: run `npm ci` in tests/node")


@pytest.mark.requirement("X5")
@pytest.mark.parametrize(
    ("near", "front"),
    [("sidecar", "nginx, HTTP/1.1"), ("reconnecting", "http-proxy")],
)
async def test_calls_wait_out_a_server_that_is_killed_behind_a_proxy(near, front, monkeypatch):
    """Sixty calls by four callers, one kill: only what was under way then, or met the proxy first, is in doubt."""
    _skip_without(front)
    monkeypatch.setattr(away, "BETWEEN", 60)
    row = await play(near, front, 1, 60)
    assert row.wrong == []
    assert row.outages == 1
    assert row.reported["unknown"] <= 2 * away.CALLERS
    assert row.reported["done"] + row.reported["unknown"] == row.calls == 60


@pytest.mark.campaign
@pytest.mark.parametrize("near", NEAR)
async def test_no_fewer_good_answers_behind_proxies_than_at_the_servers_own_port(near):
    """Less five of a hundred, which are the calls under way when a proxy gives up a server that hangs."""
    own, fewer = 0.0, list[str]()
    for front in fronts_of(near):
        _skip_without(front)
        row = await play(near, front, 1, CALLS)
        assert row.wrong == []
        own = own or row.good
        if row.good < own - LESS:
            fewer.append(f"{front}: {row.good:.1%}, at its own port {own:.1%}")
    assert fewer == []
