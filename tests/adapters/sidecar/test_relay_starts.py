"""A server starts, fails to start, hangs, and is left alone for a while; and how it is, in the status and the records."""

from __future__ import annotations

import pytest

from resilient_bridge.errors import Executed
from tests.adapters.sidecar.harness import (
    FORGOTTEN,
    MODERN,
    NEVER_SENT,
    Harness,
    away,
    outcome,
    ready,
    result_text,
    tool,
)
from tests.internals.adapters import PREFIX, Loss


CHANGED = "notifications/tools/list_changed"
NOT_FOUND = Loss(reason="command not found: server", executed=Executed.NO, is_final=True)


# ---- starting ------------------------------------------------------------------------------------------------------------------


def test_a_first_start_that_fails_is_tried_again_while_the_client_waits():
    """A first start that fails is tried again while the client waits."""
    harness = Harness()
    harness.opens_at_once = False
    client = harness.client()
    client.ask(1, "initialize", {})
    harness.die(NEVER_SENT)
    assert not client.answers(1)
    harness.opens_at_once = True
    harness.wait(1)
    assert client.answer(1).result


def test_a_command_that_is_not_there_fails_initialize_with_its_reason():
    """A command that is not there fails initialize with its reason."""
    harness = Harness()
    harness.opens_at_once = False
    client = harness.client()
    client.ask(1, "initialize", {})
    harness.die(NOT_FOUND)
    assert client.answer(1).error["message"].startswith("NOT EXECUTED: command not found: server.")
    harness.wait(600)
    assert len(harness.sessions) == 1


def test_a_server_that_is_silent_fails_initialize_with_that_reason():
    """It runs, so nobody is told that it has not started."""
    harness = Harness(start_timeout=20)
    del harness.auto["initialize"]
    client = harness.client()
    client.ask(1, "initialize", {})
    harness.wait(21)
    assert "not reachable (it has not answered initialize" in client.answer(1).error["message"]


def test_a_command_that_is_gone_is_tried_again_with_the_next_call_and_not_by_itself():
    """A command that is gone is tried again with the next call and not by itself."""
    harness, client = ready()
    harness.opens_at_once = False
    client.call(1, "order")
    harness.die()
    harness.wait(0)
    harness.die(NOT_FOUND)
    harness.wait(300)
    assert len(harness.sessions) == 2
    client.call(2, "order")
    assert len(harness.sessions) == 3
    harness.die(NOT_FOUND)
    assert outcome(client.answer(2)) == "not_executed"
    harness.opens_at_once = True
    client.call(3, "order")
    harness.reply(harness.take())
    assert harness.ended() == ["unknown", "not_executed", "answered"]


def test_a_call_that_was_lost_when_the_command_is_gone_is_reported_at_once():
    """A call that was lost when the command is gone is told at once."""
    harness = Harness()
    harness.tools = [tool("look", readOnlyHint=True)]
    client = harness.client().open()
    client.call(1, "look")
    away(harness)
    assert not client.answers(1)
    harness.die(NOT_FOUND)
    answer = client.answer(1)
    assert outcome(answer) == "unknown"
    assert "exit code 137" in result_text(answer), "the loss that it had, not the one of the start"


def test_a_start_that_takes_long_is_abandoned_and_tried_again():
    """A start that takes long is given up and tried again."""
    harness = Harness(start_timeout=20)
    harness.opens_at_once = False
    client = harness.client()
    client.ask(1, "initialize", {})
    harness.wait(25)
    assert outcome(client.answer(1)) == "not_executed"
    assert harness.closed[0] == harness.sessions[0]
    assert len(harness.sessions) == 2


def test_a_server_that_does_not_answer_initialize_is_started_again():
    """A server that does not answer initialize is started again."""
    harness, _client = ready(start_timeout=20)
    answer = harness.auto.pop("initialize")
    harness.die()
    harness.wait(10)
    harness.auto["initialize"] = answer
    harness.wait(15)
    assert len(harness.sessions) == 3
    assert harness.relay.status(harness.now)["status"] == "ok"


def test_a_server_that_is_slow_to_list_its_tools_is_used_after_a_while():
    """A server that is slow to list its tools is used after a while."""
    harness, client = ready()
    del harness.auto["tools/list"]
    harness.die()
    harness.wait(1)
    client.call(1, "order")
    assert not harness.got("tools/call")
    harness.wait(5)
    harness.reply(harness.take())
    assert harness.ended() == ["answered"]


def test_a_crash_loop_opens_the_circuit_and_calls_fail_at_once_with_the_last_words():
    """A crash loop opens the circuit and calls fail at once with the last words."""
    harness, client = ready()
    harness.auto.pop("initialize")
    client.call(0, "order")
    loss = Loss(reason="exit code 1", words="no such database")
    for _ in range(8):
        harness.die(loss)
        harness.wait(4)
    began = len(harness.sessions)
    assert harness.relay.status(harness.now)["status"] == "down"
    client.call(1, "order")
    text = result_text(client.answer(1))
    assert text.startswith(
        "NOT EXECUTED: the server failed too often and is left alone for now (exit code 1)."
    )
    assert text.endswith("The server's last words: no such database")
    assert client.answer(1).result["_meta"][f"{PREFIX}/retryAfterMs"] > 0
    assert len(harness.sessions) == began


def test_a_crash_loop_starts_a_bounded_number_of_times_and_ends_when_it_is_mended():
    """A crash loop starts a bounded number of times and ends when it is mended."""
    harness, client = ready()
    answer = harness.auto.pop("initialize")
    began, dead = harness.now, 0
    while harness.now - began < 600:
        while dead < len(harness.sessions):
            dead = len(harness.sessions)
            harness.die(Loss(reason="exit code 1"))
        harness.wait(0.5)
    assert 10 < len(harness.sessions) < 40
    harness.auto["initialize"] = answer
    harness.wait(120)
    client.call(1, "order")
    harness.reply(harness.take())
    assert harness.ended() == ["answered"]
    assert harness.relay.status(harness.now)["status"] == "ok"


def test_calls_under_way_do_not_wait_when_their_loss_opens_the_circuit():
    """Calls under way do not wait when their loss opens the circuit."""
    harness, client = ready()
    for _ in range(4):
        harness.die()
        harness.wait(20)
    client.ask(1, "resources/read", {"uri": "u"})
    harness.die()
    assert harness.relay.status(harness.now)["status"] == "down"
    assert outcome(client.answer(1)) == "unknown"


def test_a_session_that_only_stood_for_long_closes_the_circuit_again():
    """A session that only stood for long closes the circuit again."""
    harness, client = ready()
    for _ in range(5):
        harness.die()
        harness.wait(20)
    harness.wait(100)  # half open, and up; nobody calls
    for _ in range(4):
        harness.die()
        harness.wait(40)
    client.call(1, "order")
    assert harness.take()
    assert harness.relay._restarts.open_for(harness.now) is None
    assert harness.relay._restarts._circuit.is_closed


def test_exit_code_zero_after_each_call_is_a_restart_without_a_wait():
    """Exit code zero after each call is a restart without a wait."""
    harness, client = ready()
    for number in range(20):
        client.call(number, "order")
        harness.reply(harness.take())
        harness.die(Loss(reason="exit code 0"))
        harness.wait(0)
    assert harness.ended() == ["answered"] * 20


def test_a_server_that_no_one_is_there_for_is_not_started_and_no_timer_is_due():
    """A server that nobody is there for is not started and no timer is due."""
    harness, client = ready()
    client.leave()
    harness.die()
    harness.wait(600)
    assert len(harness.sessions) == 1
    again = harness.client().open()
    again.call(1, "order")
    harness.wait(1)
    assert harness.take()


def test_a_client_that_leaves_while_it_opens_is_recorded():
    """A client that leaves while it opens is recorded."""
    harness = Harness()
    harness.opens_at_once = False
    client = harness.client()
    client.ask(1, "initialize", {})
    client.leave()
    assert [one["outcome"] for one in harness.records("call_finished")] == ["cancelled"]


def test_one_id_for_two_initializes_is_refused():
    """One id for two initializes is refused."""
    harness = Harness()
    harness.opens_at_once = False
    client = harness.client()
    client.ask(1, "initialize", {})
    client.ask(1, "initialize", {})
    assert client.answer(1).error["code"] == -32600


def test_a_client_of_the_other_era_that_falls_back_has_its_full_time():
    """It asks `server/discover` first, and says initialize when the server does not know that; the start may have been slow."""
    harness = Harness(start_timeout=60)
    client = harness.client()
    client.ask(1, "server/discover", {"_meta": MODERN})
    harness.reply(harness.take("server/discover"), error=-32601)
    harness.wait(100)
    del harness.auto["initialize"]
    client.ask(2, "initialize", {"capabilities": {}})
    harness.wait(10)
    assert len(harness.sessions) == 1
    harness.reply(harness.take("initialize"), {"capabilities": {}})
    assert client.answer(2).result == {"capabilities": {}}


def test_a_notification_of_a_client_waits_for_the_server_and_not_for_ever():
    """A notification of a client waits for the server and not for ever."""
    harness, client = ready(patience=10)
    away(harness)
    client.tell("notifications/vendor", {"n": 1})
    harness.wait(20)
    client.tell("notifications/vendor", {"n": 2})
    harness.open_now()
    assert [one.params["n"] for one in harness.got("notifications/vendor")] == [2]


def test_a_secret_in_an_address_stays_out_of_the_records():
    """A secret in an address stays out of the records."""
    harness, client = ready()
    client.ask(1, "resources/read", {"uri": "db://me:hunter2@host/x?token=s3cret"})
    harness.die()
    for _ in range(3):
        harness.wait(20)
        harness.die()
    assert "hunter2" not in str(harness.notes) + str(harness.lines)
    assert "s3cret" not in str(harness.notes) + str(harness.lines)


@pytest.mark.parametrize("is_shown", [False, True])
def test_arguments_are_recorded_only_when_asked(is_shown):
    """Arguments are recorded only when asked."""
    harness, client = ready(log_arguments=is_shown)
    client.call(1, "order", arguments={"card": "4111"})
    harness.reply(harness.take())
    assert ("4111" in str(harness.notes)) is is_shown


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1e400", "-1e400", '"x"', "null", "true", "[]"])
def test_odd_progress_of_a_server_harms_nothing(value):
    """Odd progress of a server harms nothing."""
    from tests.internals.adapters import parse

    harness = Harness()
    harness.tools = [tool("look", readOnlyHint=True)]
    client = harness.client().open()
    client.call(1, "look", _meta={"progressToken": "t"})
    sent = harness.take()
    head = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'
    harness.serve(parse(f'{head}{sent.message.id},"progress":{value}}}}}'))
    away(harness)
    harness.wait(11)
    harness.open_now()
    harness.reply(harness.take())
    assert client.answer(1)
    assert "Infinity" not in "".join(one.text for one, _ in client.got)


def test_the_line_about_a_loss_is_one_line_and_promises_no_start_that_does_not_come():
    """A command that is gone is not tried again by itself; of the server's last words the last line is enough."""
    harness, client = ready()
    harness.die(Loss(reason="exit code 1", words="Traceback\nno such database"))
    harness.opens_at_once = False
    client.call(1, "order")
    harness.wait(1)
    harness.die(NOT_FOUND)
    lines = [line for line in harness.lines if "server" in line and "back" not in line]
    assert (
        lines[0]
        == "the server ended: exit code 1, started again at once; last words: no such database"
    )
    assert (
        lines[-1]
        == "the server did not start: command not found: server, not tried again before it is asked for"
    )


def test_what_a_server_says_when_it_refuses_to_open_is_masked():
    """It may repeat a key that it was given: the client alone gets its own words."""
    harness = Harness()
    del harness.auto["initialize"]
    client = harness.client()
    client.ask(1, "initialize", {})
    key = "sk-" + "a1B2" * 10
    harness.reply(harness.take("initialize"), error=-32001, text=f"bad api_key={key}")
    client.ask(2, "tools/list")
    harness.wait(1)
    assert key in client.answer(1).error["message"]
    assert key not in repr([*harness.notes, *harness.lines, harness.relay.status(harness.now)])
    assert "refused to initialize" in repr(harness.notes)


NO_SECRET = Loss(
    reason="header Authorization: wanted a file", executed=Executed.NO, is_away=True, is_final=True
)


def test_m02_calls_wait_for_a_secret_that_is_being_rotated():
    """M02: the session is forgotten while the file is empty: eight attempts open no circuit, and then the call is sent."""
    harness, client = ready(url=True, patience=30)
    harness.opens_at_once = False
    client.call(1, "order")
    harness.lose(harness.take(), FORGOTTEN)
    client.call(2, "order")
    for _ in range(8):
        harness.die(NO_SECRET, harness.session)
        harness.wait(2.5)
    assert harness.ended() == []
    harness.opens_at_once = True
    harness.open_now()
    harness.reply(harness.take())
    harness.reply(harness.take())
    assert harness.ended() == ["answered", "answered"]


def test_m02_a_secret_that_was_never_there_ends_the_first_start_at_once():
    """M02: that is a mistake in the settings, and no rotation."""
    harness = Harness(url=True)
    harness.opens_at_once = False
    client = harness.client()
    client.ask(1, "initialize", {})
    harness.die(NO_SECRET)
    assert "wanted a file" in client.answer(1).error["message"]
