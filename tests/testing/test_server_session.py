"""What the bridge remembers: the grace time, where a push goes, and what a restart forgets."""

from __future__ import annotations

import asyncio
import random

import attrs
import pytest

from resilient_bridge.testing import Behaviour
from tests.internals.testing import BridgeMemory
from tests.testing.server_peer import in_virtual_time


class Ear:
    """An outlet that keeps what it hears."""

    def __init__(self):
        self.heard = []
        self.code = None

    def send(self, text):
        self.heard.append(text)

    def end(self, code, _reason):
        self.code = code


def remembering(**behaviour):
    """A memory with a clock and ids of its own."""
    return BridgeMemory(Behaviour(**behaviour), lambda: 0.0, random.Random(1))


@pytest.mark.requirement("R4")
def test_a_session_lives_five_minutes_after_a_drop():
    """At 299.9 s it is still there, at 300.1 s it is not."""

    async def main():
        memory, ear = remembering(), Ear()
        session = memory.open("s")
        memory.attach(session, ear)
        await asyncio.sleep(1000)  # attached, it does not age
        memory.detach(session, ear)
        await asyncio.sleep(299.9)
        assert "s" in memory.sessions
        await asyncio.sleep(0.2)
        assert memory.sessions == {}

    in_virtual_time(main)


@pytest.mark.requirement("R4")
def test_a_return_in_time_stops_the_clock():
    """The grace time starts afresh with each drop."""

    async def main():
        memory, ear = remembering(), Ear()
        session = memory.open("s")
        for _ in range(3):
            memory.attach(session, ear)
            memory.detach(session, ear)
            await asyncio.sleep(200)
        memory.attach(session, ear)
        await asyncio.sleep(1000)
        assert memory.sessions == {"s": session}

    in_virtual_time(main)


@pytest.mark.requirement("R14")
def test_a_push_enters_the_buffer_of_a_session_without_a_connection():
    """Live to whoever has the session, and kept in both cases; another session hears nothing."""

    async def main():
        memory, ear, other = remembering(), Ear(), Ear()
        session = memory.open("s")
        memory.attach(memory.open("other"), other)
        memory.attach(session, ear)
        memory.push("a", {}, None, None)
        memory.detach(session, ear)
        memory.push("b", {}, None, None)
        assert len(ear.heard) == 1
        assert other.heard == []
        assert len(memory.replay(session, None)) == 2
        assert [message["type"] for message in memory.pushed_to("s")] == ["a", "b"]
        assert memory.pushed_to("other") == []
        memory.push("c", {}, None, "other")
        assert len(other.heard) == 1
        session.disarm()

    in_virtual_time(main)


def test_a_push_needs_a_session_that_was_joined_once():
    """LookupError before that and for an unknown name; an expired session loses the message, on the record."""

    async def main():
        memory, ear = remembering(), Ear()
        with pytest.raises(LookupError, match="joined"):
            memory.push("a", {}, None, None)
        session = memory.open("s")
        memory.attach(session, ear)
        with pytest.raises(LookupError, match="'t'"):
            memory.push("a", {}, None, "t")
        memory.expire(session)
        assert ear.code == 4404
        memory.push("a", {}, None, None)
        assert ear.heard == []
        assert len(memory.pushed_to("s")) == 1

    in_virtual_time(main)


def test_a_restart_without_a_disk_forgets_all_but_the_truth():
    """Sessions, keys and identity go; no timer stays."""

    async def main():
        memory, ear = remembering(), Ear()
        session = memory.open("s")
        memory.attach(session, ear)
        memory.push("a", {}, None, None)
        memory.record("k", None)
        memory.detach(session, ear)
        before = memory.server_id
        memory.forget()
        assert memory.server_id != before
        assert memory.processed("k") is None
        assert memory.sessions == {}
        assert session.timer is None
        assert len(memory.pushed) == 1

    in_virtual_time(main)


@pytest.mark.parametrize(("mode", "ids", "sent"), [("repeat", [1, 2], 4), ("conflict", [1, 1], 2)])
def test_ids_can_be_used_twice(mode, ids, sent):
    """The same message twice, or one id for two messages; the truth lists each push once."""

    async def main():
        memory, ear = remembering(duplicate_ids=mode), Ear()
        memory.attach(memory.open("s"), ear)
        memory.push("a", {}, 1, None)
        memory.push("b", {}, 2, None)
        assert [message["id"] for message in memory.pushed] == ids
        assert len(ear.heard) == sent

    in_virtual_time(main)


def test_the_seeds_buffer_can_be_put_in_at_any_time():
    """What the correct buffer held is what the broken one starts with, and the other way round nothing is lost."""

    async def main():
        memory = remembering()
        session = memory.open("s")
        memory.attach(session, Ear())
        memory.push("a", {}, None, None)
        memory.behaviour = attrs.evolve(memory.behaviour, replay="verbatim_seed", replay_bytes=200)
        assert len(memory.replay(session, None)) == 1
        assert memory.replay(session, 0) == []
        memory.behaviour = attrs.evolve(memory.behaviour, replay="correct")
        memory.push("b", {}, None, None)
        assert len(memory.replay(session, 0)) == 2

    in_virtual_time(main)
