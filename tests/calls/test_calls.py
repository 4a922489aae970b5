"""What can be protected, what is refused, and that a protected function is called like the original."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial

import pytest

import resilient_bridge as rb
from tests.calls.forms import ASYNC, SYNC, Server, at_once, both, everywhere
from tests.rows import each_row


REFUSED = ConnectionRefusedError


def policies():
    """One policy for the fast path, and one for each reason to take the slow path."""
    return {
        "short": rb.Policy(at_once(), rb.Breaker()),
        "bulkhead": rb.Policy(at_once(), rb.Bulkhead(9)),
        "rate": rb.Policy(at_once(), rb.RateLimit(1_000)),
        "fallback": rb.Policy(rb.Fallback(Server().get, on="AUTH_INVALID_TOKEN"), at_once()),
        "breaker alone": rb.Policy(rb.Breaker()),
        "retry alone": rb.Policy(at_once()),
        "deadline": rb.Policy(rb.Deadline(60)),
    }


each_way = each_row("way", list(policies()))


@everywhere
@each_way
def test_arguments_go_in_and_the_result_comes_out(form, way):
    """Positional and keyword arguments arrive, and the returned object is the same one."""
    with form.world():
        get = policies()[way](form.of(lambda *args, **kwargs: (args, kwargs)), idempotent=True)
        result = object()
        assert form.run(get, 1, result, key=2) == ((1, result), {"key": 2})
        assert form.run(policies()[way](form.of(lambda: result), idempotent=True)) is result


@everywhere
@each_way
def test_the_arguments_are_the_same_on_every_attempt(form, way):
    """Each attempt gets the arguments of the call."""
    seen, server = [], Server(REFUSED, REFUSED)

    def body(*args, **kwargs):
        seen.append((args, kwargs))
        return server.get()

    policy = (
        rb.Policy(at_once())
        if way in ("breaker alone", "deadline", "fallback")
        else policies()[way]
    )
    with form.world():
        form.run(policy(form.of(body), idempotent=True), 1, key=2)
    assert seen == [((1,), {"key": 2})] * 3


# ---- kinds of functions ----------------------------------------------------------------------------------------------


class Client:
    """Somebody's class with protected methods."""

    policy = rb.Policy(at_once(), rb.Breaker.consecutive(9))

    def __init__(self, *script):
        self.server = Server(*script)

    @policy(idempotent=True)
    def get(self, path):
        return path, self.server.get()

    @policy(idempotent=True)
    async def fetch(self, path):
        return path, self.server.get()

    @staticmethod
    @policy(idempotent=True)
    def static(value):
        return value

    @classmethod
    @policy(idempotent=True)
    def made(cls):
        return cls()


async def test_methods_are_protected():
    """A protected method gets its `self`, on every attempt; static and class methods have the policy below their decorator."""
    client = Client(REFUSED, None, REFUSED)
    assert client.get("/a") == ("/a", "ok")
    assert await client.fetch("/b") == ("/b", "ok")
    assert Client.get(client, "/c") == ("/c", "ok")
    assert (Client.static(3), type(Client.made())) == (3, Client)
    assert inspect.iscoroutinefunction(client.fetch)
    assert client.server.calls == 5


def test_a_method_has_one_circuit_for_all_instances():
    """The circuit belongs to the protected function, which is that of the class."""
    rb.calls.circuit(Client.get).isolate()
    with pytest.raises(rb.CircuitOpenError):
        Client().get("/")
    rb.calls.circuit(Client.get).reset()


class Callable:
    """An object that is called."""

    def __init__(self, form):
        self.calls = 0
        if form.is_async:
            self.__class__ = AsyncCallable

    def __call__(self, value):
        self.calls += 1
        if self.calls == 1:
            raise REFUSED
        return value


class AsyncCallable(Callable):
    """The same, async."""

    async def __call__(self, value):
        return Callable.__call__(self, value)


@everywhere
@each_row(
    "kind", ["object", "partial", "partial of a partial", "bound method", "partial of an object"]
)
def test_whatever_can_be_called_is_protected(form, kind):
    """Callable objects, partials and bound methods, sync and async."""
    flaky = Callable(form)
    made = {
        "object": lambda: flaky,
        "partial": lambda: partial(form.of(lambda value: Callable.__call__(flaky, value))),
        "partial of a partial": lambda: partial(
            partial(form.of(lambda value: Callable.__call__(flaky, value)))
        ),
        "bound method": lambda: flaky.__call__,
        "partial of an object": lambda: partial(flaky),
    }[kind]()
    with form.world():
        protected = rb.Policy(at_once())(made, idempotent=True)
        assert inspect.iscoroutinefunction(protected) is form.is_async
        assert form.run(protected, 7) == 7
        assert form.run(rb.Policy(at_once())(idempotent=True).call, made, 8) == 8
    assert flaky.calls == 3


def test_builtins_are_functions():
    """`len` and a type's method can be protected."""
    assert rb.Policy(rb.Retry())(len, idempotent=True)([1, 2]) == 2
    assert rb.Policy(rb.Retry())(idempotent=True).call("a,b".split, ",") == ["a", "b"]


@each_row(
    "no_function",
    [Client, int, rb.Policy, 3, None, "get", staticmethod(len), classmethod(len)],
    ids=repr,
)
def test_what_is_no_function_is_refused(no_function):
    """A class, a value, and a staticmethod or classmethod object (the policy belongs below it): ConfigError that says so."""
    policy = rb.Policy(rb.Retry())
    with pytest.raises(rb.ConfigError, match=r"Policy\(function\): wanted"):
        policy(no_function) if no_function is not None else policy.call(no_function)


@both
def test_a_timeout_needs_an_async_function(form):
    """On a sync function it is refused where it is decorated, and the error names the way out."""
    policy = rb.Policy(rb.Timeout(5))
    if form.is_async:
        assert form.run(policy(form.of(lambda: "ok"))) == "ok"
        return
    with pytest.raises(rb.ConfigError, match="thread=True"):
        policy(lambda: "ok")
    with pytest.raises(rb.ConfigError, match="thread=True"):
        policy.call(lambda: "ok")


async def later():
    """Stand for an awaitable that a sync function returns by mistake."""
    return "ok"


@each_way
@pytest.mark.parametrize("virtual", [False, True])
def test_a_sync_function_that_returns_an_awaitable_is_refused(way, virtual):
    """A lambda around an async function would run outside every layer; stamina makes one call without an error."""
    with rb.testing.virtual_time() if virtual else rb.testing.record():
        protected = policies()[way](lambda: later(), idempotent=True)  # noqa: PLW0108 -- what people write
        for _ in range(2):
            with pytest.raises(rb.ConfigError, match="wanted an async function"):
                protected()


class Ticket:
    """Something to await that is no coroutine, as a client library may return it."""

    def __await__(self):
        yield from ()
        return "ok"


def test_an_awaitable_is_refused_although_an_async_function_may_return_it():
    """An async function may return an awaitable; that does not make the policy accept one from a sync function."""
    policy = rb.Policy(at_once())

    @policy(idempotent=True)
    async def get():
        return Ticket()

    async def main():
        return await (await get())

    assert asyncio.run(main()) == "ok"
    with pytest.raises(rb.ConfigError, match="wanted an async function"):
        policy(lambda: Ticket(), idempotent=True)()  # noqa: PLW0108 -- a class cannot be protected


# ---- how a call ends -------------------------------------------------------------------------------------------------


@everywhere
@each_way
@pytest.mark.parametrize(
    "error", [ValueError("x"), REFUSED("x"), KeyboardInterrupt(), SystemExit(3)], ids=repr
)
def test_the_callers_exception_comes_out_as_the_same_object(form, way, error):
    """After the last attempt any error is raised unchanged, with the traceback to where it was raised."""
    server = Server(always=error)
    with form.world():
        policy = rb.Policy(rb.Fallback(server.get)) if way == "fallback" else policies()[way]
        with pytest.raises(type(error)) as raised:
            form.run(policy(form.of(server.get), idempotent=True))
    assert raised.value is error
    assert raised.traceback[-1].name == "get"
    assert error.__cause__ is None


@pytest.mark.parametrize("virtual", [False, True])
@each_way
def test_the_end_of_an_iterator_is_no_failure(way, virtual):
    """A sync function such as `next` may raise StopIteration; that is not counted, and everything is released."""
    items = iter([1])
    policy = policies()[way]
    with rb.testing.virtual_time() if virtual else rb.testing.record():
        protected = policy(lambda: next(items), idempotent=True)
        assert protected() == 1
        for _ in range(20):
            with pytest.raises(StopIteration):
                protected()
        if "short" in way or "breaker" in way:
            assert rb.calls.circuit(protected).state == "closed"


@everywhere
def test_layers_are_released_however_a_call_ends(form):
    """A bulkhead of one is free again after a success, an error, an interrupt and a refused answer."""
    server = Server(None, ValueError, KeyboardInterrupt, REFUSED, SystemExit, None)
    with form.world():
        get = rb.Policy(at_once(attempts=1), rb.Bulkhead(1), rb.Breaker())(
            form.of(server.get), idempotent=True
        )
        for expected in (None, ValueError, KeyboardInterrupt, REFUSED, SystemExit, None):
            if expected is None:
                assert form.run(get) == "ok"
            else:
                with pytest.raises(expected):
                    form.run(get)


def broken(*_):
    """Stand for a callback that raises."""
    raise LookupError("a mistake in a callback")


@everywhere
@each_row(
    "layers",
    [
        [at_once(on_result=broken), rb.Bulkhead(1), rb.Breaker.consecutive(9, open_for=0)],
        [at_once(on=broken), rb.Bulkhead(1), rb.Breaker.consecutive(9, open_for=0)],
        [at_once(rules={broken: rb.Rule(attempts=3)}), rb.Bulkhead(1)],
        [at_once(backoff=broken), rb.Bulkhead(1)],
        [at_once(), rb.Bulkhead(1), rb.Breaker.consecutive(9, ignore=broken)],
    ],
    ids=["on_result", "on", "rules", "backoff", "ignore"],
)
def test_a_callback_that_raises_loses_nothing(form, layers):
    """The call's own error is raised, with a note about the callback's (D04); after a result, the callback's error is raised.

    The bulkhead's permit is returned.
    """
    expected = LookupError if layers[0].on_result else REFUSED
    server = Server(always=None if layers[0].on_result else REFUSED)
    with form.world():
        get = rb.Policy(*layers)(form.of(server.get), idempotent=True)
        for _ in range(3):
            with pytest.raises(expected) as caught:
                form.run(get)
            assert expected is LookupError or "a mistake in a callback" in "".join(
                caught.value.__notes__
            )
    assert server.calls == (9 if layers[-1] == rb.Breaker.consecutive(9, ignore=broken) else 3)


async def test_an_on_result_that_raises_leaves_no_timer():
    """The time limit of the call ends with it: it does not cancel what the caller does afterwards."""
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(at_once(on_result=broken), rb.Timeout(5))(
            ASYNC.of(Server().get), idempotent=True
        )
        with pytest.raises(LookupError):
            await get()
        clock.advance(10)
        await asyncio.sleep(0)
        assert asyncio.current_task().cancelling() == 0


def test_two_policies_around_one_function():
    """They stack: the outer one retries what the inner one rejects."""
    server = Server(REFUSED, REFUSED)
    inner = rb.Policy(rb.Breaker.consecutive(1, open_for=0))(server.get)
    outer = rb.Policy(at_once())(inner, idempotent=True)
    assert outer() == "ok"
    assert outer.policy != inner.policy
    assert rb.calls.circuit(inner).state == "closed"


def test_call_returns_what_the_function_returns():
    """A value, a coroutine, a generator or an async generator: each is protected."""
    policy = rb.Policy(at_once())

    def items():
        yield 1

    async def async_items():
        yield 2

    async def main():
        return await policy(idempotent=True).call(ASYNC.of(lambda: 3)), [
            item async for item in policy(idempotent=True).call(async_items)
        ]

    assert policy(idempotent=True).call(SYNC.of(lambda: 0)) == 0
    assert list(policy(idempotent=True).call(items)) == [1]
    assert asyncio.run(main()) == (3, [2])


@everywhere
def test_e25_defaults_are_preserved(form):
    """Those of positional and of keyword arguments, on the function itself; calling it takes them from the function within."""

    def greet(name="you", *, loud=False):
        return f"{name}{'!' if loud else ''}"

    protected = rb.Policy(at_once())(form.of(greet), idempotent=True)
    if not form.is_async:
        assert (protected.__defaults__, protected.__kwdefaults__) == (("you",), {"loud": False})
    assert form.run(protected) == "you"
    assert form.run(protected, "me", loud=True) == "me!"
