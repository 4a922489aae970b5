"""Commands that answer later: started once, asked about until they are done, and honest about what nobody knows. In virtual time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import CommandStatus
from resilient_bridge.testing import record, virtual_time

from .command_peer import HANG, PENDING, Peer, complete


# ---- the way of a command --------------------------------------------------------------------------------------------


@pytest.mark.requirement("G6")
async def test_started_pending_complete():
    """One start, with an id of ours; looks until it is complete; then it is forgotten and never asked about again."""
    peer = Peer(PENDING, PENDING, complete({"title": "x"}))
    with virtual_time() as time:
        commands = peer.commands(time)
        command = await commands.start("execute_js", {"script": "document.title"})
        assert (command.status, command.is_done, commands.unfinished()) == (
            "pending",
            False,
            (command,),
        )
        assert peer.starts == [("execute_js", {"script": "document.title"}, command.correlation_id)]
        assert UUID(command.correlation_id).version == 4
        assert await command.result() == {"title": "x"}
        assert peer.asked == command.correlation_id
        assert (command.status, command.is_done, commands.unfinished()) == ("complete", True, ())
        assert await command.result() == {"title": "x"}
        assert await command.poll() is CommandStatus.COMPLETE
        assert len(peer.looks) == 3
        assert repr(command) == f"<Command execute_js {command.correlation_id} complete>"


@pytest.mark.requirement("G1")
@pytest.mark.requirement("G6")
async def test_looks_come_every_one_to_two_seconds():
    """1 s, then every 2 s; or as an interval or a Backoff says, and never sooner than the peer asked."""
    for interval, waits in [
        (None, [1, 2, 2]),
        (0.5, [0.5, 0.5, 0.5]),
        (timedelta(seconds=1.5), [1.5, 1.5, 1.5]),
        (rb.Backoff.steps(0.2, 1), [0.2, 1, 1]),
    ]:
        with virtual_time() as time:
            peer = Peer(PENDING, PENDING, PENDING, complete(1))
            command = await peer.commands(time, interval=interval, timeouts=(60,)).start("click")
            assert await command.result() == 1
            assert time.slept == waits
    limited = rb.errors.RejectedError(rb.Failure.of("SYS_RATE_LIMITED", retry_after=7))
    with virtual_time() as time:
        peer = Peer(limited, complete(1))
        assert await (await peer.commands(time, timeouts=(60,)).start("click")).result() == 1
        assert time.slept == [7]


async def test_the_id_of_the_peer_counts():
    """A server that makes its own ids is asked by them."""
    peer = Peer(complete(1), started={"correlation_id": "c-17", "status": "pending"})
    commands = peer.commands()
    command = await commands.start("click")
    assert (command.correlation_id, commands.unfinished()) == ("c-17", (command,))
    await command.poll()
    assert (peer.asked, commands.unfinished()) == ("c-17", ())


async def test_a_peer_that_answers_at_once_is_not_asked():
    """Complete with the first answer: there is nothing to wait for."""
    peer = Peer(started=complete("now"))
    commands = peer.commands()
    command = await commands.start("click")
    assert (command.is_done, await command.result(), peer.looks) == (True, "now", [])
    assert commands.unfinished() == ()


@pytest.mark.parametrize("word", ["pending", "queued", "Running"])
async def test_other_words_for_pending(word):
    """Spellings of servers that mean the same."""
    command = await Peer({"status": word}).commands().start("click")
    assert await command.poll() is CommandStatus.PENDING


@pytest.mark.parametrize(
    "answer", [{}, {"status": "odd"}, {"status": 200}, {"result": 1}, "complete", [1]]
)
async def test_what_is_no_answer_is_an_error_and_changes_nothing(answer):
    """ProtocolError says what was wanted and what was got; the command goes on."""
    command = await Peer(answer).commands().start("click")
    with pytest.raises(
        rb.errors.ProtocolError, match="status wanted one of pending, complete, timeout, expired"
    ):
        await command.result()
    assert command.status == "pending"


# ---- how it can end --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("G6")
@pytest.mark.requirement("G8")
@pytest.mark.parametrize(
    ("answer", "code", "hint"),
    [
        (
            {"status": "complete", "error": "csp_blocked"},
            "TOOL_EXECUTION_FAILED",
            'world: "isolated"',
        ),
        (
            {"status": "complete", "result": {"success": False, "error": "execution_timeout"}},
            "TOOL_TIMEOUT",
            "timeout_ms",
        ),
        (
            {
                "status": "error",
                "error": {"code": "EXECUTION_ERROR", "message": "x is not defined"},
            },
            "TOOL_EXECUTION_FAILED",
            "correct the script",
        ),
        (
            {"status": "failed", "error": "connect ECONNREFUSED 127.0.0.1:9"},
            "CONN_REFUSED",
            "check the port",
        ),
        ({"status": "failed"}, "TOOL_EXECUTION_FAILED", "read the tool's error output"),
        (
            {"status": "error", "error": {"code": -32602, "message": "no such tab"}},
            "SYS_UPSTREAM_REJECTED",
            "",
        ),
    ],
)
async def test_an_error_of_the_peer_is_raised(answer, code, hint):
    """The command is complete, with a failure, its advice, and no second look."""
    peer = Peer(answer)
    command = await peer.commands().start("execute_js")
    for _ in range(2):
        with pytest.raises(rb.BridgeError) as raised:
            await command.result()
        assert raised.value.failure == command.failure
    assert (command.status, command.failure.code, len(peer.looks)) == ("complete", code, 1)
    assert hint in command.hint


@pytest.mark.requirement("G4")
@pytest.mark.requirement("G6")
async def test_the_waiting_escalates_and_the_peer_goes_on():
    """2 s, then 5 s, then 30 s, told each time; then an error that says that it can be looked at again, and it can."""
    peer = Peer()
    with virtual_time() as time, record() as seen:
        began = time.now
        command = await peer.commands(time).start("audit")
        with pytest.raises(rb.errors.AttemptTimeoutError) as raised:
            await command.result()
        assert (
            37 <= time.now - began <= 37 + 3 * 2
        )  # virtual time goes on to the end of each last pause
        failure = raised.value.failure
        assert "command audit not complete after 37 s: the peer keeps working" in failure.message
        assert failure.details["waited"] == (2, 5, 30)
        assert failure.details["correlation_id"] == command.correlation_id
        assert (failure.executed, failure.details["status"]) == (
            rb.errors.Executed.MAYBE,
            "timeout",
        )
        assert command.status == "timeout"
        assert "timeout_ms" in command.hint
        parts = [event for event in seen if isinstance(event, rb.events.RetryScheduled)]
        assert [(event.name, event.attempt, event.wait) for event in parts] == [
            ("command audit", 2, 0),
            ("command audit", 3, 0),
        ]
        assert [
            "after 2 s" in parts[0].failure.message,
            "after 5 s" in parts[1].failure.message,
        ] == [True] * 2
        assert {type(event) for event in seen} == {rb.events.RetryScheduled}
        assert await command.poll() is CommandStatus.PENDING
        peer.script = [complete("at last")]
        assert await command.result() == "at last"


@pytest.mark.real
async def test_the_waiting_escalates_in_real_time():
    """The steps of `timeouts`, one after the other, and a look at the beginning of each."""
    peer, loop = Peer(), asyncio.get_running_loop()
    began = loop.time()
    command = await peer.commands(timeouts=(0.02, 0.05, 0.1), interval=30).start("audit")
    with pytest.raises(rb.errors.AttemptTimeoutError, match=r"after 0\.17 s"):
        await command.result()
    assert 0.16 < loop.time() - began < 10
    assert len(peer.looks) == 3


@pytest.mark.requirement("G4")
async def test_an_outer_retry_does_not_cut_the_escalation():
    """Inside of a policy that repeats: it waits all its steps before that policy is asked."""
    peer = Peer()
    with virtual_time() as time:
        commands = peer.commands(time)

        @rb.Policy(rb.Retry(attempts=2))(idempotent=False)
        async def audit():
            return await (await commands.start("audit")).result()

        with pytest.raises(rb.errors.AttemptTimeoutError, match="after 37 s"):
            await audit()
        assert len(peer.starts) == 1  # it may have run, and must not run twice


async def test_a_wait_of_ones_own():
    """`timeout=` is one step; a deadline around it is kept too."""
    peer = Peer()
    with virtual_time() as time, record() as seen:
        command = await peer.commands(time).start("audit")
        with pytest.raises(rb.errors.AttemptTimeoutError, match="not complete after 3 s") as raised:
            await command.result(timeout=timedelta(seconds=3))
        assert (raised.value.failure.details["waited"], seen) == ((3,), [])
        with pytest.raises(rb.DeadlineExceededError):
            await rb.Policy(rb.Deadline(4)).call(command.result)
    with pytest.raises(rb.ConfigError, match="Timeout"):
        await command.result(timeout=0)


@pytest.mark.requirement("G6")
async def test_the_peer_says_timeout():
    """Its own limit: the error comes at once, the peer goes on, and the result can still be had."""
    peer = Peer({"status": "timeout"}, {"status": "timeout"}, complete(1))
    with virtual_time() as time:
        commands = peer.commands(time)
        command = await commands.start("audit")
        with pytest.raises(
            rb.errors.AttemptTimeoutError, match="in the time that the peer gives it"
        ):
            await command.result()
        assert (time.slept, command.status, commands.unfinished()) == ([], "timeout", (command,))
        assert await command.poll() is CommandStatus.TIMEOUT
        assert await command.result() == 1


@pytest.mark.requirement("G6")
@pytest.mark.parametrize("answer", [{"status": "expired"}, {"status": "not_found"}, None])
async def test_the_peer_has_lost_the_result(answer):
    """Expired, or an id that it does not know: nobody can say what came of it, and it is final."""
    peer = Peer(PENDING, answer)
    with virtual_time() as time:
        commands = peer.commands(time)
        command = await commands.start("audit")
        for _ in range(2):
            with pytest.raises(rb.OutcomeUnknownError, match="command audit expired") as raised:
                await command.result()
        failure = raised.value.failure
        assert (failure.executed, failure.retryable) == (rb.errors.Executed.MAYBE, False)
        assert (command.status, command.hint) == ("expired", failure.suggestions[0])
        assert "run the command again" in command.hint
        assert (commands.unfinished(), len(peer.looks)) == ((), 2)


@pytest.mark.requirement("G6")
async def test_silence_expires_and_a_look_still_helps():
    """30 s without a word: a result that came right after the last look is lost by now; but the peer is asked before that is said."""
    peer = Peer(PENDING, complete("late"))
    with virtual_time() as time:
        command = await peer.commands(time).start("audit")
        time.advance(30)
        assert command.status == "pending"
        time.advance(0.1)
        assert (command.status, command.is_done) == ("expired", False)
        assert await command.poll() is CommandStatus.PENDING  # the peer was at it all the time
        time.advance(31)
        assert command.status == "expired"
        assert await command.result() == "late"


@pytest.mark.requirement("G6")
async def test_looks_that_fail_for_now_are_repeated_until_it_expires():
    """A peer that cannot be reached is asked again; after 30 s of that its result is lost."""
    peer = Peer(ConnectionRefusedError(), ConnectionResetError(), complete(1))
    with virtual_time() as time:
        assert await (await peer.commands(time).start("audit")).result() == 1
        assert time.slept == [1, 2]
    peer = Peer(PENDING, ConnectionRefusedError("nobody there"))
    with virtual_time() as time:
        command = await peer.commands(time).start("audit")
        with pytest.raises(
            rb.OutcomeUnknownError, match=r"nothing was heard of it for 3\d"
        ) as raised:
            await command.result()
        assert isinstance(raised.value.__cause__, ConnectionRefusedError)
        assert command.status == "expired"


async def test_looks_that_hang_are_cut_and_expire():
    """A look that never ends costs its step, and all of them together are a silence."""
    with virtual_time() as time:
        command = await Peer(HANG).commands(time).start("audit")
        waiting = asyncio.create_task(command.result())
        for _ in range(400):
            await asyncio.sleep(0)
            time.advance(0.1)
        with pytest.raises(rb.OutcomeUnknownError, match="nothing was heard of it"):
            await waiting
        look = asyncio.create_task(command.poll())
        for _ in range(30):
            await asyncio.sleep(0)
            time.advance(0.1)
        with pytest.raises(rb.errors.AttemptTimeoutError, match="timed out after 2 s"):
            await look


async def test_any_other_error_of_a_look_comes_out_as_it_is():
    """The same object, at once: a refused token does not become right by asking again."""
    for error in (
        PermissionError(13, "no"),
        KeyError("bug"),
        rb.errors.AuthError(rb.Failure.of("AUTH_FORBIDDEN")),
    ):
        command = await Peer(error).commands().start("audit")
        with pytest.raises(type(error)) as raised:
            await command.result()
        assert raised.value is error
        with pytest.raises(type(error)):
            await command.poll()
        assert command.status == "pending"


async def test_a_schedule_of_zeros_does_not_spin():
    """A pause of 10 ms at least."""
    peer = Peer()
    with virtual_time() as time:
        command = await peer.commands(time, interval=rb.Backoff.constant(0)).start("audit")
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await command.result(timeout=1)
        assert len(peer.looks) <= 102


async def test_waiting_can_be_cancelled():
    """The command stays in the table, and nothing of the wait is left."""
    commands = Peer(HANG).commands()
    command = await commands.start("audit")
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(command.result())
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (asyncio.all_tasks(), command.status) == (before, "pending")
    assert commands.unfinished() == (command,)
