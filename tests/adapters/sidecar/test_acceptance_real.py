"""Scenarios again with servers and clients that others wrote: reads at a URL, a crash loop, a call that kills, many clients, patience.

Rule: between a client of an SDK and a server of the MCP project stands nothing of ours but the sidecar.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.sidecar import servers
from tests.adapters.sidecar.paced_client import CLIENTS, outcome_of_line, paced
from tests.adapters.sidecar.standing_in import (
    cpu_seconds,
    deployed,
    end_server,
    kill_server,
    listening,
    outcome_in,
    records,
    stands_in_for,
    until,
    zombies_of,
)
from tests.peers.ports import Port


pytestmark = [pytest.mark.real, pytest.mark.server]
POSTED = "Received MCP POST request"  # what the everything server prints for each


def each_client(sampled: str) -> pytest.MarkDecorator:
    """Every client; all but one are the campaign's."""
    of_all = [
        client if client == sampled else pytest.param(client, marks=pytest.mark.campaign)
        for client in CLIENTS
    ]
    return pytest.mark.parametrize("client", of_all)


# ---- 3: reads are repeated, at a URL -----------------------------------------------------------------------------------
READS = [
    ("python-legacy", (), "unknown"),
    ("python-modern", ("--trust-hints",), "answered"),
    ("typescript", ("--idempotent", "trigger-long-running-operation"), "answered"),
]


@pytest.mark.requirement("X6")
@servers.needs("node")
@pytest.mark.parametrize(
    ("client", "options", "wanted"), READS, ids=["untrusted", "trusted", "named"]
)
def test_a_read_of_the_everything_server_at_a_url_is_repeated_with_trust_only(
    client, options, wanted, tmp_path
):
    """The server is killed in the middle of a tool that it calls read-only, and deployed anew; the calls before and after are answered."""
    operation = {"name": "trigger-long-running-operation", "arguments": {"duration": 2, "steps": 4}}
    echo = {"name": "echo", "arguments": {"message": "m-{n}"}}
    log = tmp_path / "first.log"
    with Port() as port, ExitStack() as first:
        command = servers.everything(port.number)
        first.enter_context(deployed(command, port.number, log))
        url = f"http://127.0.0.1:{port.number}/mcp"
        with paced(
            client, {"calls": [echo, operation, echo]}, *stands_in_for(url, *options)
        ) as one:
            assert outcome_of_line(one.call()) == "answered"
            posted = log.read_text().count(POSTED)
            one.begin()
            until(lambda: log.read_text().count(POSTED) > posted, 10, "the call")
            first.close()
            with deployed(command, port.number):
                assert outcome_of_line(one.line()) == wanted
                after = one.call()
            assert (outcome_of_line(after), after["text"]) == ("answered", "Echo: m-2")


# ---- 7: a crash loop, and poison ---------------------------------------------------------------------------------------
@pytest.mark.requirement("X5")
@servers.needs("node", "servers")
@each_client("typescript")
def test_the_filesystem_server_without_its_folder_is_a_crash_loop_until_it_is_mended(
    client, tmp_path
):
    """It ends at once while its folder is missing: calls fail at once with its own words, its starts are few, and it is there again with the folder."""
    folder, moved = tmp_path / "data", tmp_path / "moved"
    folder.mkdir()
    events = tmp_path / "events.jsonl"
    write = {
        "name": "write_file",
        "arguments": {"path": f"{folder}/m-{{n}}", "content": "tea"},
        "times": 250,
    }
    command = stands_in_for(servers.filesystem(folder), "--circuit", "3/2", "--events", str(events))
    with paced(client, {"calls": [write]}, *command) as one:
        assert outcome_of_line(one.call()) == "answered"
        sidecar = one.sidecar
        folder.rename(moved)
        end_server(sidecar)
        for seconds in (20, 1):
            begin = time.monotonic()
            line = one.call()
            assert time.monotonic() - begin < seconds
            assert outcome_of_line(line) == "not_executed"
            assert "None of the specified directories are accessible" in line["text"]
        assert zombies_of(sidecar) == []
        before = cpu_seconds(sidecar)
        time.sleep(1)
        assert cpu_seconds(sidecar) - before < 0.2
        assert len(records(events, "server_lost")) <= 6
        moved.rename(folder)
        line = {}

        def is_back():
            nonlocal line
            time.sleep(0.1)  # refused at once, the client would soon have made all of its calls
            line = one.call()
            return outcome_of_line(line) == "answered"

        until(is_back, 20, "its recovery")
    assert sorted(path.name for path in folder.iterdir()) == ["m-0", f"m-{line['n']}"]


@pytest.mark.requirement("X6")
@servers.needs("node", "python")
@each_client("python-modern")
def test_a_query_that_kills_the_sqlite_server_is_sent_once(client, tmp_path):
    """It has no end, and the server may have two seconds of the CPU: it dies of it, once, and the next call is answered."""
    poison = "INSERT INTO t WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    queries = ("CREATE TABLE t (x)", poison, "INSERT INTO t VALUES (7)")
    calls = [{"name": "write_query", "arguments": {"query": query}} for query in queries]
    events = tmp_path / "events.jsonl"
    limited = ("sh", "-c", 'ulimit -t 2; exec "$@"', "sh", *servers.sqlite(tmp_path / "a.db"))
    create = {"name": "create_table", "arguments": {"query": queries[0]}}
    with paced(
        client, {"calls": [create, *calls[1:]]}, *stands_in_for(limited, "--events", str(events))
    ) as one:
        assert [outcome_of_line(one.call()) for _ in range(3)] == [
            "answered",
            "unknown",
            "answered",
        ]
    (call,) = [one for one in records(events, "call_finished") if one.get("outcome") == "unknown"]
    assert call["sends"] == 1
    assert len(records(events, "server_lost")) == 1


# ---- 9: many clients ---------------------------------------------------------------------------------------------------
TWENTY = 20


@pytest.mark.requirement("X6")
@servers.needs("node")
@pytest.mark.parametrize("kills", [4, pytest.param(10, marks=pytest.mark.campaign)])
async def test_twenty_clients_of_the_python_sdk_share_the_everything_server(kills, tmp_path):
    """Both eras, one server that is killed again and again: each answer has the marker of the client that asked, and all get answers."""
    with listening(
        servers.everything(),
        "--shared",
        "--circuit",
        "100/1",
        "--events",
        str(tmp_path / "e.jsonl"),
    ) as sidecar:
        is_over = asyncio.Event()
        talks = [
            asyncio.create_task(
                _talk(sidecar.url, number, is_over, "legacy" if number % 2 else "auto")
            )
            for number in range(TWENTY)
        ]
        rng, killed = random.Random(16), 0
        while killed < kills:
            await asyncio.sleep(rng.uniform(0.7, 1.2))
            killed += kill_server(sidecar.process.pid) > 0
            ended = [talk for talk in talks if talk.done()]
            assert not ended, [talk.exception() for talk in ended]
        is_over.set()
        async with asyncio.timeout(60):
            results = await asyncio.gather(*talks)
    for one in results:
        assert set(one) <= {"answered", "unknown"}
        assert one["answered"] > one.total() / 2
    assert len(records(tmp_path / "e.jsonl", "server_lost")) >= kills / 2  # a kill may meet a start


async def _talk(url, number, is_over, era):
    outcomes = Counter()
    async with Client(url, mode=era, read_timeout_seconds=60) as client:
        turn = 0
        while not is_over.is_set() or turn < 5:
            mark = f"c-{number}-{turn}"
            try:
                result = await client.call_tool("echo", {"message": mark})
            except MCPError as error:
                pytest.fail(f"{mark} raised {error}")
            text = "\n".join(getattr(item, "text", "") for item in result.content)
            outcomes[outcome_in(result.meta or {}, text, result.is_error)] += 1
            assert result.is_error or text == f"Echo: {mark}"
            turn += 1
            await asyncio.sleep(0.02)
    return outcomes


# ---- 10: patience ------------------------------------------------------------------------------------------------------
@pytest.mark.requirement("X5")
@servers.needs("node")
@pytest.mark.parametrize(
    ("away", "timeout"),
    [(7.5, 6), pytest.param(20, 10, marks=pytest.mark.campaign)],
    ids=["7.5s", "20s"],
)
def test_the_typescript_client_waits_longer_than_its_timeout_for_a_server_that_is_away(
    away, timeout
):
    """Its timeout begins anew with each progress, so its call outlasts the timeout, and is made when the everything server is back."""
    calls = [{"name": "echo", "arguments": {"message": "m-{n}"}, "times": 2}]
    plan = {"calls": calls, "timeout": timeout, "renewed": True}
    with Port() as port, ExitStack() as first:
        command = servers.everything(port.number)
        first.enter_context(deployed(command, port.number))
        url = f"http://127.0.0.1:{port.number}/mcp"
        with paced("typescript", plan, *stands_in_for(url)) as one:
            assert one.call()["text"] == "Echo: m-0"
            first.close()
            begin = time.monotonic()
            one.begin()
            until(lambda: time.monotonic() - begin > away, away + 1)
            with deployed(command, port.number):
                lines = [one.line()]
                while "progress" in lines[-1]:
                    lines.append(one.line())
                assert time.monotonic() - begin > timeout
    assert lines[-1].get("text") == "Echo: m-1", lines[-1]
    steps = [line["progress"]["progress"] for line in lines[:-1]]
    assert len(steps) >= away // 6
    assert steps == sorted(set(steps))
