"""The table of commands: what is in it, what a start that failed leaves there, and that it never grows without bound."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Commands, CommandStatus
from resilient_bridge.testing import virtual_time

from .command_peer import HANG, PENDING, Peer, complete


@pytest.mark.requirement("G6")
async def test_a_command_is_followed_by_its_id():
    """The same object while it is in the table; another process, or one after a restart, makes a new one."""
    peer = Peer(complete(1))
    commands = peer.commands()
    command = await commands.start("audit")
    assert commands.follow(command.correlation_id) is command
    elsewhere = peer.commands()
    followed = elsewhere.follow(command.correlation_id, name="audit")
    assert (followed.name, followed.status, elsewhere.unfinished()) == (
        "audit",
        "pending",
        (followed,),
    )
    assert await followed.result() == 1
    assert peer.asked == command.correlation_id
    with pytest.raises(rb.ConfigError, match=r"Commands\.follow\.correlation_id"):
        commands.follow("")


async def test_a_start_that_provably_did_not_arrive_leaves_nothing():
    """The same error, no note, no entry."""
    error = ConnectionRefusedError()
    commands = Peer(started=error).commands()
    with pytest.raises(ConnectionRefusedError) as raised:
        await commands.start("click")
    assert raised.value is error
    assert not hasattr(error, "__notes__")
    assert commands.unfinished() == ()


@pytest.mark.requirement("G6")
async def test_a_start_that_may_have_arrived_can_be_followed():
    """The error's note names the id, and the command is in the table: nobody has to start it twice to find out."""
    error = ConnectionResetError()
    peer = Peer(complete("it ran"), started=error)
    commands = peer.commands()
    with pytest.raises(ConnectionResetError) as raised:
        await commands.start("click")
    (command,) = commands.unfinished()
    assert raised.value.__notes__ == [
        f"the command may run: follow({command.correlation_id!r}) finds out"
    ]
    assert command.correlation_id == peer.starts[0][2]
    assert await commands.follow(command.correlation_id).result() == "it ran"


@pytest.mark.requirement("G6")
async def test_a_start_behind_a_policy_goes_out_under_one_id():
    """Whoever lets it be repeated sends the same id again: the peer can tell."""
    peer = Peer(complete(1), started=ConnectionResetError())
    with virtual_time():
        commands = Commands(rb.Policy(rb.Retry(attempts=3))(idempotent=True)(peer.start), peer.poll)
        with pytest.raises(ConnectionResetError):
            await commands.start("click")
    assert len(peer.starts) == 3
    assert len({correlation_id for _, _, correlation_id in peer.starts}) == 1


async def test_a_start_that_is_cancelled_may_have_arrived():
    """It stays in the table, and the cancellation goes on."""
    commands = Peer(started=HANG).commands()
    start = asyncio.create_task(commands.start("click"))
    await asyncio.sleep(0.01)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert len(commands.unfinished()) == 1


async def test_a_start_that_answers_nonsense_may_have_arrived():
    """ProtocolError, and the command can be followed."""
    commands = Peer(started="ok").commands()
    with pytest.raises(rb.errors.ProtocolError, match="got 'ok'"):
        await commands.start("click")
    assert len(commands.unfinished()) == 1
    assert (await Peer(started={}).commands().start("click")).status == "pending"


@pytest.mark.requirement("G6")
async def test_an_answer_may_come_by_itself():
    """A peer that pushes: `tell` notes what it said, and whoever waits gets it at the next look, without asking."""
    peer = Peer()
    with virtual_time() as time:
        commands = peer.commands(time)
        command = await commands.start("audit")
        waiting = asyncio.create_task(command.result())
        await asyncio.sleep(0)
        assert command.tell(complete("pushed")) is CommandStatus.COMPLETE
        assert await waiting == "pushed"
        assert (commands.unfinished(), len(peer.looks)) == ((), 1)
    with pytest.raises(rb.errors.ProtocolError):
        command.tell("nonsense")
    assert command.status == "complete"


async def test_what_is_done_stays_done():
    """An answer that was on its way when the result came changes nothing."""
    asked = asyncio.get_running_loop().create_future()

    async def poll(_):
        return await asked

    commands = Commands(Peer().start, poll)
    command = await commands.start("audit")
    look = asyncio.create_task(command.poll())
    await asyncio.sleep(0)
    command.tell(complete(1))
    asked.set_result(PENDING)
    assert await look is CommandStatus.COMPLETE


async def test_a_result_that_came_during_the_last_look_is_no_timeout():
    """The look hangs until the time is up, but the peer has told the result meanwhile."""
    with virtual_time() as time:
        command = await Peer(HANG).commands(time).start("audit")
        waiting = asyncio.create_task(command.result(timeout=5))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        command.tell(complete(1))
        time.advance(5)
        assert await waiting == 1


async def test_two_who_wait_get_the_same():
    """Both have the result; nobody is told that the time was up."""
    peer = Peer(PENDING, PENDING, PENDING, complete(1))
    with virtual_time() as time:
        command = await peer.commands(time).start("audit")
        assert await asyncio.gather(command.result(), command.result()) == [1, 1]


@pytest.mark.requirement("G6")
async def test_the_table_is_bounded():
    """Full of commands that may still be running, the next is refused before it is sent; one that has expired makes room."""
    peer = Peer()
    with virtual_time() as time:
        commands = peer.commands(time, limit=2)
        first, second = await commands.start("a"), await commands.start("b")
        with pytest.raises(rb.errors.BulkheadFullError, match="2 are unfinished") as raised:
            await commands.start("c")
        assert raised.value.failure.executed is rb.errors.Executed.NO
        with pytest.raises(rb.errors.BulkheadFullError):
            commands.follow("elsewhere")
        assert len(peer.starts) == 2
        time.advance(20)
        await second.poll()
        time.advance(20)
        third = await commands.start("c")
        assert commands.unfinished() == (second, third)
        assert first.status == "expired"
        peer.script = [complete(1)]
        assert await first.result() == 1  # its object still works
        assert repr(commands) == "<Commands 2 unfinished>"


async def test_ids_repeat_with_the_seed():
    """Chance comes from the environment: a test can be repeated."""
    ids = []
    for seed in (1, 1, 2):
        with virtual_time(seed=seed):
            ids.append((await Peer().commands().start("click")).correlation_id)
    assert ids[0] == ids[1] != ids[2]


async def test_an_error_keeps_nothing_alive():
    """No cycle through the frames of the wait: the errors of a command go with their last reader."""
    gc.disable()
    try:
        gone = []
        for peer in (
            Peer(),
            Peer(PENDING, ConnectionResetError()),
            Peer(None),
            Peer({"status": "failed"}),
        ):
            with virtual_time() as time:
                command = await peer.commands(time).start("audit")
                try:
                    await command.result()
                except rb.BridgeError as error:
                    gone.append(weakref.ref(error))
                peer.script.clear()
        assert [ref() for ref in gone] == [None] * 4
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"expires_after": 0}, r"Commands\.expires_after: wanted seconds above 0"),
        ({"interval": -1}, r"Commands\.interval"),
        ({"interval": "1"}, r"Commands\.interval"),
        ({"timeouts": ()}, r"Commands\.timeouts: wanted a tuple"),
        ({"timeouts": 5}, r"Commands\.timeouts"),
        ({"timeouts": (2, 0)}, r"Commands\.timeouts\[1\]"),
        ({"limit": 0}, r"Commands\.limit"),
        ({"start": None}, r"Commands\.start: wanted an async function"),
        ({"poll": 1}, r"Commands\.poll"),
    ],
)
def test_a_bad_argument_is_named(options, named):
    """ConfigError, when the object is made."""
    peer = Peer()
    arguments = {"start": peer.start, "poll": peer.poll, **options}
    with pytest.raises(rb.ConfigError, match=named):
        Commands(**arguments)
