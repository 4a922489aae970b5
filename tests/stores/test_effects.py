"""A call that is identical to one in doubt is not made: under policies, over restarts, in a file and in memory."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import stat
from decimal import Decimal

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.errors import EffectHeldError, StoreError
from resilient_bridge.protocol import Now
from resilient_bridge.stores import NOT_RUN, Effects, Ran, SQLiteStore
from tests.calls.forms import Form
from tests.internals.stores import effects as effects_module


FORMS = [Form(is_async=False), Form(is_async=True), Form(is_async=True, is_virtual=True)]
each_form = pytest.mark.parametrize("form", FORMS, ids=str)


class Shop:
    """A function with an effect, which is counted; its answers are lost while `is_broken`."""

    def __init__(self, form, effects):
        self.form, self.paid, self.is_broken = form, [], False

        def pay(order, amount=1, note=""):
            self.paid.append((order, amount))
            if self.is_broken:
                raise ConnectionResetError("the answer is lost")
            return f"paid {order}"

        @functools.wraps(pay)
        async def pay_async(*args, **kwargs):
            return pay(*args, **kwargs)

        policy = rb.Policy(rb.Retry(attempts=3))
        function = pay_async if form.is_async else pay
        self.pay = policy(idempotent=False, effects=effects, name="pay")(function)

    def __call__(self, *args, **kwargs):
        return self.form.run(self.pay, *args, **kwargs)

    def lose(self, *args, **kwargs):
        """Pay, and lose the answer."""
        self.is_broken = True
        with pytest.raises(ConnectionResetError):
            self(*args, **kwargs)
        self.is_broken = False

    def held(self, *args, **kwargs):
        """Pay, and be held; return the failure."""
        before = len(self.paid)
        with pytest.raises(EffectHeldError) as raised:
            self(*args, **kwargs)
        assert len(self.paid) == before
        return raised.value.failure


@pytest.fixture
def path(tmp_path):
    return tmp_path / "effects.db"


@pytest.fixture(params=["file", "memory"])
def effects(request, path):
    with Effects(path if request.param == "file" else None) as made:
        yield made


# ---- held, and not held -------------------------------------------------------------------------
@each_form
def test_an_identical_call_is_held_while_the_first_is_in_doubt(form, effects, heard):
    """It says so of the first, says that this one was not made, and names the time of the first."""
    with form.world():
        shop = Shop(form, effects)
        shop.lose("A-7", 12)
        failure = shop.held("A-7", 12)
    assert failure.code == "SYS_EFFECT_HELD"
    assert failure.executed is rb.errors.Executed.MAYBE
    assert not failure.retryable
    assert failure.message.startswith(
        "OUTCOME UNKNOWN: pay was called with the same arguments at 20"
    )
    assert "NOT EXECUTED: this call was not made" in failure.message
    assert failure.details["first"] == "unknown"
    assert failure.details["began"].startswith("20")
    assert "again=True" in " ".join(failure.suggestions)
    assert [event.first for event in heard if isinstance(event, rb.events.EffectHeld)] == [
        "unknown"
    ]


@each_form
def test_another_call_is_made_and_two_honest_orders_are_two(form, effects):
    with form.world():
        shop = Shop(form, effects)
        shop.lose("A-7")
        assert shop("A-8") == "paid A-8"
        assert shop("A-8") == "paid A-8"
    assert [order for order, _ in shop.paid] == ["A-7", "A-8", "A-8"]


@each_form
def test_what_provably_did_not_run_is_not_held(form, effects):
    with form.world():
        policy = rb.Policy(rb.Retry(attempts=1))
        calls = []

        def refuse():
            calls.append(1)
            raise rb.NotExecutedError

        refuse = policy(idempotent=False, effects=effects, name="refuse")(form.of(refuse))
        for _ in range(2):
            with pytest.raises(rb.NotExecutedError):
                form.run(refuse)
    assert len(calls) == 2


@each_form
@pytest.mark.parametrize("status", [504, 503, 429, 408, 200, 401, 404], ids=str)
def test_a_response_that_a_server_gave_up_with_is_in_doubt(form, effects, status):
    """One that says 504 says no more than an error does; one that declines, or worked, is an end."""
    with form.world():
        calls = []

        def pay(order):
            calls.append(order)
            return httpx.Response(status)

        policy = rb.Policy(rb.Retry(attempts=1), rb.AdaptiveLimit())
        pay = policy(idempotent=False, effects=effects, name="pay")(form.of(pay))
        assert form.run(pay, "A-7").status_code == status
        if status in {200, 401, 404}:
            assert form.run(pay, "A-7").status_code == status
        else:
            with pytest.raises(EffectHeldError):
                form.run(pay, "A-7")
            assert calls == ["A-7"]


def test_a_call_that_is_under_way_holds_an_identical_one(effects):
    form, entered = Form(is_async=True), []

    async def main():
        leave = asyncio.Event()

        @rb.Policy(rb.Timeout(30))(idempotent=False, effects=effects)
        async def pay(order):
            entered.append(order)
            await leave.wait()
            return order

        first = asyncio.create_task(pay("A-7"))
        while not entered:
            await asyncio.sleep(0)
        with pytest.raises(EffectHeldError, match="it is still running"):
            await pay("A-7")
        leave.set()
        assert await first == "A-7"
        return await pay("A-7")

    assert form.run(main) == "A-7"
    assert entered == ["A-7", "A-7"]


def test_a_cancelled_call_is_in_doubt(effects):
    async def main():
        entered = asyncio.Event()

        @rb.Policy(rb.Timeout(30))(idempotent=False, effects=effects)
        async def pay(order):
            entered.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(pay("A-7"))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(EffectHeldError, match="may or may not have run"):
            await pay("A-7")

    asyncio.run(main())


def test_a_call_that_is_cancelled_before_it_is_made_holds_nothing(path, monkeypatch):
    """The row is written in a thread meanwhile, and goes again."""

    async def main():
        with Effects(path) as effects:
            made = []

            @rb.Policy(rb.Timeout(30))(idempotent=False, effects=effects)
            async def pay(order):
                made.append(order)

            task = asyncio.create_task(pay("A-7"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert made == []
            await pay("A-7")
            assert made == ["A-7"]

    asyncio.run(main())


@each_form
def test_the_hold_has_an_end(form, path, heard):
    with rb.testing.virtual_time() as clock, Effects(path, hold=60) as effects:
        shop = Shop(form, effects)
        shop.lose("A-7")
        clock.advance(59)
        shop.held("A-7")
        clock.advance(1)
        assert shop("A-7") == "paid A-7"
    assert [one.how for one in heard if isinstance(one, rb.events.EffectResolved)] == ["hold"]


# ---- what is identical --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ({"order": "A-7", "amount": 12}, {"amount": 12, "order": "A-7"}, True),
        ({"order": "A-7", "amount": 12}, {"order": "A-7", "amount": 12.0}, True),
        ({"order": "A-7", "amount": 12}, {"order": "A-7", "amount": Decimal("12.00")}, True),
        ({"order": "A-7"}, {"order": "A-7", "amount": 1}, True),
        ({"order": "caf\u00e9"}, {"order": "cafe\u0301"}, True),
        ({"order": {"a": 1, "b": [2]}}, {"order": {"b": [2.0], "a": 1}}, True),
        ({"order": "A-7", "note": "x"}, {"order": "A-7", "note": "y"}, True),
        ({"order": "A-7"}, {"order": "a-7"}, False),
        ({"order": 1}, {"order": "1"}, False),
        ({"order": 1}, {"order": True}, False),
        ({"order": None}, {"order": ""}, False),
        ({"order": [1, 2]}, {"order": [2, 1]}, False),
        ({"order": 10**30}, {"order": 10**30 + 1}, False),
    ],
)
def test_calls_are_identical_by_value(first, second, is_same):
    """After defaults, in any order of keys, without the arguments in `ignore`."""
    shop = Shop(Form(is_async=False), Effects(ignore={"pay": ["note"]}))
    shop.lose(**first)
    if is_same:
        shop.held(**second)
    else:
        assert shop(**second)


def test_what_cannot_be_compared_is_refused_before_the_call():
    shop = Shop(Form(is_async=False), Effects())
    with pytest.raises(rb.ConfigError, match=r"pay\(order.client\)") as raised:
        shop({"client": object()})
    assert "Effects(path, ignore={'pay': ['order']})" in str(raised.value)
    assert shop.paid == []


@each_form
def test_a_key_of_the_callers_is_all_that_counts(form, path):
    """A call of a key that has ended is not made again; its answer is there where answers are kept."""
    with form.world(), Effects(path, results=True, key=lambda call: call["order"]) as effects:
        shop = Shop(form, effects)
        assert shop("A-7", 12) == "paid A-7"
        assert shop("A-7", 13) == "paid A-7"
        effects.close()
        assert shop("A-7", 14) == "paid A-7"
    assert shop.paid == [("A-7", 12)]


def test_a_key_function_that_raises_is_the_users_and_nothing_was_called():
    effects, paid = Effects(key={"pay": lambda arguments: arguments["no such"]}), []
    pay = rb.Policy(rb.Retry())(paid.append, idempotent=False, effects=effects, name="pay")
    with pytest.raises(KeyError) as caught:
        pay("A-7")
    assert "raised by the key of Effects" in caught.value.__notes__[0]
    assert rb.classify(caught.value).executed is rb.errors.Executed.NO
    assert paid == []


def test_one_call_may_have_a_key(effects):
    shop = Shop(Form(is_async=False), effects)
    with effects.calling(key="one"):
        shop("A-7")
        failure = shop.held("A-8")
    assert failure.executed is rb.errors.Executed.YES
    assert failure.message.startswith("ALREADY RAN: pay was called with the same arguments")
    assert shop("A-7") == "paid A-7"


def test_the_options_of_a_call_are_not_those_of_calls_inside_it(effects):
    made = []

    @rb.Policy(rb.Retry(attempts=1))(idempotent=False, effects=effects, name="pay")
    def pay(order):
        made.append(order)

    @rb.Policy(rb.Retry(attempts=1))(idempotent=False, effects=effects, name="pay_all")
    def pay_all(*orders):
        for order in orders:
            pay(order)

    with effects.calling(key="all"):
        pay_all("A-7", "A-8")
    assert made == ["A-7", "A-8"]


def test_scopes_of_a_file_do_not_hold_each_other(path):
    for scope in ("one", "two", "one"):
        with Effects(path, scope=scope) as effects:
            shop = Shop(Form(is_async=False), effects)
            if not path.with_name("seen").exists():
                shop.lose("A-7")
                path.with_name("seen").touch()
            elif scope == "two":
                assert shop("A-7")
            else:
                shop.held("A-7")


# ---- until it is known --------------------------------------------------------------------------
@each_form
@pytest.mark.parametrize("is_awaited", [False, True])
def test_verify_says_what_became_of_it(form, effects, is_awaited, heard):
    """Ran: its answer is that of the next call, which is not made. NOT_RUN: that is made now. None: held."""
    is_awaited = is_awaited and form.is_async  # a sync call awaits nothing
    verdicts, asked = [], []

    def find(call):
        asked.append((call.name, call.arguments, call.began.tzinfo is not None, call.key))
        return verdicts[-1]

    async def find_later(call):
        return find(call)

    verified = Effects(verify={"pay": find_later if is_awaited else find})
    with form.world():
        shop = Shop(form, verified)
        shop.lose("A-7", 12)
        verdicts.append(None)
        assert "verify function cannot say" in " ".join(shop.held("A-7", 12).suggestions)
        verdicts.append(Ran("found"))
        assert shop("A-7", 12) == "found"
        assert shop.paid == [("A-7", 12)]
        assert shop("A-7", 12) == "paid A-7"
        shop.lose("A-7", 12)
        verdicts.append(NOT_RUN)
        assert shop("A-7", 12) == "paid A-7"
    assert len(shop.paid) == 4
    assert asked[0] == ("pay", {"order": "A-7", "amount": 12, "note": ""}, True, None)
    resolved = [one.how for one in heard if isinstance(one, rb.events.EffectResolved)]
    assert resolved == ["verified", "not_run"]


@each_form
def test_an_answer_that_verify_found_is_in_the_file_as_any_other(form, path):
    """Where a key remembers the end and answers are kept, it is asked once."""
    asked = []

    def find(call):
        asked.append(call.key)
        return Ran("found")

    with form.world(), Effects(path, results=True, key=lambda _: "k", verify=find) as effects:
        shop = Shop(form, effects)
        shop.lose("A-7")
        assert shop("A-7") == "found"
        assert shop("A-7") == "found"
        effects.close()
        assert shop("A-7") == "found"
    assert asked == ["k"]
    assert shop.paid == [("A-7", 1)]


@pytest.mark.parametrize("wrong", [True, "paid", {"id": 1}])
def test_verify_has_to_say_it_in_our_words(wrong):
    shop = Shop(Form(is_async=False), Effects(verify=lambda _: wrong))
    shop.lose("A-7")
    with pytest.raises(rb.ConfigError, match="NOT_RUN"):
        shop("A-7")
    assert len(shop.paid) == 1


def test_a_verify_that_fails_holds_the_call():
    def find(call):
        raise TimeoutError

    shop = Shop(Form(is_async=False), Effects(verify=find))
    shop.lose("A-7")
    with pytest.raises(TimeoutError):
        shop("A-7")
    assert len(shop.paid) == 1


def test_two_that_ask_at_once_run_it_once():
    """Both are told that the first did not run: the one that is faster runs it, the other is held."""

    async def main():
        both, asked, made = asyncio.Event(), [], []

        async def find(call):
            asked.append(call)
            if len(asked) == 2:
                both.set()
            await both.wait()
            return NOT_RUN

        @rb.Policy(rb.Retry())(idempotent=False, effects=Effects(verify=find))
        async def pay(order):
            made.append(order)
            if len(made) == 1:
                raise ConnectionResetError
            await asyncio.sleep(0.01)
            return order

        with pytest.raises(ConnectionResetError):
            await pay("A-7")
        ends = await asyncio.gather(pay("A-7"), pay("A-7"), return_exceptions=True)
        assert len(made) == 2
        assert sorted(type(end).__name__ for end in ends) == ["EffectHeldError", "str"]

    asyncio.run(main())


@each_form
def test_the_caller_may_say_again(form, effects, heard):
    with form.world():
        shop = Shop(form, effects)
        shop.lose("A-7")
        with effects.calling(again=True):
            assert shop("A-7") == "paid A-7"
        assert shop("A-7") == "paid A-7"
    assert [one.how for one in heard if isinstance(one, rb.events.EffectResolved)] == ["again"]


# ---- over a restart -----------------------------------------------------------------------------
@pytest.mark.requirement("X15")
@each_form
def test_a_doubt_outlives_its_process(form, path):
    with form.world():
        with Effects(path) as effects:
            Shop(form, effects).lose("A-7", 12)
        with Effects(path) as effects:
            shop = Shop(form, effects)
            shop.held(amount=12, order="A-7")
            assert shop("A-8")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_of_the_arguments_or_the_answer_is_in_the_file(path):
    with Effects(path) as effects:
        shop = Shop(Form(is_async=False), effects)
        shop("SECRET-ORDER")
        shop.lose("SECRET-ORDER")
    assert b"SECRET-ORDER" not in path.read_bytes()


def test_the_file_has_two_flushes_a_call(path, monkeypatch):
    """Counted as transactions: each is one flush of the log."""
    counted = []
    real = effects_module._Book.write
    monkeypatch.setattr(
        effects_module._Book, "write", lambda book, *ops: (counted.append(ops), real(book, *ops))
    )
    with Effects(path) as effects:
        shop = Shop(Form(is_async=False), effects)
        for _ in range(10):
            shop("A-7")
        assert len(counted) == 20


# ---- a file that cannot be used -----------------------------------------------------------------
def test_a_file_in_use_holds_the_call(path):
    with Effects(path) as effects, Effects(path) as other:
        Shop(Form(is_async=False), effects)("A-7")
        shop = Shop(Form(is_async=False), other)
        failure = shop.held("A-8")
        assert failure.details["store"] == "SYS_STORE_IN_USE"
        assert "pay was not made" in failure.message


async def test_a_file_of_another_program_holds_the_call_and_is_unchanged(path, tmp_path):
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = path.read_bytes()
    with Effects(path) as effects:
        shop = Shop(Form(is_async=False), effects)
        assert shop.held("A-7").details["store"] == "SYS_STATE_FOREIGN"
    assert path.read_bytes() == before
    bridges = path.with_name("bridge.db")
    store = SQLiteStore(bridges)
    await store.open(Now(0.0, 1_700_000_000.0))
    await store.close()
    with Effects(bridges) as effects:
        shop = Shop(Form(is_async=False), effects)
        assert shop.held("A-7").details["store"] == "SYS_STATE_FOREIGN"


@pytest.mark.parametrize("damage", ["head", "row", "empty", "zeros"])
def test_a_damaged_file_is_never_started_anew_by_itself(path, damage, heard):
    """The call is held until its user has set the file aside, as a whole."""
    with Effects(path) as effects:
        Shop(Form(is_async=False), effects).lose("A-7")
    data = path.read_bytes()
    at = data.index(b"pay") if damage == "row" else 0
    damaged = {
        "head": b"\xff" * 30 + data[30:],
        "row": data[:at] + b"pax" + data[at + 3 :],
        "empty": b"",
        "zeros": bytes(len(data)),
    }[damage]
    path.write_bytes(damaged)
    with Effects(path) as effects:
        shop = Shop(Form(is_async=False), effects)
        for _ in range(2):
            failure = shop.held("A-7")
            assert failure.details["store"] == "SYS_STATE_DAMAGED"
            assert path.name in failure.message
        assert path.read_bytes() == damaged
        aside = effects.set_aside()
        assert aside.read_bytes() == damaged
        assert shop("A-7") == "paid A-7"
    assert any(isinstance(one, rb.events.StateSetAside) for one in heard)


def test_a_full_file_refuses_with_its_name(path, monkeypatch):
    """No row in doubt goes, and ended ones make room."""
    monkeypatch.setattr(effects_module, "_MOST", 5)
    with rb.testing.virtual_time() as clock, Effects(path) as effects:
        shop = Shop(Form(is_async=False), effects)
        for number in range(5):
            shop.lose(number)
        for _ in range(2):
            failure = shop.held("another")
            assert f"{path.name} is full" in failure.message
        shop.held(0)
        clock.advance(600)
        assert shop("another") == "paid another"


def test_in_memory_there_is_room_for_a_thousand():
    shop = Shop(Form(is_async=False), Effects())
    shop.is_broken = True
    for number in range(1_000):
        with pytest.raises(ConnectionResetError):
            shop(number)
    shop.is_broken = False
    assert "the memory for effects is full" in shop.held("more").message


def test_a_file_that_was_removed_is_written_anew_with_its_doubts(path, heard):
    with Effects(path) as effects:
        shop = Shop(Form(is_async=False), effects)
        shop.lose("A-7")
        path.unlink()
        assert shop("A-8")
    with Effects(path) as effects:
        Shop(Form(is_async=False), effects).held("A-7")


# ---- arguments ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"path": 5}, "Effects.path"),
        ({"scope": 5}, "Effects.scope"),
        ({"hold": -1}, "Effects.hold"),
        ({"results": 1}, "Effects.results"),
        ({"key": "order"}, "Effects.key"),
        ({"ignore": "note"}, "Effects.ignore"),
        ({"verify": {"pay": 5}}, r"Effects\.verify\.pay"),
    ],
)
def test_a_wrong_argument_is_named(wanted, text):
    with pytest.raises(rb.ConfigError, match=text):
        Effects(**wanted)


@pytest.mark.parametrize("idempotent", [True, None])
def test_effects_are_for_what_must_not_run_twice(idempotent):
    with pytest.raises(rb.ConfigError, match="idempotent=False"):
        rb.Policy(rb.Breaker())(idempotent=idempotent, effects=Effects())


def test_a_stream_and_a_block_have_no_effects():
    policy = rb.Policy(rb.Breaker())
    with pytest.raises(rb.ConfigError, match="a function that returns its answer"):

        @policy(idempotent=False, effects=Effects())
        def items():
            yield 1

    with pytest.raises(rb.ConfigError, match="a block has no arguments"):
        policy(idempotent=False, effects=Effects()).attempts()


def test_a_call_of_a_policy_passes_the_gate_and_a_new_policy_counts():
    effects, policy = Effects(), rb.Policy(rb.Retry(attempts=1))
    calls = []

    def pay(order):
        calls.append(order)
        raise ConnectionResetError

    for expected in (ConnectionResetError, EffectHeldError):
        with pytest.raises(expected):
            policy(idempotent=False, effects=effects).call(pay, "A-7")
    assert calls == ["A-7"]
    guarded = policy(idempotent=False, effects=effects)(pay)
    guarded.policy = rb.Policy(rb.Breaker.consecutive(1))
    with pytest.raises(ConnectionResetError):
        guarded("A-8")
    with pytest.raises(rb.CircuitOpenError):
        guarded("A-9")


def test_a_store_error_at_the_end_leaves_the_answer(path, monkeypatch):
    """The effect has happened and its caller gets the answer; the file is brought up to date later."""
    with Effects(path) as effects:
        shop = Shop(Form(is_async=False), effects)
        shop("first")
        real, fails = effects_module._Book.write, []

        def write(book, *ops):
            if fails:
                raise StoreError(rb.Failure.of("SYS_STORE_UNAVAILABLE", "full"))
            return real(book, *ops)

        def pay_and_fill(order, amount=1, note=""):
            fails.append(1)
            return order

        monkeypatch.setattr(effects_module._Book, "write", write)
        fill = rb.Policy(rb.Retry())(idempotent=False, effects=effects, name="pay")(pay_and_fill)
        assert fill("A-7") == "A-7"
        assert "full" in shop.held("A-8").message
        fails.clear()
        assert shop("A-7") == "paid A-7"
