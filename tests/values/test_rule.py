"""Rules: what they accept, and which rule wins."""

from __future__ import annotations

import pickle
import re
from http import HTTPStatus

import pytest

from resilient_bridge import named
from resilient_bridge.bridge import Reconnect
from resilient_bridge.failure import (
    AuthError,
    BridgeError,
    Category,
    ConfigError,
    Failure,
    Kind,
    Severity,
)
from resilient_bridge.values import Backoff, Rule, most_specific
from tests.rows import each_row


class BusyError(ConnectionResetError):
    """An exception of the user's own."""


def a_predicate(failure: Failure) -> bool:
    return failure.retry_after is None


def another_predicate(failure: Failure) -> bool:
    return failure.retry_after == 5


FAILURE = Failure.of(
    "CONN_UPGRADE_REJECTED",
    "server said busy",
    category=Category.TRANSPORT,
    kind=Kind.TRANSIENT,
    details={"http_status": 503},
    cause=BusyError("x"),
)
# From specific to general: each key is more specific for FAILURE than all that follow.
LADDER = [
    503,
    BusyError,
    re.compile("busy"),
    "CONN_UPGRADE_REJECTED",
    a_predicate,
    ConnectionResetError,
    ConnectionError,
    OSError,
    Category.TRANSPORT,
    Kind.TRANSIENT,
    Exception,
]
OTHERS = [
    502,
    ValueError,
    named("websockets", "BusyError"),
    re.compile("idle"),
    "CONN_TIMEOUT",
    another_predicate,
    Category.AUTH,
    Kind.PERMANENT,
    AuthError,
]


def _numbered(keys: list) -> dict:
    return {what: Rule(attempts=index + 1) for index, what in enumerate(keys)}


@each_row("index", range(len(LADDER)))
def test_the_most_specific_key_wins_in_any_order(index):
    """Of the keys that match, the most specific wins, at any position."""
    keys = LADDER[index:]
    for order in (keys, keys[::-1]):
        assert most_specific(_numbered(order), FAILURE) == Rule(attempts=order.index(keys[0]) + 1)


@each_row("what", OTHERS, ids=lambda what: getattr(what, "__name__", str(what)))
def test_a_key_that_does_not_fit_is_passed_over(what):
    """A key of each form that almost matches finds nothing."""
    assert most_specific({what: Rule()}, FAILURE) is None


def test_a_class_can_be_named_without_importing_it():
    """`named("package", "Class")` finds the class of the cause, and its base classes by their own package."""
    package = BusyError.__module__.partition(".")[0]
    assert most_specific(
        {named(package, "BusyError"): Rule(attempts=1), "CONN_UPGRADE_REJECTED": Rule()}, FAILURE
    ) == Rule(attempts=1)
    assert most_specific({named("builtins", "OSError"): Rule(attempts=2)}, FAILURE) == Rule(
        attempts=2
    )


def test_a_number_is_an_http_status_a_close_code_or_a_json_rpc_code():
    """1012 finds the close code, -32002 the code of a JSON-RPC error; a number that the failure does not carry finds nothing."""
    answered = Failure.of("SYS_UPSTREAM_REJECTED", details={"rpc_code": -32002})
    assert most_specific({-32002: Rule(attempts=8)}, answered) == Rule(attempts=8)
    closed = Failure.of("CONN_WEBSOCKET_CLOSED", details={"close_code": 1012})
    assert most_specific({1012: Rule(attempts=9)}, closed) == Rule(attempts=9)
    assert most_specific({1011: Rule(attempts=9)}, closed) is None


def test_our_exceptions_name_families_of_failures():
    """AuthError matches a failure that would be raised as one, and is less specific than the code."""
    expired = Failure.of("AUTH_TOKEN_EXPIRED", cause=BusyError())
    assert most_specific({AuthError: Rule(attempts=1)}, expired) == Rule(attempts=1)
    assert most_specific({AuthError: Rule(attempts=1), BridgeError: Rule()}, expired) == Rule(
        attempts=1
    )
    both = {AuthError: Rule(attempts=1), "AUTH_TOKEN_EXPIRED": Rule(attempts=2)}
    assert most_specific(both, expired) == Rule(attempts=2)


def test_of_two_equal_ones_the_first_wins():
    """Of two patterns that match, the first one written wins."""
    first, second = re.compile("busy"), re.compile("server")
    assert most_specific({first: Rule(attempts=1), second: Rule(attempts=2)}, FAILURE) == Rule(
        attempts=1
    )
    assert most_specific({second: Rule(attempts=2), first: Rule(attempts=1)}, FAILURE) == Rule(
        attempts=2
    )


def test_no_rules_fit_nothing():
    """An empty table matches nothing."""
    assert most_specific({}, FAILURE) is None


def test_a_table_is_a_value():
    """Rules of a policy compare without order, are hashable and picklable, and cannot be changed from outside."""
    value = _numbered(
        [
            503,
            OSError,
            "CONN_TIMEOUT",
            named("websockets", "InvalidStatus"),
            Category.AUTH,
            Kind.PARTIAL,
        ]
    )
    policy = Reconnect(rules=value)
    turned = Reconnect(rules=dict(reversed(value.items())))
    copy = pickle.loads(pickle.dumps(policy))
    assert policy == turned == copy
    assert hash(policy) == hash(turned) == hash(copy)
    value.clear()
    assert len(policy.rules) == 6
    with pytest.raises(TypeError):
        policy.rules[1] = Rule()


def test_a_table_prints_as_it_is_written():
    """The repr of every key evaluates to it: classes and enum members by name, an IntEnum as its number."""
    policy = Reconnect(
        rules={
            HTTPStatus.TOO_MANY_REQUESTS: Rule(attempts=6, backoff=Backoff.constant(60)),
            OSError: Rule(attempts=2),
            Category.AUTH: Rule(attempts=1),
            named("websockets", "InvalidStatus"): Rule(),
            re.compile("busy"): Rule(),
        }
    )
    assert repr(policy) == (
        "Reconnect(rules={429: Rule(attempts=6, backoff=Backoff.constant(60)), OSError: Rule(attempts=2), "
        "Category.AUTH: Rule(attempts=1), named('websockets', 'InvalidStatus'): Rule(), re.compile('busy'): Rule()})"
    )
    names = {
        "Reconnect": Reconnect,
        "Rule": Rule,
        "Backoff": Backoff,
        "Category": Category,
        "re": re,
        "named": named,
    }
    assert eval(repr(policy), names) == policy


@each_row(
    "what",
    [
        True,
        "",
        "conn_timeout",
        "TIMEOUT_CONN",
        1.5,
        None,
        int,
        (),
        ("a",),
        ("a", 1),
        re.compile(b"x"),
        Severity.ERROR,
    ],
)
def test_a_key_outside_the_vocabulary_is_refused(what):
    """A ConfigError that names the table."""
    with pytest.raises(ConfigError, match=r"Reconnect\.rules"):
        Reconnect(rules={what: Rule()})


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Reconnect(rules={"CONN_TIMEOUT": 5}), "Reconnect.rules['CONN_TIMEOUT']"),
        (lambda: Reconnect(rules=[("CONN_TIMEOUT", Rule())]), "Reconnect.rules"),
        (lambda: Reconnect(rules=None), "Reconnect.rules"),
        (lambda: Rule(attempts=0), "Rule.attempts"),
        (lambda: Rule(attempts=True), "Rule.attempts"),
        (lambda: Rule(backoff=5), "Rule.backoff"),
        (lambda: Rule(before="log in"), "Rule.before"),
    ],
)
def test_a_bad_rule_is_refused_by_name(make, field):
    """A ConfigError with the path of what is wrong."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.failure.details["violations"][0]["field"] == field


def test_before_is_stored():
    """The `before` function is part of the value."""
    assert Rule(before=a_predicate) == Rule(before=a_predicate) != Rule()
