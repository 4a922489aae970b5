"""`pipe --store`: killed at any moment and run again, it loses no line, repeats none, and says what became of those before."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sqlite3
import sys
from contextlib import closing
from functools import partial

import pytest

from resilient_bridge.testing import BridgeServer
from tests.cli.running_pipe import applied, message
from tests.cli.running_pipe import running as running_pipe


running = partial(running_pipe, python=(sys.executable,))  # they are killed, and named by their ids


pytestmark = [pytest.mark.real, pytest.mark.crash]

KILLS = 4


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "bridge.db")


async def fed_and_killed(child, lines, rng):
    """Write the lines as a producer does, a few at a time, and kill the process in the middle of it."""
    await child.reported("state: CONNECTING")
    kill = asyncio.get_running_loop().call_later(rng.uniform(0.02, 0.3), child.process.kill)
    for start in range(0, len(lines), 20):
        child.say(*lines[start : start + 20])
        await asyncio.sleep(0.01)
        if child.process.returncode is not None:
            break
    else:
        kill.cancel()
        child.process.kill()
    assert await child.end(close=False) == -signal.SIGKILL


def stored(store):
    """How many messages are in the database; none before it is there."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as reader:
            return reader.execute("SELECT count(*) FROM outbox").fetchone()[0]
    except sqlite3.Error:
        return 0


async def until(fact):
    async with asyncio.timeout(20):
        while not fact():
            await asyncio.sleep(0.01)


async def test_d01_a_replaced_store_has_nothing_for_the_next_run(store, tmp_path):
    """The next run would not find them: the last line says that the store has failed, and an earlier one where they are."""
    async with running("ws://127.0.0.1:9/", "--store", store, "--drain", "1") as child:
        child.say(message(1))
        await until(
            lambda: stored(store) == 1
        )  # its first attempt to connect may end before it is read
        (tmp_path / "other").write_text("of somebody else " * 500)
        (tmp_path / "other").rename(store)
        child.say(message(2))
        await child.reported("not sent: line 2")
        await child.end()
    assert any(line.startswith("store: failed:") and ".kept-" in line for line in child.errors)
    (last,) = [line for line in child.errors if line.startswith("kept: 1 ")]
    assert "the store has failed" in last
    assert "the next run" not in last


# ---- killed, and run again
async def test_with_keys_the_whole_input_may_be_repeated(store):
    """Killed four times, each time fed from the first line: each line was applied once, in order; what is known does not move."""
    rng = random.Random(1)
    lines = [message(n, idempotency_key=f"line {n}") for n in range(800)]
    async with BridgeServer(slow=0.02) as server:
        for _ in range(KILLS):
            async with running(server.url, "--store", store) as child:
                if rng.random() < 0.5:
                    await server.cut("abort", seconds=0.3)
                await fed_and_killed(child, lines, rng)
        for _ in range(2):
            before = len(server.frames)
            async with running(server.url, "--store", store) as child:
                child.say(*lines)
                assert await child.end() == 0
            assert applied(server) == list(range(800))
        assert not [frame for frame in server.frames[before:] if frame["type"] == "tool_result"]


async def test_with_receipts_the_remaining_input_is_enough(store, tmp_path):
    """Lines without keys, killed four times, each time fed from the line after the last receipt: each once, in order."""
    rng = random.Random(2)
    lines = [message(n) for n in range(3_000)]
    receipts = tmp_path / "receipts"
    argv = ("--store", store, "--receipts", str(receipts))
    async with BridgeServer(slow=0.02) as server:
        for _ in range(KILLS):
            done = receipts.read_text().count("\n") if receipts.exists() else 0
            async with running(server.url, *argv) as child:
                if rng.random() < 0.5:
                    await server.cut("abort", seconds=0.3)
                await fed_and_killed(child, lines[done:], rng)
        done = receipts.read_text().count("\n")
        async with running(server.url, *argv) as child:
            child.say(*lines[done:])
            assert await child.end() == 0
        assert applied(server) == list(range(3_000))
    parts = [json.loads(line) for line in receipts.read_text().splitlines()]
    assert [one["line"] for one in parts] == list(range(1, 3_001))
    assert {one["state"] for one in parts} <= {"accepted", "known"}


async def test_what_was_printed_is_not_printed_again_without_a_flag(store):
    """Killed while messages come in: all of them are on stdout, in order, and each repetition says `redelivered`."""
    rng = random.Random(3)
    seen, pushed = {}, 0
    async with BridgeServer() as server:
        for life in range(KILLS + 1):
            async with running(server.url, "--store", store, "--keep-open") as child:
                await child.reported("state: READY")
                for _ in range(40):
                    await server.push("tool_call", {"n": pushed})
                    pushed += 1
                    await asyncio.sleep(rng.uniform(0, 0.01))
                if life < KILLS:
                    child.process.kill()
                else:
                    await asyncio.sleep(0.3)
                    child.process.send_signal(signal.SIGTERM)
                for line in (await child.process.stdout.read()).splitlines():
                    printed = json.loads(line)
                    n = printed["payload"]["n"]
                    assert n not in seen or printed.get("redelivered"), n
                    assert n in seen or n == len(seen)
                    seen[n] = None
                assert await child.end(close=False) == (-signal.SIGKILL if life < KILLS else 0)
    assert list(seen) == list(range(pushed))


async def test_what_was_not_read_is_printed_by_the_next_run(store):
    """The reader sleeps and the process is killed: what it had not written yet comes again, and nothing is missing."""
    seen = []
    async with BridgeServer(replay_bytes=2**24) as server:
        for life in range(2):
            async with running(server.url, "--store", store, "--keep-open") as child:
                await child.reported("state: READY")
                if life == 0:
                    for n in range(80):
                        await server.push("tool_call", {"n": n, "text": "x" * 8_000})
                    await asyncio.sleep(0.5)
                    child.process.kill()
                while line := await asyncio.wait_for(child.process.stdout.readline(), 20):
                    if line.endswith(b"\n"):
                        seen.append(json.loads(line)["payload"]["n"])
                    if seen[-1:] == [79]:
                        break
        assert len(seen) < 160
    assert sorted(set(seen)) == list(range(80))


async def test_an_ended_run_repeats_nothing(store):
    """After an end in order the next run prints only what is new, without a flag."""
    async with BridgeServer() as server:
        for life in range(2):
            async with running(server.url, "--store", store, "--keep-open") as child:
                await child.reported("state: READY")
                await server.push("tool_call", {"n": life})
                printed = await child.hear()
                assert printed["payload"] == {"n": life}
                assert "redelivered" not in printed
                child.process.send_signal(signal.SIGTERM)
                assert await child.end(close=False) == 0


# ---- what is left is the next run's
async def test_what_is_not_confirmed_is_stored_and_reported_by_the_next_run(store):
    """Without a bridge: exit code 3, and each line is named as kept; with one, the next run tells each outcome by its key."""
    async with BridgeServer() as server:
        host, port = server.address
    async with running(server.url, "--store", store, "--drain", "0.3") as child:
        child.say(message(1, idempotency_key="one"), message(2, idempotency_key="two"))
        assert await child.end() == 3
        stored = [line for line in child.errors if line.startswith("kept: ")]
        assert stored[:2] == ["kept: line 1: not sent yet", "kept: line 2: not sent yet"]
        assert stored[2].startswith("kept: 2 in ")
        assert "next run" in stored[2]
    async with (
        BridgeServer(host=host, port=port) as server,
        running(server.url, "--store", store) as child,
    ):
        child.say(message(3))
        assert await child.end() == 0
        assert "store: going on with 2 of earlier runs" in child.errors
        earlier = [line for line in child.errors if line.startswith("earlier: ")]
        assert earlier == [f"earlier: key {key}: confirmed (applied)" for key in ("one", "two")]
        assert applied(server) == [1, 2, 3]


async def test_a_restart_with_nothing_to_do_ends_at_once(store):
    """No input and nothing left: exit code 0, nothing is sent and nothing is told of earlier runs."""
    async with BridgeServer() as server:
        for _ in range(2):
            async with running(server.url, "--store", store) as child:
                assert await child.end() == 0
                assert not [
                    line for line in child.errors if line.startswith(("earlier", "kept", "store"))
                ]
        assert applied(server) == []


async def test_an_earlier_line_that_ended_badly_is_reported_and_counts(store):
    """It was handed out, and the next bridge is another one, which cannot tell: `not confirmed` by its key, exit code 3."""
    async with BridgeServer(acks="none") as server:
        host, port = server.address
        async with running(server.url, "--store", store) as child:
            child.say(message(1, idempotency_key="one"))
            await until(lambda: server.received)
            child.process.kill()
            await child.end(close=False)
    async with (
        BridgeServer(host=host, port=port) as server,
        running(server.url, "--store", store) as child,
    ):
        assert await child.end() == 3
        assert (await child.reported("earlier: ")).startswith("earlier: not confirmed: key one: ")
        assert applied(server) == []


async def test_a_known_line_has_a_receipt_that_says_so(store, tmp_path):
    """The same key twice: the second is `known`, and sent once; refused and empty lines have their receipts too."""
    receipts = tmp_path / "receipts"
    async with (
        BridgeServer() as server,
        running(server.url, "--store", store, "--receipts", str(receipts)) as child,
    ):
        child.say(
            message(1, idempotency_key="one"), "", "nonsense", message(1, idempotency_key="one")
        )
        assert await child.end() == 4
        assert applied(server) == [1]
    parts = [json.loads(line) for line in receipts.read_text().splitlines()]
    assert [one["state"] for one in parts] == ["accepted", "empty", "refused", "known"]
    assert [one.get("key") for one in parts] == ["one", None, None, "one"]


# ---- a store that cannot be used
async def test_a_store_in_use_is_refused(store):
    """Two runs on one store: the second ends with 2 and names the process that has it; the first goes on."""
    async with BridgeServer() as server, running(server.url, "--store", store) as first:
        await first.reported("state: READY")
        async with running(server.url, "--store", store) as second:
            assert await second.end() == 2
            assert f"in use by process {first.process.pid}" in second.errors[-1]
            assert len(second.errors) == 1
        first.say(message(1))
        assert await first.end() == 0
        assert applied(server) == [1]


async def test_a_store_of_another_program_is_not_changed(store):
    """Exit code 2 and one line; the file is as it was."""
    with sqlite3.connect(store) as foreign:
        foreign.execute("CREATE TABLE mine (x)")
    foreign.close()
    async with running("ws://127.0.0.1:1/", "--store", store) as child:
        assert await child.end() == 2
        assert "another program" in child.errors[0]
    with sqlite3.connect(store) as foreign:
        assert foreign.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
    foreign.close()


async def test_a_damaged_store_is_set_aside_and_reported(store, tmp_path):
    """It goes on with what can be read; stderr says what was set aside, and where."""
    async with BridgeServer() as server:
        async with running(server.url, "--store", store) as child:
            child.say(message(1))
            assert await child.end() == 0
        with open(store, "r+b") as file:  # noqa: PTH123 -- bytes in the middle
            file.seek(4_096)
            file.write(b"\xff" * 4_096)
        async with running(server.url, "--store", store) as child:
            child.say(message(2))
            assert await child.end() == 0
            assert "set aside as " in await child.reported("store: ")
        assert applied(server) == [1, 2]


@pytest.mark.parametrize(
    ("options", "word"),
    [((), "--store"), (("--store", "bridge.db"), "wanted a file of receipts")],
)
async def test_receipts_that_cannot_be_written_end_it_before_it_begins(
    options, word, tmp_path, monkeypatch
):
    """Without a store, or with a file that is something else: exit code 2, and the file is as it was."""
    monkeypatch.chdir(tmp_path)
    receipts = tmp_path / "receipts"
    receipts.write_text("mine")
    async with running("ws://127.0.0.1:1/", *options, "--receipts", str(receipts)) as child:
        assert await child.end() == 2
        assert any(word in line for line in child.errors)
    assert receipts.read_text() == "mine"
