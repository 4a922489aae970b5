"""Objects whose methods fail or lie, at every entry point of the package: their errors never come out.

Rule: classification, redaction, suggestions, records, notes and events take any object; the caller's own error always wins.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from datetime import UTC, datetime
from unittest import mock

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import redact_value
from resilient_bridge.testing import virtual_time
from tests.calls.forms import at_once
from tests.internals.stores import record_line
from tests.rows import each_row


class OwnError(Exception):
    """What an attribute of a hostile error raises."""


def _raising(name):
    def raises(self):
        raise OwnError(name)

    return property(raises, lambda self, value: None)


def _hostile(base=Exception, **body):
    return type("HostileError", (base,), body)


def _text_of_a_wrong_type(self):
    return 7


class _Text(str):
    """A text whose methods fail."""

    __slots__ = ()

    def lower(self):
        raise OwnError

    isprintable = isascii = strip = split = encode = __len__ = lower  # type: ignore[assignment]


def _recursive(self):
    return str(self)


def _cyclic():
    one, two = ValueError("one"), ConnectionError("two")
    one.__cause__ = one.__context__ = two
    two.__cause__ = two.__context__ = one
    return one


def _deep():
    error: Exception = ValueError("x")
    for _ in range(300):
        error = ExceptionGroup("deep", [error])
    return error


HOSTILE = {
    "module none": lambda: _hostile(__module__=None)("x"),
    "module number": lambda: _hostile(__module__=7)("x"),
    "notes": lambda: _hostile(__notes__=_raising("notes"))("x"),
    "notes of a wrong type": lambda: _hostile(__notes__=7)("x"),
    "cause": lambda: _hostile(__cause__=_raising("cause"))("x"),
    "context": lambda: _hostile(__context__=_raising("context"))("x"),
    "class": lambda: _hostile(__class__=_raising("class"))("x"),
    "args": lambda: _hostile(ConnectionError, args=_raising("args"))("x"),
    "errno": lambda: _hostile(OSError, errno=_raising("errno"))("x"),
    "dict": lambda: _hostile(__dict__=_raising("dict"))("x"),
    "str": lambda: _hostile(__str__=lambda self: 1 / 0)("x"),
    "str of a wrong type": lambda: _hostile(__str__=_text_of_a_wrong_type)("x"),
    "str that recurses": lambda: _hostile(__str__=_recursive, __repr__=_recursive)("x"),
    "str of a hostile text": lambda: _hostile(__str__=lambda self: _Text("x"))("x"),
    "getattribute": lambda: _hostile(
        __getattr__=lambda self, name: (_ for _ in ()).throw(OwnError(name))
    )("x"),
    "answers everything": lambda: _hostile(__getattr__=lambda self, name: mock.MagicMock())("x"),
    "setattr": lambda: _hostile(__setattr__=lambda self, name, value: 1 / 0)("x"),
    "eq": lambda: _hostile(__eq__=lambda self, other: 1 / 0, __hash__=None)("x"),
    "bool": lambda: _hostile(__bool__=lambda self: 1 / 0)("x"),
    "group": lambda: _hostile(ExceptionGroup, exceptions=_raising("exceptions"))(
        "x", [ValueError()]
    ),
    "group of a wrong type": lambda: _hostile(ExceptionGroup, exceptions=7)("x", [ValueError()]),
    "group in a group": lambda: ExceptionGroup("y", [HOSTILE["group"](), ValueError("z")]),
    "timeout": lambda: _hostile(TimeoutError, args=_raising("args"), __str__=lambda self: 1 / 0)(
        "x"
    ),
    "cyclic": _cyclic,
    "deep": _deep,
    "huge": lambda: ValueError(10**5_000),
    "surrogate": lambda: ValueError("\ud800", b"\xff"),
    "nan": lambda: OSError(float("nan"), "x"),
    "status": lambda: _hostile(status_code=float("nan"), response=mock.MagicMock())("x"),
    "failure": lambda: _hostile(rb.BridgeError, failure=_raising("failure"))(
        rb.Failure.of("CONN_RESET")
    ),
    "stderr": lambda: subprocess.CalledProcessError(
        10**400, mock.MagicMock(), mock.MagicMock(), object()
    ),
}


@each_row("kind", HOSTILE)
def test_d04_classify_takes_any_exception(kind):
    """`classify` returns a failure, and all its forms can be made."""
    failure = rb.classify(HOSTILE[kind]())
    texts = [
        str(failure),
        repr(failure),
        failure.explain(),
        failure.to_llm(),
        json.dumps(failure.to_dict()),
        json.dumps(failure.to_mcp()),
    ]
    assert all(text.isprintable() or "\n" in text for text in texts)
    rb.agent.suggest(HOSTILE[kind]())
    rb.agent.suggest(failure)


@each_row("kind", HOSTILE)
@each_row(
    "layers",
    [
        (
            rb.Retry(
                attempts=2,
                backoff=rb.Backoff.constant(1),
                on=(Exception, rb.named("package", "Class")),
            ),
            rb.Breaker(),
        ),
        (rb.Retry(attempts=2, rules={ValueError: rb.Rule(attempts=1), 503: rb.Rule(attempts=1)}),),
        (rb.Breaker.consecutive(1),),
    ],
    ids=["retry", "rules", "breaker"],
)
def test_d04_the_callers_own_error_comes_out(kind, layers):
    """An error of any class is raised as the same object by each call, and no internal error replaces it."""
    error = HOSTILE[kind]()

    @rb.Policy(*layers)(idempotent=True)
    def call() -> None:
        raise error

    for _ in range(2):
        with virtual_time():
            try:
                call()
            except rb.CircuitOpenError:
                break
            except BaseException as caught:  # noqa: BLE001 -- by identity
                assert caught is error
            else:
                pytest.fail("nothing was raised")


@each_row("kind", HOSTILE)
def test_d04_a_toolbox_and_capture_give_it_as_data(kind):
    """`Toolbox.call` never raises a failure, `capture` stores the error itself, and listeners and the session log get text."""
    error = HOSTILE[kind]()
    toolbox = rb.agent.Toolbox(rb.Policy(at_once(attempts=2)))

    @toolbox.tool
    def hostile() -> None:
        raise error

    with rb.testing.record() as recorded:
        outcome = asyncio.run(toolbox.call("hostile", {}))
    assert outcome.error is error
    assert json.loads(outcome.to_llm())["code"]
    outcome.to_tool_error("1")
    for event in recorded:
        repr(event)
    record_line({"error": error, "value": [error]}, datetime.now(UTC))


@pytest.mark.parametrize(
    "layer",
    [
        rb.Retry(attempts=3, on=lambda failure: failure.nope),
        rb.Retry(attempts=3, on=(KeyError, lambda failure: failure.nope)),
        rb.Retry(attempts=3, rules={(lambda failure: 1 / 0): rb.Rule(attempts=2)}),
        rb.Retry(attempts=3, on=ValueError, backoff=lambda attempt: 1 / 0),
        rb.Breaker(on=(lambda failure: 1 / 0,)),
    ],
    ids=["on", "on several", "rules", "backoff", "breaker"],
)
def test_d04_a_condition_that_raises_does_not_take_the_callers_error_away(layer):
    """The caller's error is raised; the other one is a note on it."""
    error = ValueError("the caller's")

    @rb.Policy(layer)(idempotent=True)
    def call() -> None:
        raise error

    with virtual_time(), pytest.raises(ValueError, match="the caller's") as caught:
        call()
    assert caught.value is error
    assert any("AttributeError" in note or "ZeroDivisionError" in note for note in error.__notes__)


class _Endless:
    """Returns itself for every attribute, and iterates without an end."""

    def __getattr__(self, name):
        return self

    def __iter__(self):
        while True:
            yield self

    def __len__(self):
        return 1 << 62


class _EndlessList(list):
    def __iter__(self):
        while True:
            yield "x"


class _EndlessDict(dict):
    def items(self):
        while True:
            yield ("x", "y")


VALUES = {
    "mock": mock.MagicMock,
    "dict mock": lambda: mock.Mock(spec=dict),
    "list mock": lambda: mock.Mock(spec=list),
    "endless": _Endless,
    "endless list": lambda: _EndlessList([1]),
    "endless dict": lambda: _EndlessDict(a=1),
    "text": lambda: _Text("x"),
    "nan": lambda: float("nan"),
    "liar": type("Liar", (), {"__class__": dict}),
    "hidden": type("Hidden", (), {"__class__": _raising("class")}),
    "huge": lambda: 10**5_000,
    "int": lambda: type("Int", (int,), {"__abs__": lambda self: 1 / 0})(3),
    "odd keys": lambda: {object(): object(), 1.5: {2: 3}, None: b"\xff", _Text("k"): _Text("v")},
}


@each_row("kind", VALUES)
def test_d04_any_value_becomes_plain_data(kind):
    """Mocks, lying, endless and failing objects, in details, answers, arguments and records."""
    value = VALUES[kind]()
    plain = redact_value({"value": value, "list": [value]})
    json.dumps(plain)
    rb.classify(value)
    failure = rb.Failure.of("CONN_RESET", details={"value": value}, suggestions=(value, "x"))
    failure.explain(), failure.to_llm(), json.dumps(failure.to_dict())
