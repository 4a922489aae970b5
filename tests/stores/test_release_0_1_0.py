"""Files and keys that release 0.1.0 has left, in the hands of the code of today: all of it is read, and none of it as empty.

Rule: tests/stores/data/release_0_1_0 is never made again. If a test here fails, the code has to read what users have on their disks,
or refuse it by an error that names both versions.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.protocol import Now
from resilient_bridge.stores import RedisStore, SQLiteStore
from resilient_bridge.telemetry import listen
from tests.internals.cli import Receipts
from tests.redis_server import redis_server_fixture


DATA = Path(__file__).parent / "data" / "release_0_1_0"
WALL = 1_795_403_270.0  # a minute after they were written
SHA256 = {
    "bridge.db": "eb4ce1fed93b3165",
    "budget.json": "b885faa516fd8163",
    "budget.json.backup": "b2ddfa20cd676700",
    "flow.json": "afd99f26e98dbc9c",
    "flow.json.backup": "03f297253e92ab8c",
    "receipts.jsonl": "26a7b173964b62c7",
    "records.db": "ef428079ea853397",
    "redis.json": "a9d03284ff66fba1",
    "session.jsonl": "b9ac0017dc424b14",
    "state.json": "1b3c7ecd6c11aa8a",
    "state.json.backup": "62d18e1ce329959f",
}

server = redis_server_fixture()


@pytest.fixture
def files(tmp_path):
    """A copy of everything that the release left."""
    copy = tmp_path / "left"
    shutil.copytree(DATA, copy)
    copy.chmod(0o700)
    for one in copy.iterdir():
        one.chmod(0o600)
    return copy


def test_the_files_are_those_that_the_release_wrote():
    """Byte for byte: whoever makes them anew makes the other tests here prove nothing."""
    found = {one.name: sha256(one.read_bytes()).hexdigest()[:16] for one in DATA.iterdir()}
    assert found == SHA256


async def opened(store):
    """The store, a minute after it was written, and what its opening said."""
    heard = []
    with listen(heard.append):
        await store.open(Now(asyncio.get_running_loop().time(), WALL))
    return heard


def content(store):
    """What the store says of itself, as plain data."""
    position = store.session("kept")
    return {
        "sends": [[one.key, one.type, json.loads(one.frame)["payload"]["n"], one.state] for one in store.entries()],
        "outcomes": [[one.key, one.state, one.confirmation] for one in store.outcomes()],
        "last": [store.last_session(), store.last_seq()],
        "position": [position.taken, position.asked_to_join, position.joined, position.epoch is not None],
        "tail": [[mark.key and mark.key[0], json.loads(mark.text)["payload"]["n"]] for mark in position.tail],
        "in hand": [json.loads(mark.text)["payload"]["n"] for mark in position.in_hand],
        "records": ["kept" in store.records(), len(store.records())],
    }  # fmt: skip


EXPECTED = {
    "sends": [["key-2", "note", 2, "written"], ["key-3", "note", 3, "queued"], ["key-4", "note", 4, "queued"]],
    "outcomes": [["key-0", "confirmed", "applied"], ["key-1", "confirmed", "applied"]],
    "last": ["kept", 5],
    "position": [5, True, True, True],
    "tail": [["tool_call", 0], ["tool_call", 1], ["tool_call", 2], [None, 3], ["tool_call", 4]],
    "in hand": [5],
}  # fmt: skip


async def test_the_database_of_a_client(files):
    """Sends queued, handed out and settled, the position, and the session's record."""
    store = SQLiteStore(files / "bridge.db")
    heard = await opened(store)
    try:
        assert content(store) == EXPECTED | {"records": [True, 1]}
    finally:
        await store.close()
    assert heard == []


@pytest.mark.real
async def test_the_redis_of_a_client(server, files):
    """The same from Redis, made again from the commands that were kept."""
    from redis.asyncio import Redis

    redis = Redis.from_url(server.url)
    for command in json.loads((files / "redis.json").read_text()):
        await redis.execute_command(*command)
    await redis.aclose()
    store = RedisStore(server.url)
    heard = await opened(store)
    try:
        assert content(store) == EXPECTED | {"records": [True, 4]}
    finally:
        await store.close()
    assert heard == []


async def test_a_client_goes_on_with_the_database(files):
    """What was queued is sent, the replay is asked from the position on: nothing that was taken comes again."""

    def life(bridge_server):
        async def run():
            async with rb.BridgeClient(bridge_server.url, store=files / "bridge.db") as bridge:
                assert bridge.session_id == "kept"
                await bridge.wait_ready(timeout=60)
                await asyncio.sleep(5)
            return [message["payload"]["n"] for message in bridge_server.received]

        return run()

    sent = await asyncio.to_thread(rb.testing.simulate, life)
    assert sent[:1] == [3] or sent[:2] == [2, 3]  # the send of unknown outcome is decided by its age


async def test_the_session_records(files):
    """Three sessions in three states, with their checkpoints."""
    async with rb.stores.Sessions(str(files / "records.db")) as sessions:
        found = await sessions.list()
    assert {record.working_directory.rpartition("/")[2]: str(record.state) for record in found} == {
        "paused": "paused",
        "closed": "closed",
        "failed": "error",
    }
    assert all(record.checkpoint and record.checkpoint.message_count == 12 for record in found)


def test_the_state_file(files):
    """The value, its version, and the backup behind it."""
    loaded = rb.stores.StateFile(files / "state.json", version=3).load()
    assert (loaded.source, loaded.lost) == ("file", "")
    assert loaded.value == {"done": ["plan", "build"], "current": "test", "text": "Grüße 🚀"}
    (files / "state.json").unlink()
    assert rb.stores.StateFile(files / "state.json", version=3).load().value["current"] == "build"


def test_the_file_of_a_spend_budget(files):
    """What was spent is spent."""
    budget = rb.agent.SpendBudget("10.00", name="chat", path=files / "budget.json")
    budget.spend("0.25")
    assert str(budget.status().spent) == "4.00"
    budget.close()


async def test_the_state_of_a_workflow(files):
    """The phase that was done is not done again; the others are, and it ends."""
    ran = []
    root = (files / "../../../..").resolve()  # as far up as it was
    work = rb.Workflow(files / "flow.json", name="release", root=root)

    @work.phase
    async def plan(phase):
        ran.append("plan")

    @work.phase(idempotent=False)
    async def build(phase):
        ran.append("build")

    @work.phase
    async def announce(phase):
        ran.append("announce")

    report = await work.resume()
    assert (ran, str(report.status)) == (["build", "announce"], "completed")


def test_the_session_log(files):
    """A log is written further: what stood there stands there."""
    before = (files / "session.jsonl").read_bytes()
    with rb.stores.SessionLog(files / "session.jsonl") as log:
        log.write({"note": "later"})
    after = (files / "session.jsonl").read_bytes()
    assert after.startswith(before)
    assert json.loads(after.splitlines()[-1])["note"] == "later"


def test_the_receipts_of_the_pipe(files):
    """Three lines were dealt with: the next is the fourth, under the same name."""
    before = (files / "receipts.jsonl").read_bytes()
    receipts = Receipts(str(files / "receipts.jsonl"))
    try:
        assert (receipts.lines, receipts.notice) == (3, "")
        assert receipts.key_of(b"x\n").startswith("3f80b461c27c14f2fdd4169d-4-")
        receipts.add("accepted", "key-4")
    finally:
        receipts.close()
    assert (files / "receipts.jsonl").read_bytes().startswith(before)
