"""Many clients of one server, through its restarts: nobody gets what is another's, and nobody comes in who may not."""

from __future__ import annotations

import http.client
import json
import random
import re
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from bench.mcp_features.feature_rows import COMMAND
from bench.mcp_features.raw_client import Http
from tests.adapters.sidecar.standing_in import (
    kill_server,
    listening,
    outcome_of,
    records,
    stands_in_for,
)


pytestmark = [pytest.mark.real, pytest.mark.server]
CLIENTS, ROUNDS, KILLS = 20, 12, 10


@pytest.mark.requirement("X6")
def test_nothing_reaches_the_wrong_client(tmp_path):
    """20 clients whose ids are all 1, 2, 3 …, while the one server is killed ten times: answers, progress and logs are each one's own."""
    rng = random.Random(16)
    with listening(
        COMMAND, "--shared", "--circuit", "100/1", "--events", str(tmp_path / "e.jsonl")
    ) as sidecar:
        is_over, kills = threading.Event(), []

        def strike():
            for _ in range(KILLS):
                kills.append(kill_server(sidecar.process.pid))
                if is_over.wait(rng.uniform(0.3, 0.6)):
                    return

        striker = threading.Thread(target=strike)
        with ThreadPoolExecutor(CLIENTS) as threads:
            striker.start()
            talks = list(
                threads.map(lambda number: _talk(sidecar.url, number, striker), range(CLIENTS))
            )
        is_over.set()
        striker.join()
    outcomes = [outcome for talk in talks for outcome in talk]
    assert len(kills) == KILLS
    assert len(outcomes) >= CLIENTS * ROUNDS
    assert set(outcomes) <= {"answered", "unknown"}
    assert outcomes.count("answered") > len(outcomes) / 3
    assert (
        len(records(tmp_path / "e.jsonl", "server_lost")) >= 3
    )  # a kill that meets a start is none that it hears of


def _talk(url, number, striker):
    outcomes = []
    with Http(url) as client:
        client.initialize()
        turn = 0
        while turn < ROUNDS or striker.is_alive():
            mark = f"c-{number}-{turn}"
            tool = "echo" if turn % 2 else "progress"
            answer = client.call(
                tool, {"marker": mark}, _meta={"progressToken": mark, "example.com/who": mark}
            )
            outcomes.append(outcome_of(answer))
            if outcomes[-1] == "answered" and tool == "echo":
                assert answer["result"]["structuredContent"]["arguments"] == {"marker": mark}
                assert answer["result"]["structuredContent"]["_meta"]["example.com/who"] == mark
            turn += 1
        tokens = {one["progressToken"] for one in client.notified("notifications/progress")}
        assert all(token.startswith(f"c-{number}-") for token in tokens)
        assert client.strays == []
    return outcomes


@pytest.mark.requirement("X5")
def test_who_may_not_come_in_stays_out_and_no_secret_is_shown(tmp_path, monkeypatch):
    """Foreign origins and hosts, no token and a wrong one; an address that others reach needs a token; secrets are in no event, line or health."""
    monkeypatch.setenv("TEA_TOKEN", "tea-secret-0123456789")
    events = tmp_path / "events.jsonl"
    options = ("--events", str(events), "--header", "Authorization: Bearer env:TEA_TOKEN")
    with listening(
        "http://user:hunter2secret@127.0.0.1:9/mcp?key=verysecret",
        *options,
        "--patience",
        "0.2",
        token=True,
    ) as sidecar:
        token = next(
            found[1]
            for line in sidecar.lines
            if (found := re.search(r"token for clients: (\S+)", line))
        )
        opening = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        good = {"Authorization": f"Bearer {token}"}
        assert _post(sidecar.url, {}, opening) == 401
        assert _post(sidecar.url, {"Authorization": "Bearer no"}, opening) == 401
        assert _post(sidecar.url, {**good, "Origin": "https://evil.invalid"}, opening) == 403
        assert _post(sidecar.url, {**good, "Host": "evil.invalid"}, opening) == 403
        assert _post(sidecar.url, good, opening) == 200
        health = _get(sidecar.url, "/health", {})
        assert set(health) == {"status"}
        details = json.dumps(_get(sidecar.url, "/health", good))
        lines = "\n".join(line for line in sidecar.lines if "token for clients" not in line)
    shown = lines + details + events.read_text()
    for secret in ("tea-secret", "hunter2secret", "verysecret", token):
        assert secret not in shown
    refused = subprocess.run(
        stands_in_for(COMMAND, "--http", "0.0.0.0:0", "--no-token"),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert refused.returncode == 2, refused.stderr


def _post(url, headers, params):
    return _ask(
        url,
        "POST",
        urlsplit(url).path,
        headers,
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
    )[0]


def _get(url, path, headers):
    return json.loads(_ask(url, "GET", path, headers, None)[1])


def _ask(url, method, path, headers, body):
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(url).port, timeout=20)
    try:
        connection.request(
            method,
            path,
            body,
            {
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
                **headers,
            },
        )
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
