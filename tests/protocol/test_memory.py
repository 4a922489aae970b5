"""A long outage and a slow reader: memory stays at the bound, whatever the policy."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from resilient_bridge.bridge import Inbox, Outbox
from resilient_bridge.errors import OutboxFullError
from tests.protocol.driving import CUT, Rig, closed
from tests.samples import IS_ALL, some


POLICIES = ["raise", "block", "drop_oldest", "drop_newest", "coalesce"]
BOUND = Outbox(max_messages=200, max_bytes=40_000)


def _offer(rig, count):
    """So many sends at 1,000 a second while the link is down; the driver serves timers and takes what was settled."""
    outbound = rig.session.outbound
    refused = 0
    for n in range(count):
        rig.step(0.001)
        try:
            rig.send(
                payload={"n": n},
                coalesce=f"c{n % 1_000}" if n % 2 else None,
                ttl=3_600 if n % 3 else None,
            )
        except OutboxFullError:
            refused += 1
        if n % 100 == 0:
            rig.session.handle_timer(rig.now)
            rig.events.clear()
            rig.settled.clear()
    rig.after()
    rig.events.clear()
    rig.settled.clear()
    outbox = outbound.outbox
    assert outbox.count <= 200
    assert outbox.bytes <= 40_000
    return refused


def _held(rig):
    outbound = rig.session.outbound
    return (len(outbound._by_id), len(outbound.known._by_key), len(outbound.known._settled), len(outbound.outbox.deadlines),
            len(outbound.outbox._coalesce), len(list(rig.store.entries())), len(outbound.settled))  # fmt: skip


@pytest.mark.parametrize("overflow", POLICIES)
def test_an_outage_costs_no_memory(overflow):
    """3 s at 1,000 messages a second with each policy: after the first half nothing grows any more."""
    rig = Rig(outbox=Outbox(max_messages=200, max_bytes=40_000, overflow=overflow)).up()
    rig.lose()
    _offer(rig, 1_500)
    gc.collect()
    tracemalloc.start()
    try:
        before = _held(rig)
        _offer(rig, 1_500)
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(
        now <= max(then * 1.2, 1_300) for then, now in zip(before, _held(rig), strict=True)
    ), (
        before,
        _held(rig),
    )
    # What replaced the entries of before was allocated while tracing: about one bound and the remembered thousand.
    assert grown < 2_500_000


@pytest.mark.simulation
@pytest.mark.timeout(900)
@pytest.mark.parametrize("overflow", some(POLICIES, 1))
def test_a_long_outage_costs_no_memory(overflow):
    """Three minutes at 1,000 messages a second (ten, if all is asked for and none is refused): flat at the bound."""
    rig = Rig(outbox=Outbox(max_messages=200, max_bytes=40_000, overflow=overflow)).up()
    rig.lose()
    _offer(rig, 60_000)
    before = _held(rig)
    _offer(rig, 540_000 if overflow == "drop_oldest" and IS_ALL else 120_000)
    assert all(now <= max(then * 1.2, 1_300) for then, now in zip(before, _held(rig), strict=True))


@pytest.mark.parametrize("overflow", ["pause", "resync"])
def test_a_reader_who_stands_still_costs_one_inbox(overflow):
    """A flood of 100,000 messages while nobody takes one: the inbox stays at its bound, because reading stops."""
    rig = Rig(inbox=Inbox(max_messages=500, overflow=overflow)).up()
    for n in range(100_000):
        if not rig.session.may_read(rig.now, iterating=True):
            break
        rig.hear("a", {}, id=str(n))
    inbox = rig.session.inbound.inbox
    assert len(inbox) == 500
    assert (rig.session.death is not None) is (overflow == "resync")


@pytest.mark.parametrize("overflow", ["pause", "resync"])
def test_a_reader_who_stands_still_through_many_losses_costs_no_more(overflow):
    """The link flaps, each replay brings a hundred messages: beyond twice the bound the client does not dial again."""
    rig = Rig(inbox=Inbox(max_messages=50, overflow=overflow)).up()
    frames_in = 0
    for _ in range(60):
        while rig.session.may_read(rig.now, iterating=True) and frames_in < 100_000:
            rig.hear("a", {}, id=str(frames_in))
            frames_in += 1
        rig.lose(rig.session.death or CUT)
        rig.step(60)
        if not rig.session.reading.may_connect(rig.session.inbound.inbox):
            break  # the driver dials again when the reader has made room
        inbox = [item[0] for item in rig.session.inbound.inbox._items if isinstance(item, tuple)]
        last = int(inbox[-1].id)
        rig.up(*({"type": "a", "id": str(n)} for n in range(last, last + 101)))
        frames_in = last + 101
    assert len(rig.session.inbound.inbox) <= 2 * 50 + 101


def test_a_flood_during_every_join_costs_no_more_than_the_side_buffer():
    """Threat 12: whatever arrives before the verdict is bounded, and is gone with its link."""
    rig = Rig().up()
    for _ in range(5):
        rig.lose(closed(1012))
        rig.connect()
        rig.authenticate()
        for n in range(12_000):
            if rig.session.death is not None:
                break
            rig.hear("x", {"n": n})
        assert rig.session.death is not None or rig.state == "READY"
        assert (
            len(rig.session.link.joining.rejoin.side if rig.session.link.joining.rejoin else [])
            <= 10_001
        )
    assert len(rig.session.inbound.inbox) <= 1_001
