"""The README's two commands are the ones that run, and its blocks do what they say. Rule: nothing here repeats them, it reads them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import resilient_bridge as rb
from tests.peers.running import mcp_server


ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def _command(name: str) -> str:
    found = re.findall(
        rf"^<!-- command: {name} -->\n+```\w*\n(.*?)\n```$", README, re.MULTILINE | re.DOTALL
    )
    assert len(found) == 1
    return found[0]


def _blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def _named(name: str) -> dict[str, object]:
    """What the block with this name in it defines, after the first one's imports."""
    (block,) = [block for block in _blocks("python") if f"def {name}(" in block]
    names: dict[str, object] = {"rb": rb}
    exec(block, names)
    return names


def test_u01_the_page_is_short():
    """Ten minutes are what people give it: at most 1,000 words, a first block of ten lines, cards of five, eight links at the end."""
    assert len(README.split()) <= 1000
    first, *cards = _blocks("python")
    assert len([line for line in first.splitlines() if line]) <= 10
    assert [
        card
        for card in (*cards, *_blocks("json"))
        if len([line for line in card.splitlines() if line]) > 5
    ] == []
    assert README.partition("## More\n")[2].strip().partition("\n\n")[0].count("](") == 8


def test_u01_the_first_block_prints_what_the_page_says(capsys):
    """Without a key, an extra or a network; CI runs it in the environment of the first command, too."""
    exec(_blocks("python")[0], {})
    assert capsys.readouterr().out == _blocks("text")[0]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


NUMBER = r"\d+(?:[.,]\d+)*"


def _fits(row: list[str], of: list[str], libraries: list[str]) -> bool:
    """Whether each cell of a README's row has numbers of the page's row for that library, is bold only there, and a dash where that is."""
    cells = list(zip(libraries[1:5], row[1:5], strict=True))
    cells += re.findall(rf"({'|'.join(libraries[5:])}) (.*?)(?:, (?=[a-z]+[-' \d])|$)", row[5])
    others = [name for name, cell in zip(libraries[5:], of[5:], strict=True) if cell != "—"]
    return [name for name, _ in cells[4:]] == others and all(
        (cell == "—") == (there == "—")
        and ("**" in cell) <= ("**" in there)
        and set(re.findall(NUMBER, cell)) <= set(re.findall(NUMBER, there))
        for cell, there in ((cell, of[libraries.index(name)]) for name, cell in cells)
    )


def test_u01_the_comparison_has_the_numbers_of_its_page():
    """It may show fewer rows than the page, in the page's order: what it says of each library stands in the page's row, and so does what is best."""
    page = (ROOT / "docs/reference/comparison.md").read_text()
    measured = [_cells(line) for line in re.findall(r"^\|.*\|$", page, re.MULTILINE)]
    shown = [
        _cells(line)
        for line in README.partition("## Compared")[2].splitlines()
        if line.startswith("|")
    ]
    later = iter(measured[2:])
    assert len(shown) > 2
    assert [row for row in shown[2:] if not any(_fits(row, of, measured[0]) for of in later)] == []


def test_u01_the_number_of_the_evidence_is_its_sum():
    """Of the calls of all campaigns, and of those that met a fault; none of them was wrong."""
    page = (ROOT / "docs/reference/evidence.md").read_text().partition("## ")[0]
    rows = [_cells(line) for line in re.findall(r"^\| .* \|$", page, re.MULTILINE)][1:]
    calls, met, wrong = (
        sum(int(row[column].replace(",", "")) for row in rows) for column in (2, 3, 6)
    )
    assert f"Of {calls:,} calls to foreign servers {met:,} met a fault" in README
    assert wrong == 0


def test_u01_a_schedule_prints_what_the_comment_says(capsys):
    """The card of a tool call."""
    _named("search")
    (wanted,) = re.findall(r"print\(waits.delays\(6\)\) +# (.*)", README)
    assert capsys.readouterr().out.strip() == wanted


async def test_u01_the_card_of_a_client_reaches_a_server(tmp_path):
    """A real MCP server, over HTTP."""
    ask = _named("ask")["ask"]
    async with mcp_server("streamable-http", ledger=tmp_path / "ledger") as server:
        assert "search" in str(await ask(server.url()))  # it has no such tool, and says so


def test_u01_the_card_of_a_bridge_survives_a_cut(capsys, tmp_path, monkeypatch):
    """Its message is done once, and what was pushed while it was away is read."""
    monkeypatch.chdir(tmp_path)

    async def main(server):
        reading = asyncio.create_task(_named("read")["read"](server.url))
        await asyncio.sleep(5)
        await server.push("event", {"n": 1})
        await asyncio.sleep(5)
        await server.cut("abort")
        await server.push("event", {"n": 2})
        await asyncio.sleep(30)
        reading.cancel()
        await asyncio.wait([reading])
        return [message["payload"]["text"] for message in server.received]

    assert rb.testing.simulate(main) == ["hello"]
    assert capsys.readouterr().out == "{'n': 1}\n{'n': 2}\n"


def test_u01_the_card_of_an_mcp_server_is_json_for_the_command():
    """An entry as clients read it, whose words the command accepts."""
    (server,) = json.loads(_blocks("json")[0])["mcpServers"].values()
    assert server["command"].endswith("/.venv/bin/resilient-bridge")
    assert server["args"][:2] == ["mcp", "npx"]


@pytest.mark.parametrize("name", ["demo", "tests"])
def test_each_command_is_one_line_for_a_bare_machine(name):
    """One line to paste, which makes its own environment: Debian's pip refuses to install outside of one."""
    command = _command(name)
    assert "\n" not in command
    assert command.startswith("python3 -m venv ")
    assert "sudo" not in command


def test_ci_runs_the_very_lines_that_the_readme_prints(tmp_path):
    """`.ci/run` takes its two commands from README.md: another line there, and CI runs that one instead; the demo is a short one."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    line = _command("tests")
    planted = "printenv RESILIENT_BRIDGE_REQUIRE_SERVERS > ran && echo '1 passed'"
    readme = README.replace(line, planted).replace(_command("demo"), "echo > played")
    (tmp_path / "README.md").write_text(readme)
    done = subprocess.run(
        ["bash", tmp_path / ".ci/run", "readme", "totals"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "ran").read_text() == "1\n"
    assert (tmp_path / "played").read_text() == "--duration 2\n"
    assert done.stdout.splitlines()[-1] == "1 passed"


@pytest.mark.parametrize(("name", "other"), [("tests", "demo"), ("demo", "tests")])
def test_ci_fails_if_a_line_fails(tmp_path, name, other):
    """A failing README line fails the run, although the output of the tests is also kept for the totals."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "README.md").write_text(
        README.replace(_command(name), "(exit 3) && true").replace(_command(other), "true")
    )
    done = subprocess.run(
        ["bash", tmp_path / ".ci/run", "readme"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3


def test_the_totals_of_the_simulation_come_before_those_of_the_tests(tmp_path):
    """The last two lines of a full run count the seeded runs and the tests."""
    (tmp_path / ".ci").mkdir()
    script = (
        (ROOT / ".ci/run")
        .read_text()
        .replace("session simulation 2>&1", "printf '8 passed, 2 deselected in 9s\\nnox > done\\n'")
    )
    (tmp_path / ".ci/run").write_text(script)
    (tmp_path / "README.md").write_text(
        README.replace(_command("tests"), "echo '1 passed'").replace(_command("demo"), "true")
    )
    done = subprocess.run(
        ["bash", tmp_path / ".ci/run", "simulation", "readme", "totals"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-2:] == ["simulation: 8 passed, 2 deselected in 9s", "1 passed"]


def test_a_run_of_everything_includes_the_readme_and_ends_with_the_totals():
    """With no step named, the README's line is a step, and the number of tests is printed last."""
    script = (ROOT / ".ci/run").read_text()
    every = re.search(r"steps=\((system [^)]*)\)", script)
    assert every
    steps = every.group(1).split()
    beside = re.search(r"^beside\(\) \{.*?^\}", script, re.MULTILINE | re.DOTALL)[0]
    wanted = {*steps, *re.findall(r"\w+", beside)}
    assert {
        "style",
        "types",
        "layers",
        "simulation",
        "rules",
        "crashes",
        "litellm",
        "neighbours",
        "lowest",
        "readme",
    } <= wanted
    assert steps[-1] == "totals"


def test_what_runs_beside_something_else_fails_the_run(tmp_path):
    """What fails in the background is not lost behind what succeeds, nor the first of two that run one after the other."""
    (tmp_path / ".ci").mkdir()
    script = (ROOT / ".ci/run").read_text()
    for failing in ("", "types", "litellm", "neighbours", "lowest(sample)"):
        stubbed = re.sub(
            r"^session\(\) .*$",
            f'session() {{ [ "$1" != "{failing}" ]; }}',
            script,
            flags=re.MULTILINE,
        )
        (tmp_path / ".ci/run").write_text(stubbed)
        code = 1 if failing else 0
        done = subprocess.run(
            ["bash", tmp_path / ".ci/run", "beside"],
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr


def test_ci_has_no_test_command_of_its_own():
    """Pytest is named in no line of `.ci/run`: what runs is the README's line and nox's sessions."""
    assert "pytest" not in (ROOT / ".ci/run").read_text()
