"""What a relay's status is, and what of the server's own lines stands in an error."""

from __future__ import annotations

from tests.adapters.sidecar.harness import REFUSED, Harness, ready, result_text
from tests.internals.adapters import Loss


def test_the_error_of_a_silent_server_has_what_it_wrote_beside_the_protocol():
    """A program that is no server prints where it listens, and is silent: that stands in what the client is told."""
    harness = Harness(start_timeout=20)
    del harness.auto["initialize"]
    client = harness.client()
    client.ask(1, "initialize", {})
    harness.relay.output_line(harness.session, "server: starting")
    harness.relay.output_line(
        harness.session, "server, on stdout: Listening on port 80 (not a JSON object)"
    )
    harness.wait(20)
    text = result_text(client.answer(1))
    assert "it has not answered initialize" in text
    wanted = (
        "The server's last words: starting\non stdout: Listening on port 80 (not a JSON object)"
    )
    assert text.endswith(wanted), text


def test_lines_of_a_ready_server_are_in_no_later_error():
    """It stands on stderr, line by line; an error has its last words from the connection."""
    harness, client = ready(patience=1)
    harness.relay.output_line(harness.session, "server: all is well")
    harness.die()
    harness.opens_at_once = False
    client.call(1, "order")
    harness.wait(5)
    assert "all is well" not in result_text(client.answer(1))


def test_the_status_says_how_it_is():
    """The status says how it is."""
    harness, client = ready(url=True)
    assert harness.relay.status(harness.now)["status"] == "ok"
    client.call(1, "order")
    harness.lose(harness.take(), REFUSED)
    found = harness.relay.status(harness.now)
    assert (found["status"], found["server"], found["waiting"]) == ("down", "unreachable", 1)
    assert found["last_loss"] == "connection refused"


def test_a_server_that_no_client_has_wanted_is_not_down():
    """It is started for the first client, and nothing is wrong before that."""
    found = Harness().relay.status(0.0)
    assert (found["status"], found["server"]) == ("ok", "not started")


def test_the_status_is_down_until_the_server_is_back():
    """Degraded while it starts for the first time, and at once after it ended; down from its first failed start on, also while it is tried."""
    harness, client = ready()
    client.call(1, "order")
    harness.reply(harness.take())
    harness.opens_at_once = False
    status = lambda: harness.relay.status(harness.now)["status"]  # noqa: E731
    harness.die()
    assert status() == "down"
    harness.wait(1)
    assert (status(), len(harness.sessions)) == ("degraded", 2)
    seen = []
    for _ in range(5):
        harness.die(Loss(reason="exit code 1"))
        seen.append(status())
        began = len(harness.sessions)
        while len(harness.sessions) == began:
            harness.wait(0.5)
        seen.append(status())
    assert set(seen) == {"down"}
    harness.opens_at_once = True
    harness.open_now()
    assert status() == "ok"
