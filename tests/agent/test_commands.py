"""Commands as tools: no shell of ours, every byte drained, both ends kept, and nothing left running."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import CommandResult, Toolbox
from tests.calls.forms import at_once
from tests.peers.processes import is_running, open_files


pytestmark = pytest.mark.real


@contextlib.asynccontextmanager
async def leaving_nothing():
    """No descriptor, no task and no child is left behind."""

    def children() -> set[str]:
        """Dead ones too, until they are reaped; the suite has one that forks MCP servers."""
        found: set[str] = set()
        for task in Path("/proc/self/task").glob("*"):
            with contextlib.suppress(FileNotFoundError):  # the thread has ended meanwhile
                found.update((task / "children").read_text().split())
        return found

    gc.collect()
    await asyncio.create_subprocess_exec(
        "true", start_new_session=True
    )  # the loop's own watcher of children
    await asyncio.sleep(0.1)
    gc.collect()
    before, tasks, others = open_files(), asyncio.all_tasks(), children()
    yield
    assert not asyncio.all_tasks() - tasks
    assert open_files() == before
    assert children() <= others


def running_in(group: str) -> list[str]:
    """What runs in a process group; a zombie that its new parent has not yet reaped does not."""
    stats = [each.read_text().rpartition(")") for each in Path("/proc").glob("[0-9]*/stat")]
    return [
        name
        for name, _, rest in stats
        if rest.split()[2] == group and rest.split()[0] not in {"Z", "X"}
    ]


def shell(toolbox=None, **options):
    """A toolbox with one command, and the command."""
    toolbox = toolbox or Toolbox(rb.Policy(at_once(attempts=1)))

    @toolbox.command(**{"timeout": 20, **options})
    def bash(script: str) -> list[str]:
        """Run a script."""
        return ["bash", "-c", script]

    return toolbox, bash


async def test_a_command_that_ends_well():
    """Its output, as text, however it is called; what it is told on stdin is nothing."""
    toolbox, bash = shell()
    async with leaving_nothing():
        result = await bash("echo out; echo err >&2; cat")
        outcome = await toolbox.call("bash", '{"script": "echo out; echo err >&2"}')
    assert (result.exit_code, result.stdout, result.stderr, result.is_truncated) == (
        0,
        "out\n",
        "err\n",
        False,
    )
    assert 0 < result.seconds < 20
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, "out\n", "err\n")
    assert '"stdout": "out\\n"' in outcome.to_llm()
    assert repr(result).startswith("<CommandResult exit code 0, 4 + 4 characters, ")
    with pytest.raises(AttributeError):
        result.exit_code = 1


def test_a_command_keeps_its_parameters():
    """Its signature is that of the function, with the answer it gives; bare `@toolbox.command` will do."""
    toolbox = Toolbox(rb.presets.recursor)

    @toolbox.command
    def bash(script: str, most: int = 3) -> list[str]:
        """Run it."""
        return []

    assert inspect.iscoroutinefunction(bash)
    assert list(inspect.signature(bash).parameters) == ["script", "most"]
    assert inspect.signature(bash).return_annotation is CommandResult
    assert (bash.__name__, bash.__doc__, toolbox.tools["bash"].timeout) == ("bash", "Run it.", 300)


@pytest.mark.requirement("R11")
async def test_a_command_that_fails():
    """Called directly a CalledProcessError, without the arguments; by name the report of R11."""
    toolbox, bash = shell()
    script = "echo some; echo 'error: file not found' >&2; exit 1"
    async with leaving_nothing():
        with pytest.raises(subprocess.CalledProcessError) as raised:
            await bash(script)
        outcome = await toolbox.call("bash", {"script": script})
    error = raised.value
    assert (error.returncode, error.cmd, error.stdout) == (1, ["bash"], "some\n")
    report = outcome.to_tool_error("tool-abc123")
    took = report["payload"]["details"].pop("execution_time_ms")
    assert report == {
        "type": "tool_error",
        "payload": {
            "tool_call_id": "tool-abc123",
            "tool": "bash",
            "code": "TOOL_EXECUTION_FAILED",
            "message": "command failed with exit code 1",
            "details": {"exit_code": 1, "stderr": "error: file not found", "stdout": "some"},
            "retryable": False,
            "max_retries": 0,
        },
    }
    assert isinstance(took, int)
    assert took >= 0


@pytest.mark.requirement("R11")
@pytest.mark.parametrize(
    ("script", "calls", "repeats"),
    [
        ("exit 1", 1, 0),
        ("exit 75", 3, 2),
        ("exit 137", 2, 1),
        ("kill -9 $$", 2, 1),
        ("echo 'connect: connection refused' >&2; exit 1", 3, 2),
        ("cat /no/such/file", 1, 0),
    ],
)
async def test_exit_codes_decide_about_repeats(script, calls, repeats):
    """A passing failure is repeated, out of memory once, what is not found never."""
    toolbox, _ = shell(Toolbox(rb.Policy(at_once(attempts=3))), idempotent=True)
    outcome = await toolbox.call("bash", {"script": script})
    assert outcome.attempts == calls
    assert outcome.to_tool_error("t")["payload"]["max_retries"] == repeats


async def test_a_long_output_keeps_both_ends():
    """50 MB are drained and counted; a quarter of what is kept is the beginning, the rest the end, and the cut is marked."""
    _, bash = shell(max_output=4000)
    script = "echo first; head -c 50000000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo last; echo small >&2"
    result = await bash(script)
    assert result.is_truncated
    assert result.stdout.startswith("first\nxxx")
    assert result.stdout.endswith("xxx\nlast\n")
    assert "bytes left out" in result.stdout
    assert 3500 < len(result.stdout) < 4100
    assert result.stderr == "small\n"
    assert result.stdout.index("bytes left out") < len(result.stdout) // 3


async def test_an_output_of_just_the_size_is_whole():
    """Nothing is marked, and nothing is missing, up to the last byte that fits."""
    _, bash = shell(max_output=1000)
    exact, more = (
        await bash("head -c 1000 /dev/zero | tr '\\0' x"),
        await bash("head -c 1001 /dev/zero | tr '\\0' x"),
    )
    assert (exact.stdout, exact.is_truncated) == ("x" * 1000, False)
    assert more.is_truncated
    assert "[… 1 bytes left out …]" in more.stdout


async def test_binary_output_is_text_all_the_same():
    """What is no UTF-8 becomes U+FFFD, and no reader of it fails."""
    toolbox, bash = shell()
    result = await bash("printf 'a\\xff\\xfe\\x00b'")
    assert result.stdout == "a\ufffd\ufffd\0b"
    assert (await toolbox.call("bash", {"script": "head -c 100000 /dev/urandom"})).to_llm()


@pytest.mark.requirement("R12")
@pytest.mark.parametrize(
    "script",
    [
        "sleep 600",
        "yes",
        "trap '' TERM; while :; do sleep 600; done",
        "sleep 600 & sleep 600 & wait",
    ],
)
async def test_a_command_ends_at_its_limit_with_all_it_started(script, tmp_path):
    """SIGTERM, then SIGKILL: no process, no zombie, no pipe; what it had printed is known."""
    toolbox, _ = shell(timeout=0.3)
    began = time.monotonic()
    async with leaving_nothing():
        outcome = await toolbox.call(
            "bash", {"script": f"echo begun; echo $$ > {tmp_path}/pid; {script}"}
        )
    assert time.monotonic() - began < 8
    assert (outcome.failure.code, outcome.failure.executed) == (
        "TOOL_TIMEOUT",
        rb.errors.Executed.MAYBE,
    )
    assert outcome.stdout.startswith("begun")
    assert not running_in((tmp_path / "pid").read_text().strip())


@pytest.mark.requirement("R12")
async def test_a_cancelled_call_ends_its_command(tmp_path):
    """The tree is gone when the cancellation comes out."""
    toolbox, _ = shell()
    note = tmp_path / "pid"
    async with leaving_nothing():
        call = asyncio.create_task(
            toolbox.call("bash", {"script": f"sleep 600 & echo $! > {note}; wait"})
        )
        while not note.exists() or not note.read_text().strip():
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not is_running(int(note.read_text()))


async def test_a_call_that_is_cancelled_at_once_starts_nothing_that_stays():
    """Cancelled at any of its first steps, it leaves no process."""
    _, bash = shell()
    async with leaving_nothing():
        for steps in range(8):
            call = asyncio.create_task(bash("sleep 600"))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call


async def test_what_a_command_leaves_in_the_background_ends_with_it(tmp_path):
    """A background process that holds the pipes open keeps nobody waiting, and does not outlive its tool."""
    _, bash = shell()
    async with leaving_nothing():
        began = time.monotonic()
        result = await bash(f"sleep 600 & echo $! > {tmp_path}/pid; echo done")
    assert (result.stdout, result.exit_code) == ("done\n", 0)
    assert time.monotonic() - began < 5
    assert not is_running(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(("program", "type"), [("missing", "not_found"), ("plain", "permission")])
async def test_a_program_that_cannot_be_started_is_not_repeated(program, type, tmp_path):
    """Not there, or not executable: a failure of which nothing is repeated; what the function did that said the words is not known."""
    (tmp_path / "plain").write_text("not a program")
    toolbox = Toolbox(rb.Policy(at_once()))
    command = toolbox.command(lambda: [tmp_path / program, "--token=hunter2"], name="run")
    async with leaving_nothing():
        outcome = await toolbox.call("run", "")
        with pytest.raises(OSError):
            await command()
    assert (outcome.failure.executed, outcome.type, outcome.attempts) == (
        rb.errors.Executed.MAYBE,
        type,
        1,
    )
    assert outcome.failure.code == "TOOL_EXECUTION_FAILED"
    assert "hunter2" not in str(outcome.failure.to_dict())


async def test_where_and_with_what_it_runs(tmp_path):
    """`cwd` and `env` are those of Popen; paths are words; there is no shell."""
    toolbox = Toolbox()
    env = {"PATH": os.environ["PATH"], "ONLY": "this"}

    @toolbox.command(cwd=tmp_path, env=env)
    def run(word: str) -> list[str]:
        return [
            Path(sys.executable),
            "-c",
            "import os, sys; print(os.getcwd(), os.environ['ONLY'], sys.argv[1])",
            word,
        ]

    env["ONLY"] = "changed"
    result = await run("$(id) > x; *")
    assert result.stdout == f"{tmp_path} this $(id) > x; *\n"


@pytest.mark.parametrize("words", ["ls", b"ls", None, {"ls": 1}, 5])
async def test_a_command_that_says_no_words_is_a_mistake(words):
    """A text would need a shell: ConfigError, called directly and by name."""
    toolbox = Toolbox()
    command = toolbox.command(lambda: words, name="run")
    with pytest.raises(rb.ConfigError, match=r"words|path"):
        await command()
    with pytest.raises(rb.ConfigError, match=r"words|path"):
        await toolbox.call("run", {})


async def test_what_goes_wrong_while_the_words_are_made_is_data():
    """The function is part of the tool; it sees the attempt and its key."""
    toolbox, keys = Toolbox(rb.Policy(at_once())), []

    @toolbox.command
    def run(name: str) -> list[str]:
        keys.append(rb.current_attempt().idempotency_key)
        return ["true", {"a": "b"}[name]]

    outcome = await toolbox.call("run", {"name": "zzz"}, idempotency_key="k")
    assert (outcome.failure.code, keys) == ("TOOL_EXECUTION_FAILED", ["k"])
    assert (await toolbox.call("run", {"name": "a"})).ok
    assert not (await toolbox.call("run", {"name": "a", "b": 1})).ok


async def test_a_word_that_no_program_can_take_is_a_failure():
    """A NUL, a lone surrogate, a megabyte: what the system refuses is data."""
    toolbox, _ = shell()
    for script in ("echo \0", "echo \ud800", "x" * 3_000_000):
        async with leaving_nothing():
            assert not (await toolbox.call("bash", {"script": script})).ok


async def test_a_command_with_a_nul_is_not_started(monkeypatch):
    """Whatever the event loop makes of it: uvloop would run the command up to the NUL."""
    toolbox, _ = shell()
    started = []

    async def subprocess_exec(factory, *words, **_):
        started.append(words)
        return None, factory()

    monkeypatch.setattr(asyncio.get_running_loop(), "subprocess_exec", subprocess_exec)
    outcome = await toolbox.call("bash", {"script": "echo \0"}, timeout=5)
    assert (started, outcome.ok) == ([], False)
    assert "embedded null byte" in str(outcome)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda toolbox: toolbox.command(asyncio.sleep),
        lambda toolbox: toolbox.command(lambda: ["ls"], name=""),
        lambda toolbox: toolbox.command(lambda: ["ls"], name="x", max_output=0),
        lambda toolbox: toolbox.command(lambda: ["ls"], name="x", max_output=1.5),
        lambda toolbox: toolbox.command(lambda: ["ls"], name="x", timeout=-1),
    ],
)
def test_mistakes_in_a_definition(mistake):
    """Raised where they are made."""
    with pytest.raises(rb.ConfigError):
        mistake(Toolbox())


async def test_secrets_of_a_command_are_shown_nowhere(caplog):
    """Arguments never; what it printed, masked, when it fails."""
    caplog.set_level("DEBUG")
    toolbox, bash = shell(timeout=1)
    script = "echo password=hunter2hunter2; echo 'Authorization: Bearer abc.def' >&2; : sk-ant-12345; exit 4"
    with rb.testing.record() as events:
        outcome = await toolbox.call("bash", {"script": script})
        late = await toolbox.call("bash", {"script": script.replace("exit 4", "sleep 30")})
        with pytest.raises(subprocess.CalledProcessError) as raised:
            await bash(script)
    for each in (outcome, late):
        shown = [
            repr(each),
            each.to_llm(),
            str(each.to_tool_error("t")),
            str(each.failure.to_dict()),
            each.stdout,
            each.stderr,
        ]
        assert "password=[redacted]" in each.stdout
        assert not [
            text for text in shown if "hunter2" in text or "abc.def" in text or "sk-ant" in text
        ]
    for text in (repr(events), caplog.text, str(raised.value), repr(raised.value)):
        assert "hunter2" not in text
        assert "sk-ant" not in text


async def test_many_at_once():
    """Twenty commands side by side, each with its own output."""
    _, bash = shell()
    results = await asyncio.gather(
        *(bash(f"sleep 0.0{number % 7}; echo {number}") for number in range(20))
    )
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(20)]


async def test_an_exit_by_a_signal():
    """Its number, negative, as `subprocess` has it."""
    toolbox, _ = shell()
    outcome = await toolbox.call("bash", {"script": "kill -TERM $$"})
    assert outcome.exit_code == -signal.SIGTERM
