"""The table `effects`: calls that must not run twice, of a toolbox and of protected functions, from a file."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from unittest import mock

import pytest

import resilient_bridge as rb
from resilient_bridge.errors import EffectHeldError
from resilient_bridge.stores import NOT_RUN, Effects, Ran
from tests.internals.settings import TABLES, AlertSettings, EffectSettings
from tests.rows import each_row


FILE = """\
[effects]
path = "{path}"
hold = "5m"
ignore = {{ pay = ["trace"] }}
verify = {{ refund = "find_refund" }}

[policies.pay]
retry = {{ attempts = 2 }}
"""


def find_refund(call):
    """Say of one order that it was refunded, of another that it was not."""
    return {"A-7": Ran("refunded A-7"), "A-8": NOT_RUN}.get(call.arguments["order"])


NAMES = {"find_refund": find_refund}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "resilience.toml"
    path.write_text(FILE.format(path=tmp_path / "effects.db"))
    return path


def losing():
    """A function whose answers are lost, and what it was called with."""
    orders = []

    def pay(order, trace=""):
        orders.append(order)
        raise ConnectionResetError(104, trace)

    return pay, orders


@pytest.mark.requirement("X15")
@pytest.mark.parametrize(
    "make", [lambda *args, **names: rb.load(*args, **names).toolbox, rb.agent.Toolbox.from_config]
)
def test_a_toolbox_of_a_file_does_not_make_a_call_in_doubt_again(source, make):
    """Over a restart, too; a `verify` function of the caller's names settles one; what may run twice is not held."""
    pay, orders = losing()

    async def main(_):
        box = make(source, names=NAMES)
        for name in ("pay", "refund"):
            box.tool(pay, name=name)
        box.tool(pay, name="look", idempotent=True)
        before = len(orders)
        codes = [
            (await box.call("pay", {"order": "A-7", "trace": trace})).failure.code
            for trace in ("1", "2")
        ]
        paid = orders[before:]
        refunds = [await box.call("refund", {"order": order}) for order in ("A-7", "A-7", "A-8")]
        await box.call("look", {"order": "A-9"})
        refunded = [one.value if one.ok else None for one in refunds]
        return codes, paid, refunded, orders[before:].count("A-9") > 1

    held = "SYS_EFFECT_HELD"
    expected = [None, "refunded A-7", None], True
    assert rb.testing.simulate(main) == (["CONN_RESET", held], ["A-7"], *expected)
    gc.collect()  # of the first toolbox, which holds the file
    again = rb.testing.simulate(main)
    assert again[:2] == ([held, held], [])
    assert orders.count("A-8") == 2  # it did not run, says `verify`


def test_a_protected_function_that_may_not_run_twice_passes_the_gate(source):
    config, (pay, orders) = rb.load(source, names=NAMES), losing()
    once = config.protect("pay", idempotent=False)(pay)
    with pytest.raises(ConnectionResetError):
        once("A-7", trace="1")
    with pytest.raises(EffectHeldError):
        once("A-7", trace="2")
    assert orders == ["A-7"]
    repeated = config.protect("pay", idempotent=True)(pay)
    for _ in range(2):
        with pytest.raises(ConnectionResetError):
            repeated("A-7")
    source.write_text(source.read_text().replace("attempts = 2", "attempts = 3"))
    ledger = config.effects
    config.reload()
    assert config.effects is ledger
    assert once.policy.layers[0].attempts == 3
    with pytest.raises(EffectHeldError):
        once("A-7")


def test_without_the_table_nothing_is_held():
    config, (pay, orders) = rb.load({"policies": {"pay": {"retry": {}}}}), losing()
    once = config.protect("pay", idempotent=False)(pay)
    for _ in range(2):
        with pytest.raises(ConnectionResetError):
            once("A-7")
    assert (config.effects, config.toolbox_arguments()["effects"], len(orders)) == (None, None, 2)


def test_a_path_alone_is_the_table_and_no_file_is_made_before_a_call(tmp_path):
    path = tmp_path / "effects.db"
    config = rb.load({"effects": str(path), "policies": {"pay": {"retry": {}}}})
    assert config.effects.hold == 600
    assert not path.exists()
    config.protect("pay", idempotent=False)(lambda: None)()
    assert path.exists()
    assert rb.load({"effects": {}}).effects is not None  # in memory


def test_the_defaults_are_those_of_the_class():
    """A `hold` is written once."""
    made = Effects()
    settings = TABLES["effects"]()
    assert settings.hold == made.hold == rb.load({"effects": True}).effects.hold


@each_row(
    ("data", "path", "text"),
    [
        ({"effects": {"hold": "soon"}}, "effects.hold", "wanted a duration such as 30"),
        ({"effects": {"hold": -1}}, "effects.hold", "wanted seconds above 0"),
        ({"effects": {"path": ""}}, "effects.path", "wanted a path"),
        ({"effects": {"path": 5}}, "effects.path", "wanted a path"),
        ({"effects": 5}, "effects", "wanted a path"),
        ({"effects": {"results": "yes"}}, "effects.results", "wanted True or False, got 'yes'"),
        ({"effects": {"scope": 5}}, "effects.scope", "wanted a text, got 5"),
        ({"effects": {"ignore": "trace"}}, "effects.ignore", "wanted names of arguments"),
        ({"effects": {"ignore": {"pay": 5}}}, "effects.ignore.pay", "wanted names of arguments"),
        ({"effects": {"verify": "find"}}, "effects.verify", "a table of functions by name"),
        ({"effects": {"verify": {"pay": "fund"}}}, "effects.verify.pay", "did you mean find?"),
        ({"effects": {"key": {"pay": 5}}}, "effects.key.pay", "by a name in names="),
        ({"effects": {"holt": 5}}, "effects.holt", "unknown key, did you mean hold?"),
        ({"policies": {"pay": {"retry": {}, "effects": "a.db"}}}, "policies.pay.effects", "[effects]"),
        ({"tools": {"pay": {"effects": "a.db"}}}, "tools.pay.effects", "[effects]"),
        ({"toolbox": {"effects": "a.db"}}, "toolbox.effects", "[effects]"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_with_what_was_wanted(data, path, text):
    with pytest.raises(rb.ConfigError) as caught:
        rb.load(data, names={"find": find_refund})
    (problem,) = caught.value.problems
    assert problem.path.startswith(path)
    assert text in problem.message


@pytest.mark.real
@each_row("name, at", [("effects", EffectSettings), ("alerts", AlertSettings)])
def test_threads_that_ask_at_once_get_the_same(name, at):
    """With two in memory a call in doubt of one thread would not be held in the other."""
    both, make = threading.Barrier(2), at.make

    def together(self):
        with suppress(threading.BrokenBarrierError):
            both.wait(1)  # in vain where only one comes
        return make(self)

    config = rb.load({name: {}})
    with mock.patch.object(at, "make", together), ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: getattr(config, name), range(2))
    assert first is second
