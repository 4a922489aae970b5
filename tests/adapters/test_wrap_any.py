"""`wrap` around any object: the methods named are protected, of whichever kind they are, and everything else is left alone."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager

import pytest

import resilient_bridge as rb
from tests.rows import each_row


FAST = rb.Policy(
    rb.Retry(attempts=3, backoff=rb.Backoff.constant(1)), rb.Breaker.consecutive(5, open_for=30)
)


class Part:
    """A part of an object."""

    def __init__(self, store):
        self.store = store

    def delete(self, key):
        return self.store.act("delete", key)


class Store:
    """Methods of every kind, which fail as often as they are told to."""

    __slots__ = ("__weakref__", "calls", "failing", "items", "label")

    def __init__(self):
        self.calls, self.failing, self.label = [], 0, "store"
        self.items = Part(self)

    @property
    def size(self):
        return len(self.calls)

    def act(self, *call):
        self.calls.append(call)
        if self.failing:
            self.failing -= 1
            raise ConnectionResetError("reset")
        return call

    def get(self, key, *, text=""):
        """Return the call."""
        return self.act("get", key)

    async def aget(self, key):
        return self.act("aget", key)

    def later(self, key):
        return asyncio.sleep(0, "never here")

    def rows(self, key):
        for number in range(3):
            yield (*self.act("rows", key), number)

    async def arows(self, key):
        for number in range(3):
            yield (*self.act("arows", key), number)

    @contextmanager
    def opened(self, key):
        self.act("opened", key)
        yield key

    @asynccontextmanager
    async def aopened(self, key):
        self.act("aopened", key)
        yield key

    def close(self):
        self.calls.append(("close",))


class Session(Store):
    """The same as an async context manager, as async clients are."""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        self.close()

    def prepared(self, key):
        return self.aget(key)


ALL = ["get", "aget", "rows", "arows", "opened", "aopened", "items.delete"]


def wrapped(store=None, policy=FAST, **options):
    """A wrapped store, all of whose calls may be repeated unless said otherwise."""
    return rb.wrap(store or Store(), policy, **{"methods": ALL, "idempotent": True, **options})


async def _aopened(store):
    async with store.aopened("k") as key:
        return key


def _opened(store):
    with store.opened("k") as key:
        return key


async def _listed(items):
    return [item async for item in items]


SYNC = {
    "get": lambda store: store.get("k"),
    "rows": lambda store: list(store.rows("k")),
    "opened": _opened,
    "items.delete": lambda store: store.items.delete("k"),
}
ASYNC = {
    "aget": lambda store: store.aget("k"),
    "arows": lambda store: _listed(store.arows("k")),
    "aopened": _aopened,
}


@pytest.mark.parametrize("name", [*SYNC, *ASYNC])
async def test_every_kind_of_method_is_protected(name):
    """A reset is repeated, and the result is what the bare object gives: functions, generators and context managers, sync and async."""
    bare, store = Store(), Store()
    client = wrapped(store)
    store.failing = 1
    with rb.testing.virtual_time() as time:
        results = [
            SYNC[name](each) if name in SYNC else await ASYNC[name](each) for each in (bare, client)
        ]
    assert results[0] == results[1]
    assert time.slept == [1.0]
    assert len(store.calls) == len(bare.calls) + 1


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("name", [*SYNC, *ASYNC])
async def test_a_call_that_may_have_run_needs_permission(name):
    """Without `idempotent` no method of a stranger is repeated after a reset; one that is named is."""
    for idempotent, wanted in ((False, 1), ([name], 2)):
        store = Store()
        client = wrapped(store, idempotent=idempotent)
        store.failing = 1
        failed = None
        with rb.testing.virtual_time():
            try:
                if name in SYNC:
                    SYNC[name](client)
                else:
                    await ASYNC[name](client)
            except ConnectionResetError as error:
                failed = error
        assert (failed is None) == bool(idempotent)
        assert len([call for call in store.calls if call[0] == store.calls[0][0]]) >= wanted
        if failed is not None:
            assert any("idempotent" in note for note in failed.__notes__)


def test_what_is_not_named_is_untouched():
    """Attributes, properties, slots and other methods are the object's own; setting one sets it there."""
    store = Store()
    client = wrapped(store, methods=["get"])
    assert isinstance(client, Store)
    assert client.__wrapped__ is store
    assert (client.label, client.size, client.items) == ("store", 0, store.items)
    assert client.get.__doc__ == "Return the call."
    client.label = "other"
    assert store.label == "other"
    with pytest.raises(AttributeError):
        client.unknown = 1
    with pytest.raises(AttributeError):
        _ = client.unknown
    store.failing = 1
    with rb.testing.virtual_time() as time, pytest.raises(ConnectionResetError) as caught:
        client.act("x")
    assert (time.slept, getattr(caught.value, "__notes__", [])) == ([], [])
    client.close()
    assert store.calls[-1] == ("close",)


def test_parts_are_what_they_were():
    """A dotted name protects a method below; the part in between is of its own class, and its other attributes are untouched."""
    store = Store()
    client = wrapped(store, methods=["items.delete"])
    assert isinstance(client.items, Part)
    assert client.items.store is store
    store.failing = 1
    with rb.testing.virtual_time():
        assert client.items.delete("k") == ("delete", "k")
    assert store.size == 2


def test_each_method_may_have_a_policy_of_its_own():
    """A mapping gives policies by name; a BridgePolicy lends its calls; they share the state of the object."""
    patient = rb.Policy(
        rb.Retry(attempts=5, backoff=rb.Backoff.constant(2)), rb.Breaker.consecutive(5)
    )
    store = Store()
    client = wrapped(
        store, methods={"get": patient, "items.delete": FAST, "rows": rb.presets.openviber}
    )
    store.failing = 4
    with rb.testing.virtual_time() as time:
        client.get("k")
        store.failing = 2
        client.items.delete("k")
    assert time.slept == [2.0] * 4 + [1.0] * 2
    assert rb.calls.circuit(client).key == rb.calls.circuit(client.items).key


REFUSED = {
    "nothing named": ({"methods": None}, "methods of Store to protect"),
    "a missing method": ({"methods": ["get", "gone"]}, "'gone'"),
    "a missing part": ({"methods": ["gone.delete"]}, "'gone.delete'"),
    "a property": ({"methods": ["size"]}, "'size'"),
    "an attribute": ({"methods": ["label"]}, "'label'"),
    "one string": ({"methods": "get"}, "names of methods"),
    "no policy": ({"methods": {"get": 3}}, r"wrap\.methods\['get'\]"),
    "a policy that is none": ({"policy": "x"}, r"wrap\.policy"),
    "one name for idempotent": ({"idempotent": "get"}, r"wrap\.idempotent"),
    "a number for idempotent": ({"idempotent": 3}, r"wrap\.idempotent"),
}


@each_row("passed", REFUSED)
def test_a_mistake_is_refused_at_once(passed):
    """ConfigError names the argument and what was wanted."""
    options, reported = REFUSED[passed]
    with pytest.raises(rb.ConfigError, match=reported):
        wrapped(**options)


@pytest.mark.parametrize("name", SYNC)
def test_a_timeout_around_a_method_that_blocks_is_refused_at_once(name):
    """Nothing could end it; around async ones it is welcome, on the same object."""
    policy = rb.Policy(rb.Retry(), rb.Timeout(5))
    with pytest.raises(rb.ConfigError, match="Timeout"):
        wrapped(policy=policy, methods=[name])
    wrapped(policy=policy, methods=["aget", "arows", "aopened"])


async def test_a_timeout_cuts_an_async_method():
    """The attempt ends, the next one answers."""
    started = []

    class Slow:
        async def ask(self):
            started.append(1)
            if len(started) == 1:
                await asyncio.Event().wait()
            return "ok"

    policy = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(1)), rb.Timeout(5))
    client = rb.wrap(Slow(), policy, methods=["ask"], idempotent=True)
    with rb.testing.virtual_time() as time:
        asking = asyncio.create_task(client.ask())
        async with asyncio.timeout(10):
            while not started:
                await asyncio.sleep(0)
        time.advance(5)
        assert await asking == "ok"
    assert started == [1, 1]


async def test_methods_of_an_async_client_may_prepare():
    """A plain method that returns an awaitable is protected where it is awaited; it may be awaited once per call, as before."""
    session = Session()
    async with wrapped(session, methods=["prepared", "aget"]) as client:
        assert isinstance(client, Session)
        session.failing = 1
        with rb.testing.virtual_time() as time:
            assert await client.prepared("k") == ("aget", "k")
        assert time.slept == [1.0]
    assert session.calls[-1] == ("close",)


class Answer:
    """What aiohttp's methods return: to await, or to enter."""

    def __init__(self, store):
        self.store = store

    def __await__(self):
        return self.store.aget("k").__await__()

    async def __aenter__(self):
        return await self

    async def __aexit__(self, *error):
        self.store.act("left")


class Requests(Session):
    """An async client whose methods return such an answer."""

    def request(self):
        return Answer(self)


async def test_what_can_be_awaited_or_entered_is_protected_in_both_directions():
    """A fresh answer is asked for each time, and the one that was entered is left."""
    session = Requests()
    client = wrapped(session, methods=["request"])
    with rb.testing.virtual_time() as time:
        session.failing = 1
        assert await client.request() == ("aget", "k")
        session.failing = 1
        async with client.request() as answer:
            assert answer == ("aget", "k")
    assert time.slept == [1.0, 1.0]
    assert session.calls == [("aget", "k")] * 4 + [("left",)]


async def test_a_method_that_blocks_on_an_async_client_is_refused():
    """It cannot be known before its first call, and is not left unprotected in silence."""
    client = wrapped(Session(), methods=["get"])
    with pytest.raises(rb.ConfigError, match=r"wrap\.methods\['get'\]"):
        client.get("k")


def test_a_function_that_returns_an_awaitable_is_refused():
    """On an object that blocks it would be one call that nobody protects."""
    client = wrapped(methods=["later"])
    with pytest.raises(rb.ConfigError):
        client.later("k")


async def test_the_circuit_is_the_objects():
    """All methods of one object share it, another object of the class has its own."""
    first, second = wrapped(), wrapped()
    first.__wrapped__.failing = 9
    with rb.testing.virtual_time():
        for call in (SYNC["get"], SYNC["items.delete"]):
            with pytest.raises((ConnectionResetError, rb.CircuitOpenError)):
                call(first)
        assert rb.calls.circuit(first).state == "open"
        with pytest.raises(rb.CircuitOpenError):
            await first.aget("k")
    assert rb.calls.circuit(second).state == "closed"
    assert first.__wrapped__.size == 5


async def test_a_cancelled_call_is_not_repeated():
    """The cancellation comes out, and nothing is counted."""
    started = asyncio.Event()

    class Slow:
        calls = 0

        async def ask(self):
            self.calls += 1
            started.set()
            await asyncio.Event().wait()

    client = rb.wrap(Slow(), FAST, methods=["ask"], idempotent=True)
    before = asyncio.all_tasks()
    asking = asyncio.create_task(client.ask())
    await started.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert client.calls == 1
    assert "0/" in repr(rb.calls.circuit(client))
    assert asyncio.all_tasks() == before


def test_wrapped_twice_is_what_was_asked_for():
    """Two policies around one another: attempts multiply, as with two decorators."""
    store = Store()
    client = wrapped(wrapped(store, methods=["get"]), methods=["get"])
    assert isinstance(client, Store)
    assert client.get("k") == ("get", "k")
    assert store.size == 1


class Server:
    """Methods that return the decoded answers of a server."""

    def __init__(self):
        self.calls = 0

    def ask(self):
        self.calls += 1
        return {
            "jsonrpc": "2.0",
            "id": self.calls,
            "error": {"code": -32000, "message": "server busy"},
        }

    async def aask(self):
        return self.ask()


@each_row("name", ["ask", "aask"])
@each_row("answers", [False, True])
def test_k01_the_dicts_of_a_users_object_are_answers_only_with_answers(name, answers):
    """By default what a method returns is its success; with `answers=True` a dict in a form of MCP is repeated and counted."""
    server = Server()
    policy = rb.Policy(
        rb.Retry(attempts=3, backoff=rb.Backoff.constant(0)), rb.Breaker.consecutive(3)
    )
    wrapped = rb.wrap(server, policy, methods=[name], idempotent=True, answers=answers)
    found = getattr(wrapped, name)()
    found = asyncio.run(found) if asyncio.iscoroutine(found) else found
    assert found["error"]["message"] == "server busy"
    assert (server.calls, rb.calls.circuit(wrapped).state) == (
        (3, "open") if answers else (1, "closed")
    )


def test_k01_answers_is_a_flag():
    """Anything but True or False is refused, and the error names it."""
    with pytest.raises(rb.ConfigError, match=r"wrap\.answers: wanted True or False"):
        rb.wrap(Server(), FAST, methods=["ask"], answers="dict")
