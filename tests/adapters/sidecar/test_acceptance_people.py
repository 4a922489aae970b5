"""The server asks the client, through the sidecar, and dies while the person answers."""

from __future__ import annotations

import threading

import pytest

from bench.mcp_features.feature_rows import COMMAND
from bench.mcp_features.row_table import ANSWERS, OPENED
from tests.adapters.sidecar import servers
from tests.adapters.sidecar.standing_in import (
    behind,
    client_of,
    kill_server,
    listening,
    outcome_of,
)


pytestmark = [pytest.mark.real, pytest.mark.server, pytest.mark.requirement("X5")]
ASKED = ["roots/list", "sampling/createMessage", "elicitation/create"]


@pytest.mark.parametrize(
    ("method", "wire"), [*((method, "stdio") for method in ASKED), ("elicitation/create", "http")]
)
def test_a_question_ends_with_the_server_that_asked(method, wire):
    """The client hears `cancelled`, the late answer harms nothing, and the call that asked ends as unknown."""
    if wire == "stdio":
        with behind(COMMAND, capabilities=OPENED["capabilities"]) as client:
            _killed_while_asking(client, client.process.pid, method)
    else:
        with (
            listening(COMMAND) as sidecar,
            client_of(sidecar.url, capabilities=OPENED["capabilities"]) as client,
        ):
            _killed_while_asking(client, sidecar.process.pid, method)


def _killed_while_asking(client, sidecar, method):
    is_asked, may_answer = threading.Event(), threading.Event()

    def answer(_, result):
        is_asked.set()
        may_answer.wait(20)
        return result

    for name, result in ANSWERS.items():
        client.answers[name] = lambda _, result=result: result
    client.answers[method] = lambda params: answer(params, ANSWERS[method])
    call = client.begin("tools/call", {"name": "asks", "arguments": {}})
    assert is_asked.wait(20)
    assert client.wait_for(lambda: method in [request["method"] for request in client.requests])
    (number,) = [request["id"] for request in client.requests if request["method"] == method]
    assert kill_server(sidecar)
    assert outcome_of(call.result(2)) == "unknown"
    assert client.wait_for(
        lambda: (
            number in [notice["requestId"] for notice in client.notified("notifications/cancelled")]
        ),
        2,
    )
    may_answer.set()  # the person's answer comes late
    client.answers[method] = lambda _: ANSWERS[method]
    held = client.call("asks")  # identical to the one in doubt: it is held once
    assert "identical_in_doubt" in str(held)
    again = client.call("asks")
    assert again["result"]["structuredContent"][method] == {"result": ANSWERS[method]}
    assert not client.strays


@servers.needs("node")
def test_the_everything_server_asks_through_the_sidecar():
    """Sampling, elicitation and roots of a server that we did not write reach the client, and its answers reach the server."""
    with behind(
        servers.everything(),
        capabilities={"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}},
    ) as client:
        client.answers["roots/list"] = lambda _: {"roots": [{"uri": "file:///tea", "name": "tea"}]}
        client.answers["sampling/createMessage"] = lambda _: {
            "role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m",
        }  # fmt: skip
        client.answers["elicitation/create"] = lambda _: {"action": "decline"}
        client.wait_for(
            lambda: any(request["method"] == "roots/list" for request in client.requests)
        )
        sampled = client.call("trigger-sampling-request", {"prompt": "p", "maxTokens": 9})
        assert "forty-two" in str(sampled["result"]["content"])
        elicited = client.call("trigger-elicitation-request")
        assert "decline" in str(elicited["result"]["content"])
        assert "tea" in str(client.call("get-roots-list")["result"]["content"])
