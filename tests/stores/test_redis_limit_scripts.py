"""The scripts of limits in a real Redis, held against the server that the tests of calls use, and at what only a real one has."""

from __future__ import annotations

import random
import time
from math import inf

import pytest

from resilient_bridge.stores import RedisState
from tests.calls import remote_store
from tests.internals.calls import LimitProposal, LimitShare
from tests.internals.stores import LIMIT, LIMITS, Exchange
from tests.peers.running import until
from tests.redis_server import redis_server_fixture


pytestmark = pytest.mark.real
server = redis_server_fixture(scope="module")
LEASE = 10_000_000  # us


@pytest.fixture
def client(server):
    with server.client() as one:
        one.flushall()
        yield one


def exchange(client, user, known="", numbers="", *, ttl=600_000, mine="-", lease=LEASE):
    return client.eval(LIMIT.text, 1, "quota", user, known, numbers, ttl, lease, mine)


def in_force(client, *here):
    return client.eval(LIMITS.text, 1, "limits", *here)


@pytest.mark.parametrize("seed", range(20))
def test_it_answers_as_the_server_of_the_tests_of_calls(client, seed):
    """The same proposals of three users, with versions that are right and wrong, to both."""
    chance = random.Random(seed)
    twin = remote_store.Server(clock=lambda: 0.0)
    known = dict.fromkeys((1, 2, 3), ("", 0))
    for _ in range(60):
        user = chance.choice([1, 2, 3])
        numbers = (
            tuple(float(chance.randrange(9)) for _ in range(3)) if chance.random() < 0.5 else None
        )
        first = chance.choice([inf, 5.0])
        share = LimitShare(chance.randrange(3), chance.randrange(2), first, 0.0)
        proposal = LimitProposal(1, numbers, share, 600.0) if chance.random() < 0.8 else None
        if chance.random() < 0.05:
            client.flushall()
            twin.limits.clear()
        mine = "-"
        if proposal is not None:
            has = share.running or share.earlier or share.first < inf
            mine = f"{share.running} {share.earlier} {share.first!r}" if has else "0"
        text = " ".join(map(repr, numbers)) if proposal is not None and numbers else ""
        version, at = known[user]
        is_written, now_version, _, written, others = exchange(
            client, user, version, text, mine=mine
        )
        expected = twin.exchange("quota", user, at, proposal)
        assert bool(is_written) == expected.is_written
        got = tuple(map(float, written.split())) if written or not now_version else None
        assert got == expected.numbers
        rows = [tuple(map(float, row.split()[1:])) for row in others]
        assert sorted(rows) == sorted(tuple(row[:3]) for row in expected.others)
        known[user] = now_version, expected.version


def test_nothing_is_there_for_ever(client):
    exchange(client, "a", mine="1 0 inf")
    assert client.keys() == []  # a share without a limit is none
    exchange(client, "a", numbers="1.0", ttl=5_000, mine="1 0 inf")
    in_force(client, "quota", 5_000)
    assert 0 < client.pttl("quota") <= 5_000
    assert 0 < client.pttl("limits") <= 5_000
    exchange(client, "a", numbers="1.0", ttl=0)
    assert 0 < client.pttl("quota") <= 5_000  # what is forgotten already is not written


def test_who_does_not_ask_for_its_lease_has_nothing_any_more(client):
    exchange(client, "dead", numbers="1.0", mine="2 0 inf")
    assert len(exchange(client, "other")[4]) == 1
    ends = time.monotonic() + 5
    while exchange(client, "other", lease=50_000)[4]:
        assert time.monotonic() < ends
    assert exchange(client, "other")[4] == []
    assert set(client.hkeys("quota")) == {"version", "numbers"}


def test_a_proposal_that_comes_too_late_renews_the_lease_and_nothing_else(client):
    version = exchange(client, "a", numbers="1.0", mine="2 0 inf")[1]
    before = client.hget("quota", "a")
    exchange(client, "b", version, "2.0")
    assert exchange(client, "a", version, "3.0", mine="9 0 inf")[0] == 0
    after = client.hget("quota", "a")
    assert client.hget("quota", "numbers") == "2.0"
    assert after.split()[1:] == before.split()[1:] == ["2", "0", "inf"]
    assert int(after.split()[0]) > int(before.split()[0])


def test_after_the_clock_of_the_server_was_set_back_a_limit_begins_anew(client):
    later = (time.time() + 60) * 1_000_000
    client.hset(
        "quota", mapping={"version": f"{later:.0f}", "numbers": "1.0", "a": f"{later:.0f} 1 0 inf"}
    )
    reply = exchange(client, "b")
    assert (reply[1], reply[3], reply[4]) == ("", "", [])
    assert client.keys() == []


def test_versions_of_a_limit_that_was_lost_do_not_come_again(client):
    seen = set()
    for _ in range(50):
        version = exchange(client, "a", numbers="1.0")[1]
        assert version not in seen
        seen.add(version)
        client.delete("quota")


def test_the_list_has_what_is_in_force_and_at_most_512(client):
    assert in_force(client) == []
    assert in_force(client, "a", 50, "b", 600_000) == ["a", "b"]
    ends = time.monotonic() + 5
    while in_force(client) != ["b"]:
        assert time.monotonic() < ends
    many = [part for number in range(600) for part in (f"limit {number}", 700_000 + number)]
    found = in_force(client, *many)
    assert len(found) == 512
    assert "limit 599" in found
    assert "limit 0" not in found


def test_entries_from_before_the_clock_was_set_back_are_dropped(client):
    client.zadd("limits", {"old": time.time() * 1_000 + 7_200_000})
    assert in_force(client) == []


# ---- the clock of the server ---------------------------------------------------------------------------


def test_the_clock_of_the_server_is_known_as_well_as_the_fastest_answer_allows():
    """A slow answer moves nothing; a clock that was set is followed at once."""
    one = Exchange("redis://127.0.0.1:1", "test", timeout=1, retry_after=1)
    assert one.known_ahead is None

    def asked(began, ended, clock):
        one._between = began, ended
        return one.ahead(clock)

    assert asked(10.0, 10.2, 1_010.1) == pytest.approx(1_000.0)
    assert asked(20.0, 20.002, 1_020.051) == pytest.approx(1_000.049)  # at the nearest bound
    assert asked(30.0, 35.0, 1_034.9) == pytest.approx(1_000.049)  # fits, however slow
    assert asked(40.0, 40.002, 1_100.0) == pytest.approx(1_059.998)  # it was set
    assert one.known_ahead == pytest.approx(1_059.998)


async def test_what_is_proposed_just_before_the_limit_is_forgotten_is_written(server, client):
    """A call whose permit is in it waits for that, and would wait for ever."""
    learnt = []
    share = LimitShare(running=1, earlier=0, first=inf, at=0.0)
    with RedisState(server.url) as state:
        line = state.limits().line("quota", lambda _, number: learnt.append(number))
        line.propose(LimitProposal(number=1, numbers=(1.0,), share=share, seconds=0.0001))
        await until(lambda: learnt, "there is an answer")
    assert learnt[0] == 1


async def test_a_closed_state_gives_back_what_it_has_although_a_call_proposes(server, client):
    """A call that waits proposes until it hears of the end; the others would wait for its lease."""
    learnt = []
    share = LimitShare(running=1, earlier=0, first=inf, at=0.0)
    state = RedisState(server.url)
    line = state.limits().line("quota", lambda _, number: learnt.append(number))
    line.propose(LimitProposal(number=1, numbers=(1.0,), share=share, seconds=600.0))
    await until(lambda: learnt, "there is an answer")
    end = line.ending

    def ending():
        is_more = end()
        line.propose(LimitProposal(number=2, numbers=None, share=share, seconds=600.0))
        return is_more

    line.ending = ending
    state.close()
    (key,) = client.keys("*limit:*")
    assert {*client.hgetall(key)} == {"version", "numbers"}
