"""`doctor --mcp`: what it finds out about servers of which it is known what they do."""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path

import pytest

from bench.mcp_features.feature_rows import COMMAND
from resilient_bridge import cli
from tests.internals.cli import seconds_of


pytestmark = pytest.mark.real
FOLDER = Path(__file__).parents[1] / "adapters" / "sidecar"
FEATURES = COMMAND

WORDS = """
import json, sys, os, time
if "noise" in sys.argv: print("hello, I am a server")
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "w", "version": "1"}}
    if m["method"] == "tools/list": r = {"tools": []}
    elif m["method"] == "ping" and "deaf" in sys.argv: continue
    elif m["method"] not in ("initialize", "ping"):
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True); continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""


def _examine(capsys, *words: str) -> tuple[int, dict]:
    code = cli.main(["doctor", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.requirement("X4")
def test_a_sound_server(capsys):
    """It starts, comes back after a kill with the same tools, and ends with its input; what its tools say decides what is repeated."""
    code, found = _examine(capsys, "--mcp", *FEATURES)  # a command needs no -- before it
    assert (code, found["problems"]) == (0, [])
    assert found["starts"]
    assert found["killed"]
    assert found["same_tools"]
    assert found["ends_on_eof"]
    assert found["read_only"] == ["echo"]
    assert found["idempotent"] == ["wait"]
    assert "spawn" in found["unsafe"]
    assert found["unknown_method"] == -32601


def test_the_page_shows_no_argument_of_the_command(capsys):
    """It is made to be pasted, and an argument may be a secret in any form: the program, and how many there are."""
    command = [sys.executable, "-c", "", "--token=correct horse", "-p", "it's s3cret"]
    cli.main(["doctor", "--mcp", "--", *command])
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"{sys.executable}, with 5 arguments"


def test_a_server_with_faults(capsys, tmp_path):
    """Noise on stdout and a ping that is not answered are problems: exit code 3, each named."""
    script = tmp_path / "w.py"
    script.write_text(WORDS)
    code, found = _examine(capsys, "--mcp", "--", sys.executable, str(script), "noise", "deaf")
    assert code == 3
    assert [problem.split(":")[0] for problem in found["problems"]] == [
        "starts",
        "ping",
        "after a kill",
    ]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["no-such-command-here"], "command not found"),
        ([sys.executable, "-c", "raise SystemExit(4)"], "exit code 4"),
    ],
    ids=["missing", "ends"],
)
def test_what_does_not_start(command, why, capsys):
    """Exit code 1, and the reason on the page."""
    assert cli.main(["doctor", "--mcp", "--", *command]) == 1
    assert why in capsys.readouterr().out


def test_a_refused_address_is_a_reason_in_words(capsys):
    """The reason alone, and no value of Python around it."""
    with (
        socket.socket() as taken
    ):  # bound and not listening: nobody can listen there, so it refuses
        taken.bind(("127.0.0.1", 0))
        assert cli.main(["doctor", "--mcp", f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"]) == 1
    assert "no: connection refused (!: it does not start)" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize("name", ["some-server", "npx"])
def test_a_silent_server_is_named_as_one(name, capsys, tmp_path):
    """What was waited for, and how to wait longer; of a program that fetches packages, that it may be doing so."""
    (tmp_path / name).symlink_to("/bin/sleep")
    program = str(tmp_path / name)
    assert cli.main(["doctor", "--mcp", "--seconds", "0.3", program, "60"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert f"{program}, with 1 argument time" in out
    assert "no answer to initialize; " in out
    assert "--seconds N gives it longer" in out
    assert ("npx may be fetching the package" in out) == (name == "npx")


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("server", 20),
        ("/usr/bin/npx -y server", 60),
        ("uvx server", 60),
        ("--seconds 3 npx server", 3),
    ],
)
def test_a_program_that_fetches_packages_has_longer(words, seconds):
    """A first start of npx took 53 s."""
    assert seconds_of(cli._parsed(["doctor", "--mcp", *words.split()])) == seconds


def test_the_exit_codes_of_a_start_without_an_answer_are_those_of_the_page_and_the_help(capsys):
    """1 for a server that does not start, in time or at all; 3 for one that started and took too long."""
    page = Path("docs/how-to/look-at-an-mcp-server.md").read_text()
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--help"])
    for text in (page, " ".join(capsys.readouterr().out.split())):
        assert "did not start, or gave no answer within --seconds" in text.replace("`", "")
        assert "started and was not examined to the end within --seconds" in text.replace("`", "")


@pytest.mark.parametrize(
    "words",
    [
        ["--mcp"],
        ["--mcp", "x://y"],
        ["--mcp", "host:80", "server"],
        ["--mcp", "--probe-tool", "t", "--probe-arguments", "[]", "--", "x"],
        ["--mcp", "--probe-tool", "t", "--probe-arguments", "{a", "--", "x"],
        ["--mcp", "--probe-arguments", "{}", "--", "x"],
        ["--bridge", "ws://h", "--probe-tool", "t"],
        ["--bridge", "ws://h", "--probe-arguments", "{}"],
        ["--bridge", "ws://h", "--", "x"],
    ],
)
def test_wrong_usage(words, capsys):
    """Exit code 2 and a line."""
    try:
        code = cli.main(["doctor", *words])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert capsys.readouterr().err.count("\n") == 1


ODD = """
import json, sys
odd = json.loads(sys.argv[1])
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": odd.get(m["method"], r)}), flush=True)
"""


@pytest.mark.parametrize("result", [None, [], "yes", 5], ids=str)
def test_an_opening_that_is_no_object_is_no_start(result, capsys, tmp_path):
    """Whatever stands there instead: exit code 1, and the reason."""
    script = tmp_path / "odd.py"
    script.write_text(ODD)
    words = ["--mcp", "--", sys.executable, str(script), json.dumps({"initialize": result})]
    assert cli.main(["doctor", *words]) == 1
    assert "no: its answer to initialize is no object" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("result", [None, [], "supportedVersions", 5], ids=str)
def test_answers_of_odd_types_are_none(result, capsys, tmp_path):
    """No tools, not of the newest protocol, no traceback."""
    script = tmp_path / "odd.py"
    script.write_text(ODD)
    odd = {"tools/list": result, "server/discover": result}
    _, found = _examine(capsys, "--mcp", "--", sys.executable, str(script), json.dumps(odd))
    assert (found["tools"], found["modern"], found["starts"]) == (0, False, True)


@pytest.mark.parametrize("tools", [5, "abc", {"a": 1}, [5, None]], ids=str)
def test_a_list_of_tools_of_an_odd_type_is_read_as_far_as_it_is_one(tools, capsys, tmp_path):
    """What is no array has no tools; what is no object has no name."""
    script = tmp_path / "odd.py"
    script.write_text(ODD)
    odd = {"tools/list": {"tools": tools}}
    code, found = _examine(capsys, "--mcp", "--", sys.executable, str(script), json.dumps(odd))
    assert (code, found["tools"]) == (0, 2 if isinstance(tools, list) else 0)


# Its tools take long. "heeds": a cancelled call is not answered; "late": it is. "broken": the second call is refused.
CALLED = """
import json, pathlib, sys
ledger, how = pathlib.Path(sys.argv[1]), sys.argv[2]
def say(m, **what): print(json.dumps({"jsonrpc": "2.0", "id": m["id"], **what}), flush=True)
held = {}
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "notifications/cancelled":
        call = held.pop(m["params"]["requestId"], None)
        if call and how == "late": say(call, result={"content": []})
    elif m["method"] == "tools/call":
        with ledger.open("a") as file: file.write(json.dumps(m["params"]) + "\\n")
        if len(ledger.read_text().splitlines()) == 1: held[m["id"]] = m
        elif how == "broken": say(m, error={"code": -32000, "message": "out of tea"})
        else: say(m, result={"content": []})
    elif "id" in m:
        say(m, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "tools": [{"name": "brew_a_large_pot_of_tea"}]})
"""


@pytest.mark.requirement("X4")
@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("heeds", 0, "not answered, as the protocol wants it"),
        ("late", 0, "answered all the same"),
        ("broken", 3, "not answered, as the protocol wants it"),
    ],
)
def test_a_tool_that_probe_tool_names_is_called_twice_and_cancelled_once(
    how, code, words, capsys, tmp_path
):
    """With its arguments; what became of the cancelled call is shown, and a second call without a result is a problem."""
    script, ledger = tmp_path / "s.py", tmp_path / "calls"
    script.write_text(CALLED)
    probe = ("--probe-tool", "brew_a_large_pot_of_tea", "--probe-arguments", '{"cups": 2}')
    command = ("--", sys.executable, str(script), str(ledger), how)
    assert cli.main(["doctor", "--mcp", *probe, *command]) == code
    page = capsys.readouterr().out
    calls = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert calls == [{"name": "brew_a_large_pot_of_tea", "arguments": {"cups": 2}}] * 2
    assert re.search(rf"^cancelled call +{words}$", page, re.MULTILINE)
    wanted = (
        "answered" if code == 0 else r"no result: out of tea \(-32000\) \(!: it gave no result\)"
    )
    assert re.search(rf"^called again +{wanted}$", page, re.MULTILINE), page


def test_what_a_probe_found_is_data_too(capsys, tmp_path):
    """For a program that decides by it."""
    script = tmp_path / "s.py"
    script.write_text(CALLED)
    words = [
        "--mcp",
        "--probe-tool",
        "t",
        "--",
        sys.executable,
        str(script),
        str(tmp_path / "calls"),
        "late",
    ]
    code, found = _examine(capsys, *words)
    assert (code, found["cancelled_is_answered"], found["probe"], found["problems"]) == (
        0,
        True,
        True,
        [],
    )


def test_no_tool_is_called_unless_it_is_named(capsys, tmp_path):
    """Nor is anything said about cancelling."""
    script, ledger = tmp_path / "s.py", tmp_path / "calls"
    script.write_text(CALLED)
    assert (
        cli.main(["doctor", "--mcp", "--", sys.executable, str(script), str(ledger), "heeds"]) == 0
    )
    assert "cancelled call" not in capsys.readouterr().out
    assert not ledger.exists()
