"""`Rule(before=)`: what runs before a repeat, once for all who need it, inside of the call and its limits."""

from __future__ import annotations

import asyncio
import threading

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, everywhere, http_error, settle


def on_401(before, **how):
    """A Retry that refreshes on 401."""
    return at_once(rules={401: rb.Rule(attempts=2, before=before)}, **how)


@everywhere
def test_it_runs_before_the_repeat(form):
    """Once, between the failed attempt and the next; not for another failure, nor after the last attempt."""
    story = []

    def body():
        story.append("call")
        server.get()

    with form.world():
        policy = rb.Policy(on_401(lambda: story.append("refresh")))
        server = Server(http_error(401))
        form.run(policy(form.of(body), idempotent=True))
        assert story == ["call", "refresh", "call"]

        story.clear()
        server = Server(ConnectionRefusedError)
        form.run(policy(form.of(body), idempotent=True))
        assert story == ["call", "call"]

        story.clear()
        server = Server(always=http_error(401))
        with pytest.raises(Exception, match="401"):
            form.run(policy(form.of(body), idempotent=True))
        assert story == ["call", "refresh", "call"]


async def test_it_may_be_async():
    """An async function waits for it."""
    story = []

    async def refresh():
        await asyncio.sleep(0)
        story.append("refreshed")

    @rb.Policy(on_401(refresh))(idempotent=True)
    async def get():
        story.append("call")
        server.get()

    server = Server(http_error(401))
    await get()
    assert story == ["call", "refreshed", "call"]


def test_a_sync_function_cannot_wait_for_an_async_one():
    """ConfigError that names `Rule.before`; nothing is left un-awaited."""

    async def refresh():
        """Never run."""

    with pytest.raises(rb.ConfigError, match=r"Rule\.before"):
        rb.Policy(on_401(refresh))(idempotent=True).call(Server(http_error(401)).get)


@everywhere
def test_what_it_raises_ends_the_call(form):
    """The error of the refresh comes out; the layers are given back."""

    def refresh():
        raise PermissionError("refused")

    server = Server(http_error(401), http_error(401), None)
    with form.world():
        get = rb.Policy(on_401(refresh), rb.Bulkhead(1))(form.of(server.get), idempotent=True)
        for _ in range(2):
            with pytest.raises(PermissionError, match="refused"):
                form.run(get)
        assert form.run(get) == "ok"
    assert server.calls == 3


@everywhere
def test_it_does_not_refresh_itself(form):
    """A log-in through the same policy that meets a 401 fails once, instead of logging in to log in."""
    logins = []

    def log_in():
        logins.append(1)
        get()

    with form.world():
        get = rb.Policy(on_401(log_in))(Server(always=http_error(401)).get, idempotent=True)
        with pytest.raises(Exception, match="401"):
            form.run(form.of(get))
    assert len(logins) == 1


@everywhere
def test_what_it_calls_repeats_by_its_own_policy(form):
    """A log-in that is refused twice is repeated: it is an operation of its own."""
    login = Server(ConnectionRefusedError, ConnectionRefusedError)
    with form.world():
        log_in = rb.Policy(at_once(attempts=3))(login.get, idempotent=True)
        get = rb.Policy(on_401(lambda: log_in() and None))(
            form.of(Server(http_error(401)).get), idempotent=True
        )
        assert form.run(get) == "ok"
    assert login.calls == 3


class Stale:
    """A service whose callers all begin with the same stale token: 401 until somebody has logged in."""

    def __init__(self):
        self.token = "stale"
        self.logins = 0

    async def log_in(self):
        self.logins += 1
        await asyncio.sleep(0)
        self.token = "fresh"

    async def get(self):
        sent = self.token
        await asyncio.sleep(0)
        if sent == "stale":
            raise http_error(401)
        return sent


async def test_of_many_that_fail_together_one_refreshes():
    """Ten calls with the same stale token: one log-in, and all of them go on with what it brought (threat 44)."""
    service = Stale()
    get = rb.Policy(on_401(service.log_in))(service.get, idempotent=True)
    assert await asyncio.gather(*(get() for _ in range(10))) == ["fresh"] * 10
    assert service.logins == 1


async def test_all_functions_of_a_policy_share_one_refresh():
    """Three functions with one policy fail together: one log-in for all; another policy with an equal rule makes its own."""
    service = Stale()
    policy = rb.Policy(on_401(service.log_in))
    functions = [policy(service.get, idempotent=True) for _ in range(3)]
    assert await asyncio.gather(*(function() for function in functions)) == ["fresh"] * 3
    assert service.logins == 1
    service.token = "stale"
    another = rb.Policy(on_401(service.log_in))(service.get, idempotent=True)
    assert await asyncio.gather(functions[0](), another()) == ["fresh"] * 2
    assert service.logins == 3


def test_of_many_threads_that_fail_together_one_refreshes():
    """The same across threads."""
    token, logins, results = "stale", [], []
    stale = threading.Barrier(8)

    def log_in():
        nonlocal token
        logins.append(1)
        token = "fresh"

    @rb.Policy(on_401(log_in))(idempotent=True)
    def get():
        if rb.current_attempt().number == 1:
            stale.wait(10)
            raise http_error(401)
        return token

    threads = [threading.Thread(target=lambda: results.append(get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["fresh"] * 8
    assert len(logins) == 1


async def test_one_that_fails_leaves_it_to_the_next():
    """Of two that wait for a log-in that fails, the second tries its own."""
    outcomes = iter([PermissionError("first"), None])

    async def log_in():
        await asyncio.sleep(0)
        if (error := next(outcomes)) is not None:
            raise error

    @rb.Policy(on_401(log_in))(idempotent=True)
    async def get():
        await asyncio.sleep(0)
        if rb.current_attempt().number == 1:
            raise http_error(401)
        return "ok"

    results = await asyncio.gather(get(), get(), return_exceptions=True)
    assert sorted(map(type, results), key=str) == [PermissionError, str]


async def test_a_cancelled_refresh_leaves_the_way_free():
    """The call that refreshes is cancelled: the others do not wait for it for ever."""
    hang = True

    async def log_in():
        if hang:
            await asyncio.get_running_loop().create_future()

    @rb.Policy(on_401(log_in))(idempotent=True)
    async def get():
        if rb.current_attempt().number == 1:
            raise http_error(401)
        return "ok"

    first, second = asyncio.create_task(get()), asyncio.create_task(get())
    await settle()
    hang = False
    first.cancel()
    assert await second == "ok"


async def test_it_is_inside_of_the_deadline():
    """A refresh that hangs is cut off with the call."""

    async def log_in():
        await asyncio.get_running_loop().create_future()

    with rb.testing.virtual_time() as clock:
        task = asyncio.create_task(
            rb.Policy(rb.Deadline(5), on_401(log_in))(idempotent=True).call(refused)
        )
        await settle()
        clock.advance(5)
        with pytest.raises(rb.DeadlineExceededError):
            await task


async def refused():
    """Says 401."""
    raise http_error(401)


@everywhere
def test_a_later_401_refreshes_again(form):
    """The next call with a token that went stale in the meantime gets a log-in of its own."""
    logins = []
    server = Server(http_error(401), None, http_error(401), None)
    with form.world() as clock:
        get = rb.Policy(on_401(lambda: logins.append(1)))(form.of(server.get), idempotent=True)
        for _ in range(2):
            assert form.run(get) == "ok"
            if form.is_virtual:
                clock.advance(1)
    assert len(logins) == 2
