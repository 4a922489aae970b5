"""A child process and its pipes: every way to go, and an end that always comes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.internals.adapters import GRACE_SECONDS, STDERR_BYTES, ChildProcess
from tests.peers.processes import is_reaped, is_running, open_files
from tests.peers.running import until
from tests.rows import each_row


ROOT = Path(__file__).parents[3]
CHILD = (sys.executable, "-I", "-S", str(ROOT / "tests/adapters/child.py"))


class Witness:
    """A child, what it said, and whether its loss was told."""

    def __init__(self, *command: str) -> None:
        self.lines: list[bytes] = []
        self.losses = 0
        self.child = ChildProcess(command, max_line=2**20)

    async def start(self):
        await self.child.start(self.lines.append, self._lost)

    def _lost(self) -> None:
        self.losses += 1

    def tell(self, method: str, params: str = "{}") -> None:
        """Have the child do something."""
        line = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}\n'
        self.child.send(line.encode(), lambda: None)


@contextlib.asynccontextmanager
async def leaving_nothing():
    """No descriptor and no task is left behind."""

    gc.collect()
    fds, tasks = (
        open_files(),
        asyncio.all_tasks(),
    )  # some of an earlier test may still be about to end
    yield
    assert not asyncio.all_tasks() - tasks
    assert open_files() == fds


@contextlib.asynccontextmanager
async def running(*flags: str, seconds: float = 5, command=CHILD):
    """A child inside the block, and nothing of it after."""
    async with leaving_nothing():
        witness = Witness(*command, *flags)
        await witness.start()
        try:
            yield witness
        finally:
            await witness.child.close(seconds)


# -- the end ----------------------------------------------------------------------------------------------------------
@pytest.mark.real
@pytest.mark.requirement("G5")
async def test_a_child_that_listens_ends_by_itself():
    """The end of stdin is enough: no signal, exit code 0, reaped."""
    async with running() as witness:
        assert is_running(witness.child.pid)
    assert (witness.child.returncode, is_reaped(witness.child.pid)) == (0, True)
    assert (witness.child.loss, witness.losses) == (None, 0)
    assert (
        repr(witness.child)
        == f"<ChildProcess {Path(sys.executable).name} pid={witness.child.pid} closed>"
    )


@pytest.mark.real
@pytest.mark.requirement("G5")
@pytest.mark.parametrize(
    ("flags", "code"),
    [(["--ignore-eof"], -signal.SIGTERM), (["--ignore-eof", "--ignore-term"], -signal.SIGKILL)],
)
async def test_a_child_that_does_not_listen_is_made_to_end(flags, code):
    """SIGTERM after the first wait, SIGKILL after the second."""
    async with running(*flags, seconds=0.1) as witness:
        witness.tell("echo")
        await until(lambda: witness.lines)
        began = time.monotonic()
    assert 0.1 <= time.monotonic() - began < 5
    assert (witness.child.returncode, is_reaped(witness.child.pid)) == (code, True)


@pytest.mark.real
@pytest.mark.requirement("G5")
@pytest.mark.parametrize("pipes", ["true", "false"])
@pytest.mark.parametrize("ignore_term", ["true", "false"])
async def test_a_grandchild_is_ended_too(pipes, ignore_term):
    """What the child started goes with it, whether it holds the pipes open, ignores SIGTERM, or both."""
    async with running(seconds=0.1) as witness:
        witness.tell("spawn", f'{{"pipes":{pipes},"ignore_term":{ignore_term}}}')
        await until(lambda: witness.lines)
        grandchild = int(witness.lines[0].rpartition(b":")[2].strip(b" }"))
        assert is_running(grandchild)
    assert not is_running(grandchild)
    assert is_reaped(witness.child.pid)


@pytest.mark.real
@pytest.mark.requirement("G5")
async def test_a_child_that_never_reads_and_never_stops_writing_is_ended():
    """Full pipes in both directions do not hold the end up."""
    async with running(
        command=("sh", "-c", "trap '' TERM; while :; do echo noise; done"), seconds=0.1
    ) as witness:
        witness.child.send(b"x" * 2**20, lambda: None)
        witness.child.send(b"never\n", lambda: None)
        await until(lambda: witness.lines)
        heard = len(witness.lines)
    assert witness.child.returncode == -signal.SIGKILL
    assert len(witness.lines) == heard or not witness.losses


@pytest.mark.real
async def test_what_moved_to_a_session_of_its_own_does_not_hold_the_end_up():
    """It is not ours to end; but although it holds all pipes, and a line waits in one, nothing of ours stays open."""
    script = "import subprocess, time; p = subprocess.Popen(['sleep', '600'], start_new_session=True); print(p.pid, flush=True)"
    with contextlib.ExitStack() as after:
        async with running(
            command=(*CHILD[:3], "-c", f"{script}; time.sleep(600)"), seconds=0.1
        ) as witness:
            await until(lambda: witness.lines)
            escaped = int(witness.lines[0])
            after.callback(os.kill, escaped, signal.SIGKILL)
            witness.child.send(b"x" * 2**20, lambda: None)
        assert is_running(escaped)


@pytest.mark.real
@pytest.mark.parametrize("times", [1, 5])
async def test_a_cancellation_waits_until_the_child_is_gone(times):
    """Cancelled while it closes, once or again and again: the child is ended first, then the cancellation is raised."""
    async with leaving_nothing():
        witness = Witness(*CHILD, "--ignore-eof", "--ignore-term")
        await witness.start()
        witness.tell("echo")
        await until(lambda: witness.lines)
        closing = asyncio.create_task(witness.child.close(0.1))
        for _ in range(times):
            await asyncio.sleep(0)
            closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        assert (witness.child.returncode, is_reaped(witness.child.pid)) == (-signal.SIGKILL, True)


@pytest.mark.real
@each_row("steps", range(9))
async def test_a_cancelled_start_leaves_nothing_behind(steps):
    """Whatever step of the start the cancellation meets, the child is gone when it is raised."""
    async with leaving_nothing():
        witness = Witness(*CHILD)
        starting = asyncio.create_task(witness.start())
        for _ in range(steps):
            await asyncio.sleep(0)
        started = starting.done()
        starting.cancel()
        await asyncio.wait([starting])
        if started:
            await witness.child.close(5)
        else:
            assert starting.cancelled()
        assert witness.child.pid == 0 or is_reaped(witness.child.pid)


@pytest.mark.real
async def test_a_number_that_belongs_to_somebody_else_is_not_signalled():
    """Once the child is reaped its number can be given to another process, which is left alone."""
    async with leaving_nothing():
        with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
            witness = Witness("true")
            await witness.start()
            await until(lambda: witness.losses)
            witness.child.pid = other.pid
            await witness.child.close(0.1)
            assert other.poll() is None
            other.kill()


class ClosedPipe:
    """The stdin of a child that has exited, as uvloop has it: it refuses every setting."""

    def is_closing(self):
        return True

    def set_write_buffer_limits(self, high=None):
        raise RuntimeError("the handler is closed")

    def get_extra_info(self, name):
        return None


class ExitedBefore:
    """The transport of such a child."""

    def get_pid(self):
        return 2**22 + 1  # no process has this number

    def get_pipe_transport(self, number):
        return ClosedPipe()


async def test_a_child_may_exit_before_its_start_is_reported():
    """uvloop calls `connection_made` when the pipe is closed already; the start is no error."""
    child = ChildProcess(("true",), max_line=99)
    child.connection_made(ExitedBefore())
    assert child.pid == 2**22 + 1


ORPHANS = """
import asyncio, ctypes, os
from tests.internals.adapters import ChildProcess

async def main():
    assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER: orphans become ours, as in a container
    child = ChildProcess(("sh", "-c", "sleep 600 & read line"), max_line=99)
    await child.start(print, print)
    await child.close(0.5)
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("no child left")

asyncio.run(main())
"""


@pytest.mark.real
@pytest.mark.requirement("G5")
def test_an_orphan_that_became_ours_is_reaped():
    """Where this process is the init, what the child left behind is ended and reaped: no zombie stays."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            ORPHANS,
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert (done.stdout, done.stderr) == ("no child left\n", "")


# -- the loss ---------------------------------------------------------------------------------------------------------
@pytest.mark.real
@pytest.mark.requirement("G5")
@pytest.mark.parametrize("code", [3, 143])
async def test_an_exit_is_reported_once_after_the_last_words(code):
    """Its last lines come before the loss, and the loss brings the exit code and all it wrote to stderr, however long."""
    words = "last words " * 2000
    script = f"import os; os.write(1, b'first\\nlast'); os.write(2, {words!r}.encode()); os._exit({code})"
    async with running(command=(sys.executable, "-I", "-S", "-c", script)) as witness:
        await until(lambda: witness.losses)
        loss = witness.child.loss
        assert isinstance(loss, subprocess.CalledProcessError)
        assert witness.lines == [b"first", b"last"]
        assert (loss.returncode, loss.cmd) == (code, [Path(sys.executable).name])
        assert loss.stderr == witness.child.stderr
        assert STDERR_BYTES - 20 < len(loss.stderr) <= STDERR_BYTES
        assert loss.stderr.endswith("last words")
    assert (witness.losses, witness.child.loss) == (1, loss)


@pytest.mark.real
async def test_the_exit_does_not_overtake_the_last_words():
    """Whatever the event loop sees first, all lines come before the loss, and all of stderr is in it."""
    async with running() as witness:
        witness.tell("raw", f'{{"hex":"{(b"last line" * 1_000).hex()}"}}')
        witness.tell("leave", '{"code":3,"stderr":"last words"}')
        while is_running(
            witness.child.pid
        ):  # so that everything is there at once when the loop goes on
            time.sleep(0.001)
        time.sleep(0.05)
        await until(lambda: witness.losses)
        assert witness.lines == [b"last line" * 1_000]
        assert witness.child.loss.stderr == "last words"


@pytest.mark.real
async def test_half_a_secret_is_not_shown():
    """Where only the end of stderr is kept, the cut may fall into a secret: its second half goes too."""
    words = "password=hunter2 ".rjust(100) + "x " * ((STDERR_BYTES - 4) // 2)
    async with running() as witness:
        witness.tell("leave", f'{{"code":3,"stderr":"{words}"}}')
        await until(lambda: witness.losses)
        assert witness.child._tail.startswith(b"er2 x ")
        assert witness.child.stderr.startswith("x x ")


@pytest.mark.real
async def test_nothing_is_handed_to_a_child_that_is_going():
    """Once its output has ended a line to it is kept back: it could not be answered, and so it provably did not run."""
    async with running(seconds=0.1) as witness:
        witness.tell("shut", '{"fd":1}')
        await until(lambda: witness.child._verdict)
        line = witness.child.send(b"late\n", lambda: None)
        await until(lambda: witness.losses)
        assert not line.is_handed


@pytest.mark.real
@pytest.mark.requirement("G5")
@pytest.mark.parametrize(
    ("method", "params", "kind", "words"),
    [
        ("leave", '{"code":0}', EOFError, "ended by itself with exit code 0"),
        ("shut", '{"fd":1}', EOFError, "closed its output and goes on running"),
        ("shut", '{"fd":0}', BrokenPipeError, "closed its input and goes on running"),
    ],
)
async def test_every_other_way_to_go_has_its_reason(method, params, kind, words):
    """Exit 0 and the end of a pipe are losses too; a child that lives on is given a moment to end first."""
    async with running(seconds=0.1) as witness:
        witness.tell(method, params)
        await until(lambda: witness.losses)
        assert type(witness.child.loss) is kind
        assert words in str(witness.child.loss)


@pytest.mark.real
@pytest.mark.requirement("G5")
async def test_a_grandchild_that_holds_the_pipes_does_not_hide_the_loss():
    """The exit counts although no pipe ever ends, and it is told within the time of grace."""
    async with running(seconds=0.1) as witness:
        witness.tell("spawn", '{"pipes":true}')
        await until(lambda: witness.lines)
        os.kill(witness.child.pid, signal.SIGKILL)
        began = time.monotonic()
        await until(lambda: witness.losses)
        assert time.monotonic() - began < GRACE_SECONDS + 5
        assert witness.child.loss.returncode == -signal.SIGKILL


@pytest.mark.real
async def test_a_line_to_a_child_that_is_gone_was_not_handed_out():
    """The pipe refuses it as a whole: it never left, even where nobody has noticed yet that the child is dead."""
    async with running() as witness:
        os.kill(witness.child.pid, signal.SIGKILL)
        while is_running(witness.child.pid):  # the event loop must not learn of it
            time.sleep(0.001)
        line = witness.child.send(b"late\n", lambda: None)
        assert not line.is_handed
        assert witness.child.loss is None
        await until(lambda: witness.losses)
        assert not line.is_handed
        assert witness.child.loss.returncode == -signal.SIGKILL


@pytest.mark.real
async def test_a_child_that_cannot_be_started_says_so_in_its_own_words(tmp_path):
    """The native error comes out unchanged: a missing program, one that may not be run, a folder that is not there."""
    (tmp_path / "plain").write_text("no program")
    for command, options, wanted in (
        ("/no/such/program", {}, FileNotFoundError),
        (str(tmp_path / "plain"), {}, PermissionError),
        ("true", {"cwd": str(tmp_path / "nowhere")}, FileNotFoundError),
    ):
        child = ChildProcess((command,), max_line=99, **options)
        with pytest.raises(
            OSError, match=str(tmp_path) if options or "plain" in command else "no/such"
        ) as caught:
            await child.start(print, print)
        assert type(caught.value) is wanted
