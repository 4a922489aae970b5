"""How far a call, a message or a workflow phase walks through this package: calls of our named functions, and modules entered.

    python bench/journeys.py [NAME ...]

tests/test_journeys.py fails where a number rises. Counted on CPython 3.11 by
`sys.setprofile`, each journey when it is warm: what is called once a process is not of interest. Comprehensions, lambdas and the
resumptions of a coroutine are no calls, and the servers of `resilient_bridge.testing` are not part of a journey. The peers here are
of other libraries or written by hand, in the same process; the sidecar runs in its own, and counts there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import httpx

import resilient_bridge as rb


HERE = Path(__file__).parent
ROOT = f"{Path(rb.__file__).parent}{os.sep}"
WITNESS = f"{ROOT}testing{os.sep}"
WARM, ROUNDS = 4, 5
RETRY = rb.Retry(backoff=rb.Backoff.constant(0.001), budget=rb.RetryBudget(floor=1_000))
CALM = rb.Breaker(minimum=50)
TOGETHER = 10  # calls through the sidecar, over which its number is the mean

#: What each journey is to come down to: calls, modules.
GOALS = {
    "success, an int": (3, 2),
    "success, a dict": (3, 2),
    "fails once, retry alone": (45, 12),
    "fails once, with circuit and timeout": (65, 12),
    "wrapped SDK, 429 then 200": (130, 17),
    "HTTPTransport, 503 then 200": (105, 17),
    "send to ack": (70, 12),
    "socket to async for": (28, 8),
    "tools/call through the sidecar": (130, 12),
    "tools/call through the sidecar, HTTP": (160, 15),
    "toolbox.call": (60, 12),
    "a workflow phase with one call": (700, 20),
}


# ---- counting ----------------------------------------------------------------------------------------------------------
class Count:
    """The calls of our named functions by module, and the flushes of files, while it is open."""

    def __init__(self) -> None:
        self.modules: dict[str, int] = {}
        self.flushes = 0

    def take(self, frame: Any) -> None:
        """Take a call; the argument of RESUME is 0 where a function begins."""
        code = frame.f_code
        name = code.co_filename
        if (
            name.startswith(ROOT)
            and not name.startswith(WITNESS)
            and code.co_name[0] != "<"
            and not (frame.f_lasti >= 0 and code.co_code[frame.f_lasti + 1] & 3)
        ):
            self.modules[name] = self.modules.get(name, 0) + 1

    def __enter__(self) -> Self:
        OPEN.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        OPEN.remove(self)

    @property
    def calls(self) -> int:
        return sum(self.modules.values())

    @property
    def size(self) -> tuple[int, int]:
        return self.calls, len(self.modules)


OPEN: list[Count] = []
FLUSHES = {os.fsync, getattr(os, "fdatasync", os.fsync)}


def hear(frame: Any, event: str, called: object) -> None:
    """Hand an event of any thread to the count that is open."""
    if event == "call" and OPEN:
        OPEN[-1].take(frame)
    elif event == "c_call" and OPEN and called in FLUSHES:
        OPEN[-1].flushes += 1


def smallest(counts: list[Count]) -> Count:
    """The round in which nothing else happened, such as a timer."""
    return min(counts, key=lambda count: count.size)


async def rounds(act: Callable[[], Any]) -> Count:
    """Await what `act` returns, a few times, and count the smallest."""
    for _ in range(WARM):
        await act()
    counts = []
    for _ in range(ROUNDS):
        with Count() as count:
            await act()
        counts.append(count)
        await asyncio.sleep(0.002)
    return smallest(counts)


# ---- calls -------------------------------------------------------------------------------------------------------------
async def success(result: object) -> Count:
    @rb.Policy(RETRY, CALM)(idempotent=True)
    def work() -> object:
        return result

    async def act() -> None:
        work()

    for _ in range(60):  # a circuit counts its first successes
        work()
    counts = []
    for _ in range(ROUNDS):
        with Count() as count:
            work()
        counts.append(count)
    return smallest(counts)


async def fails_once(*layers: Any) -> Count:
    calls: list[None] = []

    @rb.Policy(RETRY, *layers)(idempotent=True)
    async def work() -> int:
        calls.append(None)
        if len(calls) % 2:
            raise ConnectionRefusedError
        return 1

    return await rounds(work)


async def wrapped_sdk() -> Count:
    import httpx2
    import openai

    answers: list[None] = []

    def answer(_: Any) -> Any:
        answers.append(None)
        if len(answers) % 2:
            return httpx2.Response(429, json={"error": {"message": "slow down"}})
        return httpx2.Response(200, json={})

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    own = openai.AsyncOpenAI(api_key="k", base_url="http://127.0.0.1:1/v1", http_client=http)
    client = rb.wrap(own, rb.Policy(RETRY, CALM))
    words: Any = [{"role": "user", "content": "hi"}]
    return await rounds(lambda: client.chat.completions.create(model="m", messages=words))


async def http_transport() -> Count:
    answers: list[None] = []

    def answer(_: Any) -> httpx.Response:
        answers.append(None)
        return httpx.Response(503 if len(answers) % 2 else 200)

    transport = rb.HTTPTransport(rb.Policy(RETRY, CALM), httpx.MockTransport(answer))
    async with httpx.AsyncClient(transport=transport) as client:
        return await rounds(lambda: client.get("http://127.0.0.1/"))


# ---- a bridge ----------------------------------------------------------------------------------------------------------
ANSWERS = {
    "auth": {"type": "connection_ack", "payload": {"server_id": "s", "active_sessions": []}},
    "session_join": {"type": "session_joined", "payload": {}},
    "heartbeat_ping": {"type": "heartbeat_pong", "timestamp": "2026-03-20T14:32:00Z", "payload": {}},
}  # fmt: skip


async def _serve(socket: Any) -> None:
    """Answer a client; acknowledge what it sends, and send back what it asks to be told."""
    async for text in socket:
        message = json.loads(text)
        if message["type"] in ANSWERS:
            await socket.send(json.dumps(ANSWERS[message["type"]]))
            continue
        ack = {"message_id": message["id"], "status": "applied"}
        await socket.send(json.dumps({"type": "message_ack", "payload": ack}))


@asynccontextmanager
async def bridged() -> Any:
    """A client that is READY, and the server's side of its connection."""
    from websockets.asyncio.server import serve

    async with serve(_serve, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with rb.BridgeClient(f"ws://127.0.0.1:{port}/") as client:
            await client.wait_ready(5)
            yield client, next(iter(server.connections))
            await client.aclose(drain=0)


async def send_to_ack() -> Count:
    async with bridged() as (client, _):

        async def act() -> None:
            receipt = await client.send("tool_result", {"content": "ok"})
            await receipt.confirmed(5)

        return await rounds(act)


async def socket_to_async_for() -> Count:
    async with bridged() as (client, socket):
        messages, numbers = aiter(client), iter(range(1_000))

        async def act() -> None:
            event = {"type": "tool_output", "id": f"m-{next(numbers)}", "timestamp": "2026-03-20T14:32:00Z"}  # fmt: skip
            await socket.send(json.dumps({**event, "payload": {"text": "x"}}))
            await anext(messages)

        return await rounds(act)


# ---- agents ------------------------------------------------------------------------------------------------------------
def _toolbox() -> rb.agent.Toolbox:
    toolbox = rb.agent.Toolbox()

    @toolbox.tool(idempotent=True)
    async def add(a: int, b: int = 1) -> int:
        return a + b

    return toolbox


async def toolbox_call() -> Count:
    toolbox = _toolbox()
    return await rounds(lambda: toolbox.call("add", {"a": 1}))


async def workflow_phase() -> Count:
    """The run of a workflow with one phase, which calls a tool once; of flushes those that a second phase adds."""
    counts = [await _workflow(1) for _ in range(3)]
    count = smallest(counts[1:])
    count.flushes = (await _workflow(2)).flushes - count.flushes
    return count


async def _workflow(phases: int) -> Count:
    async def body(phase: Any) -> None:
        await phase.call("add", {"a": 1})

    with tempfile.TemporaryDirectory() as folder:
        flow = rb.agent.Workflow(f"{folder}/state.json", root=folder, tools=_toolbox())
        for number in range(phases):
            flow.phase(name=f"phase-{number}")(body)
        with Count() as count:
            await flow.run()
    return count


async def sidecar(*options: str) -> Count:
    """A client written by hand, the sidecar in a process of its own, and the small server of the benchmarks."""
    found = await asyncio.to_thread(_in_a_process, options)
    count = Count()
    count.modules = {name: each for name, calls in found.items() if (each := round(calls / TOGETHER))}  # fmt: skip
    return count


def _in_a_process(options: tuple[str, ...]) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "names").write_text("echo")
        into = Path(folder, "counted")
        server = [sys.executable, str(HERE / "_mcp_server.py"), folder]
        with subprocess.Popen(
            [sys.executable, __file__, "--inside", "mcp", *options, "--", *server],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"JOURNEYS_INTO": str(into)},
        ) as process:  # fmt: skip
            ask = _by_http(process) if options else _by_lines(process)
            try:
                return _counted_by(process, ask, into)
            finally:
                process.terminate()


Ask = Callable[[dict[str, Any]], None]


def _by_lines(process: subprocess.Popen[bytes]) -> Ask:
    """Return what writes a message and reads up to its answer."""

    def ask(message: dict[str, Any]) -> None:
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        while "id" in message and json.loads(process.stdout.readline()).get("id") != message["id"]:
            pass

    return ask


def _by_http(process: subprocess.Popen[bytes]) -> Ask:
    """Return what posts a message and reads its answer, on one connection that is kept."""
    url = next(line.split()[-1].decode() for line in process.stderr if b"serving at" in line)
    client = httpx.Client(headers={"Accept": "application/json, text/event-stream"}, timeout=20)

    def ask(message: dict[str, Any]) -> None:
        answer = client.post(url, json=message)
        answer.raise_for_status()
        if session := answer.headers.get("mcp-session-id"):
            client.headers["mcp-session-id"] = session

    return ask


def _counted_by(process: subprocess.Popen[bytes], ask: Ask, into: Path) -> dict[str, int]:
    """Call the tool until it is warm, then so often as is counted."""
    opened = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}  # fmt: skip
    ask({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opened})
    ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo", "arguments": {}}}
    for number in range(2, 7):
        ask(call | {"id": number})
    time.sleep(0.1)  # whatever follows an answer
    process.send_signal(signal.SIGUSR1)
    _appeared(into)
    for number in range(7, 7 + TOGETHER):
        ask(call | {"id": number})
    time.sleep(0.05)
    into.unlink()
    process.send_signal(signal.SIGUSR1)
    _appeared(into)
    found: dict[str, int] = json.loads(into.read_text())
    return found


def _appeared(path: Path) -> None:
    until = time.monotonic() + 20
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.005)


def inside(words: list[str]) -> int:
    """Run a command of ours in this process; SIGUSR1 begins to count, the next one writes what was counted."""
    from resilient_bridge.cli import main as command

    into = Path(os.environ["JOURNEYS_INTO"])
    OPEN.append(count := Count())

    def asked(*_: object) -> None:
        beside = into.with_suffix(".new")
        beside.write_text(json.dumps(count.modules))
        count.modules.clear()
        beside.rename(into)

    signal.signal(signal.SIGUSR1, asked)
    threading.setprofile(hear)
    sys.setprofile(hear)
    return command(words)


JOURNEYS: dict[str, Callable[[], Any]] = {
    "success, an int": lambda: success(1),
    "success, a dict": lambda: success({"answer": 1, "items": []}),
    "fails once, retry alone": fails_once,
    "fails once, with circuit and timeout": lambda: fails_once(CALM, rb.Timeout(30)),
    "wrapped SDK, 429 then 200": wrapped_sdk,
    "HTTPTransport, 503 then 200": http_transport,
    "send to ack": send_to_ack,
    "socket to async for": socket_to_async_for,
    "tools/call through the sidecar": sidecar,
    "tools/call through the sidecar, HTTP": lambda: sidecar("--http", "127.0.0.1:0", "--no-token"),
    "toolbox.call": toolbox_call,
    "a workflow phase with one call": workflow_phase,
}


@contextmanager
def profiled() -> Generator[None]:
    """Count calls in every thread that starts inside, with the log off."""
    logger = logging.getLogger("resilient_bridge")
    before, logger.disabled = logger.disabled, True
    threading.setprofile(hear)
    sys.setprofile(hear)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        logger.disabled = before


def counted(name: str) -> Count:
    """Make a journey and count it."""
    with profiled():
        return asyncio.run(JOURNEYS[name]())


def asked(words: list[str]) -> list[str]:
    """Return the journeys that the command line names, all of them without a name; "1" is for the runner of all scripts."""
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\nNames:\n  " + "\n  ".join(JOURNEYS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a journey, quoted")
    names = [name for name in parser.parse_args(words).names if name != "1"]
    for name in names:
        if name not in JOURNEYS:
            parser.error(f"no journey {name!r}; there are: {', '.join(map(repr, JOURNEYS))}")
    return names or list(JOURNEYS)


def main(names: list[str]) -> None:
    """Print today's numbers beside the goals."""
    from workflow_phases import MOST_FLUSHES  # the tests import the rest of this

    goal = MOST_FLUSHES["with a call that may be repeated"]
    print(f"{'journey':38}{'calls':>7}{'modules':>9}{'goal':>14}")
    for name in names:
        found = counted(name)
        calls, modules = found.size
        most_calls, most_modules = GOALS[name]
        flushes = (
            f"  (one more phase: {found.flushes} fsyncs, goal {goal})" if found.flushes else ""
        )
        print(
            f"{name:38}{calls:7,}{modules:9}{most_calls:7,} in {most_modules}{flushes}", flush=True
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.exit(inside(sys.argv[2:]))
    with suppress(KeyboardInterrupt):
        main(asked(sys.argv[1:]))
