"""Tools by name: what they stay, what they may take, what is repeated, and how their failures are told."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import threading
from datetime import timedelta

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from tests.calls.forms import at_once, http_error


REFUSED = ConnectionRefusedError


def limits(toolbox, *names):
    """The seconds of each tool, once it is added."""
    for name in names:
        toolbox.tool(lambda: None, name=name)
    return [toolbox.tools[name].timeout for name in names]


# ---- what a tool stays ----------------------------------------------------------------------------------------------
async def test_a_tool_stays_the_function_it_was():
    """Same signature, same name, called directly: a value, or the very error it raised."""
    toolbox = Toolbox()

    @toolbox.tool
    async def grep(pattern: str, /, *, most: int = 3) -> list[str]:
        """Look for it."""
        if pattern == "bad":
            raise error
        return [pattern] * most

    @toolbox.tool()
    def double(number: int) -> int:
        return number * 2

    error = LookupError("mine")
    assert await grep("a", most=1) == ["a"]
    assert double(4) == 8
    with pytest.raises(LookupError) as raised:
        await grep("bad")
    assert raised.value is error
    assert str(inspect.signature(grep)) == "(pattern: 'str', /, *, most: 'int' = 3) -> 'list[str]'"
    assert (grep.__name__, grep.__doc__) == ("grep", "Look for it.")
    assert inspect.iscoroutinefunction(grep)
    assert not inspect.iscoroutinefunction(double)


async def test_a_tool_is_called_by_name():
    """With a mapping or with JSON text; the outcome holds the value, the tool, the calls and the time."""
    toolbox = Toolbox()

    @toolbox.tool
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @toolbox.tool(name="take")
    def pair(first: int, /, second: int = 2, *rest: int, **named: int) -> tuple[object, ...]:
        return first, second, rest, named

    outcome = await toolbox.call("add", {"a": 1})
    assert (outcome.ok, outcome.value, outcome.tool, outcome.attempts) == (True, 2, "add", 1)
    assert (await toolbox.call("add", '{"a": 3, "b": 4}')).value == 7
    assert (await toolbox.call("take", {"first": 1, "x": 5})).value == (1, 2, (), {"x": 5})
    assert json.loads((await toolbox.call("add", {"a": 1})).to_llm()) == {"ok": True, "result": 2}
    assert repr(toolbox) == "<Toolbox add, take>"


async def test_methods_partials_and_callable_objects_are_tools():
    """Whatever can be called once is: a bound method, a partial, an object with `__call__`."""

    class Shelf:
        def look(self, title: str) -> str:
            return f"found {title}"

        async def __call__(self, title: str) -> str:
            return f"called {title}"

    toolbox = Toolbox()
    toolbox.tool(Shelf().look)
    toolbox.tool(Shelf(), name="shelf")
    toolbox.tool(functools.partial(Shelf().look, "a book"), name="partial")
    assert (await toolbox.call("look", {"title": "x"})).value == "found x"
    assert (await toolbox.call("shelf", {"title": "x"})).value == "called x"
    assert (await toolbox.call("partial", "")).value == "found a book"


async def test_what_there_is_to_be_reported():
    """`tools` has each tool's name, limit, and what it may; it cannot be changed."""
    toolbox = Toolbox(timeouts={"find": timedelta(minutes=1)})
    toolbox.tool(lambda: None, name="find", required=False, idempotent=True)
    found = toolbox.tools["find"]
    assert (found.name, found.timeout, found.required, found.idempotent) == (
        "find",
        60,
        False,
        True,
    )
    with pytest.raises(TypeError):
        toolbox.tools["find"] = found
    with pytest.raises(AttributeError):
        found.timeout = 1


# ---- limits ---------------------------------------------------------------------------------------------------------
@pytest.mark.requirement("R12")
def test_the_limits_of_recursor():
    """bash 300 s, read_file 10, edit_file 30, search 60; any other tool 30."""
    names = ("bash", "read_file", "edit_file", "search", "other")
    assert limits(Toolbox(rb.presets.recursor), *names) == [300, 10, 30, 60, 30]


@pytest.mark.requirement("V5")
def test_the_limits_of_openviber():
    """30 s by default, a shell 120, a scrape 60, a browser 45."""
    names = ("shell_command", "web_scrape", "browser_action", "other")
    assert limits(Toolbox(rb.presets.openviber), *names) == [120, 60, 45, 30]
    assert limits(Toolbox(), "any") == [30]


def test_the_most_particular_limit_counts():
    """The decorator's, its policy's, the table by name, the preset by name, the two defaults, the policy's own, 30 s."""
    preset = rb.bridge.BridgePolicy(
        calls=rb.Policy(rb.Retry(), rb.Timeout(7)),
        tools={"a": rb.Policy(rb.Timeout(4)), "default": rb.Policy(rb.Timeout(6))},
    )

    def limit(name="a", timeouts=None, policy=preset, **options):
        toolbox = Toolbox(policy, timeouts=timeouts)
        toolbox.tool(lambda: None, name=name, **options)
        return toolbox.tools[name].timeout

    both, own = {"a": 3, "default": 5}, rb.Policy(rb.Retry(), rb.Timeout(2))
    assert limit(timeouts=both, policy=preset, timeout=1) == 1
    toolbox = Toolbox(preset, timeouts=both)
    toolbox.tool(lambda: None, name="a", policy=own, timeout=None)
    assert toolbox.tools["a"].timeout == 2
    assert limit(timeouts=both) == 3
    assert limit(timeouts={"default": 5}) == 4
    assert limit("b", timeouts={"default": 5}) == 5
    assert limit("b") == 6
    assert limit("b", policy=preset.evolve(tools={})) == 7
    assert limit("b", policy=rb.Policy(rb.Retry())) == 30


def test_other_layers_of_a_tool_replace_their_class():
    """A row of the preset's `tools` replaces its Retry; the rest of `calls` stays; `default` is for those without a row."""
    preset = rb.bridge.BridgePolicy(
        calls=rb.Policy(rb.Retry(attempts=4), rb.Breaker()),
        tools={
            "a": rb.Policy(rb.Retry(attempts=2), rb.Timeout(1)),
            "default": rb.Policy(rb.Retry(attempts=3)),
        },
    )
    toolbox = Toolbox(preset)
    a, b = toolbox.tool(lambda: None, name="a"), toolbox.tool(lambda: None, name="b")
    assert a.policy == rb.Policy(rb.Retry(attempts=2), rb.Breaker())
    assert b.policy == rb.Policy(rb.Retry(attempts=3), rb.Breaker())


# ---- failures as data -----------------------------------------------------------------------------------------------
@pytest.mark.requirement("V6")
@pytest.mark.parametrize(
    ("error", "type", "recoverable"),
    [
        (TimeoutError(), "timeout", True),
        (PermissionError(13, "no"), "permission", False),
        (FileNotFoundError(2, "no"), "not_found", False),
        (http_error(429), "rate_limit", True),
        (http_error(404), "not_found", False),
        (TypeError("a tool's own"), "unknown", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_a_failure_is_data(error, type, recoverable):
    """Type, message, whether to repeat, what to do: no trace, and nothing raised."""
    toolbox = Toolbox(rb.Policy(rb.Breaker()))

    @toolbox.tool
    async def fail() -> None:
        raise error

    outcome = await toolbox.call("fail", {})
    assert (outcome.type, outcome.recoverable, outcome.ok) == (type, recoverable, False)
    assert outcome.message
    assert outcome.suggestion
    reported = json.loads(outcome.to_llm())
    assert (reported["type"], reported["recoverable"], reported["message"]) == (
        type,
        recoverable,
        outcome.message,
    )
    with pytest.raises(builtins_type(error)) as raised:
        _ = outcome.value
    assert raised.value is error


def builtins_type(error):
    """The class of an error, where `type` is an argument."""
    return error.__class__


async def test_what_is_unknown_is_the_tool_that_failed():
    """An exception that is only the tool's own has code TOOL_EXECUTION_FAILED; one that says more keeps its code."""
    toolbox = Toolbox(rb.Policy(rb.Breaker()))

    @toolbox.tool
    async def fail(how: str) -> None:
        raise {"odd": ZeroDivisionError, "refused": REFUSED}[how]

    assert (await toolbox.call("fail", {"how": "odd"})).failure.code == "TOOL_EXECUTION_FAILED"
    assert (await toolbox.call("fail", {"how": "refused"})).failure.code == "CONN_REFUSED"


async def test_a_tool_that_is_not_there():
    """TOOL_NOT_FOUND, nothing called, with the names that are near and those there are."""
    toolbox = Toolbox()
    for name in ("grep", "read_file"):
        toolbox.tool(lambda: None, name=name)
    with rb.testing.record() as reported:
        outcome = await toolbox.call("grpe", "{}")
    assert (outcome.failure.code, outcome.failure.executed) == (
        "TOOL_NOT_FOUND",
        rb.errors.Executed.NO,
    )
    assert (outcome.attempts, outcome.type, outcome.tool) == (0, "not_found", "grpe")
    assert "did you mean grep?" in outcome.suggestion
    assert "read_file" in outcome.suggestion
    assert [event.tool for event in reported] == ["grpe"]
    with pytest.raises(rb.BridgeError):
        _ = outcome.value
    assert (await Toolbox().call("", "{}")).failure.code == "TOOL_NOT_FOUND"
    assert len(repr(await toolbox.call("x" * 10_000, "{}"))) < 500


async def test_a_failure_is_an_event():
    """ToolFailed says the tool, whether it was needed, and the very failure of the outcome; a success says nothing."""
    toolbox = Toolbox(rb.Policy(rb.Breaker()))

    @toolbox.tool(required=False)
    async def weather(city: str) -> str:
        if city == "x":
            raise REFUSED
        return "sunny"

    with rb.testing.record() as reported:
        await toolbox.call("weather", {"city": "Rome"})
        outcome = await toolbox.call("weather", {"city": "x"})
    failed = [event for event in reported if isinstance(event, rb.events.ToolFailed)]
    assert len(failed) == 1
    assert (failed[0].tool, failed[0].required) == ("weather", False)
    assert failed[0].failure is outcome.failure
    assert (outcome.is_skipped, outcome.required) == (True, False)


async def test_fixes_are_looked_for_and_a_search_that_fails_is_omitted(monkeypatch):
    """`suggest` gets the failure and the arguments; what it finds is the suggestion, what it raises is not."""
    from tests.internals.agent import suggest as module

    seen = []

    def suggest(failure, *, arguments, directory):
        seen.append((failure.code, arguments, threading.current_thread() is loop_thread))
        return ("try this",)

    loop_thread = threading.current_thread()
    toolbox = Toolbox(rb.Policy(rb.Breaker()))

    @toolbox.tool
    async def fail(path: str) -> None:
        raise FileNotFoundError(2, "no", path)

    monkeypatch.setattr(module, "suggest", suggest)
    assert (await toolbox.call("fail", {"path": "/x"})).suggestion == "try this"
    assert seen == [("TOOL_EXECUTION_FAILED", {"path": "/x"}, False)]
    monkeypatch.setattr(module, "suggest", lambda *args, **kwargs: 1 / 0)
    outcome = await toolbox.call("fail", {"path": "/x"})
    assert outcome.failure.code == "TOOL_EXECUTION_FAILED"
    assert outcome.suggestion
    monkeypatch.delattr(module, "suggest")
    assert (await toolbox.call("fail", {"path": "/x"})).suggestion


async def test_a_returned_failure_is_a_failure():
    """A 503 that a tool returns is one, with its value."""
    toolbox = Toolbox(rb.Policy(at_once(attempts=1)))
    toolbox.tool(lambda: httpx.Response(503), name="get")
    outcome = await toolbox.call("get", {})
    assert (outcome.failure.code, outcome.value.status_code) == ("SYS_UNAVAILABLE", 503)


# ---- mistakes -------------------------------------------------------------------------------------------------------
def generator():
    yield 1


async def async_generator():
    yield 1


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: Toolbox(policy=5),
        lambda: Toolbox(timeouts={"bash": -1}),
        lambda: Toolbox(timeouts={"bash": "10"}),
        lambda: Toolbox(timeouts=[10]),
        lambda: Toolbox().tool(generator),
        lambda: Toolbox().tool(async_generator),
        lambda: Toolbox().tool(int),
        lambda: Toolbox().tool(5),
        lambda: Toolbox().tool(functools.partial(print)),
        lambda: Toolbox().tool(lambda: 1, name=""),
        lambda: Toolbox().tool(lambda: 1, name=" "),
        lambda: Toolbox().tool(lambda: 1, name=5),
        lambda: Toolbox().tool(lambda: 1, name="x", timeout=0),
        lambda: Toolbox().tool(lambda: 1, name="x", timeout=float("nan")),
        lambda: Toolbox().tool(lambda: 1, name="x", required=1),
        lambda: Toolbox().tool(lambda: 1, name="x", idempotent="yes"),
        lambda: Toolbox().tool(lambda: 1, name="x", policy=rb.Retry()),
    ],
)
def test_a_mistake_in_the_program_is_raised(mistake):
    """At once, as a ConfigError that names it."""
    with pytest.raises(rb.ConfigError):
        mistake()


def test_a_name_is_taken_once():
    """The second tool of a name is refused, and the first one stays."""
    toolbox = Toolbox()
    toolbox.tool(lambda: 1, name="x")
    with pytest.raises(rb.ConfigError, match="no other tool has"):
        toolbox.tool(lambda: 2, name="x")
    with pytest.raises(rb.ConfigError, match="no other tool has"):
        toolbox.command(lambda: ["ls"], name="x")


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("x", None, {}),
        ("x", b"{}", {}),
        ("x", [1], {}),
        ("nobody", 5, {}),
        (None, {}, {}),
        ("x", {}, {"idempotency_key": ""}),
        ("x", {}, {"idempotency_key": 5}),
    ],
)
async def test_a_mistaken_call_is_raised(name, arguments, options):
    """What no model can have written: arguments that are neither mapping nor text, a name that is no text."""
    toolbox = Toolbox()
    toolbox.tool(lambda: 1, name="x")
    with pytest.raises(rb.ConfigError):
        await toolbox.call(name, arguments, **options)


# ---- secrets --------------------------------------------------------------------------------------------------------
async def test_arguments_are_reported_to_no_one(caplog):
    """Not in a log, an event, a repr or a failure: of a tool that fails, that is late, that is not there, that is called wrongly."""
    toolbox = Toolbox(rb.Policy(rb.Retry(attempts=2)))
    secret = "hunter2hunter2"

    @toolbox.tool(idempotent=True)
    async def log_in(phrase: str, mode: int = 1) -> None:
        raise REFUSED

    caplog.set_level(logging.DEBUG)
    with rb.testing.virtual_time(), rb.testing.record() as reported:
        outcomes = [
            await toolbox.call("log_in", {"phrase": secret}),
            await toolbox.call("log_in", {"phrase": secret, "mode": secret}),
            await toolbox.call("log_in", {"phrase": [secret], "extra": secret}),
            await toolbox.call("log_out", {"phrase": secret}),
            await toolbox.call("log_in", '{"phrase": "' + secret),
            await toolbox.call("log_in", '["' + secret + '"]'),
        ]
    shown = [repr(outcomes), repr(reported), repr(toolbox), repr(toolbox.tools), caplog.text]
    shown += [str(outcome.failure.to_dict()) + outcome.failure.explain() for outcome in outcomes]
    shown += [outcome.to_llm() + str(outcome.to_tool_error("t")) for outcome in outcomes]
    assert caplog.records or reported
    assert not [text for text in shown if secret in text]
