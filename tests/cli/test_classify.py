"""`resilient-bridge classify`: whatever somebody has in his hands, explained; and what it says when it cannot."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge import cli
from tests.peers.zygote import PYTHON


ROOT = Path(__file__).parents[2]


def _run(capsys, *argv):
    """The exit code, stdout and stderr of one call."""
    try:
        code = cli.main(["classify", *argv])
    except SystemExit as ended:
        code = ended.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def _json(capsys, *argv):
    code, out, _ = _run(capsys, "--json", *argv)
    assert (code, out.count("\n")) == (0, 1)
    return json.loads(out)


def test_it_prints_what_explain_says(capsys):
    """The same text as `Failure.explain()`: what, whether it ran, the session, what to do.

    A code that somebody read somewhere proves nothing of the call: it may have run.
    """
    code, out, err = _run(capsys, "SESS_NOT_FOUND")
    assert (code, err) == (0, "")
    assert (
        out == rb.Failure.of("SESS_NOT_FOUND", executed=rb.errors.Executed.MAYBE).explain() + "\n"
    )


def test_the_data_are_those_of_the_failure(capsys):
    """`--json` is `Failure.to_dict()`, one object on one line."""
    assert (
        _json(capsys, "SESS_NOT_FOUND")
        == rb.Failure.of("SESS_NOT_FOUND", executed=rb.errors.Executed.MAYBE, proof="").to_dict()
    )


@pytest.mark.parametrize(
    ("what", "code", "retryable"),
    [
        ("SESS_NOT_FOUND", "SESS_NOT_FOUND", False),
        ("SESS_NOT_FOUND: session s1 is gone", "SESS_NOT_FOUND", False),
        ("SYS_INVENTED_HERE", "SYS_INVENTED_HERE", False),
        ("INVALID_TOKEN", "AUTH_INVALID_TOKEN", False),
        ("ECONNREFUSED", "CONN_REFUSED", True),
        ("429", "SYS_RATE_LIMITED", True),
        ("503", "SYS_UNAVAILABLE", True),
        ("501", "SYS_UPSTREAM_REJECTED", False),
        ("302", "SYS_UPSTREAM_REJECTED", False),
        ("1008", "AUTH_INVALID_TOKEN", False),
        ("1012", "CONN_WEBSOCKET_CLOSED", True),
        ("4404", "SESS_NOT_FOUND", False),
        ("1", "TOOL_EXECUTION_FAILED", False),
        ("143", "TOOL_EXECUTION_FAILED", True),
        ("-9", "TOOL_EXECUTION_FAILED", True),
        ("-32601", "PROTO_UNKNOWN_TYPE", False),
        ("connect ECONNREFUSED 127.0.0.1:8080", "CONN_REFUSED", True),
        ("Error: read ECONNRESET", "CONN_RESET", True),
        ("HTTP/1.1 503 Service Unavailable", "SYS_UNAVAILABLE", True),
        ("bash: foo: command not found", "SYS_UPSTREAM_REJECTED", False),
        ("processed 429 rows", "SYS_INTERNAL_ERROR", False),
        ("TOOL_PATH: connection refused", "CONN_REFUSED", True),
        ("MAX_RETRIES exceeded", "SYS_INTERNAL_ERROR", False),
        ("__class__", "SYS_INTERNAL_ERROR", False),
        ("errorcode", "SYS_INTERNAL_ERROR", False),
        ('{"code": "SESS_CLOSED", "message": "x"}', "SESS_CLOSED", False),
        ('{"type": "error", "payload": {"code": "UNKNOWN_TYPE"}}', "PROTO_UNKNOWN_TYPE", False),
        ('{"code": "MADE_UP", "message": "x"}', "SYS_UPSTREAM_REJECTED", False),
        ('{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "x"}}', "SYS_UPSTREAM_REJECTED", False),
        ('{"isError": true, "content": [{"type": "text", "text": "read ETIMEDOUT"}]}', "CONN_TIMEOUT", True),
        ('{"code": ', "SYS_INTERNAL_ERROR", False),
        ("{}", "SYS_INTERNAL_ERROR", False),
    ],
)  # fmt: skip
def test_what_is_read_by_its_form(capsys, what, code, retryable):
    """Codes of ours and of servers, names of errnos, numbers, JSON, and the text of an error."""
    stated = _json(capsys, "--", what)
    assert (stated["code"], stated["retryable"]) == (code, retryable)


@pytest.mark.parametrize(
    ("argv", "code", "details"),
    [
        (["--status", "429"], "SYS_RATE_LIMITED", {"http_status": 429}),
        (["--status", "404", '{"code": "SESS_NOT_FOUND"}'], "SESS_NOT_FOUND", {"http_status": 404}),
        (["--status", "418", "I am a teapot"], "SYS_UPSTREAM_REJECTED", {"http_status": 418}),
        (["--close-code", "1008"], "AUTH_INVALID_TOKEN", {"close_code": 1008, "close_by": "peer"}),
        (["--close-code", "4999"], "CONN_WEBSOCKET_CLOSED", {"close_code": 4999, "close_by": "peer"}),
        (["--close-code", "1006"], "CONN_WEBSOCKET_CLOSED", {"close_by": None}),
        (["--close-code", "1005"], "CONN_WEBSOCKET_CLOSED", {"close_by": "peer"}),
        (["--exit-code", "127"], "SYS_CONFIG_INVALID", {"exit_code": 127}),
        (["--exit-code", "-15"], "TOOL_EXECUTION_FAILED", {"exit_code": -15}),
        (["--exit-code", "255", "ssh: connection refused"], "TOOL_EXECUTION_FAILED", {"exit_code": 255}),
        (["--errno", "EPIPE"], "CONN_RESET", {"errno": errno.EPIPE}),
        (["--errno", "enoent", "open failed"], "SYS_CONFIG_INVALID", {"errno": errno.ENOENT}),
        (["--errno", "EWOULDBLOCK"], "CONN_RESOURCE_EXHAUSTED", {"errno": errno.EAGAIN}),
        (["--errno", str(errno.ECONNREFUSED)], "CONN_REFUSED", {"errno": errno.ECONNREFUSED}),
        (["--mcp", "-32601"], "PROTO_UNKNOWN_TYPE", {"rpc_code": -32601}),
        (["--mcp", "7", "no idea"], "SYS_INTERNAL_ERROR", {"rpc_code": 7}),
    ],
)  # fmt: skip
def test_an_option_says_what_it_is(capsys, argv, code, details):
    """Status, close code, exit code, errno, JSON-RPC code; WHAT is then the text that came with it."""
    stated = _json(capsys, *argv)
    assert stated["code"] == code
    assert {name: stated["details"][name] for name in details} == details
    text = argv[2] if len(argv) > 2 else ""
    if text and not text.startswith("{"):
        assert text in json.dumps(stated)


def test_a_number_alone_says_how_it_was_read(capsys):
    """On stderr, so that the explanation stays what it is; an option says it without a guess."""
    code, out, err = _run(capsys, "429")
    assert (code, err) == (
        0,
        "resilient-bridge classify: read as an HTTP status, as with --status 429\n",
    )
    assert _run(capsys, "--status", "429") == (0, out, "")
    assert "--close-code 1011" in _run(capsys, "1011")[2]
    assert "--exit-code 137" in _run(capsys, "137")[2]
    assert "--mcp -32603" in _run(capsys, "--", "-32603")[2]


def test_a_text_without_a_rule_is_reported_as_such(capsys):
    """Unknown is not retryable (S10), and the reader is told that it is unknown."""
    code, out, err = _run(capsys, "the cat sat on the keyboard")
    assert (code, err) == (0, "resilient-bridge classify: no rule knows this text: not retryable\n")
    assert "the cat sat on the keyboard" in out


@pytest.mark.parametrize("argv", [["0"], ["200"], ["--status", "204"], ["--exit-code", "0"]])
def test_success_is_no_failure(capsys, argv):
    """A 2xx and an exit code of 0 are explained as what they are."""
    code, out, _ = _run(capsys, *argv)
    assert (code, out) == (0, "no failure: it means success\n")
    assert _json(capsys, *argv) is None


@pytest.mark.parametrize(
    "argv",
    [["--status", "503"], ["503"], ["SYS_RATE_LIMITED"], ["read ETIMEDOUT"], ["--mcp", "-32001"]],
)
def test_a_retry_after_is_the_wait(capsys, argv):
    """Seconds, or a date that is counted from now."""
    assert _json(capsys, *argv, "--retry-after", "30")["retry_after"] == 30
    at = datetime.now(UTC) + timedelta(hours=1)
    date = at.strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert 3_500 < _json(capsys, *argv, "--retry-after", date)["retry_after"] <= 3_600


def test_a_retry_after_for_what_cannot_be_repeated_says_nothing(capsys):
    """The same as in an answer: no wait is shown, and that is told."""
    assert _json(capsys, "--status", "400", "--retry-after", "30")["retry_after"] is None
    for what in (["SESS_CLOSED"], ["--status", "400"], ["--close-code", "1002"]):
        _, out, err = _run(capsys, *what, "--retry-after", "30")
        assert "30" not in out
        assert (
            err
            == "resilient-bridge classify: --retry-after says nothing here: repeating does not help\n"
        )
    assert _json(capsys, "--status", "413", "--retry-after", "30")["retry_after"] == 30


def test_secrets_are_not_shown(capsys):
    """What looks like a secret is masked, as in every failure."""
    _, out, err = _run(capsys, "request failed: Authorization: Bearer abcdefghijklmnop0123456789")
    assert "abcdefghijklmnop0123456789" not in out + err


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        ([], "an error's text, code or number expected"),
        ([""], "an error's text, code or number expected"),
        (["  "], "an error's text, code or number expected"),
        (["700"], "expected, got 700; --status, --close-code"),
        (["-100"], "expected, got -100"),
        (["--errno", "EFOO"], "a name such as ECONNREFUSED, or its number, expected, got 'EFOO'"),
        (["--errno", ""], "a name such as ECONNREFUSED"),
        (["--errno", "errorcode"], "a name such as ECONNREFUSED"),
        (["--errno", "9" * 5_000], "a name such as ECONNREFUSED"),
        (["--errno", "0"], "a name such as ECONNREFUSED"),
        (["429", "--retry-after", "soon"], "whole seconds or an HTTP date expected, got 'soon'"),
        (["429", "--retry-after", "-1"], "whole seconds or an HTTP date expected"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_two(capsys, argv, word):
    """Nothing to explain, a number that could be anything, a name that is none: exit code 2, nothing on stdout."""
    code, out, err = _run(capsys, *argv)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("resilient-bridge classify: ")
    assert word in err


@pytest.mark.parametrize(
    "argv",
    [
        ["--status", "99"], ["--status", "600"], ["--status", "x"], ["--close-code", "999"], ["--exit-code", "256"],
        ["--mcp", "1.5"], ["--mcp", "-" * 5], ["--status", "429", "--mcp", "1"], ["a", "b"],
    ],
)  # fmt: skip
def test_wrong_options_end_with_two(capsys, argv):
    """What the options cannot mean, or two of them at once, is told with the usage."""
    code, out, err = _run(capsys, *argv)
    assert (code, out) == (2, "")
    assert "usage: resilient-bridge" in err


@pytest.mark.real
def test_any_bytes_and_any_terminal_are_fine():
    """Bytes that are no UTF-8 on the command line, and an output that knows only ASCII."""
    command = [
        *PYTHON,
        "-m",
        "resilient_bridge",
        "classify",
        b"caf\xc3\xa9 \xff: connection refused",
    ]
    plain = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=False, env=plain, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"CONN_REFUSED" in done.stdout
