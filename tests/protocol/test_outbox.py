"""The queue of sends: order, bounds, losses, poison, and one outcome for each."""

from __future__ import annotations

import pytest

from resilient_bridge.errors import OutboxFullError
from resilient_bridge.policies import Outbox
from resilient_bridge.protocol import EntryState as S
from resilient_bridge.telemetry.events import MessageDropped, MessageQuarantined
from tests.protocol.driving import CUT, Rig, closed


def notes(rig):
    """The `n` of the notes written on the current connection."""
    return [frame["payload"]["n"] for frame in rig.wire if frame["type"] == "note"]


def sends(rig, *numbers, **options):
    return [rig.send(payload={"n": n}, **options) for n in numbers]


def again(rig, seconds=1.0, **epoch):
    """The next connection, as far as READY or as one entry at a time allows."""
    rig.step(seconds)
    rig.connect()
    rig.authenticate(**epoch)
    rig.join()
    while rig.state == "REPLAYING":
        rig.replay()
    return rig


def states(entries):
    return [entry.state.value for entry in entries]


# ---- order and loss -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R17")
def test_what_was_queued_while_the_link_was_down_goes_in_order():
    """FIFO, once, after the join; nothing before it."""
    rig = Rig()
    entries = sends(rig, *range(200))
    rig.connect()
    rig.authenticate()
    assert notes(rig) == []
    rig.join()
    assert notes(rig) == list(range(200))
    rig.settle()
    assert set(states(entries)) == {"confirmed"}


@pytest.mark.requirement("V9")
@pytest.mark.parametrize("age", [0.0, 1.0, 269.0])
def test_a_resend_within_the_window_carries_the_same_id_and_key(age):
    """Handed out, unconfirmed, younger than 270 s: the same frame once more, before everything newer."""
    rig = Rig().up()
    sends(rig, 1, 2)
    first = [frame for frame in rig.write() if frame["type"] == "note"]
    rig.lose()
    sends(rig, 3)
    again(rig, age)
    second = [frame for frame in rig.wire if frame["type"] == "note"]
    assert second[:2] == first
    assert notes(rig) == [1, 2, 3]
    assert all(frame["payload"]["idempotency_key"] == frame["id"] for frame in first)


@pytest.mark.requirement("V9")
@pytest.mark.parametrize(("mono", "wall"), [(271.0, 271.0), (1.0, 28_800.0), (271.0, -28_800.0)])
def test_no_resend_after_the_window(mono, wall):
    """Threat 16: 270 s by either clock, and it is UNKNOWN to the caller; never-sent entries still go."""
    rig = Rig().up()
    (old,) = sends(rig, 1)
    rig.write()
    rig.lose()
    (young,) = sends(rig, 2)
    rig.mono += mono
    rig.wall += wall
    again(rig, 0)
    assert (old.state, notes(rig)) == (S.UNKNOWN, [2])
    rig.settle()
    assert young.state is S.CONFIRMED


@pytest.mark.parametrize(("seconds", "server_id", "state"), [(400, "srv", "unknown"), (1, "other", "unknown"), (1, "srv", "written")])
def test_every_join_judges_everything_that_was_handed_out(seconds, server_id, state):
    """Also what an earlier flush put back in the queue and did not get to."""
    rig = Rig().up()
    entries = sends(rig, *range(100))
    rig.write()
    rig.lose()
    rig.step(1)
    rig.connect()
    rig.join()
    rig.replay()
    asked = rig.last("request_replay")["id"]
    rig.hear("replay_buffer", {"messages": []}, id=asked) if rig.state == "REPLAYING" else None
    rig.session.frames_to_send(rig.now)  # a batch of the flush
    rig.lose()
    again(rig, seconds, server_id=server_id)
    assert set(states(entries)) == {state}
    assert notes(rig) == ([] if state == "unknown" else list(range(100)))


@pytest.mark.parametrize(
    ("policy", "epoch", "resent"),
    [("report", {}, True), ("report", {"server_id": "other"}, False), ("resend", {"server_id": "other"}, True)],
)
def test_another_server_gets_no_resend(policy, epoch, resent):
    """A changed epoch has forgotten our keys: UNKNOWN, unless the user prefers to repeat."""
    rig = Rig(outbox=Outbox(on_unknown=policy)).up()
    (entry,) = sends(rig, 1)
    rig.write()
    rig.lose()
    again(rig, **epoch)
    assert (notes(rig), entry.state) == (([1], S.WRITTEN) if resent else ([], S.UNKNOWN))


def test_resend_at_any_age_if_the_user_wants_it():
    """`on_unknown="resend"`: at least once, outside the window too."""
    rig = Rig(outbox=Outbox(on_unknown="resend")).up()
    sends(rig, 1)
    rig.write()
    rig.lose()
    assert notes(again(rig, 10_000)) == [1]


@pytest.mark.parametrize(("policy", "outcome"), [("keep", "written"), ("return", "dropped")])
def test_a_new_session_gets_what_never_left_or_the_caller_does(policy, outcome):
    """`on_new_session`; what was handed out is UNKNOWN in both cases."""
    rig = Rig(outbox=Outbox(on_new_session=policy)).up()
    (sent,) = sends(rig, 1)
    rig.write()
    rig.lose(closed(4404))
    (unsent,) = sends(rig, 2)
    rig.step(1)
    rig.connect()
    rig.join()
    assert (sent.state, unsent.state.value) == (S.UNKNOWN, outcome)


def test_a_confirmed_entry_is_forgotten():
    """A loss after the confirmation repeats nothing."""
    rig = Rig().up()
    (entry,) = sends(rig, 1)
    rig.write()
    rig.hear("message_ack", {"message_id": entry.id, "status": "applied"})
    rig.lose()
    assert notes(again(rig)) == []
    assert (rig.session.outbound.outbox.count, rig.session.outbound.outbox.bytes) == (0, 0)


# ---- leaving the queue --------------------------------------------------------------------------------------------


def test_withdraw_only_from_the_queue():
    """True while it provably never left; refused after, and then nothing changes."""
    rig = Rig()
    queued, written = sends(rig, 1, 2)
    outbox = rig.session.outbound.outbox
    assert outbox.withdraw(queued)
    assert not outbox.withdraw(queued)
    rig.up()
    assert not outbox.withdraw(written)
    assert notes(rig) == [2]
    assert states([queued]) == ["withdrawn"]


def test_a_withdrawn_entry_is_never_sent_not_even_between_two_losses():
    """No ghosts: what was put back in the queue after a loss may have arrived and is refused, the rest is gone."""
    rig = Rig().up()
    (sent,) = sends(rig, 1)
    rig.write()
    rig.lose()
    (unsent,) = sends(rig, 2)
    assert (rig.session.outbound.outbox.withdraw(sent), rig.session.outbound.outbox.withdraw(unsent)) == (False, True)
    assert notes(again(rig)) == [1]


def test_ttl_ends_what_was_not_sent():
    """EXPIRED at its time, an event, and not a byte of it later."""
    rig = Rig()
    short, long = rig.send(ttl=5, payload={"n": 1}), rig.send(ttl=500, payload={"n": 2})
    rig.idle(5)
    assert states([short, long]) == ["expired", "queued"]
    assert [event.reason for event in rig.of(MessageDropped)] == ["expired"]
    assert notes(rig.up()) == [2]


@pytest.mark.parametrize("lost_after", [2, 8])
def test_nothing_is_repeated_after_its_ttl(lost_after):
    """Handed out in time, the loss noticed before or after the end of the ttl: UNKNOWN, not sent again."""
    rig = Rig().up()
    entry = rig.send(ttl=5, payload={"n": 1})
    rig.write()
    rig.step(lost_after)
    rig.lose()
    again(rig, 6)
    assert (entry.state, notes(rig)) == (S.UNKNOWN, [])


def test_a_machine_that_slept_sends_nothing_stale():
    """The monotonic clock stood still for eight hours, the ttl did not."""
    rig = Rig()
    entry = rig.send(ttl=60, payload={"n": 1})
    rig.session.handle_timer(rig.now)
    rig.wall += 28_800
    rig.up()
    assert (entry.state, notes(rig)) == (S.EXPIRED, [])


def test_coalesce_keeps_the_latest_that_was_not_sent():
    """Of several with one name only the last goes; one that left is not called back."""
    rig = Rig()
    old, new = sends(rig, 1, 2, coalesce="cursor")
    other = rig.send(payload={"n": 3}, coalesce="view")
    assert notes(rig.up().settle()) == [2, 3]
    assert (old.state, old.reason) == (S.DROPPED, "coalesced")
    sends(rig, 4, coalesce="cursor")
    rig.write()
    sends(rig, 5, coalesce="cursor")
    rig.write()
    assert notes(rig)[2:] == [4, 5]
    assert other.state is S.CONFIRMED
    assert new.state is S.CONFIRMED


def test_volatile_goes_now_or_never():
    """Dropped when it cannot go now, when the link dies before it went, and never repeated."""
    rig = Rig()
    assert states([rig.send(volatile=True)]) == ["dropped"]
    rig.up()
    sent = rig.send(volatile=True, payload={"n": 1})
    rig.write()
    waiting = rig.send(volatile=True, payload={"n": 2})
    rig.lose()
    assert states([sent, waiting]) == ["written", "dropped"]
    again(rig)
    assert (states([sent]), notes(rig)) == (["unknown"], [])


# ---- bounds -------------------------------------------------------------------------------------------------------

BOUNDS = [{"max_messages": 10}, {"max_messages": 10_000, "max_bytes": 2_000}]


@pytest.mark.parametrize("bound", BOUNDS, ids=["count", "bytes"])
@pytest.mark.parametrize("overflow", ["raise", "block"])
def test_a_full_outbox_refuses(bound, overflow):
    """Threat 33: a typed error that says how full; what is in it is untouched, and the refused one leaves no trace."""
    rig = Rig(outbox=Outbox(**bound, overflow=overflow))
    kept = []
    with pytest.raises(OutboxFullError) as caught:
        for n in range(100):
            kept.append(rig.send(payload={"n": n}))
    assert "outbox full" in str(caught.value)
    assert notes(rig.up()) == list(range(len(kept)))
    assert len(rig.session.outbound._by_id) == len(kept)


def test_a_refused_send_may_be_tried_again_under_its_key():
    """The key of a refused send names nothing: the next try is a new send, and it goes."""
    rig = Rig(outbox=Outbox(max_messages=1))
    (first,) = sends(rig, 1)
    with pytest.raises(OutboxFullError):
        sends(rig, 2, key="mine")
    assert rig.session.outbound.outbox.withdraw(first)
    (retried,) = sends(rig, 2, key="mine")
    assert notes(rig.up().settle()) == [2]
    assert retried.state is S.CONFIRMED


@pytest.mark.parametrize("bound", BOUNDS, ids=["count", "bytes"])
@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest"])
def test_every_drop_is_told(bound, overflow):
    """The newest or the oldest go; each dropped one has its outcome and its event."""
    rig = Rig(outbox=Outbox(**bound, overflow=overflow))
    entries = sends(rig, *range(100))
    kept = [n for n, entry in enumerate(entries) if entry.state is S.QUEUED]
    assert kept == list(range(len(kept)) if overflow == "drop_newest" else range(100 - len(kept), 100))
    assert len(kept) >= 9
    assert [event.reason for event in rig.of(MessageDropped)] == ["overflow"] * (100 - len(kept))
    assert notes(rig.up()) == kept


def test_what_was_handed_out_is_never_dropped_for_room():
    """It may have arrived: dropping it would be a lie. The newcomer is dropped instead."""
    rig = Rig(outbox=Outbox(max_messages=2, overflow="drop_oldest")).up()
    written = sends(rig, 1, 2)
    rig.write()
    (late,) = sends(rig, 3)
    assert (states(written), late.state) == (["written"] * 2, S.DROPPED)


@pytest.mark.parametrize("overflow", ["raise", "block", "drop_oldest", "drop_newest", "coalesce"])
def test_one_that_can_never_fit_changes_nothing(overflow):
    """Larger than the whole bound: refused or dropped, and nobody makes room for it."""
    rig = Rig(outbox=Outbox(max_bytes=1_000, overflow=overflow))
    kept = sends(rig, 1, 2, coalesce=None)
    kept += sends(rig, 3, coalesce="c")
    try:
        entry = rig.send(payload={"n": "x" * 2_000}, coalesce="c")
    except OutboxFullError:
        pass
    else:
        assert entry.state is S.DROPPED
    assert set(states(kept)) == {"queued"}


def test_a_full_outbox_still_coalesces():
    """The latest of a name takes the place of the one before: no room is needed for that."""
    rig = Rig(outbox=Outbox(max_messages=2))
    sends(rig, 1)
    sends(rig, 2, coalesce="c")
    sends(rig, 3, coalesce="c")
    assert notes(rig.up()) == [1, 3]


# ---- poison -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [1007, 1011])
def test_three_deaths_set_the_entry_aside_and_the_rest_goes_on(code):
    """The same head entry just before three deaths by a received 1007 or 1011: DEAD, told, and not sent again."""
    rig = Rig().up()
    poison, good = sends(rig, 1, 2)
    for death in range(3):
        rig.write()
        assert rig.lose(closed(code)).retry
        again(rig)
        assert poison.state is (S.WRITTEN if death < 2 else S.DEAD)
    assert (poison.failure.details["close_code"], notes(rig)) == (code, [2])
    assert [(event.key, event.reason) for event in rig.of(MessageQuarantined)] == [(poison.key, "poison")]
    rig.settle()
    assert good.state is S.CONFIRMED


def test_under_suspicion_one_goes_at_a_time():
    """After a death the entries in flight go one by one, each confirmed first: the innocent are cleared."""
    rig = Rig().up()
    innocent, guilty, other = sends(rig, 1, 2, 3)
    rig.write()
    rig.lose(closed(1011))
    assert notes(again(rig)) == [1]
    rig.settle()
    assert notes(rig) == [1, 2]
    for _ in range(2):
        rig.lose(closed(1011))
        assert notes(again(rig)) == [2]
    rig.lose(closed(1011))
    assert notes(again(rig)) == [3]
    assert states([innocent, guilty, other]) == ["confirmed", "dead", "written"]


@pytest.mark.parametrize("end", ["withdrawn", "volatile", "coalesced"])
def test_suspicion_stays_with_the_suspects(end):
    """The end of some later entry lifts no suspicion: the innocent head is not sent in a burst again."""
    rig = Rig().up()
    sends(rig, 1, 2)
    rig.write()
    later = rig.send(payload={"n": 3}, volatile=end == "volatile", coalesce="c" if end == "coalesced" else None)
    rig.lose(closed(1011))
    if end == "withdrawn":
        rig.session.outbound.outbox.withdraw(later)
    elif end == "coalesced":
        rig.send(payload={"n": 4}, coalesce="c")
    assert later.is_settled
    again(rig)
    assert notes(rig) == [1]


def test_too_big_is_set_aside_at_once():
    """1009 on a frame we sent: the largest one is DEAD, the others are repeated."""
    rig = Rig().up()
    small, big = sends(rig, 1, "x" * 500)
    rig.write()
    assert rig.lose(closed(1009)).retry
    assert (big.state, notes(again(rig))) == (S.DEAD, [1])
    assert small.state is not S.DEAD


def test_a_request_that_kills_the_link_blames_no_send():
    """1009 and 1011 on a request: the sends in flight stay what they are."""
    rig = Rig().up()
    (entry,) = sends(rig, 1)
    for _ in range(4):
        rig.session.outbound.request("big_request", {"x": "y" * 500}, rig.now, idempotent=False)
        rig.write()
        rig.lose(closed(1009))
        again(rig)
    assert entry.state in {S.WRITTEN, S.CONFIRMED}


@pytest.mark.parametrize("failure", [CUT, closed(1012), closed(1000)], ids=["no close", "1012", "1000"])
def test_other_deaths_never_count(failure):
    """A loss without a close frame proves nothing about the entry, however often it happens."""
    rig = Rig().up()
    (entry,) = sends(rig, 1)
    for _ in range(10):
        rig.write()
        rig.lose(failure)
        again(rig)
    assert entry.state is S.WRITTEN


def test_a_close_of_ours_never_counts():
    """1009 or 1011 that we sent is about what we received."""
    from resilient_bridge.classification import classify_close

    rig = Rig().up()
    (entry,) = sends(rig, 1)
    for code in (1009, 1011, 1007) * 2:
        rig.write()
        rig.lose(classify_close(code, "", "us"))
        again(rig)
    assert entry.state is S.WRITTEN


# ---- the end and the next process ---------------------------------------------------------------------------------


def test_close_gives_every_entry_its_last_state():
    """DROPPED what never left, UNKNOWN what may have arrived; returned in order."""
    rig = Rig().up()
    written = sends(rig, 1, 2)
    rig.write()
    rig.lose()
    queued = sends(rig, 3)
    assert rig.session.close(rig.now) == [*written, *queued]
    assert states([*written, *queued]) == ["unknown", "unknown", "dropped"]
    assert rig.session.outbound.outbox.count == 0


def test_the_next_process_goes_on_where_this_one_ended():
    """The store holds what was accepted and never settled: same ids, same order, new numbers after the old ones."""
    rig = Rig().up()
    sends(rig, 1, 2)
    rig.write()
    rig.lose()
    sends(rig, 3)
    sends(rig, 4, coalesce="c")
    rig = Rig(store=rig.store, seed=2, session_id=None, mono=rig.mono)
    sends(rig, 5, coalesce="c")
    assert notes(again(rig)) == [1, 2, 3, 5]
    rig.settle()
    assert list(rig.store.entries()) == []
