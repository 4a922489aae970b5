"""Losses that another connection cannot help: a link ends with their error, and never goes round for ever."""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus
from websockets.frames import Close

import resilient_bridge as rb
from tests.adapters.link_peers import Client, World, quick, served, virtual
from tests.peers.running import until
from tests.rows import each_row


async def read_all(ws) -> None:
    """Read until it ends."""
    async for _ in ws:
        pass


# -- credentials that were refused ------------------------------------------------------------------------------------
@pytest.mark.real
@pytest.mark.parametrize("says_why", [False, True], ids=["silent", "after a message"])
@pytest.mark.parametrize("code", [1008, 4001, 4401])
async def test_e10_a_close_that_refuses_the_credentials_ends_in_auth_error(code, says_why):
    """The server accepts the upgrade and closes: the factory is asked once more, then AuthError from the library's own error."""
    asked = []

    async def attend(connection):
        if says_why:
            await connection.send('{"error": "unauthorized"}')
        await connection.close(code, "bad token")

    async with served(attend) as (url, made):

        def factory():
            asked.append(1)
            return connect(url)

        link = rb.reconnecting(factory, quick())
        async with link as ws, asyncio.timeout(10):
            with pytest.raises(rb.errors.AuthError, match="bad token") as caught:
                await read_all(ws)
            assert isinstance(caught.value.__cause__, ConnectionClosed)
            assert isinstance(caught.value, ConnectionClosed)  # which people catch (E26)
            with pytest.raises(rb.errors.AuthError):
                await ws.send("x")
            assert (len(asked), len(made), link.state) == (2, 2, "FAILED")


@pytest.mark.real
async def test_e10_credentials_that_expire_are_asked_for_as_often_as_they_were_accepted():
    """A link that worked for a while, and is closed 4401 again: each time the factory brings the next token."""

    async def attend(connection):
        await connection.send(f"{len(made)}")
        await asyncio.sleep(1.05)
        await connection.close(4401, "token expired")

    got = []
    async with served(attend) as (url, made), rb.reconnecting(lambda: connect(url), quick()) as ws:
        async with asyncio.timeout(20):
            async for message in ws:
                got.append(message)
                if len(got) == 4:
                    break
    assert got == ["1", "2", "3", "4"]


# -- defects of the factory -------------------------------------------------------------------------------------------
def _no_name():
    return nothing  # noqa: F821


def _no_argument():
    return connect()  # type: ignore[call-arg]


def _no_value():
    raise ValueError("the config file names no server")


def _no_key():
    return {}["TOKEN"]


def _no_attribute():
    return asyncio.nothing


def _no_module():
    import nothing_of_that_name  # noqa: F401


def _no_index():
    return next(iter([[]]))[1]


def _no_truth():
    raise AssertionError("unreachable")


DEFECTS = {
    NameError: _no_name,
    TypeError: _no_argument,
    ValueError: _no_value,
    KeyError: _no_key,
    AttributeError: _no_attribute,
    ImportError: _no_module,
    IndexError: _no_index,
    AssertionError: _no_truth,
}


@virtual
@each_row("kind", DEFECTS, ids=lambda kind: kind.__name__)
async def test_e11_a_defect_of_the_factory_ends_the_link_with_that_error(kind):
    """One attempt; what is raised says where the mistake is, is that class as well, and has the error itself as its cause."""
    asked = []

    def factory():
        asked.append(1)
        return DEFECTS[kind]()

    link = rb.reconnecting(factory, quick())
    with pytest.raises(kind) as caught:
        async with link:
            pytest.fail("entered")
    assert isinstance(caught.value, rb.ConfigError)
    assert isinstance(caught.value.__cause__, kind)
    assert f"reconnecting.factory raised {type(caught.value.__cause__).__name__}: " in str(
        caught.value
    )
    assert (len(asked), link.state, link.health().reason) == (1, "FAILED", "config")
    with pytest.raises(kind):
        await link.wait_ready(1)


@pytest.mark.real
async def test_e11_an_argument_that_shows_while_entering_is_a_defect_as_well():
    """websockets hands it to the event loop, which does not know it: one attempt, TypeError."""
    async with served(lambda connection: connection.wait_closed()) as (url, made):
        with pytest.raises(TypeError, match="nonsense"):
            async with rb.reconnecting(lambda: connect(url, nonsense=1), quick()):
                pytest.fail("entered")
        assert made == []


@virtual
async def test_e11_a_defect_that_shows_later_is_raised_by_whatever_is_done_next():
    """The factory worked once; after a loss it does not any more: the call that waits gets the error."""
    world = World()
    broken = False

    def factory():
        return _no_name() if broken else world.factory()

    link = rb.reconnecting(factory, quick())
    async with link as client:
        assert await client.work("a") == "a by 1"
        broken = True
        await world.lose(link)
        with pytest.raises(NameError, match="nothing"):
            await client.work("b")


@virtual
async def test_e11_a_factory_that_returns_the_same_client_again_is_a_mistake():
    """A dead client cannot be entered again: it says so once, and the link ends with that, and with what to do."""

    class Once(Client):
        async def __aenter__(self):
            if self.dead.done():
                raise RuntimeError("Client is already entered; cannot reenter")
            return await super().__aenter__()

    world = World(Once)
    only: list[Client] = []

    def factory():
        return only[0] if only else only.append(world.factory()) or only[0]

    link = rb.reconnecting(factory, quick())
    async with link as client:
        await client.work("a")
        await world.lose(link)
        with pytest.raises(
            rb.ConfigError, match=r"returned the same object again, .* cannot reenter"
        ):
            await client.work("b")
        assert link.state == "FAILED"


@virtual
@pytest.mark.parametrize(
    "error",
    [
        OSError("no route"),
        TimeoutError("slow"),
        RuntimeError("no address yet"),
        EOFError("ended"),
        ConnectionError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_e11_what_may_pass_is_tried_again(error):
    """Errors of the network and of the system, timeouts, and what nobody knows."""
    remaining, world = [3], World()

    def factory():
        if remaining[0]:
            remaining[0] -= 1
            raise error
        return world.factory()

    async with rb.reconnecting(factory, quick()) as client:
        assert await client.work("a") == "a by 1"


@virtual
async def test_e11_garbage_of_a_peer_is_no_defect_of_the_factory():
    """A ValueError that comes out of a client that was open is a loss: the next client is made."""

    class Garbled(Client):
        async def __aexit__(self, *_):
            if self.version == 1:
                raise ValueError("the peer sent garbage")

    world = World(Garbled)
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        await client.work("a")
        world.client.die(ValueError("the peer sent garbage"))
        await until(lambda: len(world.made) == 2)
        assert await client.work("b") == "b by 2"


@each_row(
    ("error", "is_final"),
    [
        (ValueError("x"), True), (TypeError("x"), True), (NameError("x"), True), (KeyError("x"), True),
        (OSError("x"), False), (TimeoutError(), False), (EOFError(), False), (ConnectionRefusedError(111, "x"), False),
    ],
)  # fmt: skip
def test_e11_the_same_table_answers_websockets_own_loop(error, is_final):
    """`Reconnect.process_exception`: None means another attempt, the error ends the loop."""
    assert rb.bridge.Reconnect().process_exception(error) is (error if is_final else None)
    assert rb.bridge.Reconnect(rules={type(error): rb.Rule()}).process_exception(error) is None


@virtual
async def test_a_message_that_cannot_be_taken_is_forgotten_after_a_stable_connection():
    """Once in hours, it ends a connection each time and never the link; twice in a row, it ends the link."""
    world = World()
    link = rb.reconnecting(world.factory, rb.presets.default)
    async with link:
        for _ in range(3):
            await asyncio.sleep(9_000)
            await world.lose(link, ConnectionClosedError(None, Close(1009, "too big")))
            await link.wait_ready()
        await world.lose(link, ConnectionClosedError(None, Close(1009, "too big")))
        with pytest.raises(rb.errors.ProtocolError):
            await link.wait_ready()
    assert world.entered == 4


# -- what the client refuses to read ----------------------------------------------------------------------------------
@pytest.mark.real
@pytest.mark.parametrize("read", ["iterating", "recv"])
@pytest.mark.parametrize("what", ["too big", "no utf-8", "reserved bits"])
async def test_e14_a_message_that_the_client_cannot_take_ends_the_link_the_second_time(what, read):
    """The same cause twice: another connection would only bring it again, so the reader gets it as an error."""

    async def attend(connection):
        await connection.send("hello")
        if what == "too big":
            await connection.send("x" * 3_000_000)
        elif what == "no utf-8":
            connection.transport.write(b"\x81\x02\xff\xff")
        else:
            connection.transport.write(b"\xf1\x02ab")
        await connection.wait_closed()

    got = []
    async with served(attend) as (url, made):
        link = rb.reconnecting(lambda: connect(url), quick())
        async with link as ws, asyncio.timeout(10):
            with pytest.raises(rb.errors.ProtocolError) as caught:
                if read == "recv":
                    while True:
                        got.append(await ws.recv())
                async for message in ws:
                    got.append(message)  # noqa: PERF401 -- what came before the error counts
            assert isinstance(caught.value.__cause__, ConnectionClosed)
            assert (got, len(made), link.state) == (["hello"] * 2, 2, "FAILED")


@pytest.mark.real
async def test_e14_once_is_forgiven():
    """One message over the limit, and then only good ones: the link goes on."""

    async def attend(connection):
        if len(made) == 1:
            await connection.send("x" * 3_000_000)
        await connection.send("fine")
        await connection.wait_closed()

    async with served(attend) as (url, made), rb.reconnecting(lambda: connect(url), quick()) as ws:
        async with asyncio.timeout(10):
            assert await ws.recv() == "fine"
        assert len(made) == 2


# -- the class that people catch --------------------------------------------------------------------------------------
@pytest.mark.real
async def test_e26_the_last_error_is_also_the_librarys_own():
    """`except websockets.InvalidStatus` still catches it, and finds the response there."""

    def refuse(connection, request):
        return connection.respond(403, "no\n")

    async with served(lambda c: c.wait_closed(), process_request=refuse) as (url, _):
        with pytest.raises(InvalidStatus) as caught:
            async with rb.reconnecting(lambda: connect(url), quick()):
                pytest.fail("entered")
        assert isinstance(caught.value, rb.BridgeError)
        assert caught.value.response.status_code == 403
        assert caught.value.failure.code == "AUTH_FORBIDDEN"


@virtual
async def test_e26_an_error_of_the_system_is_that_class_as_well():
    """FileNotFoundError of a command that does not exist: a ConfigError, and a FileNotFoundError with its number."""
    world = World()
    world.refuses = FileNotFoundError(2, "no such file", "server")
    with pytest.raises(FileNotFoundError) as caught:
        async with rb.reconnecting(world.factory, quick()):
            pytest.fail("entered")
    assert isinstance(caught.value, rb.ConfigError)
    assert caught.value.errno == 2


async def test_j05_a_link_shows_what_its_user_may_do_and_no_callback():
    """What keeps the link going is another object."""
    link = rb.reconnecting(lambda: connect("ws://127.0.0.1:1"))
    assert [name for name in dir(link) if not name.startswith("_")] == [
        "aclose",
        "events",
        "health",
        "reconnect_now",
        "state",
        "wait_ready",
    ]
