"""When to try again: schedules, exhaustion, credentials, patience, and the cap on connections that die young."""

from __future__ import annotations

import random

import pytest

from resilient_bridge.bridge import Reconnect
from resilient_bridge.failure import Category, Failure, classify_close
from resilient_bridge.presets import default, openviber, recursor
from resilient_bridge.protocol import Now
from resilient_bridge.values import Backoff, Rule
from tests.internals.protocol import Reconnection
from tests.protocol.driving import CUT, REFUSED, START, closed
from tests.rows import each_row


TIMEOUT = Failure.of("CONN_TIMEOUT")
EXPIRED = Failure.of("AUTH_TOKEN_EXPIRED")


class Life:
    """A Reconnection and its clock."""

    def __init__(self, policy=default.reconnect, *, seed=1, can_refresh=False):
        self.mono = 100.0
        self.connects: list[float] = []
        self.core = Reconnection(
            policy, random.Random(seed), superseded=(4409,), can_refresh=can_refresh
        )

    @property
    def now(self):
        return Now(self.mono, START + self.mono)

    def lost(self, failure, **more):
        decision = self.core.lost(failure, self.now, **more)
        self.mono += decision.wait
        return decision

    def ready(self, seconds=0.0, *, pong=False):
        """A connection that gets READY and lives so long."""
        self.connects.append(self.mono)
        self.core.connected()
        self.core.ready(self.now)
        if pong:
            self.core.pong()
        self.mono += seconds
        return self


@pytest.mark.requirement("R3")
def test_the_schedule_of_recursor_and_its_end():
    """After a loss 1, 2, 5, 10, 30 s without jitter; the fifth failed attempt is the end, with the last cause inside."""
    life = Life(recursor.reconnect).ready(60, pong=True)
    assert [life.lost(failure).wait for failure in (CUT, REFUSED, REFUSED, REFUSED, REFUSED)] == [
        1,
        2,
        5,
        10,
        30,
    ]
    end = life.lost(REFUSED)
    assert (end.retry, end.reason, end.failure.code) == (
        False,
        "exhausted",
        "CONN_RECONNECT_EXHAUSTED",
    )
    assert end.failure.history[-1].code == "CONN_REFUSED"


@pytest.mark.requirement("R6")
def test_the_schedule_after_connect_timeouts():
    """R6: 1 s, 2 s on the cached address, 5 s with a fresh look-up, then exponential from 10 s, each at most 60 s."""
    policy = recursor.evolve(
        reconnect=Reconnect(rules=recursor.reconnect.rules, reuse_address_on=(2,), attempts=None)
    ).reconnect
    life = Life(policy)
    decisions = [life.lost(TIMEOUT) for _ in range(8)]
    assert [decision.wait for decision in decisions] == [1, 2, 5, 10, 20, 40, 60, 60]
    assert [decision.reuse_address for decision in decisions] == [False, True] + [False] * 6
    assert not Life(policy).lost(REFUSED).reuse_address


@pytest.mark.requirement("V7")
def test_the_schedule_of_openviber_and_disconnected_mode():
    """1, 2, 4, 8, 16 s, then disconnected mode: the user is told after five failed attempts and the attempts go on."""
    life = Life(openviber.reconnect).ready(60, pong=True)
    decisions = [life.lost(CUT), *(life.lost(REFUSED) for _ in range(8))]
    assert [decision.wait for decision in decisions] == [1, 2, 4, 8, 16, 16, 16, 16, 16]
    assert [decision.suspended for decision in decisions] == [False] * 5 + [True] * 4
    assert all(decision.retry for decision in decisions)


def test_an_outage_longer_than_the_grace_is_reported():
    """R4's five minutes: however few attempts were made, the session may be gone."""
    policy = Reconnect(backoff=Backoff.constant(200), attempts=None)
    life = Life(policy).ready(60, pong=True)
    assert [life.lost(failure).suspended for failure in (CUT, REFUSED, REFUSED)] == [
        False,
        False,
        True,
    ]
    life.ready(60, pong=True)
    assert life.core.suspends_at() is None
    assert not life.lost(CUT).suspended


def test_the_default_never_gives_up_and_stays_below_its_cap():
    """1,100 refused attempts: each wait within 30 s, and another one follows."""
    life = Life()
    decisions = [life.lost(REFUSED) for _ in range(1_100)]
    assert all(decision.retry and 0 < decision.wait <= 30 for decision in decisions)
    assert len({decision.wait for decision in decisions}) > 100


@pytest.mark.parametrize(
    ("seconds", "pong", "starts_over"),
    [(30, True, True), (29.9, True, False), (1e6, False, False), (0, True, False)],
)
def test_the_schedule_starts_over_only_after_a_proven_link(seconds, pong, starts_over):
    """READY for 30 s and one pong, both: accept-then-close never becomes a storm (threat 19)."""
    life = Life(openviber.reconnect)
    for failure in (REFUSED, REFUSED, REFUSED):
        life.lost(failure)
    life.ready(seconds, pong=pong)
    assert life.lost(CUT).attempt == (1 if starts_over else 4)


@pytest.mark.parametrize(("lasted", "attempt"), [(31.0, 1), (0.9, 5)])
def test_l12_a_link_that_lasted_as_long_as_the_next_wait_starts_the_schedule_over(lasted, attempt):
    """L12: a server that is restarted again and again is found as after its first restart; accept-then-close goes on in the schedule."""
    for seed in range(50):
        life = Life(seed=seed)
        for failure in (CUT, REFUSED, REFUSED, REFUSED):
            life.lost(failure)
        life.ready(lasted)  # no pong: the link is not proven
        decision = life.lost(CUT)
        assert decision.attempt == attempt
        assert (decision.wait <= 0.5) == (attempt == 1)


def test_a_pong_of_an_older_connection_proves_nothing():
    """The pong must come on the connection that was READY for so long."""
    life = Life(openviber.reconnect)
    life.ready(1, pong=True).lost(CUT)
    life.ready(60)
    assert life.lost(CUT).attempt == 2


@each_row("code", [1000, 1001, 1011, 1012])
@each_row("seed", range(5))
def test_accept_then_close_is_no_storm(code, seed):
    """At most 7 connects in the first minute and 4 a minute after, for a server that accepts and closes at once."""
    life = Life(Reconnect(backoff=Backoff.constant(0)), seed=seed)
    start = life.mono
    while life.mono < start + 1_800:
        life.ready()
        life.lost(classify_close(code, "", "peer"))
    minutes = [
        sum(start + 60 * i <= t < start + 60 * (i + 1) for t in life.connects) for i in range(30)
    ]
    assert minutes[0] <= 7
    assert max(minutes[1:]) <= 4
    assert minutes[0] >= 4, "the cap leaves a link that flaps its chances"


def test_the_cap_never_bends_a_schedule_of_refused_attempts():
    """Only connections that were accepted and died young count."""
    life = Life(Reconnect(backoff=Backoff.constant(0.1), attempts=None))
    assert {life.lost(REFUSED).wait for _ in range(50)} == {0.1}
    life.ready(60, pong=True)
    assert life.lost(CUT).wait == 0.1


@pytest.mark.parametrize(
    "failure", [Failure.of("CONN_RESET"), Failure.of("CONN_UNREACHABLE"), TIMEOUT, CUT]
)
def test_l12_the_cap_counts_no_connection_that_was_never_made(failure):
    """A handshake that breaks off (a proxy in front of a server that is away) is a failed attempt, as a refused one is."""
    life = Life(Reconnect(backoff=Backoff.constant(0.1), attempts=None)).ready(5, pong=True)
    assert life.lost(CUT).wait == 0.1
    decisions = [life.lost(failure) for _ in range(20)]
    assert {decision.wait for decision in decisions} == {0.1}
    assert {decision.reason for decision in decisions} <= {"connect_failed", "timeout"}


def test_the_burst_comes_back_with_time():
    """After a quiet while three connections may die young again before the cap holds."""
    life = Life(Reconnect(backoff=Backoff.constant(0)))
    waits = [life.ready().lost(CUT).wait for _ in range(4)]
    assert waits[:2] == [0, 0]
    assert waits[3] > 10
    life.ready(600, pong=True).lost(CUT)
    assert [life.ready().lost(CUT).wait for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(
    "failure",
    [closed(1012), closed(1013), Failure.of("SYS_RATE_LIMITED", details={"http_status": 429})],
    ids=["1012", "1013", "429"],
)
def test_a_server_that_asks_for_patience_gets_five_seconds_and_jitter(failure):
    """1012, 1013 and 429 without a hint: at least 5 s, and clients that lost the same server differ."""
    waits = [
        Life(Reconnect(backoff=Backoff.constant(1)), seed=seed).lost(failure).wait
        for seed in range(50)
    ]
    assert min(waits) >= 5
    assert max(waits) <= 10
    assert len(set(waits)) > 40


@pytest.mark.parametrize(("hint", "wait"), [(0.0, 2.0), (1.0, 2.0), (12.0, 12.0), (600.0, 600.0)])
def test_retry_after_is_a_lower_bound(hint, wait):
    """The server's word lengthens our wait and never shortens it; it also replaces the five seconds."""
    policy = Reconnect(backoff=Backoff.constant(2))
    refused = Failure.of("SYS_RATE_LIMITED", details={"http_status": 429}, retry_after=hint)
    assert Life(policy).lost(refused).wait == wait


def test_a_hint_does_not_feed_the_jitter():
    """Decorrelated waits grow from our own waits, not from what a server asked for once."""
    life = Life(seed=3)
    life.lost(Failure.of("SYS_UNAVAILABLE", retry_after=600.0))
    assert life.lost(REFUSED).wait <= 30


@pytest.mark.parametrize(
    "failure", [EXPIRED, closed(4001), closed(4401), closed(1008)], ids=lambda f: f.code
)
def test_credentials_are_refreshed_once_per_loss(failure):
    """Once, then FAILED; again after READY. Without a way to ask for new ones it fails at once."""
    life = Life(can_refresh=True)
    assert life.lost(failure).retry
    assert not life.lost(failure).retry
    life = Life(can_refresh=True)
    life.lost(failure)
    life.ready()
    assert life.lost(failure).retry
    end = Life(can_refresh=False).lost(failure)
    assert (end.retry, end.failure) == (False, failure)


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("code", [1002, 1003, 1007, 1010, 4003, 4403, 4409])
def test_an_unrecoverable_close_is_the_end(code):
    """FAILED with the failure that was received, no wait, no attempt."""
    life = Life().ready(60, pong=True)
    decision = life.lost(closed(code))
    assert (decision.retry, decision.wait, decision.failure.details["close_code"]) == (
        False,
        0,
        code,
    )


def test_a_lost_session_is_joined_anew():
    """4004 and 4404 ask for a new session; nothing else does."""
    assert Life().lost(closed(4404)).new_session
    assert Life().lost(closed(4004)).new_session
    assert not Life().lost(closed(1011)).new_session


def test_the_first_connect_may_raise():
    """`first_connect="raise"`: the very first attempt decides; later losses are retried."""
    policy = Reconnect(first_connect="raise")
    assert not Life(policy).lost(REFUSED).retry
    assert Life(policy).ready(60, pong=True).lost(CUT).retry
    assert Life().lost(REFUSED).retry


def test_a_rule_overrides_the_table():
    """A loss that would be final is retried if the policy says so, and only so often."""
    policy = Reconnect(rules={1002: Rule(attempts=2, backoff=Backoff.constant(7))})
    life = Life(policy)
    assert [life.lost(closed(1002)).wait for _ in range(2)] == [7, 7]
    assert not life.lost(closed(1002)).retry
    assert not Life(policy).lost(closed(1003)).retry


def test_a_rule_may_name_a_category():
    """What vocabulary: the most specific rule wins, the schedule is its own."""
    rules = {
        Category.TIMEOUT: Rule(backoff=Backoff.constant(3)),
        "CONN_TIMEOUT": Rule(backoff=Backoff.constant(4)),
    }
    life = Life(Reconnect(rules=rules))
    assert life.lost(TIMEOUT).wait == 4
    assert life.lost(Failure.of("SYS_TIMEOUT")).wait == 3


def test_poison_is_the_reason_and_the_link_comes_back():
    """A loss caused by one of our entries is retried and says by which type."""
    decision = Life().lost(closed(1007), poison="note")
    assert (decision.retry, decision.reason) == (True, "poison(note)")


def test_a_run_can_be_replayed():
    """The same seed, the same waits."""
    runs = [
        [Life(seed=seed).lost(failure).wait for failure in (CUT, REFUSED, closed(1012))]
        for seed in (5, 5, 6)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_the_first_hint_of_an_outage_is_taken_at_its_word():
    """A server that plans the return of its clients gets them when it said; one that repeats itself gets our spread as well."""
    waits = [
        Life(seed=seed).lost(Failure.of("SYS_UNAVAILABLE", retry_after=5.0)).wait
        for seed in range(50)
    ]
    assert set(waits) == {5.0}
    again = [
        life.lost(Failure.of("SYS_UNAVAILABLE", retry_after=5.0)).wait
        for life in _throttled_once(50)
    ]
    assert min(again) >= 5
    assert max(again) > 5.5


def _throttled_once(clients):
    for seed in range(clients):
        life = Life(seed=seed)
        life.lost(Failure.of("SYS_UNAVAILABLE", retry_after=5.0))
        yield life
