"""Clients behind nginx, over HTTP/1.1 and HTTP/2, while it is reloaded and while it limits them; effects are counted behind it."""

from __future__ import annotations

import httpx
import pytest

import resilient_bridge as rb
from tests.adapters.behind_nginx import LIBRARIES, VERSIONS, as_error_record, client_of, in_parallel
from tests.adapters.campaigns import TRUE
from tests.peers.effects import Effects
from tests.peers.nginx import needs_nginx, nginx


pytestmark = [pytest.mark.real, needs_nginx]


@LIBRARIES
@VERSIONS
async def test_a_reload_under_traffic_costs_no_call(tmp_path, library, is_http2):
    """Three deployments while four callers work: every PUT is answered, no POST runs twice or is told what is not so."""
    async with (
        Effects(size=50_000) as far,
        nginx(tmp_path / "nginx", far.port) as front,
        client_of(library, front, is_http2=is_http2) as client,
    ):

        async def make(key: str) -> str:
            if key in {"n30", "n60", "n90"}:
                await front.reload()
            method = "POST" if int(key[1:]) % 2 else "PUT"
            return await as_error_record(
                client.request(method, "/", params={"key": key}, content=b"x")
            )

        came = await in_parallel(120, make)
    wrong = {
        key: (reported, far.ran[key])
        for key, reported in came.items()
        if int(key[1:]) % 2 and far.ran[key] not in TRUE[reported]
    }
    assert not wrong
    assert {reported for key, reported in came.items() if not int(key[1:]) % 2} == {"done"}
    assert front.workers == 4


LIMIT = "limit_req_zone $server_name zone=all:1m rate=50r/s; limit_req_status {status};"


@pytest.mark.parametrize("status", [429, 503])
@VERSIONS
async def test_a_storm_of_refusals_by_a_limit_is_sat_out(tmp_path, status, is_http2):
    """80 GETs by 20 callers against 50 a second, with Retry-After: all served, none executed twice."""
    server = "limit_req zone=all burst=5 nodelay; add_header Retry-After 1 always;"
    policy = rb.Policy(
        rb.Retry(attempts=12, backoff=rb.Backoff.exponential(0.05, cap=1), budget=None)
    )
    async with (
        Effects() as far,
        nginx(
            tmp_path / "nginx", far.port, http=LIMIT.format(status=status), server=server
        ) as front,
        client_of(httpx, front, is_http2=is_http2, policy=policy) as client,
    ):
        came = await in_parallel(
            80, lambda key: as_error_record(client.get("/", params={"key": key})), callers=20
        )
    assert set(came.values()) == {"done"}
    assert set(far.ran.values()) == {1}
