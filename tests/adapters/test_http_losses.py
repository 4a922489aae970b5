"""Connections that break, servers that hang, time that runs out: what runs, how often, and what is left behind."""

from __future__ import annotations

import asyncio
import pickle
import time

import pytest

import resilient_bridge as rb
from tests.adapters.http_clients import AT_ONCE, KINDS, QUICK, each_kind, repeating
from tests.peers.faults import Fault
from tests.peers.http_fault import HttpFault
from tests.peers.running import until


pytestmark = pytest.mark.real
ASYNC = [kind for kind in KINDS if kind.is_async]
SYNC = [kind for kind in KINDS if not kind.is_async]
LOST = [
    (Fault.reset_unread(), 0),
    (Fault.reset_before(), 0),
    (Fault.reset_after(), 1),
    (Fault.black_hole(executed=True), 1),
]


@each_kind
@pytest.mark.parametrize(("fault", "executed"), LOST, ids=[fault.kind for fault, _ in LOST])
async def test_a_lost_post_ran_at_most_once_and_a_get_is_repeated(kind, fault, executed):
    """The client cannot see whether the server acted before the line broke: so GET is asked again, POST is not."""
    async with HttpFault() as server, kind.client() as client:
        if fault.kind == "black_hole":
            client.raw.timeout = 0.1
        server.strike(fault)
        with pytest.raises(kind.library.TransportError) as caught:
            await client.post(server.url(), json={"n": 1})
        assert rb.classify(caught.value).executed is rb.errors.Executed.MAYBE
        assert (server.requests, server.executed) == (1, executed)
        server.strike(fault)
        assert (await client.get(server.url())).status_code == 200
        assert (server.requests, server.executed) == (3, executed + 1 + executed)


# ---- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SYNC, ids=repr)
async def test_a_deadline_bounds_the_socket_of_a_sync_client(kind):
    """A thread cannot be interrupted; its socket waits no longer than the deadline, and the request's timeouts stay its own."""
    policy = rb.Policy(rb.Deadline(0.3), AT_ONCE)
    async with (
        HttpFault() as server,
        kind.client(rb.HTTPTransport(policy, kind.inner()), timeout=60) as client,
    ):
        server.strike(Fault.black_hole())
        request = client.raw.build_request("GET", server.url())
        reported = dict(request.extensions["timeout"])
        began = time.monotonic()
        with pytest.raises(kind.library.TimeoutException) as caught:
            await client.do(client.raw.send, request)
        assert 0.25 < time.monotonic() - began < 15
        assert rb.classify(caught.value).stopped == "deadline"
        assert request.extensions["timeout"] == reported
        assert (await client.do(client.raw.send, request)).status_code == 200


@pytest.mark.parametrize("kind", SYNC, ids=repr)
async def test_a_sync_client_without_timeouts_is_bound_too(kind):
    """`timeout=None` is no licence to outlast the deadline."""
    policy = rb.Policy(rb.Deadline(0.3), AT_ONCE)
    async with (
        HttpFault() as server,
        kind.client(rb.HTTPTransport(policy, kind.inner()), timeout=None) as client,
    ):
        server.strike(Fault.black_hole())
        with pytest.raises(kind.library.TimeoutException):
            await asyncio.wait_for(client.get(server.url()), 15)


@pytest.mark.parametrize("kind", SYNC, ids=repr)
async def test_a_sync_client_refuses_a_timeout_that_cannot_hold(kind):
    """`Timeout` needs a task to cancel; under a sync client it is a ConfigError, and the library's error."""
    policy = rb.Policy(rb.Timeout(5))
    with pytest.raises(
        rb.ConfigError, match=r"^HTTPTransport\.policy: wanted Timeout\(…, thread=True\)"
    ):
        rb.HTTPTransport(policy, kind.inner())
    async with HttpFault() as server, kind.client(rb.HTTPTransport(policy)) as client:
        with pytest.raises(rb.ConfigError) as caught:
            await client.get(server.url())
        assert isinstance(caught.value, kind.library.RequestError)
        assert server.requests == 0


@pytest.mark.parametrize("kind", ASYNC, ids=repr)
@pytest.mark.parametrize(
    ("layer", "error"),
    [
        (rb.Timeout(0.1), rb.errors.AttemptTimeoutError),
        (rb.Deadline(0.1), rb.DeadlineExceededError),
    ],
    ids=["timeout", "deadline"],
)
async def test_time_runs_out_and_the_pool_is_clean(kind, layer, error):
    """Cut amid an answer that never comes: our error is the library's TimeoutException, and the only connection is free again."""
    transport = rb.HTTPTransport(rb.Policy(layer), kind.inner(connections=1))
    async with HttpFault() as server, kind.client(transport) as client:
        tasks = asyncio.all_tasks()
        for _ in range(3):
            server.strike(Fault.black_hole())
            with pytest.raises(kind.library.TimeoutException) as caught:
                await client.get(server.url())
            assert isinstance(caught.value, error)
            assert str(caught.value.request.url) == server.url()
        transport._policy = QUICK
        assert (await client.get(server.url())).status_code == 200
        await until(lambda: len(server._open) == 1, "the end of the connections that were cut")
        assert len(asyncio.all_tasks() - tasks) <= 1


@pytest.mark.parametrize("kind", ASYNC, ids=repr)
async def test_the_history_of_attempts_stays_with_our_error(kind):
    """A 503, then two timeouts: the error tells all three, also after a pickle, where it is our own class again."""
    policy = rb.Policy(repeating(attempts=3).layers[0], rb.Timeout(0.1))
    async with HttpFault() as server, kind.client(rb.HTTPTransport(policy, kind.inner())) as client:
        server.strike(Fault.answer(503))
        server.strike(Fault.black_hole(), times=2)
        with pytest.raises(kind.library.TimeoutException) as caught:
            await client.get(server.url())
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is rb.errors.AttemptTimeoutError
    for error in (caught.value, copy):
        failure = rb.classify(error)
        assert (failure.code, failure.stopped) == ("SYS_TIMEOUT", "attempts")
        assert [earlier.code for earlier in failure.history] == ["SYS_UNAVAILABLE", "SYS_TIMEOUT"]
        assert "gave up after 3 calls" in error.__notes__[0]


@pytest.mark.parametrize("kind", ASYNC, ids=repr)
async def test_a_cancelled_request_is_cancelled(kind):
    """Cancellation goes through, nothing is repeated, and the only connection is free again."""
    transport = rb.HTTPTransport(QUICK, kind.inner(connections=1))
    async with HttpFault() as server, kind.client(transport) as client:
        server.strike(Fault.black_hole())
        task = asyncio.create_task(client.get(server.url()))
        await until(lambda: server.requests == 1, "the request")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.get(server.url())).status_code == 200
        assert server.requests == 2
