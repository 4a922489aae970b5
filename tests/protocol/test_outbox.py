"""The queue of sends: order, bounds, losses, and one outcome for each."""

from __future__ import annotations

from collections import deque

import pytest

from resilient_bridge.bridge import Outbox
from resilient_bridge.errors import OutboxFullError
from resilient_bridge.protocol import Entry, Now
from resilient_bridge.protocol import EntryState as S
from tests.internals.protocol import Outbox as Queue
from tests.internals.telemetry import MessageUndelivered
from tests.protocol.driving import Rig, closed
from tests.protocol.sending import again, notes, sends, states


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


@pytest.mark.parametrize(
    ("seconds", "server_id", "state"),
    [(400, "srv", "unknown"), (1, "other", "unknown"), (1, "srv", "written")],
)
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
    [
        ("report", {}, True),
        ("report", {"server_id": "other"}, False),
        ("report", {"dedupes": False}, False),
        ("resend", {"server_id": "other"}, True),
    ],
)
def test_another_server_gets_no_resend(policy, epoch, resent):
    """A changed epoch has forgotten our keys, and a server that drops no repeats has none: UNKNOWN, unless the user prefers to repeat."""
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
def test_a_new_session_gets_what_was_never_sent_or_the_caller_does(policy, outcome):
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
    assert (
        rig.session.outbound.outbox.withdraw(sent),
        rig.session.outbound.outbox.withdraw(unsent),
    ) == (
        False,
        True,
    )
    assert notes(again(rig)) == [1]


def test_ttl_ends_what_was_not_sent():
    """EXPIRED at its time, an event, and not a byte of it later."""
    rig = Rig()
    short, long = rig.send(ttl=5, payload={"n": 1}), rig.send(ttl=500, payload={"n": 2})
    rig.idle(5)
    assert states([short, long]) == ["expired", "queued"]
    assert [(event.outcome, event.reason) for event in rig.of(MessageUndelivered)] == [
        ("dropped", "expired")
    ]
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
    survivors: list = []
    with pytest.raises(OutboxFullError) as caught:
        survivors.extend(rig.send(payload={"n": n}) for n in range(100))
    assert "outbox full" in str(caught.value)
    assert notes(rig.up()) == list(range(len(survivors)))
    assert len(rig.session.outbound._by_id) == len(survivors)


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
def test_every_drop_is_reported(bound, overflow):
    """The newest or the oldest go; each dropped one has its outcome and its event."""
    rig = Rig(outbox=Outbox(**bound, overflow=overflow))
    entries = sends(rig, *range(100))
    survivors = [n for n, entry in enumerate(entries) if entry.state is S.QUEUED]
    assert survivors == list(
        range(len(survivors)) if overflow == "drop_newest" else range(100 - len(survivors), 100)
    )
    assert len(survivors) >= 9
    assert [(event.outcome, event.reason) for event in rig.of(MessageUndelivered)] == [
        ("dropped", "overflow")
    ] * (100 - len(survivors))
    assert notes(rig.up()) == survivors


def test_what_was_handed_out_is_never_dropped_for_room():
    """It may have arrived: dropping it would be a lie. The newcomer is dropped instead."""
    rig = Rig(outbox=Outbox(max_messages=2, overflow="drop_oldest")).up()
    written = sends(rig, 1, 2)
    rig.write()
    (late,) = sends(rig, 3)
    assert (states(written), late.state) == (["written"] * 2, S.DROPPED)


def test_a_pong_confirms_what_was_written_on_its_own_connection():
    """What an earlier connection took may be lost, though a later pong names a later entry; then nothing behind it is confirmed either."""
    box = Queue(Outbox(), [])
    entries = [Entry(seq, f"i{seq}", f"i{seq}", "note", "x") for seq in range(3)]
    for entry, generation in zip(entries, (1, 2, 2), strict=True):
        box.add(entry)
        box.hand_out(Now(0.0, 0.0), generation)
    box.confirm_through(2, 2)
    assert states(entries) == ["written"] * 3
    box.confirm_through(2, 1)
    assert states(entries) == ["confirmed", "written", "written"]
    box.confirm_through(1, 2)
    assert states(entries) == ["confirmed", "confirmed", "written"]


def test_dropping_the_oldest_looks_at_no_others():
    """However many are queued, a send costs the same."""

    class Counted(deque):
        looks = 0

        def __iter__(self):
            for entry in super().__iter__():
                Counted.looks += 1
                yield entry

    box = Queue(Outbox(max_messages=100, overflow="drop_oldest"), [])
    box.queued = Counted()
    for seq in range(150):
        entry = Entry(seq, f"i{seq}", f"i{seq}", "note", "x")
        assert box.make_room(entry)
        box.add(entry)
    assert Counted.looks == 50
    assert [entry.seq for entry in box.queued] == list(range(50, 150))


@pytest.mark.parametrize("overflow", ["raise", "block", "drop_oldest", "drop_newest", "coalesce"])
def test_one_that_can_never_fit_changes_nothing(overflow):
    """Larger than the whole bound: refused or dropped, and nobody makes room for it."""
    rig = Rig(outbox=Outbox(max_bytes=1_000, overflow=overflow))
    survivors = sends(rig, 1, 2, coalesce=None)
    survivors += sends(rig, 3, coalesce="c")
    try:
        entry = rig.send(payload={"n": "x" * 2_000}, coalesce="c")
    except OutboxFullError:
        pass
    else:
        assert entry.state is S.DROPPED
    assert set(states(survivors)) == {"queued"}


def test_a_full_outbox_still_coalesces():
    """The latest of a name takes the place of the one before: no room is needed for that."""
    rig = Rig(outbox=Outbox(max_messages=2))
    sends(rig, 1)
    sends(rig, 2, coalesce="c")
    sends(rig, 3, coalesce="c")
    assert notes(rig.up()) == [1, 3]


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


def test_what_is_coalesced_goes_first_when_room_is_made():
    """Too large to take the place of its predecessor alone, and the oldest has to go as well: there are still not two of one name."""
    settled = []
    box = Queue(Outbox(max_messages=5, max_bytes=60, overflow="drop_oldest"), settled)
    for seq, size, name in [(1, 20, None), (2, 29, None), (3, 1, "a"), (4, 20, "a"), (5, 1, "a")]:
        entry = Entry(seq, f"i{seq}", f"i{seq}", "note", "x" * size, coalesce=name)
        assert box.make_room(entry)
        box.add(entry)
    assert [entry.seq for entry in box.queued] == [2, 5]
    assert [(entry.seq, entry.reason) for entry in settled] == [
        (3, "coalesced"),
        (1, "overflow"),
        (4, "coalesced"),
    ]
