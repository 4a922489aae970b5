"""Programs that are forked in place of being started behave as if `python` had been started."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from tests.peers.processes import is_running
from tests.peers.running import PATIENCE, until
from tests.peers.stand_in import ask
from tests.peers.zygote import PYTHON, SOCKET


pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(SOCKET is None and sys.platform != "linux", reason="needs Linux' pidfd"),
]


def run(*arguments, **more):
    return subprocess.run(
        [*PYTHON, *arguments], capture_output=True, text=True, check=False, **more
    )


def test_it_has_streams_arguments_a_folder_and_an_environment_of_its_own(tmp_path):
    """And its exit code."""
    code = "import os, sys; print(sys.argv, input(), os.getcwd(), os.environ['MINE']); print('oh', file=sys.stderr); sys.exit(3)"
    done = run("-c", code, "a b", input="said\n", cwd=tmp_path, env={**os.environ, "MINE": "yes"})
    assert (done.returncode, done.stdout, done.stderr) == (
        3,
        f"['-c', 'a b'] said {tmp_path} yes\n",
        "oh\n",
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_by_the_signal_that_ended_it(number):
    """Killed by itself, it looks killed to whoever started it."""
    assert run("-c", f"import os; os.kill(os.getpid(), {int(number)})").returncode == -number


async def test_it_ends_when_what_stands_in_for_it_is_killed():
    """At once, although it is no child of that process."""
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen([*PYTHON, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        assert is_running(pid)
        process.kill()
    await until(lambda: not is_running(pid))


@pytest.mark.skipif(SOCKET is None, reason="needs a zygote")
def test_it_ends_when_its_stand_in_was_killed_before_it_began():
    """Whoever watches over the program finds nobody to tell its id."""
    (stdin, held), (output, stdout) = os.pipe(), os.pipe()
    ask(SOCKET, ["-c", "input()"], (stdin, stdout, stdout)).close()
    os.close(stdout)
    ended, _, _ = select.select([output], [], [], PATIENCE)
    assert ended
    assert os.read(output, 1000) == b""
    for end in (stdin, held, output):
        os.close(end)


def test_two_of_them_draw_different_random_numbers():
    """What was imported before the fork has no sequence that both continue."""
    code = "import random, uuid; print(random.random(), uuid.uuid4())"
    assert run("-c", code).stdout != run("-c", code).stdout
