"""A tool call that is identical to one in doubt: held once for a minute, and with a file until it is known what became of the first."""

from __future__ import annotations

import pytest

from resilient_bridge.stores import Effects
from tests.adapters.sidecar.harness import DIED, Harness, outcome, result_text, tool


PAID = {"content": [{"type": "text", "text": "paid A-7"}]}
SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "string"},
        "amount": {"type": "number", "default": 1},
        "to": {"type": "object", "properties": {"bank": {"type": "string", "default": "ours"}}},
    },
}


class Shop:
    """A server with a tool that pays, behind a relay; `ask` calls it, each time with a new id."""

    def __init__(self, ledger, **options):
        self.harness = Harness(ledger=ledger, **options)
        self.harness.tools = [
            tool("pay") | {"inputSchema": SCHEMA},
            tool("wipe", destructiveHint=True),
            tool("look", readOnlyHint=True),
            tool("find", readOnlyHint=True)
            | {"inputSchema": {"properties": {"order": {}, "amount": {}}}},
            tool("list_all") | {"inputSchema": {"properties": {}}},
        ]
        self.client = self.harness.client().open()
        self.ids = 0

    def ask(self, arguments=None, name="pay", **params):
        self.ids += 1
        arguments = {"order": "A-7"} if arguments is None else arguments
        self.client.ask(self.ids, "tools/call", {"name": name, "arguments": arguments, **params})
        return self.ids

    def lose(self, *args, **kwargs):
        """Have a call made, and the server die before its answer."""
        number = self.ask(*args, **kwargs)
        self.harness.take()
        self.harness.die()
        self.harness.wait(1)
        assert outcome(self.client.answer(number)) == "unknown"

    def made(self, name="pay"):
        return sum(one.params["name"] == name for one in self.harness.got("tools/call"))

    def text(self, number):
        return result_text(self.client.answer(number))


@pytest.fixture
def durable(tmp_path):
    """What makes a relay with a file; several relays one after the other."""
    path = str(tmp_path / "effects.db")
    made = []

    def make(**options):
        for ledger in made:
            ledger.close()
        made.append(Effects(path))
        return Shop(made[-1], effects=path, **options)

    yield make
    for ledger in made:
        ledger.close()


# ---- in memory ----------------------------------------------------------------------------------
def test_without_a_file_an_identical_call_is_held_once():
    shop = Shop(Effects())
    shop.lose()
    held = shop.ask()
    assert outcome(shop.client.answer(held)) == "unknown"
    assert shop.text(held).startswith(
        'OUTCOME UNKNOWN: "pay" was called with the same arguments at 20'
    )
    assert "NOT EXECUTED: this call was not sent" in shop.text(held)
    assert shop.text(held).endswith("call it once more.")
    assert shop.made() == 1
    again = shop.ask()
    shop.harness.reply(shop.harness.take(), PAID)
    assert shop.text(again) == "paid A-7"
    assert shop.made() == 2


def test_without_a_file_a_doubt_holds_for_a_minute():
    shop = Shop(Effects())
    shop.lose()
    shop.harness.wait(60)
    shop.ask()
    assert shop.made() == 2


def test_without_a_file_parallel_calls_and_other_calls_pass():
    shop = Shop(Effects())
    for _ in range(2):
        shop.ask()
    shop.ask({"order": "A-8"})
    assert shop.made() == 3
    for _ in range(3):
        shop.harness.reply(shop.harness.take(), PAID)
    shop.ask()
    assert shop.made() == 4


def test_without_a_file_what_is_destructive_is_held_for_ten_minutes():
    shop = Shop(Effects())
    shop.lose(name="wipe")
    for _ in range(3):
        assert "It can be called again in" in shop.text(shop.ask(name="wipe"))
        shop.harness.wait(100)
    assert shop.made("wipe") == 1
    shop.harness.wait(300)
    shop.ask(name="wipe")
    assert shop.made("wipe") == 2


def test_without_a_file_other_calls_pass_however_many_are_in_doubt():
    """A thousand fit into memory; those are held, and no other call is."""
    ledger = Effects()
    shop = Shop(ledger)
    for number in range(1_001):
        shop.client.ask(number + 10_000, "tools/call", {"name": "pay", "arguments": {"n": number}})
        shop.client.tell("notifications/cancelled", {"requestId": number + 10_000})
    assert len(ledger.rows) == 1_000
    before = shop.made()
    shop.ask({"order": "A-8"})
    assert shop.made() == before + 1
    assert outcome(shop.client.answer(shop.ask({"n": 5}))) == "unknown"


def test_a_call_that_its_client_cancelled_is_in_doubt():
    shop = Shop(Effects())
    number = shop.ask()
    shop.client.tell("notifications/cancelled", {"requestId": number})
    assert outcome(shop.client.answer(shop.ask())) == "unknown"
    assert shop.made() == 1


@pytest.mark.parametrize("name", ["pay", "look"])
def test_what_may_be_repeated_is_never_held(durable, name):
    """Neither in memory nor with a file."""
    for shop in (Shop(Effects(), idempotent=["pay"]), durable(idempotent=["pay"])):
        number = shop.ask(name=name)
        shop.client.tell("notifications/cancelled", {"requestId": number})
        shop.ask(name=name)
        shop.ask(name=name)
        assert shop.made(name) == 3


# ---- with a file --------------------------------------------------------------------------------
@pytest.mark.requirement("X15")
@pytest.mark.parametrize(
    "arguments",
    [
        {"order": "A-7", "amount": 12, "to": {}},
        {"to": {"bank": "ours"}, "amount": 12.0, "order": "A-7"},
    ],
)
def test_with_a_file_a_doubt_outlives_the_sidecar(durable, arguments):
    """In a session that is another, and with the keys in another order."""
    shop = durable()
    shop.ask({"order": "A-7", "amount": 12, "to": {}})
    assert shop.made() == 1
    shop = durable()
    for seconds in (0, 1, 60):
        shop.harness.wait(seconds)
        number = shop.ask(arguments)
        assert outcome(shop.client.answer(number)) == "unknown"
        assert "It can be called again in" in shop.text(number)
    assert shop.made() == 0
    assert shop.made("pay") == 0
    shop.ask({"order": "A-8"})
    assert shop.made() == 1


def test_with_a_file_a_call_under_way_holds_an_identical_one(durable):
    shop = durable()
    first = shop.ask()
    assert "it is still running" in shop.text(shop.ask())
    shop.harness.reply(shop.harness.take(), PAID)
    assert shop.text(first) == "paid A-7"
    shop.ask()
    assert shop.made() == 2


def test_an_end_that_its_client_got_is_not_deduplicated(durable):
    shop = durable()
    for _ in range(3):
        number = shop.ask()
        shop.harness.reply(shop.harness.take(), PAID)
        assert shop.text(number) == "paid A-7"
    shop.ask()
    assert shop.made() == 4


def test_a_late_answer_is_that_of_the_next_call(durable):
    shop = durable(timeout=1)
    first = shop.ask()
    sent = shop.harness.take()
    shop.harness.wait(2)
    assert outcome(shop.client.answer(first)) == "unknown"
    assert "may or may not have run" in shop.text(shop.ask())
    shop.harness.reply(sent, PAID)
    assert shop.text(shop.ask()) == "paid A-7"
    assert shop.made() == 1
    shop.ask()
    assert shop.made() == 2


def test_what_was_never_sent_is_not_held(durable):
    shop = durable(patience=1)
    shop.harness.opens_at_once = False
    shop.harness.die(DIED)
    shop.harness.wait(0)
    number = shop.ask()
    shop.harness.wait(5)
    assert outcome(shop.client.answer(number)) == "not_executed"
    shop.harness.opens_at_once = True
    shop.harness.open_now()
    shop.ask()
    assert shop.made() == 1


def test_a_client_may_say_again_and_give_a_key(durable):
    shop = durable()
    shop.lose()
    shop.ask(_meta={"io.github.resilient-bridge/again": True})
    assert shop.made() == 2
    shop.harness.reply(shop.harness.take(), PAID)
    keyed = {"_meta": {"io.github.resilient-bridge/key": "one"}}
    shop.ask(**keyed)
    shop.harness.reply(shop.harness.take(), PAID)
    assert "ran to its end" in shop.text(shop.ask({"order": "A-9"}, **keyed))
    assert shop.made() == 3


def test_a_file_that_cannot_be_used_holds_every_call(durable, tmp_path):
    path = tmp_path / "effects.db"
    path.write_bytes(b"no database, but a text that is long enough to be looked at as one" * 10)
    shop = durable()
    number = shop.ask()
    assert outcome(shop.client.answer(number)) == "not_executed"
    assert "effects.db is damaged" in shop.text(number)
    assert shop.made() == 0
    shop.ask(name="look")
    assert shop.made("look") == 1


# ---- a read tool --------------------------------------------------------------------------------
def asked_read_tool(shop, name="find"):
    """Return what the read tool was asked, and answer it next."""
    sent = shop.harness.take()
    assert sent.message.params["name"] == name
    return sent


@pytest.mark.parametrize(
    ("answer", "is_found"),
    [
        (PAID, True),
        ({"content": [], "structuredContent": {"result": [{"order": "A-7"}]}}, True),
        ({"content": []}, False),
        ({"content": [{"type": "text", "text": "[]"}]}, False),
        ({"content": [{"type": "text", "text": ""}], "structuredContent": {"result": []}}, False),
        ({"content": [{"type": "text", "text": "null"}]}, False),
        ({"content": [{"type": "text", "text": "no idea"}], "isError": True}, None),
    ],
)
def test_a_read_tool_says_what_became_of_it(durable, answer, is_found):
    """Something: it ran, and that is the answer. Nothing: it is made now. An error: it stays held."""
    shop = durable(verify={"pay": "find"})
    shop.lose({"order": "A-7", "to": {}})
    number = shop.ask({"order": "A-7", "to": {}})
    sent = asked_read_tool(shop)
    assert sent.message.params["arguments"] == {"order": "A-7"}
    assert shop.client.answers(number) == []
    shop.harness.reply(sent, answer)
    if is_found:
        assert shop.client.answer(number).result == answer
        assert shop.made() == 1
    elif is_found is None:
        assert outcome(shop.client.answer(number)) == "unknown"
        assert shop.made() == 1
    else:
        assert shop.made() == 2
        shop.harness.reply(shop.harness.take(), PAID)
        assert shop.text(number) == "paid A-7"


def test_a_read_tool_that_takes_no_argument_of_the_call_is_not_asked(durable):
    shop = durable(verify={"pay": "list_all"})
    shop.lose()
    assert outcome(shop.client.answer(shop.ask())) == "unknown"
    assert shop.made("list_all") == 0


def test_a_read_tool_without_an_answer_leaves_it_held(durable):
    shop = durable(verify={"pay": "find"})
    shop.lose()
    number = shop.ask()
    asked_read_tool(shop)
    shop.harness.die()
    shop.harness.wait(1)
    if shop.client.answers(number) == []:  # it is asked anew, of the next session
        shop.harness.wait(40)
    assert outcome(shop.client.answer(number)) == "unknown"
    assert shop.made() == 1


def test_nothing_found_says_little_while_the_server_may_still_be_at_it(durable):
    """The call timed out, its server lives, and has not answered: it may run after the read tool looked."""
    shop = durable(verify={"pay": "find"}, timeouts={"pay": 1})
    shop.ask()
    shop.harness.take()
    shop.harness.wait(2)
    number = shop.ask()
    shop.harness.reply(asked_read_tool(shop), {"content": []})
    assert outcome(shop.client.answer(number)) == "unknown"
    assert shop.made() == 1


def test_a_call_that_is_cancelled_while_the_read_tool_is_asked_is_not_made(durable):
    shop = durable(verify={"pay": "find"})
    shop.lose()
    number = shop.ask()
    sent = asked_read_tool(shop)
    shop.client.tell("notifications/cancelled", {"requestId": number})
    shop.harness.reply(sent, {"content": []})
    assert shop.made() == 1
    assert shop.client.answers(number) == []
