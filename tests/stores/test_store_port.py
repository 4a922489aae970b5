"""What every store does, whatever it is made of: the port of `protocol/ports.py`, on memory, files and Redis.

Rule: nothing in here knows what a store is made of.
"""

from __future__ import annotations

import asyncio
from math import inf

import pytest

from resilient_bridge.failure import ConfigError, StoreError
from resilient_bridge.protocol import EntryState
from tests.redis_server import redis_server_fixture
from tests.stores.port_suite import (
    DURABLE,
    PLACES,
    WALL,
    backend_fixture,
    done,
    ids,
    now,
    read,
    send,
)


server = redis_server_fixture(scope="module")
backend = backend_fixture(PLACES)
durable = backend_fixture(DURABLE)


def _confirm(store, *entries):
    for entry in entries:
        entry.settle(EntryState.CONFIRMED, confirmation="applied")
        store.settle(entry)


# ---- sends ---------------------------------------------------------------------------------------------------------


async def test_what_was_accepted_and_not_settled_is_there(backend):
    """Of three accepted sends the settled one is gone, the others come back whole, and the numbers go on."""
    async with backend.opened() as store:
        sends = [
            send(1),
            send(2, coalesce="cursor"),
            send(7, frame='{"text":"\\u2028 {} %s \U0001f600"}'),
        ]
        for entry in sends:
            await done(store.put(entry))
        _confirm(store, sends[0])
    async with backend.opened() as store:
        found = {entry.seq: entry for entry in store.entries()}
        assert sorted(found) == [2, 7]
        assert found[2].coalesce == "cursor"
        assert (found[7].id, found[7].key, found[7].type) == ("id-7", "key-7", "note")
        assert found[7].frame == sends[2].frame
        assert {entry.state for entry in found.values()} == {EntryState.QUEUED}
        assert store.last_seq() == 7


async def test_the_numbers_go_on_when_nothing_remains(backend):
    """last_seq is the highest number ever given, though everything was settled."""
    async with backend.opened() as store:
        entry = send(41)
        await done(store.put(entry))
        _confirm(store, entry)
    async with backend.opened() as store:
        assert list(store.entries()) == []
        assert store.last_seq() == 41


async def test_many_at_once_are_all_accepted(backend):
    """200 sends that are put together are each accepted."""
    async with backend.opened() as store:
        await asyncio.gather(*(done(store.put(send(n))) for n in range(1, 201)))
    async with backend.opened() as store:
        assert ids(store.entries()) == [f"id-{n}" for n in range(1, 201)]


async def test_accepted_means_it_survives_a_crash(durable):
    """What was accepted is there after a crash, without a close; what was not is not."""
    async with durable.opened() as store:
        for n in (1, 2):
            await done(store.put(send(n)))
        after = await durable.crashed()
    async with after.opened() as store:
        assert ids(store.entries()) == ["id-1", "id-2"]


async def test_settled_in_the_same_turn(durable):
    """A send that is settled before the loop turns once is not sent by the next process."""
    async with durable.opened() as store:
        entry = send(1)
        accepting = store.put(entry)
        _confirm(store, entry)
        await done(accepting)
    async with durable.opened() as store:
        assert list(store.entries()) == []


async def test_a_cancelled_send_is_not_there(durable):
    """Whoever is cancelled while he waits, or right after, was not accepted: no later process has his send."""
    async with durable.opened() as store:
        entry = send(1)
        accepting = store.put(entry)
        await asyncio.sleep(0)
        if accepting is not None:
            accepting.cancel()
        await done(store.put(send(2)))
        entry.settle(EntryState.DROPPED, reason="cancelled")
        store.settle(entry)
    async with durable.opened() as store:
        assert ids(store.entries()) == ["id-2"]


async def test_what_was_handed_out(durable):
    """A mark covers the numbers up to its own: those were handed out then, the others never."""
    async with durable.opened(WALL) as store:
        for n in range(1, 6):
            await done(store.put(send(n)))
        await done(store.mark(2, WALL + 10))
        await done(store.mark(4, WALL + 20))
    async with durable.opened(WALL + 60) as store:
        then = now(WALL + 60)
        found = {entry.seq: entry for entry in store.entries()}
        assert [found[n].state for n in range(1, 6)] == [EntryState.WRITTEN] * 4 + [
            EntryState.QUEUED
        ]
        ages = [round(found[n].age(then)) for n in range(1, 6)]
        assert ages == [50, 50, 40, 40, 0]
        assert found[5].written_at is None


async def test_the_first_mark_counts(durable):
    """What is marked again after a restart was handed out when it was first."""
    async with durable.opened(WALL) as store:
        await done(store.put(send(1)))
        await done(store.mark(1, WALL + 1))
    async with durable.opened(WALL + 100) as store:
        await done(store.put(send(2)))
        await done(store.mark(1, WALL + 100))
        await done(store.mark(2, WALL + 101))
    async with durable.opened(WALL + 201) as store:
        then = now(WALL + 201)
        assert [
            round(entry.age(then)) for entry in sorted(store.entries(), key=lambda e: e.seq)
        ] == [
            200,
            100,
        ]


async def test_a_mark_stays_while_it_says_something(durable):
    """Of 300 marks and sends, all settled, the last mark still says that what comes under its number may have moved."""
    async with durable.opened(WALL) as store:
        for n in range(1, 301):
            entry = send(n)
            await done(store.put(entry))
            await done(store.mark(n, WALL + n))
            _confirm(store, entry)
        await done(store.mark(400, WALL + 301))
        for n in range(301, 380):
            await done(store.mark(n, WALL + 302))
        await done(store.put(send(390)))
    async with durable.opened(WALL + 400) as store:
        assert [entry.state for entry in store.entries()] == ["written"]


async def test_a_wall_clock_that_went_back(durable):
    """Handed out in what is now the future: as old as can be, so that nobody repeats it."""
    async with durable.opened(WALL) as store:
        await done(store.put(send(1)))
        await done(store.mark(1, WALL + 5))
    async with durable.opened(WALL - 3600) as store:
        (entry,) = store.entries()
        assert entry.age(now(WALL - 3600)) == inf


@pytest.mark.parametrize(("later", "is_over"), [(5, False), (11, True), (-3600, True)])
async def test_a_ttl_goes_on_while_no_one_is_there(durable, later, is_over):
    """10 s are over after 11 s of downtime, not after 5, and also when nobody can tell (the clock went back)."""
    async with durable.opened(WALL) as store:
        await done(store.put(send(1, ttl=10, at=now(WALL))))
    async with durable.opened(WALL + later) as store:
        (entry,) = store.entries()
        assert entry.is_expired(now(WALL + later)) is is_over


async def test_outcomes_are_remembered(durable):
    """What became of a send is known to the next process, without its text; a request is no send."""
    async with durable.opened() as store:
        read_, dead, asked = send(1), send(2), send(3)
        for entry in (read_, dead):
            await done(store.put(entry))
        read_.settle(EntryState.CONFIRMED, confirmation="read")
        dead.settle(EntryState.DEAD, reason="poison")
        asked.is_request = True
        asked.settle(EntryState.CONFIRMED, confirmation="applied")
        for entry in (read_, dead, asked):
            store.settle(entry)
    async with durable.opened() as store:
        one, two = store.outcomes()
        assert (one.key, one.state, one.confirmation, one.frame) == (
            "key-1",
            "confirmed",
            "read",
            "",
        )
        assert (two.key, two.state, two.reason, two.is_settled) == ("key-2", "dead", "poison", True)


async def test_a_thousand_outcomes_are_enough(durable):
    """Of 1,500 outcomes the newest are remembered, about a thousand."""
    async with durable.opened() as store:
        sends = [send(n) for n in range(1, 1_501)]
        await asyncio.gather(*(done(store.put(entry)) for entry in sends))
        for start in range(0, 1_500, 100):
            _confirm(store, *sends[start : start + 100])
            await done(store.mark(1_500, now().wall))
    async with durable.opened() as store:
        found = [entry.seq for entry in store.outcomes()]
        assert found == sorted(found)
        assert found[-1] == 1_500
        assert 1_000 <= len(found) <= 1_300


# ---- session records -----------------------------------------------------------------------------------------------


async def test_records(backend):
    """Records come back as they were, the oldest first; one that is kept again replaces the one before, one that is dropped is gone."""
    async with backend.opened() as store:
        for name in ("a", "b", "\u00fc {}"):
            await done(store.keep_record(name, f'{{"of":"{name}"}}'))
        await done(store.drop_record("a"))
        await done(store.keep_record("\u00fc {}", '{"again":1}'))
        assert dict(store.records()) == {"b": '{"of":"b"}', "\u00fc {}": '{"again":1}'}
    async with backend.opened() as store:
        assert list(store.records().items()) == [("b", '{"of":"b"}'), ("\u00fc {}", '{"again":1}')]


# ---- opening and closing -------------------------------------------------------------------------------------------


async def test_before_it_is_open_it_knows_nothing(backend):
    """A client that is made and never entered finds nothing, and leaves nothing."""
    store = backend.store()
    assert store.last_session() is None
    assert (list(store.entries()), list(store.outcomes()), store.last_seq()) == ([], [], 0)
    if backend.is_durable:
        store.session("never").asked_to_join = True
        async with backend.opened() as store:
            assert store.last_session() is None


async def test_a_second_owner_is_refused(durable):
    """While one client has it, another gets SYS_STORE_IN_USE at once; after the first has closed it does not."""
    async with durable.opened():
        with pytest.raises(StoreError) as caught:
            await durable.store().open(now())
        assert caught.value.failure.code == "SYS_STORE_IN_USE"
        assert not caught.value.failure.retryable
    async with durable.opened() as store:
        await done(store.put(send(1)))


async def test_a_second_owner_may_wait(durable):
    """With `wait` the second one has it as soon as the first has closed it."""
    first, second = durable.store(), durable.store(wait=10)
    await first.open(now())
    waiting = asyncio.create_task(second.open(now()))
    await asyncio.sleep(0.25)
    assert not waiting.done()
    await done(first.put(send(1)))
    await first.close()
    async with asyncio.timeout(5):
        await waiting
    assert ids(second.entries()) == ["id-1"]
    await second.close()


async def test_one_object_is_one_client_s(durable):
    """One object cannot be two clients' at once; one after the other it can."""
    store = durable.store()
    await store.open(now())
    with pytest.raises(ConfigError, match="a store of its own"):
        await store.open(now())
    await done(store.put(send(1)))
    await store.close()
    await store.close()
    await store.open(now())
    assert ids(store.entries()) == ["id-1"]
    await store.close()


async def test_records_are_shared_with_a_client(durable):
    """Session records may be used beside a client, and stay open when it ends; the next client goes on with all there is."""
    store = durable.store()
    await store.open(now(), outbox=False)
    await store.open(now())
    read(store.session("s"), 1, 2)
    await done(store.put(send(1)))
    await store.close()
    await done(store.keep_record("r", "{}"))
    await store.open(now())
    assert ids(store.entries()) == ["id-1"]
    assert store.session("s").taken == 2
    await store.close()
    await store.close(outbox=False)
    async with durable.opened() as store:
        assert dict(store.records()) == {"r": "{}"}
        assert not store.session("s").was_in_hand(("tool_call", "m3"), "{}")


async def test_a_closed_store_accepts_nothing(durable):
    """A send to a closed store is refused in words."""
    store = durable.store()
    with pytest.raises(ConfigError, match="store is closed"):
        await done(store.put(send(1)))
    await store.open(now())
    await store.close()
    with pytest.raises(ConfigError, match="store is closed"):
        await done(store.put(send(1)))
