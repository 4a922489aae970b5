"""A link that was READY, and answers to its dials that may be a captive portal's: how long they are tried again."""

from __future__ import annotations

import random

import attrs
import pytest

from resilient_bridge.bridge import BridgeState, Reconnect
from resilient_bridge.failure import Failure, classify_error_payload
from resilient_bridge.presets import ccsetup, default, gasoline, openviber, recursor, stdiobus
from resilient_bridge.protocol import Now
from resilient_bridge.values import Backoff, Rule
from tests.internals.failure import tls_finding, upgrade_finding
from tests.internals.protocol import Reconnection
from tests.internals.telemetry import GaveUp
from tests.protocol.driving import CUT, REFUSED, START, Rig, closed
from tests.rows import each_row


def answered(status, body=None, **headers):
    """An HTTP answer instead of the upgrade."""
    return upgrade_finding(status, headers, body).failure()


def refused_certificate(reason, expiry=None):
    return tls_finding(reason, expiry).failure()


PAGE = answered(200, b"<html>sign in</html>")
REDIRECT = Failure.of("CONN_REDIRECT_REFUSED")
FOREIGN = refused_certificate("UNTRUSTED_CHAIN", "2099-01-01T00:00:00Z")


class Outage:
    """A link that was READY and is cut; `dial(failure)` is the next attempt, after the wait before it."""

    def __init__(self, policy=default.reconnect, *, was_ready=True):
        self.mono = 100.0
        self.core = Reconnection(policy, random.Random(1), superseded=(4409,), can_refresh=False)
        self.core.target = "wss://a/ws"
        if was_ready:
            self.core.connected()
            self.core.ready(self.now)
            self.core.pong()
            self.mono += 60
            self.dial(CUT)

    @property
    def now(self):
        return Now(self.mono, START + self.mono)

    def dial(self, failure):
        decision = self.core.lost(failure, self.now)
        self.mono += decision.wait
        return decision

    def until_the_end(self, failure):
        """Dial until it gives up; returns the decision, the seconds since the first such answer, and how many came."""
        began, count = self.mono, 0
        while True:
            count += 1
            at = self.mono
            decision = self.dial(failure)
            if not decision.retry:
                return decision, at - began, count
            assert count < 1_000


@each_row(
    "failure",
    [
        *(answered(status) for status in (200, 204, 300, 302, 400, 402, 403, 404, 405, 407, 410, 426, 451, 501, 505, 510)),
        PAGE, REDIRECT, FOREIGN, refused_certificate("SELF_SIGNED"), refused_certificate("HOSTNAME_MISMATCH"),
        refused_certificate("PROTOCOL"),
    ],
)  # fmt: skip
def test_l09_an_answer_that_may_be_a_portals_is_tried_again_until_the_grace_is_over(failure):
    """It is no end for five minutes, whatever would be final otherwise; then the last one is, as it came."""
    end, seconds, count = Outage().until_the_end(failure)
    assert 300 <= seconds < 331
    assert count >= 5
    assert (end.failure.code, end.failure.message) == (failure.code, failure.message)
    assert end.reason != "exhausted"
    assert any("captive portal" in advice for advice in end.failure.suggestions)
    assert not Outage(was_ready=False).dial(failure).retry, "a first connect has proved nothing"


@each_row(
    "failure",
    [
        answered(401), refused_certificate("CERTIFICATE_EXPIRED"), refused_certificate("REVOKED"),
        refused_certificate("PIN_MISMATCH"), refused_certificate("NOT_YET_VALID"), refused_certificate("CLIENT_CERTIFICATE"),
        refused_certificate("SELF_SIGNED", "2026-03-01T00:00:00Z"), Failure.of("CONN_INSECURE"),
        Failure.of("SYS_CONFIG_INVALID"), answered(403, b'{"code": "AUTH_INVALID_TOKEN", "message": "no"}'),
    ],
)  # fmt: skip
def test_l09_what_is_about_the_client_or_the_servers_own_certificate_is_still_final(failure):
    """Credentials that are named, a configuration, and a certificate that the server itself let expire."""
    assert not Outage().dial(failure).retry


@each_row(
    "failure", [closed(4403), closed(1002), classify_error_payload({"code": "AUTH_FORBIDDEN"})]
)  # fmt: skip
def test_l09_an_accepted_connection_is_judged_as_before(failure):
    """A close code and a `connection_error` come from a server that speaks the protocol."""
    outage = Outage()
    outage.core.connected()
    assert not outage.dial(failure).retry


def test_l09_it_is_another_url_that_has_proved_nothing():
    """A callable that names another host: its 403 is the first answer of that server."""
    outage = Outage()
    outage.core.target = "wss://b/ws"
    assert not outage.dial(answered(403)).retry


@pytest.mark.parametrize("on_exhausted", ["suspend", "raise"])
def test_l09_such_answers_are_counted_by_themselves(on_exhausted):
    """They use up no attempts, refused connections between them do not count as such, and READY begins anew."""
    policy = Reconnect(
        backoff=Backoff.constant(10), attempts=40, grace=60, on_exhausted=on_exhausted
    )
    outage = Outage(policy)
    for _ in range(20):
        assert outage.dial(REFUSED).retry
    end, seconds, count = outage.until_the_end(PAGE)
    assert (seconds, count, end.reason) == (390, 40, "upgrade_rejected(200)")
    outage = Outage(policy)
    for _ in range(39):
        assert outage.dial(PAGE).retry
    outage.core.connected()
    outage.core.ready(outage.now)
    outage.dial(CUT)
    assert outage.dial(PAGE).retry
    few = Outage(policy.evolve(attempts=2, grace=1000))
    assert few.until_the_end(PAGE)[1:] == (1000, 101)
    none = Outage(policy.evolve(attempts=None))
    assert none.until_the_end(PAGE)[1:] == (60, 7)


@pytest.mark.requirement("R5")
@pytest.mark.parametrize("preset", [recursor, openviber, gasoline, stdiobus, ccsetup])
def test_l09_a_certificate_is_final_in_the_presets_of_specifications(preset):
    """R5: never retried; the other answers are, there as well."""
    assert not Outage(preset.reconnect).dial(FOREIGN).retry
    assert not Outage(preset.reconnect).dial(refused_certificate("PROTOCOL")).retry
    end, seconds, count = Outage(preset.reconnect).until_the_end(PAGE)
    assert (end.failure.code, seconds >= 300, count >= 5) == (PAGE.code, True, True)


def test_l09_the_user_is_informed_as_of_any_outage():
    """SUSPENDED after `attempts`; the schedule goes on."""
    outage = Outage()
    assert [outage.dial(PAGE).suspended for _ in range(6)] == [False] * 4 + [True] * 2


@pytest.mark.parametrize("on_exhausted", ["suspend", "raise"])
def test_l09_511_is_never_about_the_server(on_exhausted):
    """It is tried again on a first connect, too, and uses up no attempts; its Retry-After is not the server's."""
    first = Outage(Reconnect(on_exhausted=on_exhausted), was_ready=False)
    assert all(first.dial(answered(511)).retry for _ in range(500))
    assert first.core.is_doubtful
    patient = attrs.evolve(answered(511), retry_after=1e6)
    assert Outage().dial(patient).wait <= 30
    assert Outage().dial(attrs.evolve(PAGE, details={**PAGE.details, "retry_at": 9e9})).wait <= 30


def test_l09_a_rule_of_the_policy_takes_precedence():
    """Its own count and schedule: nothing of this applies."""
    policy = Reconnect(
        rules={"CONN_UPGRADE_REJECTED": Rule(attempts=2, backoff=Backoff.constant(7))}
    )
    outage = Outage(policy)
    assert [outage.dial(PAGE).wait for _ in range(2)] == [7, 7]
    assert not outage.dial(PAGE).retry


def test_l09_no_credentials_go_to_it_in_clear_text():
    """Whoever would show them to what answers (`sends_in_clear`) does not dial again."""
    outage = Outage()
    outage.core.sends_in_clear = True
    assert not outage.dial(PAGE).retry


def test_l09_what_is_queued_survives_and_is_dropped_at_the_end_alone():
    """A session with three sends: a page, a redirect, a 403, then the server again; or the end after the grace."""
    rig = Rig().up()
    rig.lose()
    for _ in range(3):
        rig.send()
    for failure in (PAGE, REDIRECT, answered(403)):
        rig.session.connecting(rig.now)
        assert rig.lose(failure).retry
        assert len(rig.session.outbound.outbox.queued) == 3
    rig.up()
    assert [frame["type"] for frame in rig.wire].count("note") == 3
    rig.lose()
    entry = rig.send()
    while rig.state is not BridgeState.FAILED:
        assert not entry.is_settled
        rig.session.connecting(rig.now)
        rig.idle(rig.lose(PAGE).wait)
    assert (entry.state, rig.of(GaveUp)[0].failure.code) == ("dropped", PAGE.code)
