"""Files and keys of version 1 of each format, in the hands of the code of today: all of it is read, and none of it as empty.

Rule: tests/stores/data/version_1 is never made again. If a test here fails, the code has to read what users have on their disks,
or refuse it by an error that names both versions and how to export what is in it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.cli import main
from resilient_bridge.protocol import Now
from resilient_bridge.stores import RedisStore, SQLiteStore
from resilient_bridge.telemetry import listen
from tests.internals.cli import Receipts
from tests.redis_server import redis_server_fixture
from tests.stores.saved_workflow import saved_workflow


DATA = Path(__file__).parent / "data" / "version_1"
WALL = 1_795_904_251.0  # a minute after they were written
SHA256 = "ec7c4a485d4c6c0c95ad616dc3e0560b18534f5f5ff0e45759e4579ac84d35ab"

server = redis_server_fixture()


@pytest.fixture
def files(tmp_path):
    """A copy of everything that version 1 left."""
    copy = tmp_path / "left"
    shutil.copytree(DATA, copy)
    for one in (copy, *copy.rglob("*")):
        one.chmod(0o700 if one.is_dir() else 0o600)
    return copy


def test_the_files_are_those_that_version_1_wrote():
    """Byte for byte: whoever makes them anew makes the other tests here prove nothing."""
    sums = [
        f"{sha256(one.read_bytes()).hexdigest()} {one.relative_to(DATA).as_posix()}"
        for one in sorted(DATA.rglob("*"))
        if one.is_file()
    ]
    assert len(sums) == 29
    assert sha256("\n".join(sums).encode()).hexdigest() == SHA256


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
    assert sent[:1] == [3] or sent[:2] == [
        2,
        3,
    ]  # the send of unknown outcome is decided by its age


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


@pytest.mark.parametrize(
    ("end", "ran", "placed"),
    [
        ("completed", [], []),
        ("halted", [("buy", {"step": 2}), "announce"], ["book"]),
        ("killed", [("buy", {"step": 2}), "announce"], ["book"]),
        ("called", [("buy", {"step": 2}), "announce"], []),
    ],
)
@pytest.mark.parametrize("damaged", [False, True], ids=["whole", "damaged"])
async def test_the_state_of_a_workflow(files, end, ran, placed, damaged):
    """What is done is not done again, and an order that was placed is not placed twice; with the file damaged, by its backup."""
    root = files / "workflows" / end
    flow, found, orders = saved_workflow(root)
    assert flow.status().completed[:1] == ("collect",)
    if damaged:
        (root / "state.json").write_bytes(bytes(50))
        if (
            end == "killed"
        ):  # the backup is one step older: the value of the phase had not been saved
            ran = [("buy", None), *ran[1:]]
    with rb.testing.virtual_time():
        report = await (flow.resume() if end == "halted" else flow.run())
    assert (str(report.status), found, orders) == ("completed", ran, placed)


@pytest.mark.parametrize("form", ["events", "log"])
def test_the_session_log(files, form):
    """A log is written further: what stood there stands there. The page of an incident reads it."""
    path = files / f"session-{form}.jsonl"
    before = path.read_bytes()
    with rb.stores.SessionLog(path, form=form) as log:
        log.write({"note": "later"})
    after = path.read_bytes()
    assert after.startswith(before)
    assert json.loads(after.splitlines()[-1])["note"] == "later"
    assert main(["report", str(path), "--out", str(files / "page.html")]) == 0
    assert "CONN_RESET" in (files / "page.html").read_text()


def test_the_receipts_of_the_pipe(files):
    """Three lines were dealt with: the next is the fourth, under the same name."""
    before = (files / "receipts.jsonl").read_bytes()
    receipts = Receipts(str(files / "receipts.jsonl"))
    try:
        assert (receipts.lines, receipts.notice) == (3, "")
        assert receipts.key_of(b"x\n").startswith("5495be24e068d33d9b011e7a-4-")
        receipts.add("accepted", "key-4")
    finally:
        receipts.close()
    assert (files / "receipts.jsonl").read_bytes().startswith(before)
