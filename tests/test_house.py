"""The manners that a linter cannot see: size, names, docstrings, what an import costs, and who may reach the network."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.requirements import REQUIREMENTS


ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "resilient_bridge"
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
ROWS = {row.id for row in REQUIREMENTS}
BANNED = {"utils", "util", "helpers", "core", "manager", "types", "common", "misc"}


def _named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _loads(statement: str, *names: str) -> set[str]:
    """Which of the modules named are loaded by a statement in a fresh interpreter."""
    code = f"import sys\n{statement}\nprint(*sys.modules, sep='\\n')"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()} & set(names)


@cache
def _text(path: Path) -> str:
    return path.read_text()


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(_text(path))


def _opening(path: Path) -> str:
    """The docstring of a module, read without parsing what is behind it: there are two thousand files."""
    opening = re.match(r'(?:\s|#[^\n]*\n)*"""(.*?)"""', _text(path), re.DOTALL)
    return opening[1] if opening else ""


def _against(paths: list[Path], rule: Callable[[Path], object]) -> list[str]:
    """Those of the files that the rule finds something in."""
    return [f"{_named(path)}: {found}" for path in paths if (found := rule(path))]


def test_there_are_files_to_judge():
    """Both trees are seen, and deeply."""
    assert {PACKAGE / "client/driver.py", PACKAGE / "__init__.py"} <= set(MODULES)
    assert {Path(__file__), ROOT / "tests/agent/workflow/test_journal.py"} <= set(TESTS)


#: the modules whose text is shown and not read: there any line end of Unicode may end a line
SHOWN = (
    "agent/workflow/report",
    "cli/mcp",
    "cli/options",
    "failure/redaction",
    "adapters/processes/child",
    "adapters/sidecar/event_log",
    "adapters/sidecar/sessions",
)


def test_l06_what_is_read_is_split_at_the_line_ends_of_its_format():
    """`str.splitlines` also splits at U+2028, U+0085, \\v and others, which JSON and every line protocol allow in a line.

    Bytes have `splitlines` that split at LF, CR and CRLF alone: server-sent events and receipts.
    """
    of_bytes = ("protocol/server_sent", "cli/pipe_receipts")

    def splits(path: Path) -> bool:
        name = path.relative_to(PACKAGE).with_suffix("").as_posix()
        return re.search(r"(?<!str)\.splitlines\(", _text(path)) is not None and name not in {
            *SHOWN,
            *of_bytes,
        }

    assert _against(MODULES, splits) == []


def test_every_module_states_its_job():
    """Each module opens with a docstring that is at least a sentence."""

    def silent(path: Path) -> bool:
        return len(_opening(path).split()) < 5

    assert _against(MODULES, silent) == []


def test_what_help_shows_carries_no_row_ids():
    """A reader of `help()` has no table of rows: their ids stand in comments and in docs/reference."""

    def rows(path: Path) -> list[str]:
        if not set(re.findall(r"\b[A-Z]\d+\b", _text(path))) & ROWS:
            return []  # most files: need not be parsed
        stated = [
            ast.get_docstring(node) or ""
            for node in ast.walk(_parsed(path))
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        return [text for text in stated if set(re.findall(r"\b[A-Z]\d+\b", text)) & ROWS]

    assert _against(MODULES, rows) == []


def test_no_module_has_a_name_that_says_nothing():
    """Nothing is called utils, helpers, core, manager, types or common, in the package or the tests."""
    assert [
        _named(path) for path in [*MODULES, *TESTS] if {path.stem, path.parent.name} & BANNED
    ] == []


def test_what_is_below_a_door_is_imported_by_one_module_for_each_room():
    """Tests import `resilient_bridge` and its rooms; deeper names stand in tests/internals, and all that stands there is imported."""
    internals = [path for path in TESTS if path.parent.name == "internals"]
    others = [path for path in TESTS if path not in internals]
    deep = r"^ *(?:from|import) resilient_bridge\.\w+\.[\w.]+"
    assert _against(others, lambda path: re.findall(deep, _text(path), re.MULTILINE)) == []
    imports = r"^ *from tests\.internals\.(\w+) import (?:\(([^)]+)\)|([^\n#]+))"
    used = {
        (room, name.split(" as ")[0].strip())
        for path in others
        for room, many, one in re.findall(imports, _text(path), re.MULTILINE)
        for name in (many or one).split(",")
        if name.strip()
    }
    listed = {
        (path.stem, entry.split("=")[0])
        for path in internals
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.Dict)
        for names in node.values
        for entry in ast.literal_eval(names).split()
    }
    assert used == listed


def test_the_first_entry_is_removed_from_an_ordered_dict():
    """Finding the first of a dict takes longer with each one removed before it: a queue of thousands would get slow."""
    found = re.compile(r"del (\S+)\[next\(iter\(\1")
    assert [_named(path) for path in MODULES if found.search(_text(path))] == []


def test_only_a_world_makes_a_random_source_without_a_seed():
    """`Random()` seeds itself from the system; ruff bans the functions of `random`, and cannot see the missing seed."""
    outside = [path for path in MODULES if path.parent.name not in {"world", "testing"}]
    found = [
        f"{_named(path)}:{node.lineno}"
        for path in outside
        if "Random" in _text(path)
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) == "Random"
        and not node.args
    ]
    assert found == []


#: rooms whose waits are for sockets, pipes and files: they go by the running loop's clock (docs/design/0013-one-world.md)
ON_THE_LOOPS_CLOCK = {"adapters", "client", "cli", "stores", "testing", "transports", "world"}
#: and what waits for something real elsewhere
WAITS_FOR = {
    "agent/daemons/daemon": "a process that comes up or ends",
    "agent/daemons/health_probe": "the answer of a daemon",
    "agent/tools/shell_commands": "a process and its pipes",
    "agent/tools/tool_calls": "a thread that reads directories",
    "settings/provider_check": "the answers of providers",
}


def _loop_clock(path: Path) -> list[int]:
    """The lines that wait by the clock of asyncio or read it; `asyncio.sleep(0)` asks no clock, and the timers of a world are its own."""
    lines = []
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, owner = node.func.attr, ast.unparse(node.func.value)
            waits = name in {"timeout", "timeout_at", "wait_for"} or (
                name in {"wait", "as_completed"}
                and any(word.arg == "timeout" for word in node.keywords)
            )
            sleeps = name == "sleep" and [ast.unparse(value) for value in node.args] != ["0"]
            reads = name == "time" and not node.args
            if (owner == "asyncio" and (waits or sleeps)) or (
                (name in {"call_later", "call_at"} or reads) and not owner.endswith("world")
            ):
                lines.append(node.lineno)
    return lines


def test_x03_policies_wait_by_the_clock_of_their_world():
    """What waits by asyncio's clock takes real time in `virtual_time`: only what waits for something real may, and the table says for what."""
    others = [
        path for path in MODULES if path.relative_to(PACKAGE).parts[0] not in ON_THE_LOOPS_CLOCK
    ]
    found = {
        path.relative_to(PACKAGE).with_suffix("").as_posix() for path in others if _loop_clock(path)
    }
    assert found == set(WAITS_FOR)


def test_every_server_of_testing_is_held_to_its_contract():
    """Each testing/server*.py and mcp_trap*.py stands in the import contract that keeps `protocol`, `client` and `adapters` out of it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    witness = next(contract for contract in contracts if contract["id"] == "witness")
    servers = [*(PACKAGE / "testing").glob("server*"), *(PACKAGE / "testing").glob("mcp_trap*")]
    assert {f"resilient_bridge.testing.{path.stem}" for path in servers} == set(
        witness["source_modules"]
    )


def test_x06_benchmarks_import_nothing_of_the_tests():
    """A helper of the tests that moves would break a script that nobody starts."""
    scripts = sorted((ROOT / "bench").rglob("*.py"))
    assert len(scripts) > 20
    assert (
        _against(
            scripts,
            lambda path: re.findall(r"^\s*(?:from|import) tests\b.*", _text(path), re.MULTILINE),
        )
        == []
    )


def test_the_comparison_has_the_rows_that_are_measured():
    """At most twelve, in the order of the script: a row that was renamed or added is measured again before it is shown."""
    measured = re.findall(r'\bRow\(\s*"([^"]+)"', _text(ROOT / "bench/comparison.py"))
    table = _text(ROOT / "docs/reference/comparison.md").partition("|---")[2].partition("\n\n")[0]
    assert re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) == measured
    assert 0 < len(measured) <= 12


def test_importing_the_package_loads_nothing_else():
    """`import resilient_bridge` costs no loop, no socket and no library: each name loads when it is asked for."""
    heavy = "asyncio attrs attr httpx websockets tenacity sqlite3 ssl socket email typing_extensions".split()
    assert _loads("import resilient_bridge", *heavy) == set()


def test_policies_and_failures_load_no_network():
    """What only describes (policies, presets, errors, classification) loads neither loop nor HTTP nor WebSocket stack."""
    names = "Backoff, Failure, Rule, classify, events, presets"
    heavy = "asyncio httpx websockets tenacity sqlite3 email".split()
    assert _loads(f"from resilient_bridge import {names}", *heavy) == set()


def test_the_bridge_client_loads_no_http_stack():
    """A BridgeClient needs websockets, and neither httpx nor tenacity."""
    assert (
        _loads(
            "from resilient_bridge import BridgeClient", "httpx", "httpcore", "tenacity", "sqlite3"
        )
        == set()
    )


DECORATED = """import resilient_bridge as rb
@rb.Policy(rb.Retry(), rb.Breaker(), rb.Timeout(3))(idempotent=True)
async def call(): return {}
import asyncio; asyncio.run(call())
"""


@pytest.mark.parametrize(
    "first",
    [
        "from resilient_bridge import BridgeClient; BridgeClient('wss://bridge.example/ws')",
        DECORATED,
    ],
    ids=["client", "function"],
)
def test_p9_what_reads_failures_and_mistakes_is_loaded_by_the_first_one(first):
    """The patterns for the bodies of providers alone would double the time to the first BridgeClient."""
    late = (
        "calls.adaptive.machine",
        "calls.hedge.race",
        "calls.share.flight",
        "failure.closes",
        "failure.contents",
        "failure.dispatch",
        "failure.foreign_words",
        "failure.lookup",
        "failure.mistakes",
        "failure.payloads",
        "failure.provider_codes",
        "failure.rpc",
    )
    code = f"import sys\n{first}\nprint(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {f"resilient_bridge.{name}" for name in late} & set(loaded.stdout.split()) == set()


# The broadcast address: the kernel itself refuses it, so that a broken guard fails here and sends nothing either.
STRAYS = '''
import asyncio, contextlib, socket
import pytest

def test_plain():
    """Raises, and fails."""
    socket.create_connection(("255.255.255.255", 9), timeout=1)

def test_swallowed():
    """The code under test hides the error."""
    with contextlib.suppress(OSError):
        socket.create_connection(("255.255.255.255", 9), timeout=1)

def test_asyncio():
    """Event loops connect sockets of their own."""
    async def main():
        with contextlib.suppress(OSError):
            await asyncio.open_connection("255.255.255.255", 9)
    asyncio.run(main())

def test_datagram():
    """A datagram needs no connect."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.sendto(b"x", ("255.255.255.255", 9))

def test_loopback():
    """This machine is free to reach."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass

def test_skipped():
    """Where every server is there, nothing may be skipped."""
    pytest.skip("no server")
'''


def _strays(tmp_path: Path, **environment: str) -> str:
    script = tmp_path / "test_strays.py"
    script.write_text(STRAYS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "conftest",
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        str(script),
    ]
    clean = {
        name: value
        for name, value in os.environ.items()
        if name != "RESILIENT_BRIDGE_REQUIRE_SERVERS"
    }
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=clean | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_a_test_that_leaves_this_machine_fails(tmp_path):
    """A connect or datagram to another host fails its test, swallowed or not, and no packet is sent."""
    printed = _strays(tmp_path)
    assert "4 failed, 1 passed, 1 skipped" in printed
    assert "loopback expected, got a connect to '255.255.255.255'" in printed


def test_a_skip_fails_where_every_server_must_be_there(tmp_path):
    """RESILIENT_BRIDGE_REQUIRE_SERVERS=1, as CI sets it, turns a skip into a failure with its reason."""
    printed = _strays(tmp_path, RESILIENT_BRIDGE_REQUIRE_SERVERS="1")
    assert "5 failed, 1 passed" in printed
    assert "nothing may be skipped here" in printed
