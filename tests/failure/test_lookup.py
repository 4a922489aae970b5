"""The lookup itself: what is no failure, groups, broken and enormous exceptions, and rules that are only data."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import json
import subprocess
import sys
import weakref

import httpx
import pytest

from resilient_bridge.failure import (
    CODES,
    PREFIXES,
    BridgeError,
    Failure,
    classify,
    error_for,
    failure_or_none,
)
from tests.internals.failure import Finding, dispatch, raw_failure


STOPS = [
    asyncio.CancelledError(),
    concurrent.futures.CancelledError(),
    KeyboardInterrupt(),
    SystemExit(1),
    GeneratorExit(),
]


@pytest.mark.parametrize("error", STOPS)
def test_what_ends_a_task_is_no_failure(error):
    """Raised again, the same object, subclasses too, alone or as all there is in a group."""
    with pytest.raises(type(error)) as caught:
        classify(error)
    assert caught.value is error
    subclass = type("Mine", (type(error),), {})()
    with pytest.raises(type(error)):
        classify(subclass)
    group = BaseExceptionGroup("g", [BaseExceptionGroup("h", [error])])
    with pytest.raises(BaseExceptionGroup) as caught_group:
        classify(group)
    assert caught_group.value is group


def _wrapping(below):
    error = httpx.ReadError("wrapper")
    error.__cause__ = below
    return error


class _HostileError(Exception):
    def __getattribute__(self, name):
        raise RuntimeError(name)


def test_the_engine_and_classify_agree_on_what_is_no_failure():
    """What ends a call, and what `classify` raises again, is one set; what is a failure is the same one to both."""
    refused = ValueError("x")
    stops = [
        *STOPS,
        BaseExceptionGroup("g", [KeyboardInterrupt()]),
        BaseExceptionGroup("g", [refused, SystemExit()]),
    ]
    for error in [
        *stops,
        *map(_wrapping, stops),
        _HostileError(),
        _wrapping(_HostileError()),
        refused,
    ]:
        assert raw_failure(error) == failure_or_none(error)


def test_a_group_speaks_through_its_leaves():
    """One leaf: its answer. Several: the first that repeating cannot help. Cancellations do not count."""
    refused, unknown = ConnectionRefusedError(111, "x"), ValueError("x")
    single = ExceptionGroup("g", [ExceptionGroup("h", [refused])])
    assert classify(single).code == "CONN_REFUSED"
    assert classify(single).cause is single
    assert (
        classify(ExceptionGroup("g", [refused, EOFError(), unknown, KeyError()])).message
        == "ValueError: x"
    )
    assert classify(ExceptionGroup("g", [EOFError(), refused])).code == "CONN_RESET"
    assert (
        classify(BaseExceptionGroup("g", [asyncio.CancelledError(), refused])).code
        == "CONN_REFUSED"
    )


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(), GeneratorExit()])
def test_an_interrupt_inside_a_group_is_not_swallowed(stop):
    """The group is raised again although it holds failures too."""
    with pytest.raises(BaseExceptionGroup):
        classify(BaseExceptionGroup("g", [ValueError("x"), stop]))


def test_a_group_waits_for_the_slowest():
    """All can be repeated: not before the longest wait that one of them asked for."""
    waits = [error_for(Failure.of("SYS_RATE_LIMITED", retry_after=wait)) for wait in (2, 9, 4)]
    assert classify(ExceptionGroup("g", waits)).retry_after == 9.0


def test_a_group_ran_if_one_of_it_may_have():
    """Nothing was sent only if none of the leaves was."""
    refused = ConnectionRefusedError(111, "x")
    assert classify(ExceptionGroup("g", [refused, refused])).executed == "no"
    assert (
        classify(ExceptionGroup("g", [refused, ConnectionResetError(104, "x")])).executed == "maybe"
    )


def test_our_own_error_is_its_own_failure():
    """The very record, subclasses included, below a wrapper too."""
    failure = Failure.of("SYS_OUTBOX_FULL", history=(Failure.of("CONN_RESET"),))

    class MineError(BridgeError):
        pass

    assert classify(error_for(failure)) is failure
    assert classify(MineError(failure)) is failure
    wrapper = httpx.ConnectError("x")
    wrapper.__cause__ = error_for(failure)
    assert classify(wrapper) == failure


def _forms(failure: Failure) -> list[str]:
    return [
        str(failure),
        repr(failure),
        failure.explain(),
        failure.to_llm(),
        json.dumps(failure.to_dict()),
    ]


class _BrokenError(OSError):
    """Raises at every touch."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    @property
    def errno(self) -> int:
        raise RuntimeError("no errno")


def test_an_exception_that_raises_when_touched():
    """Failing `__str__`, `__repr__` and attributes: still a failure, and every form of it works (threat 45)."""
    failure = classify(_BrokenError())
    assert failure.code == "SYS_INTERNAL_ERROR"
    assert all(_forms(failure))
    assert classify(
        type("ConnectionClosed", (Exception,), {"__module__": "websockets.exceptions"})()
    ).message
    assert (
        classify(type("InvalidStatus", (Exception,), {"__module__": "websockets"})()).code
        == "SYS_INTERNAL_ERROR"
    )
    assert classify(type("Odd", (Exception,), {"__module__": 7})()).code == "SYS_INTERNAL_ERROR"


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_a_cyclic_or_endless_chain_ends(link):
    """A cycle and 5,000 links, of wrappers, where the search does follow (threat 45)."""
    first = httpx.ReadError("x")
    setattr(first, link, first)
    assert classify(first).code == "CONN_RESET"
    other = httpx.ReadError("y")
    setattr(first, link, other)
    setattr(other, link, first)
    assert classify(first).code == "CONN_RESET"
    long: BaseException = ConnectionRefusedError()
    for _ in range(5_000):
        above = httpx.ReadError("z")
        setattr(above, link, long)
        long = above
    assert classify(long).code == "CONN_RESET"
    while long is not None:  # take it apart: freeing 5,000 links at once recurses
        below = getattr(long, link)
        setattr(long, link, None)
        long = below


def test_a_group_2000_deep_or_a_million_wide_ends():
    """No recursion, bounded leaves; and the record can be shown although the group's own repr cannot (threat 45)."""
    deep: Exception = ConnectionRefusedError(111, "x")
    for _ in range(2_000):
        deep = ExceptionGroup("g", [deep])
    failure = classify(deep)
    assert failure.code == "CONN_REFUSED"
    assert all(_forms(failure))
    wide = ExceptionGroup("g", [ConnectionRefusedError()] * 1_000_000)
    assert classify(wide).code == "CONN_REFUSED"


def test_groups_below_wrappers_below_groups_end():
    """Alternating, the nesting is cut off, and the last wrapper speaks."""
    error: Exception = ConnectionRefusedError()
    for _ in range(500):
        wrapper = httpx.ReadError("x")
        wrapper.__cause__ = ExceptionGroup("g", [error])
        error = wrapper
    assert classify(error).code == "CONN_RESET"


def test_a_secret_in_an_exception_never_comes_out():
    """Text, cause, context, group: the canary is nowhere in the record, nor in the error built from it (threat 40)."""
    secret = "CANARY-1"
    errors = [
        httpx.LocalProtocolError(f"Illegal header value b'Bearer sk-{secret}\\n'"),
        ValueError(f"wss://user:{secret}@host/?token={secret}"),
        httpx.HTTPStatusError(
            f"for url 'https://u:{secret}@h/?api_key={secret}'", request=None, response=None
        ),
        OSError(f"Authorization: Basic {secret}"),
    ]
    for error in errors:
        outer = httpx.ConnectError(f"X-Api-Key: {secret}")
        outer.__cause__ = error
        for classified in (error, outer, ExceptionGroup(f"token={secret}", [error])):
            failure = classify(classified)
            shown = [
                *_forms(failure),
                str(failure.to_mcp()),
                str(error_for(failure)),
                repr(error_for(failure)),
            ]
            assert not [text for text in shown if "CANARY" in text]


def test_the_text_of_an_exception_cannot_forge_a_log_line():
    """Newlines, ANSI and NUL are escaped, a megabyte is cut (threat 46)."""
    failure = classify(ValueError("a\nERROR forged \x1b[31m\x00" + "x" * 10**6))
    assert "\n" not in str(failure)
    assert all(len(text) < 2_000 for text in _forms(failure))
    assert not [text for text in _forms(failure) if "\x1b" in text or "\x00" in text]


def _rules():
    """Every rule of every library."""
    return {
        key: rule
        for name in dispatch.PACKAGES
        for key, rule in dispatch.rows_of(name).rules.items()
    }


def test_a_library_is_listed_where_its_rules_are():
    """Each package with a rule, a wrapper, a leaf or a provider leads to the module that has it."""
    for package in dispatch.PACKAGES:
        rows = dispatch.rows_of(package)
        keys = {*rows.rules, *rows.wrappers, *rows.leaves, *rows.providers, *rows.through}
        assert package in {key[0] for key in keys}
        assert {key[0] for key in keys} <= {
            name for name in dispatch.PACKAGES if dispatch.rows_of(name) is rows
        }


@pytest.mark.requirement("R1")
def test_every_rule_leads_to_a_listed_code():
    """The rules are data: each constant one names a code of the table, each key a package and a class."""
    rules = _rules()
    assert len(rules) > 60
    for (package, name), rule in rules.items():
        assert package.isidentifier()
        assert name.isidentifier()
        if isinstance(rule, Finding):
            assert rule.code in CODES
            assert rule.failure().code.startswith(tuple(PREFIXES))


def test_a_derived_class_inherits_and_may_be_more_exact():
    """The MRO decides: a subclass from anywhere is read like its base."""

    class TheirsError(ConnectionResetError):
        pass

    assert classify(TheirsError()).code == "CONN_RESET"


def test_classes_made_at_run_time_do_not_pile_up():
    """What is remembered per class is bounded."""
    gone = weakref.ref(type("Short", (Exception,), {}))
    for _ in range(3_000):
        cls = type("Short", (Exception,), {})
        classify(cls())
    gc.collect()
    assert gone() is None
    assert (
        sum(1 for item in gc.get_objects() if isinstance(item, type) and item.__name__ == "Short")
        <= 1_024
    )


class _NoClassError(Exception):
    """Raises when it is asked what it is."""

    @property
    def __class__(self):
        raise RuntimeError("no class")


class _NoCauseError(httpx.ConnectError):
    """Raises when it is asked for what lies below."""

    @property
    def __cause__(self):
        raise RuntimeError("no cause")

    __context__ = __cause__


def test_an_exception_that_raises_when_asked_what_it_is():
    """A failing `__class__`, `__cause__` or `__context__`, alone, below a wrapper and in a group (threat 45)."""
    assert classify(_NoClassError("x")).code == "SYS_INTERNAL_ERROR"
    wrapper = httpx.ConnectError("x")
    wrapper.__cause__ = _NoClassError("x")
    assert classify(wrapper).code == "CONN_UNREACHABLE"
    assert classify(ExceptionGroup("g", [_NoClassError("x")])).code == "SYS_INTERNAL_ERROR"
    assert classify(_NoCauseError("x")).code == "CONN_UNREACHABLE"


def test_an_answer_that_raises_when_asked_what_it_is():
    """What is no exception and cannot be read is nothing we know."""

    class Odd:
        @property
        def __class__(self):
            raise RuntimeError("no class")

    assert classify(Odd()) is None
    response = type("Response", (), {"__module__": "httpx"})()
    assert classify(response) is None


@pytest.mark.requirement("S7")
def test_every_verdict_is_a_whole_report():
    """Category, message, retryability, session validity and what to do, for every rule there is; without a trace."""
    for rule in _rules().values():
        if isinstance(rule, Finding):
            failure = rule.failure(ValueError("x"))
            assert all((failure.category, failure.message, failure.suggestions))
            assert isinstance(failure.retryable, bool)
            assert isinstance(failure.session_valid, bool)
            assert "Traceback" not in failure.explain()


@pytest.mark.requirement("S9")
def test_a_session_survives_what_does_not_end_it():
    """`session_valid` is on every verdict, and only what says that the session is gone clears it."""
    assert classify(ConnectionResetError()).session_valid
    assert classify(httpx.Response(503)).session_valid
    assert not classify(httpx.Response(404, json={"code": "SESS_NOT_FOUND"})).session_valid


def test_a_rule_is_found_by_type_alone():
    """`rule_for` reads the class and nothing of the exception."""
    known = dispatch.rule_for(_BrokenError())
    assert known is dispatch.dispatch(_BrokenError)


READS = """
import sys
from resilient_bridge import classify
for error in (ConnectionRefusedError(111, "x"), ValueError("x"), TimeoutError(), KeyError("x")):
    classify(error)
print(*sorted(name.removeprefix("resilient_bridge.failure.") for name in sys.modules), sep="\\n")
"""


def test_the_readers_of_a_library_are_loaded_with_its_first_error():
    """An error of the system needs none of the readers of SDKs, HTTP clients and services."""
    done = subprocess.run([sys.executable, "-c", READS], capture_output=True, text=True, check=True)
    assert not {"answers", "exits", "http_clients", "sdks", "services"} & set(done.stdout.split())
