"""A peer that goes: what every waiting request learns, and how the end is reached when we are the ones who leave."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

import resilient_bridge as rb
from resilient_bridge.adapters import stdio
from tests.peers.processes import is_reaped, is_running
from tests.peers.running import until


PROGRAM = Path(sys.executable).name
CHILD = (sys.executable, "-I", "-S", str(Path(__file__).with_name("child.py")))
SECRET = "token=s3cret-canary"
pytestmark = pytest.mark.real


# -- the child goes ---------------------------------------------------------------------------------------------------
@pytest.mark.requirement("G5")
async def test_when_the_child_goes_every_request_learns_what_is_known():
    """Handed out: OutcomeUnknownError; later ones: NotConnectedError; both from the exit, with its code and its last words."""
    async with stdio(*CHILD, SECRET)() as peer:
        asked = [asyncio.create_task(peer.request("silence", idempotent=True)) for _ in range(3)]
        await until(lambda: len(peer._calls) == 3)
        await peer.notify("leave", {"code": 3, "stderr": f"Traceback:\n  it was {SECRET}\nfatal"})
        await peer.wait_closed()
        assert isinstance(peer.close_exc, subprocess.CalledProcessError)
        assert repr(peer.close_exc) == f"CalledProcessError(3, ['{PROGRAM}'])"
        assert (peer.returncode, is_reaped(peer.pid)) == (3, True)
        assert peer.stderr == "Traceback:\n  it was token=[redacted]\nfatal"
        for task in asked:
            with pytest.raises(
                rb.OutcomeUnknownError,
                match=r"silence: .* ended with exit code 3; it was handed out",
            ):
                await task
            reported = task.exception()
            assert reported.__cause__ is reported.failure.cause is peer.close_exc
            assert reported.failure.executed is rb.errors.Executed.MAYBE
            assert reported.failure.details["exit_code"] == 3
            assert reported.failure.details["stderr"].endswith("fatal")
            assert SECRET not in reported.failure.explain() + str(reported) + str(
                reported.__cause__
            ) + repr(peer)
        for late in (peer.request("echo"), peer.notify("x"), anext(peer.notifications())):
            with pytest.raises(
                rb.errors.NotConnectedError, match="ended with exit code 3; it never left"
            ) as caught:
                await late
            assert caught.value.__cause__ is peer.close_exc
            assert caught.value.failure.executed is rb.errors.Executed.NO
            assert caught.value.failure.retryable
        assert "lost waiting=0" in repr(peer)


@pytest.mark.requirement("G5")
async def test_what_was_not_sent_did_not_run():
    """Of the lines that waited for a full pipe none has left: they say so, a notification too; the one in the pipe cannot."""
    async with stdio(*CHILD)() as peer:
        await peer.request("deaf")
        started = asyncio.create_task(peer.request("length", {"text": "x" * 10**5}))
        await until(lambda: peer._calls)
        waiting = [asyncio.create_task(peer.request("echo")), asyncio.create_task(peer.notify("x"))]
        await until(lambda: len(peer._child._queue) == 2)
        os.kill(peer.pid, signal.SIGKILL)
        await peer.wait_closed()
        with pytest.raises(rb.OutcomeUnknownError):
            await started
        for task in waiting:
            with pytest.raises(
                rb.errors.NotConnectedError, match="exit code -9; it never left"
            ) as caught:
                await task
            assert caught.value.__cause__ is peer.close_exc


@pytest.mark.requirement("G5")
async def test_a_request_to_a_child_that_just_died_names_the_exit():
    """The pipe breaks before the exit is known: the exit is waited for, the request never left, and its cause is the exit."""
    async with stdio(*CHILD)() as peer:
        os.kill(peer.pid, signal.SIGTERM)
        while is_running(peer.pid):  # without a turn of the loop, which must not know yet
            time.sleep(0.001)
        with pytest.raises(rb.errors.NotConnectedError, match="exit code -15") as caught:
            await peer.request("echo")
        assert caught.value.__cause__ is peer.close_exc
        assert peer.close_exc.returncode == -signal.SIGTERM


@pytest.mark.requirement("G5")
@pytest.mark.parametrize(
    ("how", "category", "retryable"),
    [
        ({"code": 126}, rb.Category.CONFIG, False),
        ({"code": 127}, rb.Category.CONFIG, False),
        ({"code": 143}, rb.Category.TRANSPORT, True),
        ({"signal": int(signal.SIGTERM)}, rb.Category.TRANSPORT, True),
        ({"code": 0}, rb.Category.TRANSPORT, True),
        ({"code": 1, "stderr": "it is my own affair"}, rb.Category.UPSTREAM, False),
    ],
)
async def test_the_reason_says_whether_another_child_can_help(how, category, retryable):
    """Not found and not executable will not pass, being ended by a supervisor will, and leaving with 0 unasked is a loss."""
    async with stdio(*CHILD)() as peer:
        await peer.notify("leave", how)
        await peer.wait_closed()
        failure = rb.classify(peer.close_exc)
        assert (failure.category, failure.retryable) == (category, retryable)
        with pytest.raises(rb.errors.NotConnectedError) as caught:
            await peer.request("echo")
        assert caught.value.failure.retryable is (category is not rb.Category.CONFIG)
        assert caught.value.failure.details["exit_code"] == peer.returncode


@pytest.mark.requirement("G5")
@pytest.mark.parametrize(("fd", "kind"), [(1, EOFError), (0, BrokenPipeError)])
async def test_a_child_that_closes_a_pipe_and_lives_is_lost(fd, kind):
    """Without an answer to come, or a question to arrive, there is no link; leaving ends the process."""
    async with stdio(*CHILD, close_timeout=0.1)() as peer:
        asked = asyncio.create_task(peer.request("shut", {"fd": fd}))
        await peer.wait_closed()
        assert (type(peer.close_exc), peer.returncode) == (kind, None)
        with pytest.raises(rb.OutcomeUnknownError, match="goes on running; it was handed out"):
            await asked
    assert (peer.returncode, is_reaped(peer.pid)) == (-signal.SIGTERM, True)


async def test_an_answer_written_just_before_the_end_arrives():
    """The exit does not overtake what is still in the pipe, a line without its end included."""
    async with stdio(*CHILD)() as peer:
        text = "x" * 30_000
        asked = asyncio.create_task(peer.request("echo", {"text": text}))
        answer = b'{"jsonrpc":"2.0","id":2,"result":"open end"}'
        last = asyncio.create_task(peer.request("raw", {"hex": answer.hex()}))
        await until(
            lambda: len(peer._calls) == 2 or asked.done()
        )  # both were written: the echo may be back
        await peer.notify("leave", {"code": 0})
        assert await asked == {"text": text}
        assert await last == "open end"
        await peer.wait_closed()


async def test_stderr_is_alvariants_read_and_its_end_saved():
    """Megabytes of it neither block the child nor stay in memory."""
    async with stdio(*CHILD)() as peer:
        noise = (b"filler " * 20_000 + b"\n").hex()
        for _ in range(10):
            await peer.request("raw", {"fd": 2, "hex": noise, "then_answer": True})
        await peer.request("raw", {"fd": 2, "hex": b"the end\n".hex(), "then_answer": True})
        await until(lambda: peer.stderr.endswith("the end"))
        assert 7_000 < len(peer.stderr) <= 8 * 1024
        assert peer.stderr.startswith("filler ")


# -- we go ------------------------------------------------------------------------------------------------------------
@pytest.mark.requirement("G5")
async def test_leaving_tells_who_waits_and_reaps_the_child():
    """Requests in flight end at once, unknown or not sent; the close is ours, so there is no reason to name."""
    async with stdio(*CHILD)() as peer:
        asked = asyncio.create_task(peer.request("silence"))
        gone = asyncio.create_task(peer.wait_closed())
        await until(lambda: peer._calls)
        assert not gone.done()
    with pytest.raises(
        rb.OutcomeUnknownError, match=f"silence: {PROGRAM} was closed; it was handed out"
    ) as caught:
        await asked
    assert caught.value.__cause__ is None
    await gone
    assert (peer.close_exc, peer.returncode, is_reaped(peer.pid)) == (None, 0, True)
    with pytest.raises(
        rb.errors.NotConnectedError, match=f"echo: {PROGRAM} was closed; it never left"
    ):
        await peer.request("echo")
    assert "closed waiting=0" in repr(peer)


@pytest.mark.requirement("G5")
async def test_a_notification_on_the_way_out_is_delivered():
    """What the pipe has when we leave still arrives whole: `exit` can be said and the block be left."""
    async with stdio(*CHILD)() as peer:
        await peer.notify("leave", {"code": 7})
    assert (peer.returncode, peer.close_exc) == (7, None)


@pytest.mark.requirement("G5")
@pytest.mark.parametrize("flags", [[], ["--ignore-eof", "--ignore-term"]])
async def test_a_cancelled_block_leaves_no_process(flags):
    """Whether the child is willing or not, it is gone when the cancellation comes out."""
    peers = []

    async def main():
        async with stdio(*CHILD, *flags, close_timeout=0.1)() as peer:
            await peer.request("echo")
            peers.append(peer)
            await peer.request("silence")

    task = asyncio.create_task(main())
    await until(lambda: peers and peers[0]._calls)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert is_reaped(peers[0].pid)


async def test_a_cancel_scope_of_anyio_leaves_the_child_time_to_end():
    """Such a scope cancels every wait inside it again and again: the child still ends by itself, with 0."""
    with anyio.move_on_after(30) as scope:
        async with stdio(*CHILD)() as peer:
            await peer.request("echo")
            scope.cancel()
            await peer.request("silence")
    assert scope.cancelled_caught
    assert (peer.returncode, is_reaped(peer.pid)) == (0, True)


async def test_a_wait_for_the_end_can_be_cancelled():
    """Whoever stops waiting changes nothing."""
    async with stdio(*CHILD)() as peer:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer.wait_closed(), 0.05)
        assert await peer.request("echo") == {}


async def test_a_cancelled_notification_that_was_not_sent_is_not_sent():
    """It waits for a pipe that is full; cancelled there, it is taken back."""
    async with stdio(*CHILD, close_timeout=0.1)() as peer:
        await peer.request("deaf")
        full = asyncio.create_task(peer.request("length", {"text": "x" * 10**6}))
        await until(lambda: peer._calls)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer.notify("x"), 0.05)
        assert not peer._child._queue
        full.cancel()


@pytest.mark.requirement("S4")
async def test_a_start_that_fails_says_why_in_its_own_words(tmp_path):
    """The native errors come out unchanged, are CONFIG and not retryable: trying again does not make a program appear."""
    (tmp_path / "plain").write_text("not executable")
    for command, wanted in (
        ("/no/such/program", FileNotFoundError),
        (str(tmp_path / "plain"), PermissionError),
    ):
        with pytest.raises(wanted) as caught:
            async with stdio(command, SECRET)():
                pytest.fail("started")
        failure = rb.classify(caught.value)
        assert (failure.category, failure.retryable) == (rb.Category.CONFIG, False)
        assert SECRET not in failure.explain()


# -- what came instead ------------------------------------------------------------------------------------------------
PRINTS = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "banner":
        print("Loading configuration, token=s3cret-canary", flush=True)
    elif asked["method"] == "foreign":
        print(json.dumps({"jsonrpc": "2.0", "id": "another", "result": 1}), flush=True)
    elif asked["method"] == "leave":
        sys.exit(0)
"""


@pytest.mark.parametrize(
    ("method", "text", "details"),
    [
        (
            "banner",
            "1 line of no JSON-RPC, the last 'Loading configuration, token=[redacted]'",
            {"noise": 1},
        ),
        ("foreign", "1 answer to an id that was not asked, the last 'another'", {"unmatched": 1}),
        ("silence", "", {}),
    ],
)
async def test_f14_a_timeout_says_what_the_child_wrote_instead(method, text, details):
    """A banner, or an answer to another id: it is in the error, without secrets, and not in a counter alone."""
    async with stdio(sys.executable, "-I", "-S", "-c", PRINTS)() as peer:
        with pytest.raises(rb.errors.AttemptTimeoutError, match="it was handed out") as caught:
            await peer.request(method, timeout=1)
        assert text in str(caught.value)
        assert ("instead" in str(caught.value)) is bool(text)
        assert {name: caught.value.failure.details.get(name) for name in details} == details
        assert "s3cret" not in caught.value.failure.explain()


async def test_f14_an_exit_with_code_0_is_reported_with_its_code():
    """By the peer itself, and by a link over it."""
    factory = stdio(sys.executable, "-I", "-S", "-c", PRINTS)
    async with factory() as peer:
        with pytest.raises(rb.OutcomeUnknownError) as caught:
            await peer.request("leave")
        assert caught.value.failure.details["exit_code"] == 0
    async with rb.reconnecting(factory) as linked:
        with pytest.raises(rb.OutcomeUnknownError) as caught:
            await linked.request("leave")
        assert caught.value.failure.details["exit_code"] == 0
