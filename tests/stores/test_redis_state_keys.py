"""Circuits and budgets of the values of a key function, shared through a real Redis."""

from __future__ import annotations

import time

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import RedisState
from tests.redis_server import redis_server_fixture


pytestmark = pytest.mark.real
server = redis_server_fixture(scope="module")


def fetch(host: object) -> object:
    """Refuse for one host."""
    if host == "down":
        raise ConnectionRefusedError
    return host


def shared(state: RedisState, failures: int = 2, **how) -> object:
    """Protect a function that other processes have as well, by its name."""
    breaker = rb.Breaker.consecutive(failures, open_for=60, key=lambda host: host, **how)
    return rb.Policy(breaker, state=state)(fetch)


def codes(call, host, calls) -> list[str]:
    outcomes = [rb.capture(call, host) for _ in range(calls)]
    return ["ok" if each.failure is None else each.failure.code for each in outcomes]


def test_the_circuit_of_a_value_is_that_of_all_processes(server):
    """Opened through one connection for one host, it rejects that host alone through another."""
    with RedisState(server.url, timeout=2) as ours, RedisState(server.url, timeout=2) as theirs:
        here, there = shared(ours), shared(theirs)
        assert codes(here, "down", 2) == ["CONN_REFUSED"] * 2
        deadline = time.monotonic() + 5
        while codes(there, "down", 1) != ["SYS_CIRCUIT_OPEN"]:
            assert time.monotonic() < deadline
        assert codes(there, "up", 1) == codes(here, "up", 1) == ["ok"]


def test_a_shadow_of_a_shared_circuit_rejects_nothing(server):
    with RedisState(server.url, timeout=2) as ours:
        watched = shared(ours, 1, shadow=True)
        assert codes(watched, "down", 4) == ["CONN_REFUSED"] * 4


def test_a_value_that_processes_could_not_agree_on_is_refused(server):
    """The text of an object differs between processes; nothing is called."""
    with RedisState(server.url, timeout=2) as ours:
        with pytest.raises(rb.ConfigError, match="other processes have to agree"):
            shared(ours)(object())
        assert codes(shared(ours), 7, 1) == codes(shared(ours), ("eu", 7), 1) == ["ok"]
