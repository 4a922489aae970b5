"""Standard streams that never stop the loop: lines of any size from files and pipes, and output to whoever reads."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import os
import random
import socket
import threading

import pytest

from tests.internals.adapters import LINE_TOO_LONG, Output, lines_of


pytestmark = pytest.mark.real
NUMBERS = itertools.count(300)


@pytest.fixture
def pipe():
    """Both ends of a pipe, closed at the end if they are still open.

    Under numbers that were never used: a reader of an earlier test may still stand in `os.read` of its own, and would take
    bytes of whoever gets that number next.
    """
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD, next(NUMBERS)))
        os.close(end)
    yield tuple(ends)
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


async def test_lines_come_whole_however_they_were_cut(pipe):
    """Chunks cut anywhere, CRLF, empty lines and a last line without its end: the lines are those that were written."""
    read, write = pipe
    text = b"one\n\ntwo\r\nthree\rstill three\n" + b"x" * 200_000 + b"\nlast"

    def feed():
        rng, at = random.Random(1), 0
        while at < len(text):
            size = rng.choice((1, 2, 3, 70_000))
            os.write(write, text[at : at + size])
            at += size
        os.close(write)

    feeding = asyncio.create_task(asyncio.to_thread(feed))
    lines = [line async for line in lines_of(read)]
    await feeding
    assert lines == [
        b"one\n",
        b"\n",
        b"two\r\n",
        b"three\rstill three\n",
        b"x" * 200_000 + b"\n",
        b"last",
    ]


async def test_a_line_beyond_the_limit_is_skipped_and_reported_once(pipe):
    """It costs no memory, and the line after it is read as usual."""
    read, write = pipe
    os.write(write, b"a\n" + b"x" * 5_000 + b"\nb\n" + b"y" * 101 + b"\n" + b"z" * 99 + b"\n")
    os.close(write)
    assert [line async for line in lines_of(read, limit=100)] == [
        b"a\n",
        LINE_TOO_LONG,
        b"b\n",
        LINE_TOO_LONG,
        b"z" * 99 + b"\n",
    ]


async def test_a_file_is_read_too(tmp_path):
    """Input may be redirected from a file, which no event loop can watch."""
    (tmp_path / "lines").write_bytes(b"a\nb")
    fd = os.open(tmp_path / "lines", os.O_RDONLY)
    try:
        assert [line async for line in lines_of(fd)] == [b"a\n", b"b"]
    finally:
        os.close(fd)


async def test_a_closed_descriptor_is_at_its_end(pipe):
    """`<&-` is an empty input, not a crash."""
    os.close(pipe[0])
    assert [line async for line in lines_of(pipe[0])] == []


async def test_a_non_blocking_descriptor_works_in_both_directions(pipe):
    """A parent process may have made the descriptors so; nothing is lost and nothing ends early."""
    read, write = pipe
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    output = Output(write)
    sent = [f"{n} " + "x" * 1_000 for n in range(500)]
    for line in sent:
        output.put(line)
    came = []
    async for line in lines_of(read):
        came.append(line.decode().rstrip("\n"))
        if len(came) == len(sent):
            break
    assert came == sent
    await output.aclose(5)


async def test_a_reader_that_does_not_read_slows_the_writer_and_not_the_loop(pipe):
    """`write` waits while too much is unwritten; the loop goes on; reading lets it go on."""
    read, write = pipe
    output = Output(write, limit=100_000)

    async def fill():
        for _ in range(10):
            await output.write("x" * 50_000)

    filling = asyncio.create_task(fill())
    done, _ = await asyncio.wait([filling], timeout=0.3)
    assert not done
    loop = asyncio.get_running_loop()
    began = loop.time()
    await output.aclose(0.05)
    assert loop.time() - began < 1
    reading = asyncio.create_task(asyncio.to_thread(_read_all, read))
    await asyncio.wait_for(filling, 5)
    await output.aclose(5)
    os.close(write)
    assert len(await reading) == 10 * 50_001


async def test_a_flush_returns_once_everything_is_written(pipe):
    """Before the loop runs again; False for a reader that does not read in time, or has gone."""
    read, write = pipe
    output = Output(write)
    output.put("a line")
    assert output.flush(10)
    assert os.read(read, 100) == b"a line\n"
    output.put("x" * 1_000_000)
    assert not output.flush(0)
    os.close(read)
    assert not output.flush(10)  # at once: the write fails
    await output.aclose(5)
    assert output.is_broken


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_a_short_line_is_written_at_once_and_in_its_order(kind):
    """Nobody waits for a thread; and where a thread has a line before it, it waits for its turn."""
    read, write = os.pipe() if kind == "pipe" else [end.detach() for end in socket.socketpair()]
    try:
        output = Output(write, is_only_writer=True)
        output.put("first")
        os.set_blocking(read, False)
        assert os.read(read, 100) == b"first\n"
        output.put("x" * 2_000_000)  # more than it takes
        output.put("last")
        os.set_blocking(read, True)
        reading = asyncio.create_task(asyncio.to_thread(_read_to, read, b"last\n"))
        assert await asyncio.wait_for(reading, 10) == b"x" * 2_000_000 + b"\nlast\n"
        await output.aclose(5)
        assert not output.is_full
    finally:
        os.close(read)
        os.close(write)


async def test_the_thread_ends_with_the_output(pipe):
    """There is none before the first line, and none after `aclose`; a line after that is written all the same."""
    read, write = pipe
    before = set(threading.enumerate())
    output = Output(write)
    assert set(threading.enumerate()) == before
    for line in ("one", "two"):
        output.put(line)
        assert await asyncio.to_thread(_read_to, read, b"\n") == f"{line}\n".encode()
        writers = [
            thread
            for thread in threading.enumerate()
            if thread.name == f"resilient_bridge output {write}"
        ]
        await output.aclose(5)
        for thread in writers:
            await asyncio.to_thread(thread.join, 5)
            assert not thread.is_alive()


async def test_a_reader_that_has_gone_is_noticed(pipe):
    """A broken pipe sets `broken`; from then on writing does nothing and waits for nothing."""
    read, write = pipe
    os.close(read)
    output = Output(write, limit=10)
    await output.write("x" * 100)
    await asyncio.wait_for(output.broken.wait(), 5)
    await output.write("more")
    await output.aclose(5)
    assert output.is_broken


def _read_to(fd, end):
    data = b""
    while not data.endswith(end):
        data += os.read(fd, 65_536)
    return data


def _read_all(fd):
    parts = []
    while part := os.read(fd, 65_536):
        parts.append(part)
    return b"".join(parts)
