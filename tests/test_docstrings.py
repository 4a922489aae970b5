"""Each public class and function has one short example in its docstring; it runs, and it prints what its comments say."""

from __future__ import annotations

import ast
import asyncio
import inspect
import pydoc
import re
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, Self

import httpx

import resilient_bridge as rb
from tests.rows import each_row


GOLDEN = Path(__file__).with_name("public_names.txt")
# The names of these two are values and records, which stand in tables of their own.
_TABLES = ("dialects.", "events.")
# These start a process, which takes real time; everything else that waits is simulated.
_REAL = {"agent.CommandResult", "links.Peer", "links.stdio"}
_ECHO = """
import json
while True:
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(input())["id"], "result": "hello"}), flush=True)
"""


def _named(name: str) -> Any:
    value: Any = rb
    for part in name.split("."):
        value = getattr(value, part)
    return value


NAMES = [
    name
    for name in GOLDEN.read_text().split()
    if not name.startswith(_TABLES) and not inspect.ismodule(_named(name))
]
# The ready values have the docstring of their class.
CLASSES = [
    name for name in NAMES if not isinstance(_named(name), rb.Policy | rb.bridge.BridgePolicy)
]


def _examples(value: object) -> list[str]:
    """The indented blocks of a docstring."""
    blocks = re.findall(r"\n\n((?:    .*\n|\n(?=    ))+)", f"{inspect.getdoc(value)}\n")
    return [textwrap.dedent(block) for block in blocks]


@each_row("name", NAMES)
def test_a_docstring_has_one_short_example(name):
    """One indented block of one to six lines (a blank one and an import aside), which fit a terminal."""
    (example,) = _examples(_named(name))
    lines = [line for line in example.splitlines() if line and not line.startswith("import ")]
    assert 1 <= len(lines) <= 6
    assert max(map(len, lines)) <= 88


@each_row("name", ["BridgeClient", "Policy", "Retry", "reconnecting", "wrap"])
def test_help_shows_what_a_thing_is_and_its_example_on_the_first_screen(name):
    """25 lines of 80 characters, before what is generated."""
    value = _named(name)
    shown = [line.lstrip(" |") for line in pydoc.plain(pydoc.render_doc(value)).splitlines()]
    first = [part for line in shown for part in textwrap.wrap(line, 78) or [""]][:25]
    (example,) = _examples(value)
    begins = inspect.getdoc(value).partition(example.splitlines()[0])[0] + example
    assert " ".join(begins.split()) in " ".join(" ".join(first).split())


class _Client:
    """A client of an MCP server, as a reader has one."""

    def __init__(self, url: str) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def list_tools(self) -> list[str]:
        return ["search"]


class _Shop:
    def order(self, item: str) -> None: ...

    def price(self, item: str) -> int:
        return 7


class _Peer:
    """The other end of commands: it answers the second question."""

    asked = 0

    async def start(
        self, name: str, params: Mapping[str, Any], correlation_id: str
    ) -> dict[str, Any]:
        return {"status": "pending"}

    async def poll(self, correlation_id: str) -> dict[str, Any]:
        self.asked += 1
        return {"status": "complete", "result": "Home"} if self.asked > 1 else {"status": "pending"}


class _Refusing:
    """A bridge whose every operation raises one error."""

    def __init__(self, error: type[rb.BridgeError], code: str) -> None:
        self._error = error(rb.Failure.of(code))

    async def send(self, *_: object) -> None:
        raise self._error

    request = send

    async def __aiter__(self) -> AsyncIterator[rb.bridge.Message]:
        return
        yield


def _events(answers: list[httpx.Response]) -> httpx.AsyncClient:
    """A client of a stream of events, which has one and ends."""
    return httpx.AsyncClient(transport=httpx.MockTransport(lambda _: answers.pop(0)))


def _namespace() -> dict[str, Any]:
    """What the examples take for granted: the imports, and the reader's own functions and clients."""
    peer = _Peer()

    async def ready() -> rb.agent.DaemonHealth:
        return rb.agent.DaemonHealth.READY

    async def ask_version() -> str:
        return "1.2"

    @rb.Policy(rb.Retry(attempts=4, backoff=rb.Backoff.constant(0.01)))(idempotent=True)
    def search(query: str) -> str:
        return query

    def charge(url: str) -> None:
        httpx.post(url, trust_env=False)

    stream = httpx.Response(
        200, headers={"content-type": "text/event-stream"}, text="id: 7\ndata: hello\n\n"
    )
    return {
        "__name__": "example",
        "rb": rb,
        "asyncio": asyncio,
        "httpx": httpx,
        "Any": Any,
        "AsyncIterator": AsyncIterator,
        "Callable": Callable,
        "Path": Path,
        "Client": _Client,
        "Shop": _Shop,
        "peer": peer,
        "commands": rb.agent.Commands(peer.start, peer.poll),
        "command": (sys.executable, "-S", "-c", _ECHO),
        "daemon": rb.agent.Daemon("browser", health=ready),
        "ask_version": ask_version,
        "search": search,
        "charge": charge,
        "dialect": rb.dialects.sequence(field="seq", ask="last_seq"),
        "client": _events([stream, httpx.Response(204)]),
        "link": rb.reconnecting(lambda: _Client("")),
    }


_BRIDGES = {
    "OutcomeUnknownError": lambda: _Refusing(rb.OutcomeUnknownError, "SYS_OUTCOME_UNKNOWN"),
    "errors.InboxFullError": lambda: _Refusing(rb.errors.InboxFullError, "SYS_INBOX_FULL"),
    "errors.NotConnectedError": lambda: _Refusing(
        rb.errors.NotConnectedError, "CONN_NOT_CONNECTED"
    ),
    "errors.OutboxFullError": lambda: _Refusing(rb.errors.OutboxFullError, "SYS_OUTBOX_FULL"),
}


@asynccontextmanager
async def _until(work: Coroutine[Any, Any, None], seconds: float) -> AsyncIterator[None]:
    """Do this beside the block, and end the block after so many seconds: messages have no end."""
    task = asyncio.create_task(work)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            yield
    await task


def _compiled(name: str, example: str) -> CodeType:
    return compile(example, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


async def _with_a_bridge(
    name: str, text: str, namespace: dict[str, Any], server: rb.testing.BridgeServer
) -> None:
    """Run an example beside a server that pushes one message, with a connected client as `bridge`."""

    async def push() -> None:
        await asyncio.sleep(1)
        with suppress(LookupError):  # nobody joined this server: the example has its own, or none
            await server.push("note", {"text": "hello"})

    async with AsyncExitStack() as stack:
        if "for message in" in text:
            await stack.enter_async_context(_until(push(), seconds=5))
        namespace["server"] = server
        if name in _BRIDGES:
            namespace["bridge"] = _BRIDGES[name]()
        elif re.search(r"\bbridge\b", text) and not re.search(r"\bbridge =|as bridge\b", text):
            namespace["bridge"] = await stack.enter_async_context(rb.BridgeClient(server.url))
            await namespace["bridge"].wait_ready()
        await eval(_compiled(name, text.replace('"wss://host/ws"', "server.url")), namespace)


@each_row("name", CLASSES)
def test_an_example_runs_and_prints_what_its_comments_say(name, tmp_path, monkeypatch):
    """Each line is executed; `print(...)  # text` has printed the text."""
    (folder := tmp_path / name).mkdir()
    monkeypatch.chdir(folder)
    Path("bridge.toml").write_text("[policies.search.retry]\nattempts = 3\n")
    (example,) = _examples(_named(name))
    printed: list[str] = []
    namespace = _namespace() | {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    code = _compiled(name, example)
    if not code.co_flags & inspect.CO_COROUTINE:
        exec(code, namespace)
    elif name in _REAL:
        asyncio.run(eval(code, namespace))
    else:
        server = (
            partial(rb.testing.BridgeServer, token="right")
            if "AuthError" in name
            else rb.testing.BridgeServer
        )
        rb.testing.simulate(partial(_with_a_bridge, name, example, namespace), server=server)
    expected = re.findall(r"print\(.*\) +# (.+)", example)
    assert [line for line in expected if line not in printed] == [], printed
