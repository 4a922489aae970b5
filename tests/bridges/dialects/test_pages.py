"""The pages of docs/dialects: each complete program runs against the double of its server; docs/reference/positions.md names every reason."""

from __future__ import annotations

import ast
import asyncio
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import resilient_bridge as rb
from tests import typed_pages
from tests.bridges.dialects.cases import CASES
from tests.bridges.doubles.agno import Agno
from tests.bridges.doubles.centrifugo import Centrifugo
from tests.bridges.doubles.harness import serving_aiohttp
from tests.bridges.doubles.homemade import Homemade
from tests.bridges.doubles.jsonrpc import JsonRpc
from tests.bridges.doubles.jupyter import Jupyter
from tests.bridges.doubles.mattermost import Mattermost
from tests.bridges.doubles.openhands import LegacySocket, SessionSocket
from tests.bridges.doubles.recursor_live import RecursorLive
from tests.bridges.doubles.slack_socket_mode import SlackSocketMode
from tests.bridges.doubles.socketio import SocketIO
from tests.internals.protocol import recovery
from tests.internals.settings import families, ready
from tests.rows import each_row


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "dialects"
PROGRAM = re.compile(
    r"^## A complete program\n\n```python\n(.*?)^```\n\Z", re.MULTILINE | re.DOTALL
)
SECTIONS = [
    "What the server guarantees",
    "What you get",
    "What you cannot get",
    "A complete program",
]
ONLY_DOUBLES = ("mattermost", "slack-socket-mode", "centrifugo")
FIRST = 70_001  # the first number that a double publishes


@dataclass
class Served:
    """The program of a page, and the double that it talks to. `path`: of the double's URL; `constants` stand in the place of the program's."""

    page: str
    double: Callable[[random.Random], Any]
    path: str = "/"
    scheme: str = "ws"
    constants: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    begins: tuple[str, ...] = ()  # what it prints before the double publishes a number
    then: tuple[str, ...] = ()  # what it prints besides


PROGRAMS = [
    Served("plain", lambda rng: Homemade(rng, ask="frame", resume="subscribe", end_marker="subscribed")),
    Served("sequence", Homemade),
    Served("last-event-id", lambda rng: Homemade(rng, kind="id", field="id", since="last_event_id", end_marker="end", gap_frame="gap")),
    Served("since", lambda rng: Homemade(rng, kind="time", field="timestamp", since="since", inclusive=True)),
    Served("recursor", RecursorLive, then=("health_check_response {'status': 'ok'}",)),
    Served("recursor", RecursorLive, constants={"DIALECT": rb.dialects.recursor}, name="recursor as specified"),
    Served("openhands", lambda rng: SessionSocket(rng, key="session-api-key"), "/sockets/session/main", then=("MessageEvent",)),
    Served(
        "openhands", lambda rng: LegacySocket(rng, key="session-api-key"), "/sockets/events/main", then=("MessageEvent",),
        constants={"DIALECT": rb.dialects.openhands_legacy}, name="openhands_legacy",
    ),
    Served("agno", lambda rng: Agno(rng, token="os-security-key"), "/workflows/ws", begins=("WorkflowStarted",)),
    Served("socketio", SocketIO, "/socket.io/?EIO=4&transport=websocket", then=("tick",)),
    Served(
        "jupyter", lambda rng: Jupyter(rng, token="jupyter-token"), "/api/kernels/k1/channels?session_id=s1",
        then=("execute_reply ok", "execute_input"),
    ),
    Served("jsonrpc", JsonRpc, "/rpc", then=("{'text': 'hello'}", "Method not found")),
    Served("mattermost", Mattermost, "/api/v4/websocket"),
    Served("slack-socket-mode", SlackSocketMode, "/api/apps.connections.open", "http"),
    Served("centrifugo", lambda rng: Centrifugo(rng, token="jwt"), "/connection/websocket?format=json", then=("applied", "'hello'")),
]  # fmt: skip


def _program(page: str) -> str:
    found = PROGRAM.search((PAGES / f"{page}.md").read_text())
    assert found is not None
    return found[1]


class Running:
    """A program with its constants replaced, in a task of this loop. `printed` has what it printed."""

    def __init__(self, page: str, constants: dict[str, Any]) -> None:
        self.printed: list[str] = []
        self.number = FIRST - 1
        names: dict[str, Any] = {"__name__": "program", "print": self._print}
        exec(compile(_program(page), f"{page}.md", "exec"), names)
        assert constants.keys() <= names.keys()
        names.update(constants)
        self.task = asyncio.ensure_future(names["main"]())

    def _print(self, *values: object) -> None:
        self.printed.append(" ".join(map(str, values)))

    def shows(self, *texts: str) -> bool:
        """Has each text been printed?"""
        if self.task.done():
            self.task.result()
        return all(any(text in line for line in self.printed) for text in texts)

    async def shown(self, *texts: str) -> None:
        """Wait until each text was printed."""
        while not self.shows(*texts):
            await asyncio.sleep(0.01)

    async def publish_until_shown(self, double: Any, after: int) -> None:
        """Publish numbers until one of those after this one was printed."""
        while not any(self.shows(str(number)) for number in range(after + 1, self.number + 1)):
            self.number += 1
            await double.publish(self.number)
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """End the program."""
        self.task.cancel()
        await asyncio.wait([self.task])


def _constants(case: Served, url: str) -> dict[str, Any]:
    return {"URL": url.replace("ws", case.scheme, 1) + case.path, **case.constants}


@pytest.mark.real
@each_row("case", PROGRAMS, ids=lambda case: case.name or case.page)
async def test_the_program_of_a_page_prints_what_its_server_says(case):
    """Each program connects, subscribes and authenticates as its page says, and prints a message."""
    double = case.double(random.Random(1))
    async with serving_aiohttp(double) as url, asyncio.timeout(20):
        program = Running(case.page, _constants(case, url))
        try:
            await program.shown(*case.begins)
            await program.publish_until_shown(double, FIRST - 1)
            await program.shown(*case.then)
        finally:
            await program.stop()


@pytest.mark.real
async def test_the_program_for_mattermost_loads_what_a_restart_cost_it():
    """A server that forgot the connection begins another one; the posts between come by REST, in the gap."""
    double = Mattermost(random.Random(1))
    async with serving_aiohttp(double) as url, asyncio.timeout(20):
        posts = f"{url.replace('ws', 'http', 1)}/api/v4/channels/town-square/posts"
        program = Running("mattermost", {"URL": f"{url}/api/v4/websocket", "POSTS": posts})
        try:
            await program.publish_until_shown(double, FIRST - 1)
            double.restart()
            url.drop()
            missed = program.number + 1
            await double.publish(missed)
            program.number = missed
            await program.publish_until_shown(double, missed)
            assert [line for line in program.printed if str(missed) in line] == [
                f"message {missed}"
            ]
        finally:
            await program.stop()


def test_each_page_has_the_same_four_sections():
    """In their order; each page of a dialect stands in the table of the index, and is short."""
    index = (PAGES / "index.md").read_text()
    pages = sorted({path.stem for path in PAGES.glob("*.md")} - {"index"})
    assert sorted({case.page for case in PROGRAMS}) == pages
    for page in pages:
        text = (PAGES / f"{page}.md").read_text()
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
        assert f"]({page}.md)" in index
        assert 40 <= len(text.splitlines()) <= 70, page


@pytest.mark.parametrize("page", ONLY_DOUBLES)
def test_a_page_says_at_once_that_no_real_service_was_asked(page):
    """In its first paragraph, and in the table."""
    _, first, *_ = (PAGES / f"{page}.md").read_text().split("\n\n")
    assert "tested against a scripted double only" in " ".join(first.split())
    (row,) = [
        line for line in (PAGES / "index.md").read_text().splitlines() if f"]({page}.md)" in line
    ]
    assert row.endswith("| a scripted double only |")


def test_every_dialect_stands_in_the_index():
    """By its name in `rb.dialects`; the values that a dialect of one's own is made of have capitals, and `table` is a tool."""
    names = [name for name in rb.dialects.__all__ if name[0].islower() and name != "table"]
    index = (PAGES / "index.md").read_text()
    assert [name for name in names if not re.search(rf"`{name}[`(]", index)] == []


def _of_evidence() -> set[str]:
    text = (ROOT / "docs" / "reference" / "evidence.md").read_text()
    (section,) = [part for part in text.split("\n## ") if part.startswith("Dialects\n")]
    return set(re.findall(r"^\| (.+?) \|", section, re.MULTILINE)) - {"dialect"}


@pytest.mark.parametrize("name", sorted({**ready(), **families()}))
def test_every_dialect_has_a_case(name):
    """Without one no schedule of faults uses it. A case is named after its dialect; more words may follow."""
    assert name in {case.name.split()[0] for case in CASES}, (
        f"no schedule of faults uses rb.dialects.{name}: add a Case that is named {name} to CASES in tests/bridges/dialects/cases.py"
    )


def test_every_case_has_its_row_in_the_evidence():
    """And no row is about a case that does not exist."""
    names, rows = {case.name for case in CASES}, _of_evidence()
    assert names - rows == set(), (
        "docs/reference/evidence.md, Dialects, has no row for these: `python -m tests.bridges.dialects` prints them"
    )
    assert rows - names == set(), (
        "docs/reference/evidence.md, Dialects, has rows of cases that are gone"
    )


def test_every_page_of_a_dialect_is_type_checked():
    """The index has no program."""
    pages = {f"dialects/{path.name}" for path in PAGES.glob("*.md")} - {"dialects/index.md"}
    assert pages - set(typed_pages.PAGES) == set(), "add these to PAGES in tests/typed_pages.py"


# ---- docs/reference/positions.md -----------------------------------------------------------------------------------


JUDGES = re.compile(
    r"^from \.recovery import|^class Finding|PositionGoneError", re.MULTILINE
)  # a module that finds reasons
FINDINGS = {
    "Finding",
    "Hole",
    "forget",
    "backfill_ended",
}  # the second argument, or the last, is a reason
REASONS = re.compile(
    r"_?lost(_backfill)?|_?gone|_?others|reason|_WHY"
)  # names that hold the reason of a gap


def _texts(node: ast.AST) -> set[str]:
    return {
        one.value
        for one in ast.walk(node)
        if isinstance(one, ast.Constant)
        and isinstance(one.value, str)
        and re.fullmatch(r"[a-z_]+", one.value)
    }


def _name(node: ast.AST) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return (
        node.id
        if isinstance(node, ast.Name)
        else node.attr
        if isinstance(node, ast.Attribute)
        else ""
    )


def _reasons(node: ast.AST) -> Iterator[str]:
    """The literals that become the reason of a gap: of a Finding, of a Hole, or assigned to what says why something was lost."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and _name(each.func) in FINDINGS and each.args:
            yield from _texts(each.args[1] if len(each.args) > 1 else each.args[0])
        elif isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            names = [
                _name(one)
                for target in targets
                for one in (target.elts if isinstance(target, ast.Tuple) else [target])
            ]
            if any(REASONS.fullmatch(name) for name in names):
                value = each.value
                yield from _texts(ast.Tuple(value.values) if isinstance(value, ast.Dict) else value)


def _rows(heading: str) -> set[str]:
    text = (ROOT / "docs" / "reference" / "positions.md").read_text()
    (section,) = [part for part in text.split("\n## ")[1:] if part.startswith(heading)]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_every_reason_of_a_gap_is_explained():
    """Each reason in the code of positions has its row in docs/reference/positions.md, and no row is about another."""
    package = ROOT / "resilient_bridge"
    files = [*sorted((package / "protocol").glob("*.py")), package / "client" / "backfilling.py"]
    sources = [text for text in (path.read_text() for path in files) if JUDGES.search(text)]
    assert len(sources) >= 4
    found = {reason for text in sources for reason in _reasons(ast.parse(text))}
    rows = _rows("Reasons")
    assert found - set(recovery.Proof.__args__) - rows == set()
    assert [row for row in rows if not any(f'"{row}"' in text for text in sources)] == []


def test_every_proof_is_explained():
    """The same for the proofs of RECOVERED."""
    assert set(recovery.Proof.__args__) - {""} == _rows("Proofs")
