"""`named`: a class of another package by its name; and what is refused where a failure is named wrongly."""

from __future__ import annotations

import pickle

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Degradation, suggest
from tests.calls.forms import at_once
from tests.rows import each_row


TIMEOUT = rb.named("httpx", "TimeoutException")


def test_k14_a_class_of_another_package_is_named():
    """It is a value, prints as the call that makes it, and fits the class and its subclasses, whoever wrote them."""
    assert repr(TIMEOUT) == "named('httpx', 'TimeoutException')"
    assert pickle.loads(pickle.dumps(TIMEOUT)) == TIMEOUT
    assert len({TIMEOUT, rb.named("httpx", "TimeoutException")}) == 1

    class MineError(httpx.ReadTimeout):
        pass

    for error, calls in (
        (httpx.ReadTimeout("x"), 3),
        (MineError("x"), 3),
        (httpx.ConnectError("x"), 1),
    ):
        made = []

        @rb.Policy(at_once(attempts=3, on=TIMEOUT))(idempotent=True)
        def ask(error=error, made=made):
            made.append(1)
            raise error

        with pytest.raises(type(error)):
            ask()
        assert len(made) == calls


@each_row(
    ("package", "name"),
    [
        ("google.genai", "APIError"),
        ("google", "errors.APIError"),
        ("", "X"),
        ("x", ""),
        (3, "X"),
        ("x", None),
        ("x y", "Z"),
    ],
)
def test_k14_two_names_are_wanted(package, name):
    """A path, an empty text and anything else are refused, by the argument."""
    with pytest.raises(rb.ConfigError, match=r"named\((package|name)\): wanted "):
        rb.named(package, name)


def fields(what):
    """Every field where code names a failure."""
    return {
        "Retry.on": lambda: rb.Retry(on=what),
        "Retry.on, in a list": lambda: rb.Retry(on=[503, what]),
        "Retry.rules": lambda: rb.Retry(rules={what: rb.Rule()}),
        "Reconnect.rules": lambda: rb.bridge.Reconnect(rules={what: rb.Rule()}),
        "Breaker.on": lambda: rb.Breaker(on=what),
        "Breaker.ignore": lambda: rb.Breaker(ignore=what),
        "Fallback.on": lambda: rb.Fallback(print, on=what),
        "Degradation.on": lambda: Degradation("a", "b", "c", on=what),
        "classify.register": lambda: rb.classify.register(what, kind=rb.Kind.TRANSIENT),
        "suggest.register": lambda: suggest.register(what, lambda *_: ()),
    }


FIELDS = [*fields("")]


@each_row("field", FIELDS)
@each_row(
    ("what", "meant"),
    [
        ("SYS_RATE_LIMITTED", "did you mean SYS_RATE_LIMITED?"),
        ("CONN_TIMEOT", "did you mean CONN_TIMEOUT?"),
        ("RATE_LIMITED", "did you mean SYS_RATE_LIMITED?"),
        ("sys_rate_limited", "did you mean SYS_RATE_LIMITED?"),
        (
            "TOOL_OF_MY_COMPANY_QXZ",
            "a code of this package, or your own after classify.register(…, code=…)",
        ),
        (("httpx", "ReadTimeout"), "a class of another package is named('httpx', 'ReadTimeout')"),
    ],
)
def test_k14_an_unknown_name_is_refused_with_what_was_meant(field, what, meant):
    """In each field alike, and the error is about that field."""
    if field == "Retry.on, in a list" and isinstance(what, tuple):
        field = "Retry.rules"  # a tuple inside of a list is nothing anybody writes
    with pytest.raises(rb.ConfigError) as caught:
        fields(what)[field]()
    text = str(caught.value)
    assert text.startswith(field.partition(",")[0])
    assert meant in text


@each_row("field", FIELDS)
def test_k14_what_is_known_is_taken_everywhere(field):
    """A code, and a class by its name."""
    for what in ("SYS_RATE_LIMITED", TIMEOUT):
        taken = fields(what)[field]()
        if field.endswith("register"):
            taken.unregister()


def test_k14_a_code_of_ones_own_is_known_once_it_is_registered():
    """`code=` introduces it, unless it is one of ours with a slip."""

    class BusyError(Exception):
        pass

    with rb.classify.register(BusyError, code="TOOL_QUEUE_OF_K14", kind=rb.Kind.TRANSIENT):
        calls = []

        @rb.Policy(at_once(attempts=3, on="TOOL_QUEUE_OF_K14"))(idempotent=True)
        def ask():
            calls.append(1)
            raise BusyError

        with pytest.raises(BusyError):
            ask()
        assert len(calls) == 3
    with pytest.raises(
        rb.ConfigError, match=r"classify\.register\.code: .*did you mean SYS_RATE_LIMITED\?"
    ):
        rb.classify.register(BusyError, code="SYS_RATE_LIMITTED")


@pytest.mark.parametrize("key", ["on", "rules"])
def test_k14_a_file_spells_a_class_with_a_colon_and_refuses_a_misspelt_code(key):
    """`"httpx:ReadTimeout"` as before; a code that is unknown is a mistake of the file, with the near miss."""

    def load(what):
        return rb.load(
            {"retry": {key: [what] if key == "on" else {what: {"attempts": 2}}}}
        ).policies

    retry = rb.load({"kind": "Retry", "on": ["httpx:ReadTimeout"]})
    assert retry == rb.Retry(on=rb.named("httpx", "ReadTimeout"))
    assert rb.load(rb.settings.dump(retry)) == retry
    load("httpx:ReadTimeout")
    with pytest.raises(rb.ConfigError, match=r"SYS_RATE_LIMITTED.*did you mean SYS_RATE_LIMITED"):
        load("SYS_RATE_LIMITTED")
