"""Several clients at one server: nobody gets what is another's, and nobody loses what another does not want."""

from __future__ import annotations

import pytest

from tests.adapters.sidecar.harness import MODERN, Harness, outcome, tool
from tests.internals.adapters import message


UPDATED = "notifications/resources/updated"
LOG = "notifications/message"


def shared(count: int = 3, **options):
    """Return a relay and so many clients that share its server."""
    harness = Harness(is_shared=True, **options)
    return harness, *(harness.client().open({"sampling": {}, "roots": {}}) for _ in range(count))


def test_one_handshake_for_all_and_nothing_is_offered_in_it():
    """One handshake for all and nothing is offered in it."""
    harness, *people = shared()
    (sent,) = harness.got("initialize")
    assert sent.params["capabilities"] == {}
    assert len(harness.got("notifications/initialized")) == 1
    assert len({str(one.answer("init").result) for one in people}) == 1


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("is_modern", [False, True])
def test_m03_calls_of_others_are_sent_when_a_client_stops_after_initialize(leaves, is_modern):
    """M03: it never says that it is initialized, and is there or gone: the calls of the others are sent, and once."""
    harness = Harness(is_shared=True)
    silent = harness.client()
    silent.ask(
        "init",
        "initialize",
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}},
    )
    assert silent.answer("init").result
    if leaves:
        silent.leave()
    other = harness.client()
    if is_modern:
        other.ask(1, "tools/call", {"name": "order", "_meta": MODERN})
    else:
        other.open().call(1, "order")
    harness.reply(harness.take())
    assert outcome(other.answer(1)) == ""
    assert len(harness.got("notifications/initialized")) == 1


def test_m03_a_restart_with_clients_of_the_newer_protocol_alone_is_completed():
    """M03: who opened the session has left, and nobody that is there says that it is initialized."""
    harness = Harness(is_shared=True)
    harness.client().open().leave()
    other = harness.client()
    other.ask(1, "tools/call", {"name": "order", "_meta": MODERN})
    harness.reply(harness.take())
    harness.die()
    other.ask(2, "tools/call", {"name": "order", "_meta": MODERN})
    harness.wait(2)
    harness.reply(harness.take())
    assert outcome(other.answer(2)) == ""


def test_the_same_ids_of_several_clients_are_stored_apart():
    """The same ids of several clients are kept apart."""
    harness, *people = shared()
    for number, person in enumerate(people):
        for key in (1, "1", 2):
            person.call(key, "order", arguments={"who": number, "id": key})
    for sent in reversed(list(harness.asked)):
        harness.asked.remove(sent)
        harness.reply(sent, {"content": [], "for": sent.message.params["arguments"]})
    for number, person in enumerate(people):
        for key in (1, "1", 2):
            assert person.answer(key).result["for"] == {"who": number, "id": key}


def test_a_restart_does_not_mix_them():
    """A restart does not mix them."""
    harness = Harness(is_shared=True)
    harness.tools = [tool("look", readOnlyHint=True)]
    people = [harness.client().open() for _ in range(3)]
    for number, person in enumerate(people):
        person.call(1, "look", arguments={"who": number})
    harness.die()
    harness.wait(1)
    while harness.asked:
        sent = harness.take()
        harness.reply(sent, {"content": [], "for": sent.message.params["arguments"]["who"]})
    assert [person.answer(1).result["for"] for person in people] == [0, 1, 2]


def test_cancelling_reaches_ones_own_call_only():
    """Cancelling reaches one's own call only."""
    harness, first, second, _ = shared()
    first.call(1, "order")
    second.call(1, "order")
    mine = harness.asked[0].message.id
    first.tell("notifications/cancelled", {"requestId": 1})
    assert [one.params["requestId"] for one in harness.got("notifications/cancelled")] == [mine]
    for sent in list(harness.asked):
        harness.reply(sent)
    assert not first.answers(1)
    assert second.answer(1)


def test_progress_goes_to_whom_it_belongs_whatever_the_token():
    """Progress goes to whom it belongs whatever the token."""
    harness, first, second, third = shared()
    for person in (first, second):
        person.call(1, "order", _meta={"progressToken": 1})
    sent = harness.asked[1].message
    for token in (sent.meta["progressToken"], 1, "1", None, 10**9):
        params = {"progressToken": token, "progress": 1}
        harness.serve(message.notification("notifications/progress", params))
    assert [one.params["progressToken"] for one in second.heard("notifications/progress")] == [1]
    assert not first.heard("notifications/progress") + third.heard("notifications/progress")


@pytest.mark.parametrize(
    "method", ["roots/list", "sampling/createMessage", "elicitation/create", "vendor/x"]
)
def test_a_request_of_the_server_is_refused(method):
    """A request of the server is refused."""
    harness, *people = shared()
    people[0].call(1, "order")
    harness.serve(message.request(9, method, {}), request=harness.asked[0].message.id)
    assert harness.sent[-1].message.error["code"] == -32601
    assert not any(person.heard(method) for person in people)


def test_news_of_a_resource_go_to_its_subscribers():
    """News of a resource go to its subscribers."""
    harness, first, second, third = shared()
    first.ask(1, "resources/subscribe", {"uri": "a:/1"})
    second.ask(1, "resources/subscribe", {"uri": "a:/2"})
    harness.serve(message.notification(UPDATED, {"uri": "a:/1"}))
    harness.serve(message.notification(UPDATED, {"uri": "a:/2/part"}))
    assert [one.params["uri"] for one in first.heard(UPDATED)] == ["a:/1"]
    assert [one.params["uri"] for one in second.heard(UPDATED)] == ["a:/2/part"]
    assert not third.heard(UPDATED)


def test_only_the_last_subscriber_takes_a_subscription_from_the_server():
    """Only the last subscriber takes a subscription from the server."""
    harness, first, second, _ = shared()
    for person in (first, second):
        person.ask(1, "resources/subscribe", {"uri": "a:1"})
    first.ask(2, "resources/unsubscribe", {"uri": "a:1"})
    assert first.answer(2).result == {}
    assert not harness.got("resources/unsubscribe")
    harness.serve(message.notification(UPDATED, {"uri": "a:1"}))
    assert not first.heard(UPDATED)
    assert second.heard(UPDATED)
    second.ask(2, "resources/unsubscribe", {"uri": "a:1"})
    assert len(harness.got("resources/unsubscribe")) == 1
    assert second.answer(2).result == {}


def test_a_subscription_that_another_is_asking_for_stays():
    """A subscription that another is asking for stays."""
    harness, first, second, _ = shared()
    first.ask(1, "resources/subscribe", {"uri": "a:1"})
    del harness.auto["resources/subscribe"]
    second.ask(1, "resources/subscribe", {"uri": "a:1"})
    first.ask(2, "resources/unsubscribe", {"uri": "a:1"})
    assert not harness.got("resources/unsubscribe")


def test_a_subscriber_that_leaves_takes_only_its_own_away():
    """A subscriber that leaves takes only its own away."""
    harness, first, second, _ = shared()
    for person, uris in ((first, "ab"), (second, "b")):
        for uri in uris:
            person.ask(uri, "resources/subscribe", {"uri": f"{uri}:"})
    first.leave()
    assert [one.params["uri"] for one in harness.got("resources/unsubscribe")] == ["a:"]


def test_the_server_logs_at_the_lowest_level_and_each_client_gets_its_own():
    """The server logs at the lowest level and each client gets its own."""
    harness, first, second, third = shared()
    first.ask(1, "logging/setLevel", {"level": "error", "x": 1})
    second.ask(1, "logging/setLevel", {"level": "debug"})
    third.ask(1, "logging/setLevel", {"level": "warning"})
    assert [one.params["level"] for one in harness.got("logging/setLevel")] == [
        "error",
        "debug",
        "debug",
    ]
    assert all(person.answer(1).result == {} for person in (first, second, third))
    for level in ("debug", "info", "warning", "error", "odd"):
        harness.serve(message.notification(LOG, {"level": level, "data": "x"}))
    got = [[one.params["level"] for one in person.heard(LOG)] for person in (first, second, third)]
    assert got == [
        ["error", "odd"],
        ["debug", "info", "warning", "error", "odd"],
        ["warning", "error", "odd"],
    ]


def test_the_lowest_level_is_set_again_once_and_goes_up_when_its_client_leaves():
    """The lowest level is set again once and goes up when its client leaves."""
    harness, first, second, _ = shared()
    first.ask(1, "logging/setLevel", {"level": "debug"})
    second.ask(1, "logging/setLevel", {"level": "error"})
    harness.die()
    harness.wait(1)
    assert [one.params["level"] for one in harness.got("logging/setLevel")] == [
        "debug",
        "debug",
        "debug",
    ]
    first.leave()
    assert harness.got("logging/setLevel")[-1].params["level"] == "error"


def test_what_is_received_about_one_call_is_for_its_client():
    """What is said about one call is for its client."""
    harness, first, second, _ = shared(url=True)
    first.call(1, "order")
    sent = harness.asked[0]
    note = message.notification(LOG, {"level": "error", "data": "first's"})
    harness.serve(note, request=sent.message.id)
    assert first.got[-1] == (note, ("int", 1))
    first.tell("notifications/cancelled", {"requestId": 1})
    harness.serve(note, request=sent.message.id)
    assert not second.heard(LOG), "it belongs to a call that is another's, and cancelled"
    harness.serve(note)
    assert second.heard(LOG)


def test_a_change_of_a_list_is_for_all_whichever_stream_it_comes_in():
    """A change of a list is for all whichever stream it comes in."""
    harness, *people = shared(url=True)
    people[0].call(1, "order")
    note = message.notification("notifications/tools/list_changed")
    harness.serve(note, request=harness.asked[0].message.id)
    assert all(len(person.heard("notifications/tools/list_changed")) == 1 for person in people)


def test_each_client_is_reported_of_a_restart_and_a_later_one_is_not():
    """Each client is told of a restart and a later one is not."""
    harness, first, second, _ = shared()
    harness.die()
    harness.wait(1)
    late = harness.client().open()
    reported = []
    for person in (first, first, second, late):
        person.call(len(reported), "order")
        harness.reply(harness.take())
        reported.append("_meta" in person.answer(len(reported)).result)
    assert reported == [True, False, True, False]


def test_a_client_that_leaves_takes_its_calls_along_and_no_one_elses():
    """A client that leaves takes its calls along and nobody else's."""
    harness, first, second, third = shared()
    for person in (first, second, third):
        person.call(1, "order")
    numbers = [sent.message.id for sent in harness.asked]
    second.leave()
    assert [one.params["requestId"] for one in harness.got("notifications/cancelled")] == [
        numbers[1]
    ]
    while harness.asked:
        harness.reply(harness.take())
    assert first.answer(1)
    assert third.answer(1)
    assert not second.answers(1)
    assert harness.relay.status(harness.now)["under_way"] == 0


@pytest.mark.parametrize(
    ("options", "more", "is_answered"),
    [({}, {}, True), ({"url": True}, {}, False), ({"url": True}, {"cacheScope": "public"}, True)],
)
def test_what_one_client_saw_is_reported_to_another_only_where_it_is_for_all(
    options, more, is_answered
):
    """What one client saw is told to another only where it is for all."""
    harness, first, second, _ = shared(**options)
    harness.auto["prompts/list"] = {"prompts": [{"name": "first's"}]} | more
    first.ask(1, "prompts/list")
    harness.opens_at_once = False
    harness.die()
    harness.wait(0)
    second.ask(1, "prompts/list")
    assert bool(second.answers(1)) is is_answered


def test_a_remembered_list_has_what_the_era_of_the_client_wants():
    """A page that was learned in the era with sessions is told to a client of the other one with what that one requires."""
    harness, first, *_ = shared(url=True)
    harness.auto["prompts/list"] = {"prompts": [{"name": "p"}], "cacheScope": "public"}
    first.ask(1, "prompts/list")
    harness.opens_at_once = False
    harness.die()
    harness.wait(0)
    late = harness.client()
    late.ask(1, "prompts/list", {"_meta": MODERN})
    found = {
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "public",
        "prompts": [{"name": "p"}],
    }
    assert late.answer(1).result == found


def test_a_client_that_comes_while_the_server_is_away_is_answered():
    """A client that comes while the server is away is answered."""
    harness, *_ = shared()
    harness.opens_at_once = False
    harness.die()
    late = harness.client().open()
    assert late.answer("init").result["serverInfo"]
    late.call(1, "order")
    harness.wait(31)
    assert outcome(late.answer(1)) == "not_executed"


def test_changed_tools_are_reported_to_everybody_once():
    """Changed tools are told to everybody once."""
    harness, *people = shared()
    harness.tools = [tool("new")]
    harness.die()
    harness.wait(5)
    assert [len(person.heard("notifications/tools/list_changed")) for person in people] == [1, 1, 1]


def test_the_other_era_is_stored_apart_too():
    """The other era is kept apart too."""
    harness = Harness(is_shared=True)
    people = [harness.client() for _ in range(3)]
    for number, person in enumerate(people):
        person.call(1, "order", arguments={"who": number}, _meta=MODERN)
    for sent in reversed(list(harness.asked)):
        harness.asked.remove(sent)
        harness.reply(
            sent, {"resultType": "complete", "for": sent.message.params["arguments"]["who"]}
        )
    assert [person.answer(1).result["for"] for person in people] == [0, 1, 2]
