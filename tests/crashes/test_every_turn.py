"""Crashes in virtual time: a client that dies at every iteration of its loop, and one that goes on from its files.

A crash is a copy of the files at that moment, and a link that is cut in the same step: whatever the dead client still does while
its tasks are cancelled reaches neither.
"""

from __future__ import annotations

import asyncio
import shutil

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import SQLiteStore
from tests.crashes import variants
from tests.internals.testing import SimulatedLoop, Simulation


pytestmark = pytest.mark.sample
SENDS = 5
PUSHES = 5


class Story:
    """One client that dies at iteration `at` of its loop, another that goes on; `is_over`: the first ended before its death."""

    def __init__(self, directory, at):
        self.directory, self.at = directory, at
        self.turn = None
        self.accepted, self.consumed, self.repeated, self.events = [], [], [], []
        self.is_dead = self.is_over = False

    def on_turn(self, loop):
        """Called at the start of each iteration of the loop."""
        if self.turn is not None:
            self.turn += 1
            if self.turn == self.at:
                self._die(loop)

    def _die(self, loop):
        self.turn, self.is_dead = None, True
        for side in ("", "-wal"):
            if (self.directory / f"first.db{side}").exists():
                shutil.copyfile(
                    self.directory / f"first.db{side}", self.directory / f"second.db{side}"
                )
        loop.cut_links("abort")
        self._death.set_result(None)

    async def main(self, server):
        """The program that is simulated."""
        await asyncio.sleep(0.001)
        with rb.listen(self.events.append):
            await self._first(server)
            if not self.is_over:
                self.is_dead = False
                second = rb.BridgeClient(
                    server.url, store=SQLiteStore(self.directory / "second.db")
                )
                await self._live(second, server, max(self.accepted, default=0) + 1, 2 * SENDS)
                self._judge(server)

    def _judge(self, server):
        assert [message["payload"]["n"] for message in server.received] == list(
            range(1, 2 * SENDS + 1)
        )
        names = {
            (frame["payload"]["n"], frame["id"])
            for frame in server.frames
            if frame["type"] == "note"
        }
        assert len(names) == 2 * SENDS
        assert {message["payload"]["n"] for message in server.pushed} == set(self.consumed)
        assert [n for n, flagged in self.repeated if not flagged] == []
        bad = rb.events.MessageUndelivered, rb.events.StateSetAside, rb.events.StoreChanged
        assert [event for event in self.events if isinstance(event, bad)] == []

    async def _first(self, server):
        self._death = asyncio.get_running_loop().create_future()
        client = rb.BridgeClient(server.url, store=SQLiteStore(self.directory / "first.db"))
        self.turn = 0
        life = asyncio.create_task(self._live(client, server, 1, SENDS))
        await asyncio.wait([life, self._death], return_when=asyncio.FIRST_COMPLETED)
        self.turn, self.is_over = None, not self.is_dead
        if self.is_over:
            await life
            return
        life.cancel()
        await asyncio.wait([life])

    async def _live(self, client, server, first, last):
        reader = None
        try:
            await client.__aenter__()
            reader = asyncio.create_task(self._read(client))
            for n in range(first, last + 1):
                await client.send("note", {"n": n}, idempotency_key=f"m{n}")
                if self.is_dead:
                    return
                self.accepted.append(n)
            await client.wait_ready()
            if self.is_dead:
                return
            for _ in range(PUSHES):
                await server.push("news", {"n": len(server.pushed) + 1})
            while client.pending() or len(set(self.consumed)) < len(server.pushed):
                await asyncio.sleep(0.05)
        finally:
            await client.aclose(drain=0 if self.is_dead else 5)
            if reader is not None:
                reader.cancel()
                await asyncio.wait([reader])

    async def _read(self, client):
        before = set(self.consumed)
        async for message in client:
            if self.is_dead:
                return
            n = message.payload["n"]
            if n in before:
                self.repeated.append((n, message.redelivered))
            self.consumed.append(n)


def _sweep(monkeypatch, directory):
    """Die at iteration 1, 2, ... until the first client ends before its death; return the number of deaths."""
    stories = []
    run_once = SimulatedLoop._run_once

    def turn(loop):
        stories[-1].on_turn(loop)
        run_once(loop)

    monkeypatch.setattr(SimulatedLoop, "_run_once", turn)
    while not stories or not stories[-1].is_over:
        at = len(stories) + 1
        folder = directory / str(at)
        folder.mkdir()
        stories.append(Story(folder, at))
        try:
            Simulation(at, orders="fifo").run(stories[-1].main)
        except BaseException as error:
            error.add_note(f"died at turn {at}")
            raise
    return len(stories) - 1


@pytest.mark.requirement("V9")
def test_a_client_that_ends_at_any_turn_of_its_loop_leaves_the_right_accounts(
    tmp_path, monkeypatch
):
    """After a death at any iteration the next client of the store has everything applied once, in order, and everything read."""
    assert _sweep(monkeypatch, tmp_path) > 40


@pytest.mark.parametrize(
    "name", ["accepted_before_written", "another_id_on_resend", "repeats_unflagged"]
)
def test_a_known_bad_variant_is_caught_at_some_turn(name, tmp_path, monkeypatch):
    """The sweep catches a known-bad variant."""
    for where, what in variants.CHANGED[name]:
        monkeypatch.setattr(where, what, getattr(where, what))  # so that it is undone
    variants.become(name)
    with pytest.raises((AssertionError, rb.BridgeError)):
        _sweep(monkeypatch, tmp_path)
