"""What Jupyter Server does on the socket of a kernel, seen by a plain client."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from tests.bridges.servers import jupyter
from tests.bridges.servers.wire import refused, until, wire


pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
async def notebook(tmp_path_factory):
    """A Jupyter server with a kernel."""
    async with jupyter.running(tmp_path_factory.mktemp("jupyter")) as server:
        yield server


async def attached(client):
    """Wait until the server has asked the kernel for a sign of life: what is printed before that is lost. The messages before it."""
    return await client.hear_until(
        lambda message: message["content"].get("execution_state") == "idle"
    )


async def printed(client, last):
    """What the kernel printed, up to this number."""
    heard = await client.hear_until(
        lambda message: (
            message["header"]["msg_type"] == "stream" and f"{last}\n" in message["content"]["text"]
        )
    )
    texts = [
        message["content"]["text"] for message in heard if message["header"]["msg_type"] == "stream"
    ]
    return [int(line) for line in "".join(texts).split()]


async def publish_into_the_buffer(server, *numbers):
    """Publish while nobody is connected, and wait until the server has it: what is on its way when a client returns may be lost."""
    await until(server.connections, 0)
    before = await server.buffered()
    for number in numbers:
        await server.publish(number)

    async def has_them() -> bool:
        return await server.buffered() >= before + len(numbers)

    await until(has_them, wanted=True)


async def test_jupyter_pushes_what_it_buffered_for_the_same_session_id(notebook):
    """After a clean leave: the output that came in between, then live; nothing marks where it ends."""
    url = notebook.address(uuid4().hex)
    async with wire(url) as client:
        await attached(client)
        await notebook.publish(10)
        assert await printed(client, 10) == [10]
    await publish_into_the_buffer(notebook, 11, 12)
    async with wire(url) as client:
        assert await printed(client, 12) == [11, 12]
        await notebook.publish(13)
        assert await printed(client, 13) == [13]


async def test_jupyter_throws_the_buffer_away_for_another_session_id(notebook):
    """The output in between is gone for both, which only the server's log says."""
    url = notebook.address(uuid4().hex)
    async with wire(url) as client:
        await attached(client)
    await publish_into_the_buffer(notebook, 21)
    async with wire(notebook.address(uuid4().hex)) as other:
        await attached(other)
        await notebook.publish(22)
        assert await printed(other, 22) == [22]
    await until(notebook.connections, 0)
    async with wire(url) as client:
        await attached(client)
        await notebook.publish(23)
        assert await printed(client, 23) == [23]
    assert re.search(r"Discarding [1-9]\d* buffered messages", notebook.log.read_text())


async def test_jupyter_buffers_nothing_while_the_old_socket_is_open(notebook):
    """What is printed then goes to the dead client, with the same session id and without a sign; the old socket is closed, without a code."""
    url = notebook.address(uuid4().hex)
    async with wire(url) as old, wire(url) as new:
        await attached(new)
        assert await old.closed() == 1005
    await until(notebook.connections, 0)
    async with wire(url) as old:
        await attached(old)
        await notebook.publish(14)
        async with wire(url) as new:
            await attached(new)
            await notebook.publish(15)
            assert await printed(new, 15) == [15]


async def test_jupyter_runs_identical_bytes_once_and_does_not_answer_the_repeat(notebook):
    """The same message twice: one run, one reply. With an id of its own it runs again."""
    session = uuid4().hex
    first, again, last = (
        jupyter.execute_request(f"do({number})", session=session) for number in (7, 7, 8)
    )
    async with wire(notebook.address(session)) as client:
        for request in (first, first, again, last):
            await client.say(request)
        heard = await client.hear_until(
            lambda message: (
                message["channel"] == "shell"
                and message["parent_header"]["msg_id"] == last["header"]["msg_id"]
            )
        )
    replies = [
        message["parent_header"]["msg_id"] for message in heard if message["channel"] == "shell"
    ]
    assert replies == [request["header"]["msg_id"] for request in (first, again, last)]
    assert (await notebook.ledger())[-3:] == [7, 7, 8]


async def test_jupyter_has_no_kernel_after_a_restart(notebook):
    """403 for the token, 404 for the kernel, until one of the same id is started; the kernels of a dead server are dead."""
    before = await notebook.ledger()
    assert await refused(notebook.url.replace("token=t", "token=wrong")) == 403
    notebook.kill()
    assert notebook.processes() == []
    await notebook.start(kernel=False)
    assert await refused(notebook.url) == 404
    await notebook.start_kernel()
    async with wire(notebook.url) as client:
        await attached(client)
        await notebook.publish(31)
        assert await printed(client, 31) == [31]
    assert await notebook.ledger() == before
