"""A server at a URL is deployed anew, and has forgotten its sessions: the same tools, other tools, and what clients had set up."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.mcp_features.feature_rows import COMMAND
from tests.adapters.sidecar.standing_in import behind, deployed, listens, outcome_of, text_of, until
from tests.peers.ports import Port


pytestmark = [pytest.mark.real, pytest.mark.server, pytest.mark.requirement("X5")]
SERVER = str(Path(__file__).with_name("redeployed_server.py"))


def _command(port, log, *tools):
    return (sys.executable, SERVER, str(port), str(log), *tools)


def _methods(log):
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize(
    ("tools", "notices"),
    [(("order", "look"), 0), (("look", "order_now"), 1)],
    ids=["same-tools", "other-tools"],
)
def test_twenty_calls_wait_for_a_redeployed_server(tools, notices, tmp_path):
    """One initialize, an answer for each, and a notice exactly if the tools are others; what is gone says so."""
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    with Port() as port:
        url = f"http://127.0.0.1:{port.number}/mcp"
        with (
            deployed(_command(port.number, logs[0], "order", "look"), port.number),
            behind(url) as client,
        ):
            client.request("tools/list", {})
            assert text_of(client.call("look", {"marker": "first"})) == "look: first"
            _redeploy(client, port.number, logs, tools, notices)
            assert not client.strays


def _redeploy(client, port, logs, tools, notices):
    connection = subprocess.run(
        ["pgrep", "-f", str(logs[0])], capture_output=True, text=True, check=True
    )
    for pid in connection.stdout.split():
        subprocess.run(["kill", "-9", pid], check=True)
    until(lambda: not _is_open(port), 10)
    waiting = [
        client.begin("tools/call", {"name": "look", "arguments": {"marker": f"m-{n}"}})
        for n in range(20)
    ]
    with deployed(_command(port, logs[1], *tools), port):
        answers = [text_of(one.result(30)) for one in waiting]
        assert answers == [f"look: m-{n}" for n in range(20)]
        assert sorted(line for line in _methods(logs[1]) if line.startswith("ran")) == sorted(
            f"ran look m-{n}" for n in range(20)
        )
        assert _methods(logs[1]).count("initialize") == 1
        order = client.call("order", {"marker": "last"})
        if notices:
            assert client.wait_for(
                lambda: bool(client.notified("notifications/tools/list_changed")), 5
            )
            assert outcome_of(order) == "not_executed"
            assert "no longer has" in text_of(order)
            assert text_of(client.call("order_now", {"marker": "new"})) == "order_now: new"
        else:
            assert text_of(order) == "order: last"
        time.sleep(0.2)  # a notice too many would be on its way
        assert len(client.notified("notifications/tools/list_changed")) == notices


def _is_open(port):
    try:
        return listens(port)
    except (OSError, http.client.HTTPException):
        return True


def test_log_level_and_subscriptions_are_there_again():
    """The new server has been told all of it, and the client is told that what it watches may have changed."""
    uris = ["feature://one", "feature://two", "feature://ü"]
    with Port() as port:
        url = f"http://127.0.0.1:{port.number}/mcp"
        command = (*COMMAND, "--http", str(port.number))
        with deployed(command, port.number):
            client_block = behind(url)
            client = client_block.__enter__()
            client.request("logging/setLevel", {"level": "warning"})
            for uri in uris:
                client.request("resources/subscribe", {"uri": uri})
        with deployed(command, port.number):
            seen = client.request("example.com/seen")["result"]
            assert seen["level"] == "warning"
            assert sorted(seen["subscribed"]) == sorted(uris)

            def updated():
                return sorted(
                    one["uri"] for one in client.notified("notifications/resources/updated")
                )

            assert client.wait_for(lambda: updated() == sorted(uris), 5), updated()
            client_block.__exit__(None, None, None)
