"""The sidecar with a file of effects, in front of servers that others wrote: it is killed, its server is killed, and the client calls again."""

from __future__ import annotations

import os
import signal
import sqlite3

import pytest

from tests.adapters.sidecar import servers
from tests.adapters.sidecar.standing_in import behind, end_server, outcome_of, text_of, until


pytestmark = [pytest.mark.real, pytest.mark.server, pytest.mark.requirement("X15")]
SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000)"


def rows_of(path):
    with sqlite3.connect(path) as database:
        found = [row[0] for row in database.execute("SELECT marker FROM orders")]
    database.close()
    return found


def writing(marker):
    return "write_query", {"query": f"INSERT INTO orders VALUES ('{marker}')"}


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE orders (marker TEXT)")
    made.close()
    return path


@servers.needs("python")
def test_the_sqlite_server_writes_once_whatever_is_killed(database, tmp_path):
    """A sidecar that is killed once the row is there, and started again: the same call is not sent."""
    file = tmp_path / "effects.db"
    command = servers.sqlite(database)
    with behind(command, "--effects", str(file)) as client:
        assert outcome_of(client.call(*writing("first"))) == "answered"
        assert outcome_of(client.call(*writing("first"))) == "answered"
        client.begin("tools/call", {"name": "write_query", "arguments": writing("second")[1]})
        until(lambda: "second" in rows_of(database), 20, "the row")
        os.kill(client.process.pid, signal.SIGKILL)
    with behind(command, "--effects", str(file)) as client:
        for _ in range(2):
            answer = client.call(*writing("second"))
            if "ran to its end" in text_of(answer):
                break
            assert outcome_of(answer) == "unknown"
            assert "It can be called again in" in text_of(answer)
        assert outcome_of(client.call(*writing("third"))) == "answered"
    assert rows_of(database) == ["first", "first", "second", "third"]


@servers.needs("python")
def test_without_a_file_the_same_call_after_a_loss_is_held_once(database):
    with behind(servers.sqlite(database)) as client:
        assert outcome_of(client.call(*writing("first"))) == "answered"
        query = f"INSERT INTO orders {SLOW} SELECT 'slow' FROM n WHERE i = 3000000"
        pending = client.begin("tools/call", {"name": "write_query", "arguments": {"query": query}})
        end_server(client.process.pid)
        assert outcome_of(pending.result(30)) == "unknown"
        held = client.call("write_query", {"query": query})
        assert outcome_of(held) == "unknown"
        assert "call it once more" in text_of(held)
