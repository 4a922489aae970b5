"""What a loss leaves in doubt, where nothing confirms a send: what had left this machine, and what nobody knows.

Rule: the pings of the WebSocket are played by hand: `ping` is what the client's writer does when one is due.
"""

from __future__ import annotations

import json

import resilient_bridge as rb
from resilient_bridge.protocol import EntryState as S
from tests.internals.telemetry import MessageUndelivered, OutboundInDoubt
from tests.protocol.driving import CUT, REFUSED, Rig, closed
from tests.protocol.frames_rig import Pinged, dialect


MUTE = {"ping": None, "pong": None, "ack": None}


def states(entries):
    """The states of entries, each once, in order of appearance."""
    return list(dict.fromkeys(entry.state for entry in entries))


def test_l07_what_no_pong_has_shown_is_unknown_and_the_rest_is_written():
    """At a loss what was written before the last answered ping ends as WRITTEN, what was written after it as UNKNOWN."""
    rig = Pinged().up()
    before = [rig.send() for _ in range(3)]
    rig.write()
    rig.idle(1.0)
    rig.pong()
    after = [rig.send() for _ in range(2)]
    rig.write()
    rig.lose()
    assert states(before) == [S.WRITTEN]
    assert states(after) == [S.UNKNOWN]
    (event,) = rig.of(OutboundInDoubt)
    assert (event.unknown_keys, event.reached_keys) == (
        tuple(entry.key for entry in after),
        tuple(entry.key for entry in before),
    )


def test_l07_a_ping_shows_nothing_about_what_was_written_behind_it():
    """Its pong comes after more was written: only what stood before the ping is shown."""
    rig = Pinged().up()
    before = rig.send()
    rig.write()
    rig.idle(1.0)
    behind = rig.send()
    rig.write()
    rig.pong()
    assert (before.state, before.is_settled, behind.is_settled) == (S.WRITTEN, True, False)


def test_l07_nothing_is_shown_by_what_the_transport_has_not_written():
    """An entry that was handed out and not yet written is not covered by a ping that is written meanwhile."""
    rig = Pinged().up()
    first = rig.send()
    rig.write()
    second = rig.send()
    assert rig.session.frames_to_send(rig.now)
    mark = (
        rig.session.link.wire.pinging()
    )  # by the keepalive, while the writer waits for room in the buffer
    rig.session.link.answered(mark, rig.now)
    assert (first.is_settled, second.is_settled) == (True, False)


def test_l07_one_ping_within_a_second_when_idle_and_one_per_64_under_load():
    """One for a lonely message, none while nothing is sent, and at most one for each 64 messages."""
    rig = Pinged().up()
    rig.send()
    rig.write()
    rig.idle(0.95)
    assert len(rig.pings) == 1
    rig.pong()
    rig.idle(60.0)
    assert rig.pings == []
    for _ in range(64 * 10):
        rig.send()
        rig.write()
    assert len(rig.pings) == 10


def test_l07_a_missing_pong_is_no_sign_of_death():
    """A server that answers no ping keeps its connection, and gets 64 pings at most."""
    rig = Pinged().up()
    for _ in range(200):
        rig.send()
        rig.write()
        rig.idle(1.0)
    assert rig.session.death is None
    assert len(rig.pings) == 64


def test_l07_one_event_names_the_last_64_or_those_of_the_last_30_s():
    """Of what left this machine long ago only the last 64 may be unread; of what left lately all."""
    rig = Pinged().up()
    for number in range(100):
        rig.send(key=f"k{number}")
        rig.write()
    rig.idle(1.0)
    while rig.pings:
        rig.pong()
    rig.idle(31.0)
    rig.send(key="later")
    rig.write()
    rig.idle(1.0)
    rig.pong()
    rig.lose()
    assert rig.doubts() == [(0, 64)]
    (event,) = rig.of(OutboundInDoubt)
    assert (event.reached_keys[0], event.reached_keys[-1]) == ("k37", "later")

    rig.up()
    for _ in range(100):
        rig.send()
        rig.write()
    rig.idle(1.0)
    while rig.pings:
        rig.pong()
    rig.lose()
    assert rig.doubts()[1:] == [(0, 100)]


def test_l07_numbers_are_exact_and_keys_bounded():
    """5,000 sends within 30 s: all are counted, the last 1,000 are named."""
    rig = Pinged().up()
    entries = []
    for _ in range(5_000):
        entries.append(rig.send())
        rig.write()
        while rig.pings:
            rig.pong()
    rig.lose()
    (event,) = rig.of(OutboundInDoubt)
    assert event.unknown + event.reached == 5_000
    assert len(event.reached_keys) == 1_000


def test_l07_a_loss_with_nothing_in_doubt_is_no_event():
    """Nothing was sent: nothing is in doubt; and what was reported for one loss is not reported for the next."""
    rig = Pinged().up()
    rig.lose()
    rig.connect()
    rig.send()
    rig.write()
    rig.lose()
    rig.session.connecting(rig.now)
    rig.lose(REFUSED)
    rig.up().lose()
    assert rig.doubts() == [(1, 0)]


def test_l07_what_was_handed_out_is_never_handed_out_again():
    """To a server that does not dedupe: not even by the next connection."""
    rig = Pinged(dialect(dedupes=False)).up()
    rig.send()
    rig.write()
    rig.lose()
    rig.up()
    assert sum('"send"' in frame for frame in rig.wire) == 0


def test_l07_to_a_server_that_dedupes_it_is_sent_again():
    """Then it is not in doubt: it goes again, with the same id, until a pong shows that it left."""
    rig = Pinged(dialect(dedupes=True)).up()
    entry = rig.send()
    rig.write()
    rig.lose()
    assert not entry.is_settled
    rig.pings.clear()
    rig.up()
    assert sum(entry.id in frame for frame in rig.wire) == 1
    rig.idle(1.0)
    rig.pong()
    assert (entry.state, entry.sends, rig.doubts()) == (S.WRITTEN, 2, [])
    assert rig.session.outbound.outbox.count == 0


def test_l07_it_may_be_sent_again_where_the_user_permits_it():
    """`on_unknown="resend"` is the user's word."""
    rig = Pinged(outbox=rb.bridge.Outbox(on_unknown="resend")).up()
    entry = rig.send()
    rig.write()
    rig.lose()
    rig.up()
    assert (entry.sends, entry.is_settled) == (2, False)


def test_l07_what_waits_for_its_pong_holds_no_room():
    """2,000 sends in flight in an outbox of 1,000: none is refused; beyond 4,096 the oldest ends as UNKNOWN."""
    rig = Pinged().up()
    entries = []
    for _ in range(4_100):
        entries.append(rig.send())
        rig.write()
    outbox = rig.session.outbound.outbox
    assert (outbox.count, outbox.bytes, len(outbox.unconfirmed)) == (0, 0, 4_096)
    assert [entry.state for entry in entries[:5]] == [S.UNKNOWN] * 4 + [S.WRITTEN]
    assert rig.doubts() == []
    rig.lose()
    assert rig.doubts() == [(4_100, 0)]
    assert (outbox.count, outbox.bytes, outbox.unshown, len(outbox.unconfirmed)) == (0, 0, 0, 0)


def test_l07_a_connection_without_pings_shows_nothing():
    """A websocket of the user's that cannot ping: each send is UNKNOWN once written, and the loss says how many."""
    rig = Pinged().up()
    first = rig.send()
    rig.write()
    rig.idle(1.0)
    rig.session.link.cannot_ping()
    second = rig.send()
    rig.write()
    assert states([first, second]) == [S.UNKNOWN]
    assert rig.session.link.wire.ping_due is False
    assert (rig.of(MessageUndelivered), rig.doubts()) == ([], [])
    rig.lose()
    assert rig.doubts() == [(2, 0)]


def test_l07_the_end_of_a_client_is_reported_as_well():
    """At close what nothing has shown is UNKNOWN, with one event; with everything shown there is none."""
    rig = Pinged().up()
    rig.send()
    rig.write()
    rig.session.close(rig.now)
    assert rig.doubts() == [(1, 0)]
    rig = Pinged().up()
    entry = rig.send()
    rig.write()
    rig.session.drain(rig.now)
    rig.idle(0.01)
    rig.pong()
    rig.session.close(rig.now)
    rig.session.connection_lost(CUT, rig.now)
    assert (entry.state, rig.doubts()) == (S.WRITTEN, [])


def test_l07_draining_asks_at_once():
    """The last frame of a client that drains is followed by a ping, without a wait."""
    rig = Pinged().up()
    rig.session.drain(rig.now)
    rig.send()
    rig.write()
    assert len(rig.pings) == 1


def test_l07_a_failed_client_reports_once():
    """A permanent loss: one event, before or with the end."""
    rig = Pinged().up()
    rig.send()
    rig.write()
    rig.idle(1.0)
    rig.pong()
    rig.send()
    rig.write()
    rig.lose(closed(4403))
    assert rig.doubts() == [(1, 1)]


def test_l07_what_a_killed_process_has_handed_out_is_in_doubt_in_the_next():
    """The store knows what was handed out: at the first join of the next process it is UNKNOWN, in one event."""
    first = Pinged().up()
    entries = [first.send() for _ in range(3)]
    first.write()
    next_one = Pinged(store=first.store).up()
    assert next_one.doubts() == [(3, 0)]
    assert {event.key for event in next_one.of(MessageUndelivered)} == {
        entry.key for entry in entries
    }


def test_l07_a_server_that_acknowledges_is_asked_by_the_next_join():
    """Acks, no pings of its own: one event after the join, for what it could not settle; the rest is told with it."""
    rig = Rig(dialect=rb.bridge.Dialect(ping=None, pong=None, dedupes=False))
    entries = [rig.send() for _ in range(100)]
    rig.up()
    for entry in entries[:90]:
        rig.hear("message_ack", {"message_id": entry.id})
    rig.lose()
    assert rig.of(OutboundInDoubt) == []
    rig.up()
    (event,) = rig.of(OutboundInDoubt)
    assert (event.unknown, event.reached) == (10, 0)
    assert len(rig.of(MessageUndelivered)) == 10


def test_l07_the_pong_of_a_server_shows_as_much():
    """A dialect whose pongs come in any order confirms nothing by them; what was written before has left this machine."""
    rig = Pinged(dialect(pings=True)).up()
    entry = rig.send()
    rig.write()
    rig.idle(1.0)
    assert len(rig.pings) == 1
    rig.session.link.wire.ping("beat", rig.now)
    (ping,) = (json.loads(frame)["ping"] for frame in rig.write() if "ping" in frame)
    rig.hear(rb.dialects.Pong(id=ping))
    assert (entry.state, entry.is_settled) == (S.WRITTEN, True)


def test_l07_an_answer_still_confirms():
    """An answer that comes before the pong makes the receipt `applied`; a pong cannot take that back."""
    rig = Rig(dialect=rb.bridge.Dialect(**MUTE))
    rig.connect()
    rig.authenticate()
    rig.hear("session_joined")
    entry = rig.send()
    rig.write()
    rig.session.link.sent()
    rig.hear("note_done", id=entry.id)
    mark = rig.session.link.wire.pinging()
    rig.session.link.answered(mark, rig.now)
    assert (entry.state, entry.confirmation) == (S.CONFIRMED, "applied")
