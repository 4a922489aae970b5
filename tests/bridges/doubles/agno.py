"""agno AgentOS 3.1.10, `/workflows/ws`: an index per run, two framings on one socket, a replay from 0 after the end.

The texts of the errors about frames that cannot be read or are unknown, and the names of the events between
WorkflowStarted and WorkflowCompleted, are this double's own.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any

from tests.bridges.doubles.base import Double, last
from tests.bridges.doubles.connection import Connection, decoded


BROKEN = (
    "Subscription failed: 'str' object has no attribute 'value'"  # 3.1.10, SQLite, after kill -9
)


class _Client(Connection):
    trusted = False


class _Run:
    """One run of a workflow: its events in memory, and who hears them."""

    def __init__(self, run_id: str, buffer: int) -> None:
        self.id = run_id
        self.events: deque[dict[str, Any]] = deque(maxlen=buffer)
        self.count = 0
        self.finished = False
        self.starter: _Client | None = None  # it gets SSE text, the others plain JSON
        self.listeners: list[_Client] = []


class Agno(Double):
    """The workflows of one AgentOS. A channel is a run; None is the run `run_id`.

    `run_id` is started by start-workflow or by `publish`, whichever comes first; a start while it runs is another run.
    `buffer`: events of a run in memory. `memory_for`: seconds for which a finished run stays there.
    `database`: what is behind the memory: "works", "none", or "broken": as "works", but not after a restart, as 3.1.10.
    `registers_after`: seconds between reading the missed events and hearing the live ones; those between are not said.
    `effects` are the start-workflow messages, each of which started a run.
    """

    connection_class = _Client

    def __init__(
        self,
        rng: random.Random,
        *,
        token: str | None = None,
        expired: frozenset[str] = frozenset(),
        run_id: str = "run-1",
        buffer: int = 10_000,
        memory_for: float = 1800.0,
        database: str = "broken",
        registers_after: float = 0.0,
        authenticated_twice: bool = False,
        notices_after: float = 0.0,
    ) -> None:
        super().__init__(rng, notices_after=notices_after)
        self.token_wanted, self.expired, self.run_id = token, expired, run_id
        self.buffer, self.memory_for, self.database = buffer, memory_for, database
        self.registers_after, self.authenticated_twice = registers_after, authenticated_twice
        self.runs: dict[str, _Run] = {}
        self.stored: dict[str, list[dict[str, Any]]] = {}  # the database: runs that finished
        self._killed: set[str] = set()  # runs that an earlier process had

    def refuse(self, path: str, headers: Mapping[str, str]) -> int | None:
        """One page."""
        return None if path.partition("?")[0] == "/workflows/ws" else 403

    async def attend(self, connection: _Client) -> None:
        """The socket stays open in every case."""
        connection.trusted = self.token_wanted is None
        connection.say({"event": "connected", "requires_auth": not connection.trusted})
        async for frame in connection.frames():
            message = decoded(frame)
            if not isinstance(message, dict):
                self._error(connection, "Invalid JSON")
            elif message.get("action") == "authenticate":
                self._authenticate(connection, message.get("token"))
            elif not connection.trusted:
                connection.say({"event": "auth_required", "error": "Authentication required"})
            elif message.get("action") == "ping":
                connection.say({"event": "pong"})
            elif message.get("action") == "start-workflow":
                self._start(connection, message)
            elif message.get("action") == "reconnect":
                await self._reconnect(connection, message)
            else:
                self._error(connection, f"Unknown action: {message.get('action')}")

    async def publish(self, number: int, channel: str | None = None) -> None:
        """A step of a run gives out the number; the run is started if it is not there."""
        self.record(number, channel)
        run_id = channel or self.run_id
        run = self.runs.get(run_id)
        if run is None or run.finished:
            run = self._new_run(run_id, None)
        self._emit(run, "StepOutput", {"content": f"step {number}", "number": number})

    def finish(self, channel: str | None = None) -> None:
        """A run comes to its end."""
        run = self.runs[channel or self.run_id]
        self._emit(run, "WorkflowCompleted", {"content": "done"})
        run.finished = True
        self.stored[run.id] = [*run.events]
        self.later(self.memory_for, self._drop, run)

    def forget(self) -> None:
        """The runs were in memory; a run of the same id starts at index 0 again."""
        self._killed.update(self.runs, self.stored)
        self.runs.clear()

    def trim(self, keep: int) -> None:
        """Drop the older events of each run, in memory."""
        for run in self.runs.values():
            run.events = deque(last(run.events, keep), self.buffer)

    def gone(self, connection: _Client) -> None:
        """A run goes on without its listeners."""
        for run in self.runs.values():
            if connection in run.listeners:
                run.listeners.remove(connection)

    def _error(self, connection: _Client, text: str) -> None:
        connection.say({"event": "error", "error": text})

    def _authenticate(self, connection: _Client, token: Any) -> None:
        if self.token_wanted is None or token == self.token_wanted:
            connection.trusted = True
            for _ in range(2 if self.authenticated_twice else 1):
                connection.say({"event": "authenticated", "message": "Authentication successful."})
        else:
            kind = "expired" if token in self.expired else "invalid_token"
            connection.say({"event": "auth_error", "error": "Token refused", "error_type": kind})

    def _start(self, connection: _Client, message: dict[str, Any]) -> None:
        self.effects.append(message)
        run = self.runs.get(self.run_id)
        free = run is None or run.finished
        self._new_run(self.run_id if free else self.uuid(), connection)

    def _new_run(self, run_id: str, starter: _Client | None) -> _Run:
        run = self.runs[run_id] = _Run(run_id, self.buffer)
        run.starter = starter
        if starter is not None:
            run.listeners.append(starter)
        self._emit(run, "WorkflowStarted", {})
        return run

    def _emit(self, run: _Run, kind: str, fields: dict[str, Any]) -> None:
        event = {"event": kind, "run_id": run.id, **fields, "event_index": run.count}
        run.count += 1
        run.events.append(event)
        for client in run.listeners:
            if client is run.starter:
                client.say(f"event: {kind}\ndata: {json.dumps(event)}\n\n")
            else:
                client.say(event)

    def _drop(self, run: _Run) -> None:
        if self.runs.get(run.id) is run:
            del self.runs[run.id]

    async def _reconnect(self, connection: _Client, message: dict[str, Any]) -> None:
        run_id = message.get("run_id", "")
        run = self.runs.get(run_id)
        if run is None:
            self._from_database(connection, run_id)
        elif run.finished:
            self._replay(connection, run_id, run.events)
        else:
            await self._catch_up(connection, run, message.get("last_event_index"))

    async def _catch_up(self, connection: _Client, run: _Run, position: Any) -> None:
        seen = position if isinstance(position, int) else -1
        missed = [event for event in run.events if event["event_index"] > seen]
        if missed:
            fields = {"run_id": run.id, "status": "RUNNING", "missed_events": len(missed)}
            connection.say({"event": "catch_up", **fields, "current_event_count": run.count})
        for event in missed:
            connection.say(event)
        if self.registers_after:
            await asyncio.sleep(self.registers_after)
        if not connection.ended:
            connection.say({"event": "subscribed", "run_id": run.id, "status": "RUNNING"})
            run.starter = None if run.starter is connection else run.starter
            if connection not in run.listeners:
                run.listeners.append(connection)

    def _replay(self, connection: _Client, run_id: str, events: Collection[dict[str, Any]]) -> None:
        fields = {"run_id": run_id, "status": "COMPLETED", "total_events": len(events)}
        connection.say({"event": "replay", **fields})
        for event in events:  # from 0, whatever was asked for
            connection.say(event)

    def _from_database(self, connection: _Client, run_id: str) -> None:
        if self.database == "broken" and run_id in self._killed:
            self._error(connection, BROKEN)
        elif self.database != "none" and run_id in self.stored:
            self._replay(connection, run_id, self.stored[run_id])
        else:
            self._error(connection, f"Run {run_id} not found in buffer or database")
