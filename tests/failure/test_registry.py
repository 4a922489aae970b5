"""`classify.register`: what users teach, how long it holds, and what is refused."""

from __future__ import annotations

import asyncio
import http
import re
import threading

import httpx
import pytest

from resilient_bridge import named
from resilient_bridge.failure import Category, ConfigError, Executed, Kind, Registration, classify


class Busy(Exception):  # noqa: N818 - a name as users have them
    """An error of the user's own."""


class VeryBusy(Busy):
    """A subclass of it."""


@pytest.fixture(autouse=True)
def _nothing_stays():
    yield
    assert not Registration.in_force


@pytest.mark.parametrize(
    "what",
    [
        Busy,
        Exception,
        named(Busy.__module__.partition(".")[0], "Busy"),
        "SYS_INTERNAL_ERROR",
        re.compile("full house"),
    ],
    ids=str,
)
def test_every_sort_of_what(what):
    """A class, its base, a pair of names, the code it had, a pattern in its text."""
    error = Busy("full house")
    assert not classify(error).retryable
    with classify.register(what, kind=Kind.TRANSIENT):
        failure = classify(error)
        assert (failure.kind, failure.retryable, failure.code) == ("transient", True, failure.code)
        assert failure.cause is error
    assert not classify(error).retryable


@pytest.mark.parametrize("what", [418, http.HTTPStatus.IM_A_TEAPOT])
def test_a_number(what):
    """An HTTP status, of an answer and of an exception; close and JSON-RPC codes likewise."""
    response = httpx.Response(418, request=httpx.Request("GET", "http://host/"))
    with classify.register(what, kind=Kind.TRANSIENT, suggestions=["brew"]):
        assert classify(
            httpx.HTTPStatusError("x", request=response.request, response=response)
        ).retryable
        assert classify(response).suggestions == ("brew",)
    with classify.register(-32002, kind=Kind.TRANSIENT):
        assert classify({"jsonrpc": "2.0", "error": {"code": -32002, "message": "m"}}).retryable


def test_a_code_brings_all_that_follows_from_it():
    """Of an unknown error: the code's row, its text behind the summary. What it proves does not follow from a code."""
    with classify.register(Busy, code="SYS_RATE_LIMITED"):
        failure = classify(Busy("later"))
    assert str(failure) == "rate limited: later (UPSTREAM)"
    assert (failure.executed, failure.severity) == ("maybe", "warning")
    with classify.register(Busy, code="TOOL_BUSY", executed=Executed.NO):
        assert (classify(Busy("x")).code, classify(Busy("x")).executed) == ("TOOL_BUSY", "no")


def test_only_the_fields_named_change():
    """A known error keeps its code, details and wait; an unknown one gets a code that fits."""
    with classify.register(ConnectionRefusedError, kind=Kind.PERMANENT):
        failure = classify(ConnectionRefusedError(111, "x"))
        assert (failure.code, failure.retryable, failure.executed) == ("CONN_REFUSED", False, "no")
        assert failure.details["errno"] == 111
        below = httpx.ConnectError("x")
        below.__cause__ = ConnectionRefusedError(111, "x")
        assert not classify(below).retryable
    for kind, code in (
        (Kind.TRANSIENT, "SYS_UNAVAILABLE"),
        (Kind.CORRUPTION, "PROTO_INVALID_MESSAGE"),
    ):
        with classify.register(Busy, kind=kind):
            assert classify(Busy("x")).code == code
    for category in Category:
        with classify.register(Busy, category=category):
            assert classify(Busy("x")).category is category
    with classify.register(Busy, executed=Executed.NO):
        assert (classify(Busy("x")).code, classify(Busy("x")).executed) == (
            "SYS_INTERNAL_ERROR",
            "no",
        )


def test_exception_is_the_last_of_all_as_in_rules():
    """Below a client's own error, whose base Exception is, a class of the cause says more; so does a pattern."""
    error = type("ConnectError", (Exception,), {"__module__": "httpx.errors"})("x")
    error.__cause__ = ConnectionResetError(104, "reset")
    with (
        classify.register(OSError, code="SYS_STATE_DAMAGED"),
        classify.register(Exception, code="TOOL_EXECUTION_FAILED"),
    ):
        assert classify(error).code == "SYS_STATE_DAMAGED"
    with (
        classify.register(re.compile("full house"), code="SYS_STATE_DAMAGED"),
        classify.register(Exception, code="TOOL_EXECUTION_FAILED"),
    ):
        assert classify(Exception("full house")).code == "SYS_STATE_DAMAGED"


def test_the_most_specific_wins_then_the_later():
    """Number, very class, pattern, code, base class, in that order; and leaving restores what held before."""
    with (
        classify.register("SYS_INTERNAL_ERROR", suggestions=["code"]),
        classify.register(Busy, suggestions=["base"]),
    ):
        assert classify(VeryBusy("x")).suggestions == ("code",)
        with classify.register(re.compile("x"), suggestions=["pattern"]):
            assert classify(VeryBusy("x")).suggestions == ("pattern",)
            with classify.register(VeryBusy, suggestions=["class"]):
                assert classify(VeryBusy("x")).suggestions == ("class",)
                with classify.register(VeryBusy, suggestions=["later"]) as registration:
                    assert classify(VeryBusy("x")).suggestions == ("later",)
                    registration.unregister()
                    registration.unregister()
                    assert classify(VeryBusy("x")).suggestions == ("class",)
            assert classify(VeryBusy("x")).suggestions == ("pattern",)


@pytest.mark.parametrize(
    ("what", "fields", "field"),
    [
        (object, {"kind": Kind.TRANSIENT}, "what"),
        (True, {"kind": Kind.TRANSIENT}, "what"),
        (1.5, {"kind": Kind.TRANSIENT}, "what"),
        ("OOPS", {"kind": Kind.TRANSIENT}, "what"),
        (("a", "b", "c"), {"kind": Kind.TRANSIENT}, "what"),
        (("a", ""), {"kind": Kind.TRANSIENT}, "what"),
        (re.compile(b"x"), {"kind": Kind.TRANSIENT}, "what"),
        (Kind.TRANSIENT, {"kind": Kind.TRANSIENT}, "what"),
        (Category.AUTH, {"kind": Kind.TRANSIENT}, "what"),
        (callable, {"kind": Kind.TRANSIENT}, "what"),
        (asyncio.CancelledError, {"kind": Kind.TRANSIENT}, "what"),
        (KeyboardInterrupt, {"kind": Kind.TRANSIENT}, "what"),
        (Busy, {"kind": "transient"}, "kind"),
        (Busy, {"category": 7}, "category"),
        (Busy, {"executed": True}, "executed"),
        (Busy, {"code": "OOPS"}, "code"),
        (Busy, {"suggestions": "one text"}, "suggestions"),
        (Busy, {"suggestions": 7}, "suggestions"),
        (Busy, {"suggestions": ["x", ""]}, "suggestions"),
        (Busy, {}, "at least one of"),
    ],
    ids=str,
)
def test_what_is_refused_is_named(what, fields, field):
    """ConfigError with the field; nothing is registered. What ends a task can never become a failure."""
    with pytest.raises(ConfigError, match=rf"classify\.register.*{field}"):
        classify.register(what, **fields)


def test_threads_register_and_read_at_once():
    """Registering, removing and classifying in eight threads: nothing breaks, and nothing is left."""
    failures = []

    def work(number: int) -> None:
        try:
            for _ in range(200):
                with classify.register(Busy, suggestions=[str(number)]):
                    assert classify(Busy("x")).suggestions[0].isdigit()
        except BaseException as error:  # noqa: BLE001 - a thread's error is told below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_it_says_what_it_is():
    """`repr`, and a docstring for `help()`."""
    assert repr(classify) == "classify"
    assert classify.__doc__
