"""What becomes of a request whose answer will not come: what is repeated, what is said, and that nothing runs twice."""

from __future__ import annotations

import pytest

from resilient_bridge import Backoff, RateLimit
from resilient_bridge.errors import Executed
from tests.adapters.sidecar.harness import (
    CUT,
    DENIED,
    FORGOTTEN,
    NEVER_SENT,
    REFUSED,
    Harness,
    outcome,
    ready,
    result_text,
    tool,
)
from tests.internals.adapters import PREFIX, Loss
from tests.rows import each_row


LIMITED = Loss(reason="HTTP 429", executed=Executed.NO, retry_after=2.0)
BUSY = Loss(reason="HTTP 503")


def hinted(**options):
    """Return a relay whose server has tools of each kind, and its client."""
    harness = Harness(**options)
    harness.tools = [
        tool("order"),
        tool("look", readOnlyHint=True),
        tool("put", idempotentHint=True),
        tool("both", readOnlyHint=True, idempotentHint=True),
    ]
    return harness, harness.client().open()


# ---- what may be repeated -----------------------------------------------------------------------------------------


@each_row(
    "method",
    [
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
        "resources/read",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "resources/subscribe",
        "tasks/get",
        "tasks/result",
        "tasks/list",
    ],
)
def test_what_changes_nothing_by_protocol_is_repeated_under_another_id(method):
    """What changes nothing by protocol is repeated under another id."""
    harness, client = ready()
    answer = harness.auto.pop(method, None)
    client.ask(1, method, {"uri": "u", "cursor": "c"} if method != "tools/list" else {})
    first = harness.take(method)
    harness.auto["tools/list"] = answer if method == "tools/list" else {"tools": []}
    harness.auto.pop(method, None)
    harness.lose(first, Loss(reason="HTTP 500"))
    harness.wait(1)
    second = harness.take(method)
    assert second.message.id != first.message.id
    assert second.message.params == first.message.params
    harness.reply(second, {"done": True})
    assert client.answer(1).result == {"done": True}


@pytest.mark.parametrize("method", ["tasks/cancel", "tasks/update", "vendor/thing"])
def test_what_may_change_something_is_not(method):
    """What may change something is not."""
    harness, client = ready()
    client.ask(1, method, {})
    harness.lose(harness.take(method), CUT)
    answer = client.answer(1)
    assert answer.error["code"] == -32010
    assert answer.error["message"].startswith("OUTCOME UNKNOWN: ")
    assert outcome(answer) == "unknown"


COMMAND = {"look": True, "both": True, "put": False, "order": False}
TRUSTED = {"look": True, "both": True, "put": True, "order": False}
NO_ONE = dict.fromkeys(COMMAND, False)


@pytest.mark.parametrize(
    ("options", "repeated"),
    [
        ({}, COMMAND),
        ({"url": True}, NO_ONE),
        ({"trust_hints": True}, TRUSTED),
        ({"url": True, "trust_hints": True}, TRUSTED),
        ({"url": True, "idempotent": ("order",)}, NO_ONE | {"order": True}),
        ({"idempotent": ("put",)}, COMMAND | {"put": True}),
    ],
)
def test_a_tool_is_repeated_only_by_a_hint_that_counts_or_by_name(options, repeated):
    """A tool is repeated only by a hint that counts or by name."""
    for name, is_repeated in repeated.items():
        harness, client = hinted(**options)
        client.call(1, name)
        harness.die()
        harness.wait(1)
        sent = len(harness.got("tools/call"))
        assert sent == (2 if is_repeated else 1), name
        assert [outcome(one) for one in client.answers(1)] == ([] if is_repeated else ["unknown"])


def test_it_is_received_once_which_tools_are_repeated():
    """It is said once which tools are repeated."""
    harness, _ = hinted()
    harness.die()
    harness.wait(1)
    (record,) = harness.records("tools_known")
    assert record["repeated"] == ["look", "both"]


NAMED = {
    "idempotent": ("loook", "put", "later"),
    "check": {"ordr": "look", "order": "lok"},
    "timeouts": {"ordr": 9, "put": 9},
    "rates": {"*": RateLimit(9), "xyz": RateLimit(9)},
    "concurrency": {"*": 9, "both": 2, "xyz": 2},
}


def test_a_name_that_no_tool_has_is_reported_once():
    """Where it stands and what is meant, when the tools are first known; not again, and not of a tool that comes later."""
    harness, _ = hinted(**NAMED)
    (record,) = harness.records("tools_unknown")
    assert record["name"] == "loook, later, ordr, lok, xyz"
    (line,) = [one for one in harness.lines if "has no tool" in one]
    assert line == (
        "the server now has no tool 'loook' (idempotent), did you mean 'look'?; 'later' (idempotent); "
        "'ordr' (check, timeouts), did you mean 'order'?; 'lok' (check), did you mean 'look'?; "
        "'xyz' (concurrency, rates)"
    )
    harness.tools.append(tool("later"))
    harness.die()
    harness.wait(1)
    assert len(harness.records("tools_unknown")) == 1


def test_names_of_tools_are_not_reported():
    """Nothing is wrong, so nothing is written."""
    harness, _ = hinted(idempotent=("put",), rates={"*": RateLimit(9), "order": RateLimit(9)})
    assert harness.records("tools_unknown") == []


def test_an_idempotent_write_is_not_repeated_after_a_later_call():
    """`write(A)`, `write(B)`, and a late repeat of A would undo B."""
    harness, client = hinted(trust_hints=True)
    client.call(1, "put", arguments={"v": "A"})
    first = harness.take()
    client.call(2, "order")
    harness.reply(harness.take())
    harness.lose(first, CUT)
    assert outcome(client.answer(1)) == "unknown"
    assert len(harness.got("tools/call")) == 2


def test_of_two_idempotent_writes_that_are_lost_together_only_the_later_is_repeated():
    """Of two idempotent writes that are lost together only the later is repeated."""
    harness, client = hinted(trust_hints=True)
    client.call(1, "put", arguments={"v": "A"})
    client.call(2, "put", arguments={"v": "B"})
    harness.die()
    harness.wait(1)
    assert [one.params["arguments"]["v"] for one in harness.got("tools/call")] == ["A", "B", "B"]
    assert outcome(client.answer(1)) == "unknown"


def test_an_idempotent_write_that_waits_is_not_repeated_after_a_call_that_was_sent_before_it():
    """An idempotent write that waits is not repeated after a call that was sent before it."""
    harness, client = hinted(trust_hints=True, concurrency={"put": 1})
    client.call(1, "put", arguments={"v": "A"})
    client.call(2, "put", arguments={"v": "B"})
    harness.die()
    harness.wait(1)
    assert [one.params["arguments"]["v"] for one in harness.got("tools/call")] == ["A", "A"]
    harness.reply(harness.take())
    assert [one.params["arguments"]["v"] for one in harness.got("tools/call")] == ["A", "A", "B"]


@pytest.mark.parametrize("loss", [NEVER_SENT, FORGOTTEN, LIMITED])
def test_what_provably_did_not_run_is_sent_again_whatever_it_is(loss):
    """What provably did not run is sent again whatever it is."""
    harness, client = hinted(url=True)
    client.call(1, "order")
    harness.lose(harness.take(), loss)
    harness.wait(3)
    harness.reply(harness.take(), {"content": [], "isError": False})
    assert client.answer(1).result["isError"] is False
    assert harness.ended() == ["answered"]
    assert len(harness.got("tools/call")) == 2


def test_the_hints_of_both_sessions_count_of_which_one_lost_a_call_and_one_would_repeat_it():
    """M05: what may not have been harmless is not repeated, and what is not harmless now is not either."""
    harness, client = hinted()
    client.call(1, "look")
    client.call(2, "order")
    harness.tools = [tool("look"), tool("order", readOnlyHint=True)]
    harness.die()
    harness.wait(1)
    assert [one.params["name"] for one in harness.got("tools/call")] == ["look", "order"]
    assert outcome(client.answer(1)) == "unknown", "the new session does not call it read-only"
    assert outcome(client.answer(2)) == "unknown", "the old session did not"


def test_a_call_that_kills_the_server_is_sent_three_times_at_most():
    """A call that kills the server is sent three times at most."""
    harness, client = hinted()
    client.call(1, "look")
    for _ in range(6):
        harness.die()
        harness.wait(20)
    assert len(harness.got("tools/call")) == 3
    assert outcome(client.answer(1)) == "unknown"


# ---- a loss without proof is never forgotten ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "then",
    [NEVER_SENT, DENIED, LIMITED, Loss(reason="HTTP 429", executed=Executed.NO, retry_after=900)],
)
def test_what_may_have_run_once_is_never_received_not_to_have(then):
    """A call with permission was lost without proof; that its repeat did not run says nothing about the first."""
    harness, client = hinted(url=True, idempotent=("order",), patience=5)
    client.call(1, "order")
    harness.lose(harness.take(), CUT)
    harness.wait(1)
    for _ in range(40):
        if client.answers(1):
            break
        if harness.asked:
            harness.lose(harness.take(), then)
        harness.wait(0.5)
    assert outcome(client.answer(1)) == "unknown"


def test_what_may_have_run_once_is_not_received_to_be_gone():
    """What may have run once is not said to be gone."""
    harness, client = hinted(idempotent=("order",))
    client.call(1, "order")
    harness.tools = [tool("other")]
    harness.die()
    harness.wait(1)
    assert outcome(client.answer(1)) == "unknown"


def test_a_server_that_wants_more_time_than_there_is_patience_for():
    """A server that wants more time than there is patience for."""
    harness, client = hinted(url=True)
    client.call(1, "order")
    harness.lose(harness.take(), Loss(reason="HTTP 429", executed=Executed.NO, retry_after=31))
    answer = client.answer(1)
    assert outcome(answer) == "not_executed"
    assert answer.result["_meta"][f"{PREFIX}/retryAfterMs"] == 31_000


def test_a_503_that_asks_for_time_leaves_a_call_unknown():
    """A 503 that asks for time leaves a call unknown."""
    harness, client = hinted(url=True)
    client.call(1, "order")
    harness.lose(harness.take(), Loss(reason="HTTP 503", retry_after=60))
    assert outcome(client.answer(1)) == "unknown"


@pytest.mark.parametrize("loss", [NEVER_SENT, LIMITED])
def test_what_is_refused_for_ever_ends_at_the_patience(loss):
    """What is refused for ever ends at the patience."""
    harness, client = hinted(url=True, patience=10)
    client.call(1, "order")
    began = harness.now
    while not client.answers(1):
        assert harness.now - began <= 11
        assert len(harness.got("tools/call")) < 30, "it is not asked as fast as it answers"
        if harness.asked:
            harness.lose(harness.take(), loss)
        harness.wait(0.25)
    assert outcome(client.answer(1)) == "not_executed"


# ---- over HTTP ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss", [CUT, BUSY, Loss(reason="HTTP 502"), Loss(reason="connection reset")]
)
def test_what_may_have_run_is_unknown_at_once(loss):
    """What may have run is unknown at once."""
    harness, client = hinted(url=True)
    client.call(1, "order")
    harness.lose(harness.take(), loss)
    assert outcome(client.answer(1)) == "unknown"
    assert len(harness.sessions) == 1, "the session is still there"


def test_a_refused_connection_waits_for_the_server_and_keeps_the_session():
    """A refused connection waits for the server and keeps the session."""
    harness, client = hinted(url=True)
    answers = harness.auto.pop("ping")
    client.call(1, "order")
    harness.lose(harness.take(), REFUSED)
    for _ in range(3):
        harness.wait(3)
        harness.lose(harness.take("ping"), REFUSED)
    harness.auto["ping"] = answers
    harness.wait(8)
    harness.reply(harness.take())
    assert len(harness.sessions) == 1
    assert harness.ended() == ["answered"]


@pytest.mark.parametrize(
    "loss", [Loss(reason="HTTP 502"), Loss(reason="HTTP 401", executed=Executed.NO), CUT]
)
def test_a_server_that_is_half_there_is_asked_again(loss):
    """The question whether it is back is answered by a gateway: that is no end of the asking."""
    harness, client = hinted(url=True)
    answers = harness.auto.pop("ping")
    client.call(1, "order")
    harness.lose(harness.take(), REFUSED)
    harness.wait(2)
    harness.lose(harness.take("ping"), loss)
    harness.auto["ping"] = answers
    harness.wait(20)
    harness.reply(harness.take())
    assert harness.ended() == ["answered"]


def test_a_server_that_goes_and_comes_is_not_remaining_alone_for_it():
    """Each time it works in between: these are no failures in a row."""
    harness, client = hinted(url=True, backoff=Backoff.constant(1))
    for number in range(20):
        client.call(number, "order")
        harness.lose(harness.take(), REFUSED)
        harness.wait(2)
        harness.reply(harness.take())
    assert harness.ended() == ["answered"] * 20


def test_a_forgotten_session_is_made_anew_once_for_all_calls():
    """A forgotten session is made anew once for all calls."""
    harness, client = hinted(url=True)
    client.call(0, "order")
    harness.reply(harness.take())
    for number in range(1, 21):
        client.call(number, "order")
    calls = list(harness.asked)
    for sent in calls:
        harness.asked.remove(sent)
        harness.lose(sent, FORGOTTEN)
    harness.wait(3)
    assert len(harness.got("initialize")) == 2
    while harness.asked:
        harness.reply(harness.take())
    assert harness.ended() == ["answered"] * 21


def test_a_server_that_forgets_every_session_is_not_asked_for_ever():
    """A server that forgets every session is not asked for ever."""
    harness, client = hinted(url=True)
    client.call(1, "order")
    while not client.answers(1):
        if harness.asked:
            harness.lose(harness.take(), FORGOTTEN)
        harness.wait(1)
    assert outcome(client.answer(1)) == "not_executed"
    assert len(harness.sessions) < 10


def test_refused_credentials_end_a_call_at_once_in_their_words():
    """Refused credentials end a call at once in their words."""
    harness, client = hinted(url=True)
    client.call(1, "order")
    harness.lose(harness.take(), DENIED)
    assert result_text(client.answer(1)) == 'NOT EXECUTED: HTTP 401. "order" was not executed.'
    harness.wait(100)
    assert len(harness.got("tools/call")) == 1
