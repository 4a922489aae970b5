"""The trap for blind repeats: what each strike does on both transports, whom the ledger convicts, and whom it acquits."""

from __future__ import annotations

import errno
import json
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

import resilient_bridge as rb
from bench.mcp_features.raw_client import Client as RawClient
from bench.mcp_features.raw_client import Http, Pipes
from resilient_bridge.testing import Trap, TrapEffect, TrapStrike
from tests.internals.testing import ON_HTTP, ON_STDIO, Plan, mcp_trap_ledger, repeats
from tests.peers.zygote import PYTHON


ROOT = Path(__file__).parents[2]
ORDER = {"name": "order", "arguments": {"marker": "m", "item": "tea"}}
real = pytest.mark.real

# How a client without any resilience sees each strike, and what is on disk then.
LOST = "lost"
SEEN = {
    TrapStrike.ANSWER: ("answered", 1),
    TrapStrike.BEFORE: (LOST, 0),
    TrapStrike.AFTER: (LOST, 1),
    TrapStrike.MIDDLE: (LOST, 1),
    TrapStrike.ANSWERED: ("answered", 1),
    TrapStrike.EXIT0: (LOST, 1),
    TrapStrike.HANG: ("no answer", 1),
    TrapStrike.NOISE: ("answered", 1),
    TrapStrike.FORGOTTEN: (LOST, 0),
    TrapStrike.CUT: (LOST, 1),
    TrapStrike.RESET: (LOST, 1),
}


def effect(tool: str, marker: str, key: str = "") -> TrapEffect:
    """An effect, of which only this matters."""
    return TrapEffect(tool, marker, 0, 0.0, key)


def seen_by(client: RawClient, params: Any = ORDER, *, seconds: float = 20) -> str:
    """What became of one call."""
    try:
        answer = client.request("tools/call", params, seconds=seconds)
    except TimeoutError:
        return "no answer"
    except (OSError, ValueError):
        return LOST
    return "answered" if "done" in answer["result"]["content"][0]["text"] else str(answer)


# ---- plans and judgements --------------------------------------------------------------------------------------------
def test_a_seed_always_draws_the_same_plan():
    """Another seed draws another; the rate says how many calls are struck; each possible strike is drawn."""
    drawn = [[Plan(seed).strike(n, ON_STDIO) for n in range(300)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {*drawn[0]} == {TrapStrike.ANSWER, *ON_STDIO}
    assert 100 < drawn[0].count(TrapStrike.ANSWER) < 200
    assert {Plan(rate=0).strike(n, ON_HTTP) for n in range(50)} == {TrapStrike.ANSWER}


def test_a_written_plan_is_followed_to_its_end():
    """Then every call is answered."""
    plan = Trap("x", plan="after, before".replace(" ", "")).plan
    assert [plan.strike(n, ON_STDIO).value for n in range(3)] == ["after", "before", "answer"]
    assert Trap("x", plan=["after", TrapStrike.BEFORE]).plan == plan


def test_what_is_wrong_with_a_plan_is_named(tmp_path):
    """A step that does not exist; one that the transport cannot do; a rate that is none."""
    with pytest.raises(ValueError, match=r"plan: wanted steps of answer, before, .* got 'never'"):
        Trap("x", plan="after,never")
    with pytest.raises(ValueError, match=r"rate: wanted 0 to 1, got 1\.5"):
        Trap("x", rate=1.5)
    trap = Trap(tmp_path / "effects.jsonl", plan="exit0")
    with (
        pytest.raises(ValueError, match="plan: not possible on this transport: exit0"),
        trap.http(),
    ):
        pass


@pytest.mark.parametrize(
    ("done", "wrong"),
    [
        ([effect("order", "a"), effect("order", "b")], []),
        ([effect("order", "a"), effect("order", "b"), effect("order", "a")], [2]),
        ([effect("put", "a", "k"), effect("put", "a", "k")], []),
        ([effect("put", "a", "k"), effect("order", "b"), effect("put", "a", "k")], []),
        ([effect("put", "a", "k"), effect("put", "b", "other"), effect("put", "a", "k")], []),
        ([effect("put", "a", "k"), effect("put", "b", "k"), effect("put", "a", "k")], [2]),
    ],
)
def test_what_counts_as_a_repeat(done, wrong):
    """A second order with a marker; a second put with a marker only if it undoes a later one."""
    assert repeats(done) == [done[index] for index in wrong]


def test_nothing_tried_is_no_proof(tmp_path):
    """A run in which no tool was called fails."""
    with pytest.raises(AssertionError, match="wanted calls of the trap's tools, got none"):
        Trap(tmp_path / "effects.jsonl").assert_no_repeats()


# ---- strikes ---------------------------------------------------------------------------------------------------------
@real
@pytest.mark.parametrize("strike", [TrapStrike.ANSWER, *ON_STDIO])
def test_a_strike_over_stdio(strike, tmp_path):
    """The client sees what the strike says, and the effect is on disk or not; a server that was started again takes the next step."""
    trap = Trap(tmp_path / "effects.jsonl", plan=[strike])
    with Pipes(trap.command) as client:
        client.initialize()
        seconds = 0.5 if strike is TrapStrike.HANG else 20
        assert (seen_by(client, seconds=seconds), trap.ran("m")) == SEEN[strike]
        if seen := strike is TrapStrike.NOISE:
            assert len(client.noise) == 6
        assert bool(client.noise) == (seen or strike is TrapStrike.MIDDLE)
        if strike in {TrapStrike.HANG, TrapStrike.NOISE, TrapStrike.ANSWER}:  # it lives
            assert (
                seen_by(client, {"name": "order", "arguments": {"marker": "n", "item": ""}})
                == "answered"
            )
        else:
            client.process.wait(5)
    assert client.process.returncode == (1 if "die" in _about(strike) else 0)
    if strike is TrapStrike.AFTER:
        with Pipes(trap.command) as client:
            client.initialize()
            assert (
                seen_by(client, {"name": "order", "arguments": {"marker": "n", "item": ""}})
                == "answered"
            )
        assert trap.starts() == 2
        assert [effect.call for effect in trap.effects()] == [0, 1]


def _about(strike: TrapStrike) -> str:
    return "die" if strike.value in {"before", "after", "middle", "answered"} else ""


@real
@pytest.mark.parametrize("strike", [TrapStrike.ANSWER, *ON_HTTP])
def test_a_strike_over_http(strike, tmp_path):
    """The same over HTTP: a dead server refuses, comes back with its port, and does not know the session; others go on with it."""
    trap = Trap(tmp_path / "effects.jsonl", plan=[strike])
    with trap.http(away=0.1) as url:
        client = Http(url)
        client.initialize()
        seconds = 0.5 if strike is TrapStrike.HANG else 20
        assert (seen_by(client, seconds=seconds), trap.ran("m")) == SEEN[strike]
        next_call = {"name": "order", "arguments": {"marker": "n", "item": ""}}
        if "die" in _about(strike):
            assert seen_by(client, next_call) == LOST  # refused
            deadline = time.monotonic() + 10
            while trap.starts() < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            with pytest.raises(ConnectionError, match="HTTP 404"):
                client.request("tools/call", next_call)
        elif strike is TrapStrike.FORGOTTEN:
            with pytest.raises(ConnectionError, match=r"HTTP 404.*Session not found"):
                client.request("tools/call", next_call)
        else:
            assert seen_by(client, next_call) == "answered"
        assert trap.strikes()[strike] >= 1


@real
def test_a_start_is_counted_when_the_port_accepts(tmp_path, monkeypatch):
    """Who waits for `starts()` to grow can connect at once; a server whose start cannot be written does not stay."""
    accepted = []

    def accepts():
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    def connecting(file, record, **fields):
        accepted.append(accepts())
        raise OSError(errno.ENOSPC, "no space")

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setattr(mcp_trap_ledger, "append", connecting)
    trap = Trap(tmp_path / "effects.jsonl")
    with pytest.raises(OSError, match="no space"), trap.http(port):
        pass
    assert (accepted, accepts()) == ([True], False)


@real
def test_a_call_that_is_wrong_is_answered_and_takes_no_step(tmp_path):
    """An unknown tool, or an argument that is missing: isError, and nothing is done."""
    trap = Trap(tmp_path / "effects.jsonl", plan="after")
    with trap.http() as url:
        client = Http(url)
        client.initialize()
        unknown = client.call("buy", {"marker": "m"})["result"]
        missing = client.call("order", {"item": "m"})["result"]
        assert client.request("x/y")["error"]["code"] == -32601
    assert unknown == {
        "content": [{"type": "text", "text": "nothing was done: no such tool: buy"}],
        "isError": True,
    }
    assert missing["content"][0]["text"] == "nothing was done: wanted texts for marker"
    assert trap.strikes() == {}


# ---- clients ---------------------------------------------------------------------------------------------------------
def repeating(open_client: Callable[[], RawClient], calls: int) -> None:
    """A client as many are: when the connection is lost it opens another, and sends the call again, once."""
    with ExitStack() as clients:
        client: RawClient | None = None
        for number in range(calls):
            params = {"name": "order", "arguments": {"marker": f"m{number}", "item": "tea"}}
            for _ in range(2):
                with suppress(OSError, ValueError):
                    if client is None:
                        client = clients.enter_context(open_client())
                        client.initialize()
                    client.request("tools/call", params, seconds=5)
                    break
                client = None


@real
def test_a_client_that_repeats_blindly_is_caught(tmp_path):
    """Over stdio and over HTTP: the ledger names the calls that ran twice. A call that was lost before its effect is no crime."""
    trap = Trap(tmp_path / "stdio.jsonl", plan="before,answer,after,answer,middle,answer")
    repeating(lambda: Pipes(trap.command), 4)
    assert [effect.marker for effect in trap.repeats()] == ["m1", "m2"]
    assert [trap.ran(f"m{n}") for n in range(4)] == [1, 2, 2, 1]
    with pytest.raises(
        AssertionError, match=r"call 3: order 'm1' was done again \(2 times in all\)"
    ):
        trap.assert_no_repeats()
    over_http = Trap(tmp_path / "http.jsonl", plan="forgotten,answer,cut,answer,reset,answer")
    with over_http.http() as url:
        repeating(lambda: Http(url), 3)
    assert [effect.marker for effect in over_http.repeats()] == ["m1", "m2"]


async def order_all(open_client: Callable[[], Client], calls: int) -> list[bool]:
    """The official client, opened anew after a loss and never repeating: whether each call was answered."""
    answered = []
    for number in range(calls):
        try:
            async with open_client() as client:
                await client.call_tool("order", {"marker": f"m{number}", "item": "tea"})
            answered.append(True)
        except Exception:  # noqa: BLE001 -- a group, mostly
            answered.append(False)
    return answered


@real
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_does_not_repeat(mode, tmp_path):
    """Plain, in both eras, on both transports: what it was answered ran once, what it was not ran once at most."""
    over_stdio = Trap(tmp_path / "stdio.jsonl", plan="after,middle,answer")
    python, *arguments = over_stdio.command
    server = StdioServerParameters(command=python, args=arguments, cwd=ROOT)
    assert await order_all(lambda: Client(server, mode=mode), 3) == [False, False, True]
    over_http = Trap(tmp_path / "http.jsonl", plan="reset,cut,answer,noise,after")
    with over_http.http(away=0.0) as url:
        answered = await order_all(lambda: Client(url, mode=mode), 5)
    assert answered == [False, False, True, True, False]
    for trap in (over_stdio, over_http):
        trap.assert_no_repeats()
        assert {trap.ran(f"m{n}") for n in range(3)} == {1}


@real
async def test_the_official_client_reads_tools_and_hints(tmp_path):
    """In both eras the lists are valid, and the hints are what the judgement goes by."""
    trap = Trap(tmp_path / "effects.jsonl", rate=0)
    with trap.http() as url:
        for mode in ("auto", "legacy"):
            async with Client(url, mode=mode) as client:
                assert (
                    client.protocol_version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[mode]
                )
                assert client.server_info is not None
                assert client.server_info.name == "mcp-trap"
                tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
                assert tools["order"] is not None
                assert [tools["order"].idempotent_hint, tools["order"].destructive_hint] == [
                    False,
                    True,
                ]
                assert tools["put"] is not None
                assert tools["put"].idempotent_hint is True
                assert tools["list_orders"] is not None
                assert tools["list_orders"].read_only_hint is True
                await client.call_tool("order", {"marker": mode, "item": "tea"})
                listed = await client.call_tool("list_orders", {})
        assert listed.content[0].text == "auto\nlegacy"


# ---- the command -----------------------------------------------------------------------------------------------------
@real
def test_the_command_serves_http_and_judges(tmp_path):
    """The first line is the URL; `--check` says what was done twice, by its exit code too."""
    ledger = tmp_path / "effects.jsonl"
    command = [*PYTHON, "-m", "resilient_bridge.testing.mcp_trap", "--ledger", str(ledger)]

    def run(*more: str) -> tuple[int, str]:
        done = subprocess.run(
            [*command, *more], capture_output=True, text=True, check=False, cwd=ROOT
        )
        return done.returncode, done.stdout + done.stderr

    serving = [*command, "--http", "0", "--plan", "cut,cut"]
    with subprocess.Popen(serving, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        repeating(lambda: Http(url), 1)
        process.terminate()
    wanted = "2 effects; calls: cut 2\ncall 1: order 'm0' was done again (2 times in all)\n"
    assert run("--check") == (1, wanted)
    ledger.write_text(
        "".join(
            line for line in ledger.read_text().splitlines(keepends=True) if '"call": 0' in line
        )
    )
    assert run("--check") == (0, "1 effects; calls: cut 1\nnothing was done twice\n")
    assert run("--plan", "no") == (2, run("--plan", "no")[1])
    assert "plan: wanted steps of answer" in run("--plan", "no")[1]


@real
def test_the_ledger_is_lines_of_json(tmp_path):
    """For whoever judges in another language: start, call and effect, with the marker."""
    trap = Trap(tmp_path / "effects.jsonl", plan="cut")
    with trap.http() as url:
        repeating(lambda: Http(url), 1)
    lines = [json.loads(line) for line in trap.ledger.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["start", "call", "effect", "call", "effect"]
    assert {line["marker"] for line in lines[1:]} == {"m0"}
    assert lines[1]["strike"] == "cut"


ODD = (
    "a\u2028b",
    "a\u2029b",
    "a\x85b",
    "a\x0b\x0c\x1c\x1d\x1eb",
    "a\nb\r\nc",
    "\ud800",
    "é",
    "\x00",
)


@real
def test_x02_any_marker_is_written_and_read(tmp_path):
    """What `str.splitlines` takes for the end of a line, a lone surrogate, a NUL: the call is answered, and so is the next."""
    trap = Trap(tmp_path / "effects.jsonl", plan="answer")
    calls = [{"name": "order", "arguments": {"marker": marker, "item": "tea"}} for marker in ODD]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        for number, params in enumerate([*calls, {"name": "list_orders"}])
    ]
    done = subprocess.run(
        trap.command, input="\n".join(lines), capture_output=True, text=True, check=True, cwd=ROOT
    )
    *answers, listed, _ = done.stdout.split("\n")
    assert [json.loads(answer)["id"] for answer in answers] == [*range(len(ODD))]
    assert json.loads(listed)["result"]["content"][0]["text"] == "\n".join(ODD)
    assert done.stderr == ""
    assert [effect.marker for effect in trap.effects()] == [*ODD]


def test_x02_a_ledger_that_cannot_be_written_is_no_silence(tmp_path):
    """A defect of the trap ends it with words on stderr; only a line that is no JSON is passed over."""
    trap = Trap(tmp_path / "nowhere" / "effects.jsonl", plan="answer")
    done = subprocess.run(trap.command, input=b"", capture_output=True, check=False, cwd=ROOT)
    assert done.returncode != 0
    assert b"effects.jsonl" in done.stderr


def test_the_names_are_those_of_the_room():
    """`rb.testing` has them."""
    assert rb.mcp.Trap is Trap
