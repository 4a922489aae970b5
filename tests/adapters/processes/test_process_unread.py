"""What a child has left unread in its pipe when it ends, and a child that is closed while it starts."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from tests.adapters.processes.test_process import CHILD, Witness, leaving_nothing, running
from tests.internals.adapters import Unread
from tests.peers.processes import is_running
from tests.peers.running import until


READS = (
    sys.executable,
    "-c",
    "import os\nos.read(0, 5)\nprint(flush=True)\nos.read(3, 1)",
)  # it fails once it has read five bytes


@pytest.mark.real
@pytest.mark.skipif(sys.platform != "linux", reason="a pipe can be looked into on Linux only")
@pytest.mark.skipif(
    os.environ.get("RESILIENT_BRIDGE_LOOP") == "uvloop", reason="its pipes have no descriptor"
)
@pytest.mark.parametrize(
    ("lines", "was_read"),
    [
        ([b"{}x\n"], [True]),
        ([b"{}xx\n", b"{}\n"], [True, False]),
        ([b"{}xxx\n"], [True]),  # all but the line break: whoever needs none has acted on it
        ([b"{}xxxx\n"], [False]),
        (
            [b"{}xxxx\n", b"1" * 200_000 + b"\n"],
            [True, False],
        ),  # more than a pipe holds: what is left proves less
    ],
)
async def test_what_is_unread_in_the_pipe_was_not_read(lines, was_read):
    """A child that is gone cannot have acted on a line whose end it never took."""
    async with leaving_nothing(), running(command=READS) as witness:
        sent = [witness.child.send(line, lambda: None) for line in lines]
        await until(lambda: witness.losses)
        assert [witness.child.was_read(line) for line in sent] == was_read


@pytest.mark.real
@pytest.mark.parametrize("steps", [1, 2, 5])
async def test_what_is_closed_while_it_starts_is_ended(steps):
    """Whoever closes it need not know how far it is."""
    async with leaving_nothing():
        witness = Witness(*CHILD)
        starting = asyncio.create_task(witness.start())
        for _ in range(steps):
            await asyncio.sleep(0)
        await witness.child.close(5)
        await starting
        assert witness.child.pid == 0 or not is_running(witness.child.pid)


@pytest.mark.real
@pytest.mark.skipif(sys.platform != "linux", reason="a pipe can be looked into on Linux only")
async def test_of_a_pipe_that_is_closed_already_nothing_is_proven():
    """A child that is gone at once may have had its pipe closed before anybody could look."""
    source, sink = os.pipe()
    file = os.fdopen(sink, "wb", 0)
    pipe, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, file)
    pipe.abort()
    os.close(source)
    await until(lambda: file.closed)
    unread = Unread.of(pipe)
    end = unread.wrote(10)
    unread.take()
    assert unread.may_have_read(end)
