"""What a client is told of a call that has no answer: the first words are fixed, and machines get the same."""

from __future__ import annotations

from tests.internals.adapters import PREFIX, Loss, outcomes
from tests.rows import each_row


LOSS = Loss(reason="exit code 137")
LAST = Loss(reason="exit code 1", words="no such file")
STATEMENTS = [
    (
        outcomes.unknown("order", LOSS, None),
        (
            'OUTCOME UNKNOWN: the connection to the server was lost (exit code 137) after "order" was sent. It may or may not have run. '
            "Do not call it again yet. First check whether it took effect, then decide."
        ),
        "connection_lost",
    ),
    (
        outcomes.unknown("order", LAST, "list_orders"),
        (
            'OUTCOME UNKNOWN: the connection to the server was lost (exit code 1) after "order" was sent. It may or may not have run. '
            "Do not call it again yet. First check whether it took effect (for example with: list_orders), then decide. "
            "The server's last words: no such file"
        ),
        "connection_lost",
    ),
    (
        outcomes.timed_out("order", 2.5, "list_orders"),
        (
            'OUTCOME UNKNOWN: "order" got no answer within 2.5 s. It may or may not have run, or may still be running. '
            "Do not call it again yet. First check whether it took effect (for example with: list_orders), then decide."
        ),
        "timeout",
    ),
    (
        outcomes.unreachable("order", LOSS, 4, 30.2),
        (
            'NOT EXECUTED: the server is not reachable (exit code 137, 4 attempts in 30 s). "order" was not executed. '
            "It is safe to call it again later."
        ),
        "unreachable",
    ),
    (
        outcomes.unreachable("order", LOSS, 1, 30),
        (
            'NOT EXECUTED: the server is not reachable (exit code 137, 1 attempt in 30 s). "order" was not executed. '
            "It is safe to call it again later."
        ),
        "unreachable",
    ),
    (
        outcomes.refused("order", LAST),
        'NOT EXECUTED: exit code 1. "order" was not executed. The server\'s last words: no such file',
        "refused",
    ),
    (
        outcomes.circuit_open("order", LOSS, 4.2),
        (
            "NOT EXECUTED: the server failed too often and is left alone for now (exit code 137). "
            '"order" was not sent. Call it again in 5 s.'
        ),
        "circuit_open",
    ),
    (
        outcomes.limited("order", "3 calls at a time", 2),
        'NOT EXECUTED: "order" is limited to 3 calls at a time. Call it again in 2 s.',
        "limited",
    ),
    (
        outcomes.limited("order", "1 call at a time", None),
        'NOT EXECUTED: "order" is limited to 1 call at a time. Call it again later.',
        "limited",
    ),
    (
        outcomes.gone("order", []),
        'NOT EXECUTED: the server was restarted and no longer has "order"; it now has: no tools.',
        "tool_gone",
    ),
    (
        outcomes.closing("order", was_sent=True),
        'OUTCOME UNKNOWN: the sidecar was stopped after "order" was sent. It may or may not have run.',
        "stopped",
    ),
    (
        outcomes.closing("", was_sent=False),
        "NOT EXECUTED: the sidecar was stopped. the request was not sent.",
        "stopped",
    ),
]


@each_row(("ending", "text", "code"), STATEMENTS)
def test_the_words_are_fixed(ending, text, code):
    """The words are fixed."""
    assert ending.text == text
    assert ending.code == code
    assert (ending.outcome == "unknown") is text.startswith("OUTCOME UNKNOWN: ")


@each_row(("ending", "text", "code"), STATEMENTS)
@each_row("is_modern", [False, True])
def test_of_a_tool_it_is_a_result(ending, text, code, is_modern):
    """Of a tool it is a result."""
    answer = outcomes.answer("x", "tools/call", ending, is_modern=is_modern)
    assert answer.id == "x"
    assert answer.result["isError"] is True
    assert answer.result["content"] == [{"type": "text", "text": text}]
    assert answer.result["_meta"][f"{PREFIX}/outcome"] == str(ending.outcome)
    assert answer.result["_meta"][f"{PREFIX}/reason"] == code
    assert answer.result.get("resultType") == ("complete" if is_modern else None)
    assert "structuredContent" not in answer.result


@each_row(("ending", "text", "code"), STATEMENTS)
def test_of_anything_else_it_is_an_error_with_a_code_that_is_free(ending, text, code):
    """Of anything else it is an error with a code that is free."""
    error = outcomes.answer(1, "resources/read", ending, is_modern=False).error
    assert error["message"] == text
    assert -32019 <= error["code"] <= -32000
    assert error["code"] not in {-32001, -32002}
    assert error["data"][f"{PREFIX}/reason"] == code
    assert (error["code"] == -32010) is (ending.outcome == "unknown")


def test_when_to_come_again_is_received_in_milliseconds():
    """When to come again is said in milliseconds."""
    answer = outcomes.answer(
        1, "tools/call", outcomes.circuit_open("a", None, 1.5), is_modern=False
    )
    assert answer.result["_meta"][f"{PREFIX}/retryAfterMs"] == 1500


def test_only_some_of_many_tools_are_named():
    """Only some of many tools are named."""
    text = outcomes.gone("order", [f"t{number}" for number in range(40)]).text
    assert text.endswith("t28, t29, ….")
