"""What tests of session records stand on: a store that takes its time and can fail, and a wall clock that is set by hand."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

import resilient_bridge as rb
from resilient_bridge.protocol import Now
from resilient_bridge.stores import MemoryStore
from resilient_bridge.world import WORLD, World


START = 1_774_000_000.0
BROKEN = rb.Failure.of("TOOL_EXECUTION_FAILED", "bash failed")
AWAY = rb.Failure.of("SYS_STORE_UNAVAILABLE", "the disk is full")


class Disk(MemoryStore):
    """Takes a turn of the loop for each write, and counts who has it open. After `fine` more writes
    the next `fails` are refused."""

    def __init__(self):
        super().__init__()
        self.users = 0
        self.fine = self.fails = 0
        self.opened_at = None

    async def open(self, now, *, outbox=True):
        self.users += 1
        self.opened_at = now.wall

    async def close(self, *, outbox=True):
        self.users -= 1

    async def keep_record(self, session_id, record):
        await asyncio.sleep(0)
        self._refuse()
        super().keep_record(session_id, record)

    async def drop_record(self, session_id):
        await asyncio.sleep(0)
        self._refuse()
        super().drop_record(session_id)

    def _refuse(self):
        if self.fine:
            self.fine -= 1
        elif self.fails:
            self.fails -= 1
            raise rb.errors.StoreError(AWAY)


class Clock:
    """The wall clock of this test and of nobody else."""

    def __init__(self):
        self.wall = START
        world = World()
        world.use_random(random.Random(1), random.Random(1))
        world.loop_wall = lambda: self.wall
        WORLD.set(world)

    @property
    def now(self):
        """Both clocks."""
        return Now(self.wall - START, self.wall)

    def at(self, seconds):
        """Time passes, up to then."""
        self.wall = START + seconds
        return datetime.fromtimestamp(self.wall, UTC)


def code_of(caught):
    """The code of what was raised."""
    return caught.value.failure.code
