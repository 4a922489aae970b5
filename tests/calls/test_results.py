"""What a function returns is its success, whatever it looks like; only its type, or the user, makes it a failure."""

from __future__ import annotations

import io
import sys
from collections import OrderedDict
from types import SimpleNamespace

import attrs
import httpx
import mcp_types
import pytest
import requests

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from tests.calls.forms import at_once, both, everywhere
from tests.rows import each_row


ROWS = [
    {"sensor": 3, "success": False, "error": "operation timed out at 12:03"},
    {"code": "SYS_UNAVAILABLE", "message": "a row of somebody's database"},
    {"type": "timeout", "message": "late", "recoverable": True},
    {"isError": True, "content": [{"type": "text", "text": "timed out"}]},
    {"is_error": True, "content": "timed out"},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "busy"}},
    {"code": -32000, "message": "busy"},
    {"type": "error", "payload": {"code": "SYS_RATE_LIMITED"}},
    {"error": {"code": "CONN_RESET", "message": "reset"}},
]
SHAPES = [
    *ROWS,
    OrderedDict(ROWS[0]),
    ROWS,
    tuple(ROWS),
    "connection refused",
    SimpleNamespace(**ROWS[3]),
]


@attrs.frozen
class Answer:
    """A model of the user's that looks like a result of MCP."""

    is_error: bool = True
    isError: bool = True  # noqa: N815 -- MCP's spelling
    content: str = "timed out"
    status_code: int = 503


def returning(form, policy, value):
    """Return what the caller of a function that returns this value gets, how often it is called, and the function."""
    calls = []

    def work():
        calls.append(None)
        return value

    protected = policy(form.of(work), idempotent=True)
    with form.world():
        return form.run(protected), len(calls), protected


@everywhere
@each_row("value", [*SHAPES, Answer()], ids=lambda value: type(value).__name__)
def test_k01_what_a_function_returns_is_its_success(form, value):
    """No dict, list, text or model of the user's is searched: one call, and the circuit stays closed."""
    policy = rb.Policy(at_once(attempts=4), rb.Breaker.consecutive(1))
    result, calls, function = returning(form, policy, value)
    assert (result is value, calls, rb.calls.circuit(function).state) == (True, 1, "closed")


@both
@each_row("value", [*SHAPES, Answer()], ids=lambda value: type(value).__name__)
def test_k01_capture_says_that_it_worked(form, value):
    """Errors as data are errors: a dict that looks like one is a value, with and without a policy."""
    plain, protected = (
        form.of(lambda: value),
        rb.Policy(at_once())(form.of(lambda: value), idempotent=True),
    )
    for function in (plain, protected):
        outcome = form.run(rb.capture, function)
        assert (outcome.ok, outcome.value is value) == (True, True)


@both
@each_row("value", ROWS, ids=str)
def test_k01_a_fallback_is_not_taken_for_a_dict(form, value):
    """Nor is the dict of a rung passed over."""
    policy = rb.Policy(rb.Fallback(form.of(lambda: "rung"), may_have_run=True))
    assert form.run(policy(form.of(lambda: value))) is value

    def fail():
        raise ConnectionResetError

    ladder = rb.Fallback(form.of(lambda: value), form.of(lambda: "second"), may_have_run=True)
    assert form.run(rb.Policy(ladder)(form.of(fail))) is value


def answer_of_requests(status):
    answer = requests.Response()
    answer.status_code, answer.raw = status, io.BytesIO()
    return answer


def made_by(package, name, **fields):
    """Return an object of a class that says that it is this package's."""
    return type(name, (), {"__module__": f"{package}.client", **fields})()


FAILED = rb.calls.Outcome(None, None, rb.classify(ConnectionResetError("reset")), 1, 0.0)
BY_TYPE = {
    "httpx": httpx.Response(503),
    "requests": answer_of_requests(503),
    "mcp": mcp_types.CallToolResult(
        content=[mcp_types.TextContent(type="text", text="connection refused")], is_error=True
    ),
    "fastmcp": made_by("fastmcp", "CallToolResult", is_error=True, content="connection refused"),
    "fastmcp's server": made_by(
        "fastmcp", "ToolResult", is_error=True, content="connection refused"
    ),
    "an Outcome": FAILED,
}


@everywhere
@each_row("name", BY_TYPE)
def test_k01_a_result_is_a_failure_by_its_type(form, name):
    """An HTTP response, a result object of MCP, an Outcome: repeated, counted by the circuit, and returned."""
    value = BY_TYPE[name]
    policy = rb.Policy(at_once(attempts=2), rb.Breaker.consecutive(2))
    result, calls, function = returning(form, policy, value)
    assert (result is value, calls, rb.calls.circuit(function).state) == (True, 2, "open")


@everywhere
def test_a_success_says_nothing_of_the_next_result_of_its_class(form):
    """A 200, then a 503: the class of both can fail, so each is read."""
    policy = rb.Policy(at_once(attempts=2))
    for status, calls in ((200, 1), (503, 2)):
        assert returning(form, policy, httpx.Response(status))[1] == calls


@both
def test_k01_on_result_and_a_registered_reader_make_a_dict_a_failure(form):
    """The user's word counts: `on_result=`, and `classify.register(dict, answer=…)`, for as long as it is in force."""
    asked = at_once(attempts=3, on_result=lambda row: row.get("success") is False)
    assert returning(form, rb.Policy(asked), ROWS[0])[1] == 3

    def read(row):
        return {"code": "SYS_UNAVAILABLE"} if row.get("success") is False else None

    with rb.classify.register(dict, answer=read):
        assert returning(form, rb.Policy(at_once(attempts=3)), ROWS[0])[1] == 3
        # not the formats of specifications: the reader alone
        assert returning(form, rb.Policy(at_once(attempts=3)), ROWS[3])[1] == 1
    assert returning(form, rb.Policy(at_once(attempts=3)), ROWS[0])[1] == 1


def test_k01_classify_reads_an_answer():
    """Whoever holds a server's answer asks for it: `classify(answer)` reads each of the forms."""
    assert all(rb.classify(row) is not None for row in ROWS)


class Event:
    """An object of twenty fields."""

    def __init__(self):
        for number in range(20):
            setattr(self, f"field{number}", number)


@each_row(
    "value",
    [1, "text", {"a": {"b": 1}}, [{"a": 1}], Event()],
    ids=["int", "str", "dict", "list", "object"],
)
def test_k01_a_success_costs_the_same_whatever_it_is(value):
    """Three calls of ours in two modules, as for an int."""
    work = rb.Policy(rb.Retry(), rb.Breaker())(lambda: value, idempotent=True)
    for _ in range(60):  # a circuit counts its first 50 successes
        work()
    root = str(rb.__file__).removesuffix("__init__.py")
    entered = []

    def hear(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(root):
            entered.append(frame.f_code.co_filename)

    sys.setprofile(hear)
    try:
        work()
    finally:
        sys.setprofile(None)
    assert (len(entered), len(set(entered))) <= (3, 2)


# ---- where an answer of a tool is what we hold ----------------------------------------------------------------------

ANSWERED = [ROWS[1], ROWS[2], ROWS[3], ROWS[5], ROWS[7], {"success": False, "error": "timed out"}]


@each_row("answer", ANSWERED, ids=str)
@pytest.mark.parametrize("whose", ["the toolbox's", "the tool's"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("by_name", [True, False], ids=["by name", "called"])
async def test_k01_a_returned_failure_of_a_tool_is_repeated_and_counted(
    answer, whose, is_async, by_name
):
    """Its policy repeats it, its circuit counts it unless a rate limiter said it, an event tells it, and the outcome has it."""
    policy = rb.Policy(at_once(attempts=3), rb.Breaker.consecutive(3))
    toolbox = Toolbox(policy if whose == "the toolbox's" else rb.Policy(at_once(attempts=1)))
    made = []

    def work():
        made.append(None)
        return answer

    async def work_async():
        return work()

    tool = toolbox.tool(
        work_async if is_async else work,
        name="work",
        idempotent=True,
        policy=policy if whose == "the tool's" else None,
    )
    heard = []
    with rb.listen(heard.append):
        if by_name:
            outcome = await toolbox.call("work", {})
            assert (outcome.ok, outcome.attempts, outcome.value) == (False, 3, answer)
            assert outcome.failure.code == rb.classify(answer).code
        else:
            result = tool()
            assert (await result if is_async else result) == answer
    is_limited = rb.classify(answer).code == "SYS_RATE_LIMITED"
    assert (len(made), rb.calls.circuit(tool).state) == (3, "closed" if is_limited else "open")
    names = [type(event).__name__ for event in heard]
    assert names.count("RetryScheduled") == 2
    finished = next(event for event in heard if type(event).__name__ == "CallFinished")
    assert (finished.outcome, finished.attempts) == ("failed", 3)
    assert "GaveUp" in names
    assert ("CircuitChanged" in names) == (not is_limited)
    assert ("ToolFailed" in names) == by_name


async def test_k01_a_tool_without_its_policy_still_says_that_it_failed():
    """Where tests switch policies off, a returned failure is an outcome all the same, and a text is a result."""
    toolbox = Toolbox()
    toolbox.tool(lambda: ANSWERED[0], name="row")
    toolbox.tool(lambda: "connection refused", name="text")
    with rb.testing.disabled():
        assert (await toolbox.call("row", {})).failure.code == "SYS_UNAVAILABLE"
        assert (await toolbox.call("text", {})).value == "connection refused"
    assert (await toolbox.call("text", {})).ok
