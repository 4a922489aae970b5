"""A text is never a success: the line of an exception, JSON, a code, an errno's name, or words."""

from __future__ import annotations

import re

import httpx
import pytest

import resilient_bridge as rb
from tests.rows import each_row


LINES = [
    ConnectionResetError(104, "Connection reset by peer"),
    ConnectionRefusedError(111, "Connection refused"),
    TimeoutError("timed out"),
    FileNotFoundError(2, "No such file or directory"),
    BrokenPipeError(32, "Broken pipe"),
    OSError(101, "Network is unreachable"),
    ConnectionResetError("reset"),
    TimeoutError(),
    MemoryError(),
    KeyError("x"),
    ValueError("connection refused"),
    RuntimeError("connect ECONNREFUSED 127.0.0.1:80"),
]


@each_row("error", LINES, ids=repr)
@each_row(
    "form",
    ["{name}: {error}", "Traceback (most recent call last):\n  File x, line 1\n{name}: {error}"],
)
def test_k13_the_line_of_an_exception_is_read_as_the_exception(error, form):
    """The same code, category and kind; only what it proves is lost, because a text proves nothing."""
    text = form.format(name=type(error).__name__, error=error).removesuffix(": ")
    failure, own = rb.classify(text), rb.classify(error)
    assert (failure.code, failure.category, failure.kind) == (own.code, own.category, own.kind)
    assert failure.executed is not rb.errors.Executed.NO
    assert failure.cause is None


@each_row(
    ("text", "code", "category"),
    [
        ("httpx.ConnectError: [Errno 111] Connection refused", "CONN_REFUSED", "TRANSPORT"),
        ("httpx.ReadTimeout", "CONN_TIMEOUT", "TIMEOUT"),
        ("httpx.RemoteProtocolError: Server disconnected", "CONN_RESET", "TRANSPORT"),
        (
            "requests.exceptions.ConnectionError: connection reset by peer",
            "CONN_RESET",
            "TRANSPORT",
        ),
        ("openai.RateLimitError: Error code: 429 - {}", "SYS_RATE_LIMITED", "UPSTREAM"),
        # what a program or a peer says is upstream: it is not our connection
        ("connection reset by peer", "CONN_RESET", "UPSTREAM"),
        ("curl: (7) Failed to connect", "CONN_REFUSED", "UPSTREAM"),
        ("ECONNREFUSED", "CONN_REFUSED", "TRANSPORT"),
        ("SESS_NOT_FOUND", "SESS_NOT_FOUND", "UPSTREAM"),
        ('{"code": "SYS_UNAVAILABLE", "message": "down"}', "SYS_UNAVAILABLE", "UPSTREAM"),
        ('{"isError": true, "content": "timed out"}', "CONN_TIMEOUT", "UPSTREAM"),
    ],
)
def test_k13_what_a_text_says(text, code, category):
    """The code that its words, its class or its JSON mean."""
    failure = rb.classify(text)
    assert (failure.code, failure.category) == (code, category)
    assert failure.executed is not rb.errors.Executed.NO


UNKNOWN = [
    "text",
    "",
    "nothing that is known",
    "200",
    '{"ok": true}',
    "KeyboardInterrupt",
    "httpx.Nothing: x",
    "Foo: bar",
    "\x00\n",
]


@each_row("text", UNKNOWN)
def test_u02_a_text_is_never_none(text):
    """What nothing matches is internal and permanent, and has its words."""
    failure = rb.classify(text)
    assert (failure.code, failure.category, failure.kind) == (
        "SYS_INTERNAL_ERROR",
        "INTERNAL",
        "permanent",
    )
    assert not failure.retryable
    assert " ".join(text.replace("\x00", " ").split()) in failure.message.replace("\\x00", " ")


def test_u02_a_registered_pattern_is_searched_in_a_text():
    """A user's rule speaks about texts, too."""
    with rb.classify.register(re.compile("paper jam"), code="SYS_UNAVAILABLE"):
        assert rb.classify("the printer has a paper jam").retryable
    assert not rb.classify("the printer has a paper jam").retryable


async def test_u02_a_tools_text_stays_a_result():
    """What a tool or a function returns as text is its success, whatever it says."""
    toolbox = rb.agent.Toolbox()
    toolbox.tool(lambda: "connection refused", name="say")
    assert (await toolbox.call("say", {})).value == "connection refused"
    assert rb.capture(lambda: "connection refused").ok


def test_u02_other_answers_are_as_before():
    """None for what means success, and for what is no answer."""
    for answer in (None, 1, b"connection refused", [], {"ok": True}, httpx.Response(200), object()):
        assert rb.classify(answer) is None


@pytest.mark.parametrize("text", ["Error: " * 20_000, "x" * 1_000_000, "{" * 100_000])
def test_u02_a_long_text_is_bounded(text):
    """Only its beginning is read."""
    assert len(rb.classify(text).message) < 1_000
