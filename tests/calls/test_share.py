"""Calls of one key that come together are one: who gets its answer, who ends it, and what is cached of it."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from contextlib import suppress
from contextvars import ContextVar
from random import Random

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.calls import Share, current_answer
from tests.internals.calls import Answers, Cached
from tests.rows import each_row


pytestmark = pytest.mark.requirement("X17")

TENANT = ContextVar("TENANT", default="nobody")


class Server:
    """Answers after `seconds`; counts its calls."""

    def __init__(self, seconds=1.0, *, fails=None):
        self.seconds, self.fails = seconds, fails
        self.asked = self.running = self.most = self.cancelled = 0

    async def search(self, query):
        self.asked += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        if self.fails is not None:
            raise self.fails
        return [query, self.asked]


def shared(server, *layers, **share):
    before = [layer for layer in layers if isinstance(layer, rb.Deadline | rb.Fallback)]
    after = [layer for layer in layers if layer not in before]
    policy = rb.Policy(*before, Share(key=lambda query: query, **share), *after)
    return policy(server.search, idempotent=True)


def simulated(work, *, seed=0):
    """Run `work()` on a simulated loop; return its result, and the seconds that passed."""

    async def main(_):
        loop = asyncio.get_running_loop()
        started = loop.time()
        result = await work()
        return result, round(loop.time() - started, 6)

    return rb.testing.simulate(main, seed=seed)


# ---- one call -----------------------------------------------------------------------------------


@each_row("cancelled", range(101))
def test_a_burst_makes_one_call_with_any_caller_cancelled(cancelled):
    """101 callers of one key; each in turn is cancelled while the call is under way, the first too."""
    server = Server()
    search = shared(server, rb.Retry())

    async def work():
        tasks = [asyncio.create_task(search("x")) for _ in range(101)]
        await asyncio.sleep(0.5)
        tasks[cancelled].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers, seconds = simulated(work, seed=cancelled)
    assert (server.asked, seconds) == (1, 1)
    assert isinstance(answers.pop(cancelled), asyncio.CancelledError)
    assert answers == [["x", 1]] * 100


def test_other_keys_have_calls_of_their_own_and_what_has_ended_is_called_again():
    server = Server()
    search = shared(server)

    async def work():
        await asyncio.gather(*(search(query) for query in "aabbc"))
        await search("a")

    simulated(work)
    assert (server.asked, server.most) == (4, 3)


def test_with_its_last_caller_it_is_cancelled_and_has_ended():
    server = Server(10)
    search = shared(server, rb.Retry())

    async def work():
        tasks = [asyncio.create_task(search("x")) for _ in range(3)]
        for task in tasks:
            await asyncio.sleep(1)
            assert (server.running, server.cancelled) == (1, 0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (server.running, server.cancelled) == (0, 1)
        assert await search("x") == ["x", 2]

    simulated(work)


def test_who_comes_while_it_is_being_cancelled_makes_a_call():
    """It does not join a call that its last caller has just given up."""
    asked = []

    async def search():
        asked.append(1)
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await asyncio.sleep(1)  # slow to end
            raise
        return len(asked)

    call = rb.Policy(Share(key=lambda: 1))(search, idempotent=True)

    async def work():
        first = asyncio.create_task(call())
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(0.5)
        return await call()

    assert simulated(work) == (2, 11.5)


@each_row("seed", range(60))
def test_at_random_times_every_caller_gets_the_answer_of_its_key(seed):
    """Callers of three keys come and are cancelled: never two calls of a key, nothing left behind."""
    rng = Random(seed)
    running, most = {}, []

    async def search(query):
        running[query] = running.get(query, 0) + 1
        most.append(running[query])
        try:
            await asyncio.sleep(rng.uniform(0.1, 3))
            if rng.random() < 0.2:
                raise ConnectionResetError
            return {"query": query}
        finally:
            running[query] -= 1

    policy = rb.Policy(
        Share(key=lambda query: query, fresh_for=rng.choice([0, 1])),
        rb.Retry(attempts=2, backoff=rb.Backoff.constant(0)),
    )
    call = policy(search, idempotent=True)

    async def caller(query):
        await asyncio.sleep(rng.uniform(0, 5))
        task = asyncio.create_task(call(query))
        if rng.random() < 0.4:
            asyncio.get_running_loop().call_later(rng.uniform(0, 3), task.cancel)
        try:
            assert await task == {"query": query}
        except (asyncio.CancelledError, ConnectionResetError):
            return

    async def work():
        await asyncio.gather(*(caller(rng.choice("abc")) for _ in range(30)))

    simulated(work, seed=seed)
    assert max(most) == 1
    assert not any(running.values())


def test_a_call_that_calls_itself_does_not_wait_for_itself():
    depth = []

    @rb.Policy(Share(key=lambda: 1))(idempotent=True)
    async def search():
        depth.append(1)
        return "done" if len(depth) == 3 else await search()

    assert simulated(search) == ("done", 0)


# ---- its context and its time -------------------------------------------------------------------


def test_calls_that_need_each_other_do_not_wait_for_each_other():
    """Two keys whose calls ask for one another, at the same time and in a chain."""
    rounds = []

    @rb.Policy(Share(key=lambda name, *_: name))(idempotent=True)
    async def linked(name, depth=3):
        await asyncio.sleep(1)
        rounds.append(name)
        return name if depth == 0 else await linked("b" if name == "a" else "a", depth - 1)

    async def main():
        return await asyncio.gather(linked("a"), linked("b"))

    answers, seconds = simulated(main)
    assert answers in (["a", "a"], ["b", "b"], ["b", "a"], ["a", "b"])
    assert seconds <= 8
    assert simulated(lambda: linked("a")) == ("b", 4)


def test_inside_of_a_call_that_holds_the_only_permit_of_its_limit_it_waits_for_none():
    limit = rb.AdaptiveLimit(key="shared inside", start=1, most=1)

    @rb.Policy(Share(key=str), rb.Retry(), limit)(idempotent=True)
    async def search(query):
        await asyncio.sleep(1)
        return query

    @rb.Policy(limit)(idempotent=True)
    async def outer():
        return await search("x")

    assert simulated(outer) == ("x", 1)


def test_it_sees_no_variable_of_a_caller():
    """Else the answer of the first caller's tenant would be everybody's."""

    @rb.Policy(Share(key=lambda: 1))(idempotent=True)
    async def whose():
        await asyncio.sleep(1)
        return TENANT.get()

    async def caller(tenant):
        TENANT.set(tenant)
        return await whose(), TENANT.get()

    async def work():
        return await asyncio.gather(caller("a"), caller("b"))

    assert simulated(work)[0] == [("nobody", "a"), ("nobody", "b")]


def test_each_caller_has_its_own_deadline_and_the_call_the_longest():
    """What is inside sees the time of the caller with the most, also of one that came later."""
    remaining = []

    @rb.Policy(Share(key=lambda: 1), rb.Retry())(idempotent=True)
    async def search():
        for _ in range(4):
            remaining.append(round(rb.current_attempt().remaining, 6))
            await asyncio.sleep(1)
        return "answer"

    async def caller(after, seconds):
        await asyncio.sleep(after)
        started = asyncio.get_running_loop().time()
        with suppress(rb.DeadlineExceededError):
            return await rb.Policy(rb.Deadline(seconds))(search)()
        return round(asyncio.get_running_loop().time() - started, 6)

    async def work():
        return await asyncio.gather(caller(0, 1.5), caller(0.5, 2), caller(1.25, 10))

    assert simulated(work)[0] == [1.5, 2, "answer"]
    assert remaining == [1.5, 1.5, 9.25, 8.25]


def test_a_caller_without_a_deadline_lifts_that_of_the_others():
    remaining = []

    @rb.Policy(Share(key=lambda: 1))(idempotent=True)
    async def search():
        for _ in range(2):
            await asyncio.sleep(1)
            remaining.append(rb.current_attempt().remaining)

    async def work():
        first = asyncio.create_task(rb.Policy(rb.Deadline(5))(search)())
        await asyncio.sleep(1.5)
        await search()
        await first

    simulated(work)
    assert remaining == [4, None]


@pytest.mark.parametrize("later", [None, 20.0, 7.0], ids=str)
def test_a_block_inside_has_the_time_of_the_caller_with_the_most(later):
    """The first caller's deadline of 4 s is not the block's once another one has joined."""

    @rb.Policy(Share(key=str), rb.Retry())(idempotent=True)
    async def search(_):
        async with rb.Deadline(8):
            await asyncio.sleep(6)
            return rb.current_attempt().remaining

    async def caller(seconds, begins):
        await asyncio.sleep(begins)
        if seconds is None:
            return await search("x")
        async with rb.Deadline(seconds):
            return await search("x")

    async def main():
        return await asyncio.gather(caller(4, 0), caller(later, 1), return_exceptions=True)

    (first, second), seconds = simulated(main)
    assert isinstance(first, rb.errors.DeadlineExceededError)
    assert (second, seconds) == (2, 6)


def test_with_the_last_deadline_it_is_cancelled():
    server = Server(60)
    search = shared(server, rb.Deadline(5), rb.Retry())

    async def work():
        results = await asyncio.gather(search("x"), search("x"), return_exceptions=True)
        assert [type(each) for each in results] == [rb.DeadlineExceededError] * 2

    _, seconds = simulated(work)
    assert (seconds, server.asked, server.running) == (5, 1, 0)


# ---- its answer ---------------------------------------------------------------------------------


def test_no_object_is_shared():
    """Neither two callers, nor a caller and what is cached, nor the function and what is cached."""
    own = []

    @rb.Policy(Share(key=lambda: 1, fresh_for=60))(idempotent=True)
    async def search():
        await asyncio.sleep(1)
        own.append({"items": [1]})
        return own[-1]

    async def work():
        one, two = await asyncio.gather(search(), search())
        for answer in (one, two, own[0]):
            answer["items"].append(2)
        later = await search()
        later["items"].append(3)
        return one, two, later, await search()

    one, two, later, last = simulated(work)[0]
    assert one == two == {"items": [1, 2]}
    assert later == {"items": [1, 3]}
    assert last == {"items": [1]}
    assert len({id(each["items"]) for each in (one, two, later, last, own[0])}) == 5


def test_each_caller_has_an_error_of_its_own_with_what_is_known_of_the_call():
    """The notes and the history are those of the repeats; whoever adds a note adds it to its own."""
    server = Server(fails=ConnectionResetError("gone"))
    search = shared(server, rb.Retry(attempts=3, backoff=rb.Backoff.constant(0)))

    async def work():
        return await asyncio.gather(*(rb.capture(search, "x") for _ in range(3)))

    outcomes = simulated(work)[0]
    errors = [outcome.error for outcome in outcomes]
    assert server.asked == 3
    assert len({id(error) for error in errors}) == 3
    assert {str(error) for error in errors} == {"gone"}
    assert {outcome.failure.stopped for outcome in outcomes} == {"attempts"}
    assert {len(outcome.failure.history) for outcome in outcomes} == {2}
    errors[0].add_note("mine")
    assert [len(error.__notes__) for error in errors] == [2, 1, 1]


def test_an_error_that_cannot_be_copied_is_the_same_for_all():
    class OddError(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} {two}")

    server = Server(fails=OddError(1, 2))
    search = shared(server)

    async def work():
        return await asyncio.gather(search("x"), search("x"), return_exceptions=True)

    one, two = simulated(work)[0]
    assert one is two


def test_repeats_inside_count_for_a_policy_around_a_caller():
    """Nested retries do not multiply because a call is shared."""
    server = Server(fails=ConnectionResetError())
    quick = rb.Retry(attempts=3, backoff=rb.Backoff.constant(0))
    search = shared(server, quick)

    @rb.Policy(quick)(idempotent=True)
    async def outer():
        return await search("x")

    async def work():
        with pytest.raises(ConnectionResetError):
            await outer()

    simulated(work)
    assert server.asked == 3


@each_row("answer", [
    lambda: (each for each in "ab"), lambda: httpx.Response(200), threading.Lock, lambda: iter([]),
])  # fmt: skip
def test_an_answer_that_cannot_be_copied_is_refused_at_the_first_call(answer):
    closed = []

    async def search():
        found = answer()
        if isinstance(found, httpx.Response):
            found.aclose = lambda: _closed(closed)
        return found

    call = rb.Policy(Share(key=lambda: 1))(search, idempotent=True)

    async def work():
        with pytest.raises(rb.ConfigError, match="an answer that can be copied") as raised:
            await call()
        return rb.classify(raised.value)

    assert simulated(work)[0].executed is rb.errors.Executed.MAYBE
    assert len(closed) == isinstance(answer(), httpx.Response)


async def _closed(closed):
    closed.append(1)


# ---- an answer again ----------------------------------------------------------------------------


def test_a_fresh_answer_is_used_again():
    server = Server()
    search = shared(server, fresh_for=10)
    seen = []

    async def work():
        with rb.listen(
            lambda event: isinstance(event, rb.events.AnswerShared) and seen.append(event)
        ):
            assert current_answer() is None
            first, before = await search("x"), current_answer()
            await asyncio.sleep(9)
            again, known = await search("x"), current_answer()
            await asyncio.sleep(2)
            return first, before, again, known, await search("x")

    first, before, again, known, last = simulated(work)[0]
    assert (first, again, last) == (["x", 1], ["x", 1], ["x", 2])
    assert (before.stale, before.age) == (False, 0)
    assert (known.stale, round(known.age, 6), known.failure) == (False, 9, None)
    assert [(event.how, round(event.age, 6)) for event in seen] == [("fresh", 9)]


@each_row("failing, is_outage", [
    (ConnectionResetError(), True), (httpx.ReadTimeout(""), True), (PermissionError("no"), False), (ValueError("a bug"), False),
])  # fmt: skip
def test_an_old_answer_stands_in_for_a_failure_that_passes(failing, is_outage):
    """And is marked; a failure that will not pass is raised, as is one after `stale_for`."""
    server = Server()
    search = shared(server, stale_for=60)
    seen = []

    async def work():
        with rb.listen(
            lambda event: isinstance(event, rb.events.AnswerShared) and seen.append(event)
        ):
            assert await search("x") == ["x", 1]
            await asyncio.sleep(30)
            server.fails = failing
            if is_outage:
                assert await search("x") == ["x", 1]
                answer = current_answer()
                assert (answer.stale, round(answer.age, 6)) == (True, 31)
                assert answer.failure.code == rb.classify(failing).code
                await asyncio.sleep(30)
            with pytest.raises(type(failing)):
                await search("x")
            with pytest.raises(type(failing)):
                await search("never asked")
        assert current_answer() is None or current_answer().stale

    simulated(work)
    assert [event.how for event in seen] == ["stale"] * is_outage


def test_an_open_circuit_gives_the_old_answer():
    server = Server()
    search = shared(server, rb.Breaker.consecutive(1, open_for=60), stale_for=3600)

    async def work():
        await search("x")
        server.fails = ConnectionResetError()
        return [await search("x") for _ in range(5)]

    assert simulated(work)[0] == [["x", 1]] * 5
    assert server.asked == 2


def test_a_failure_that_is_returned_is_not_cached():
    """A result of MCP that is an error: an old answer takes its place, or it is returned."""
    types = pytest.importorskip("mcp.types")
    text = types.TextContent(type="text", text="connection refused")
    server = Server()
    answers = {"good": True}

    @rb.Policy(Share(key=lambda query: query, fresh_for=60, stale_for=600))(idempotent=True)
    async def search(query):
        await server.search(query)
        return types.CallToolResult(isError=not answers["good"], content=[text])

    def failed(result):
        return result.model_dump(by_alias=True)["isError"]

    async def work():
        assert not failed(await search("x"))
        answers["good"] = False
        await asyncio.sleep(61)
        assert not failed(await search("x"))
        assert current_answer().stale
        for _ in range(2):
            assert failed(await search("never good"))

    simulated(work)
    assert server.asked == 4


def test_a_million_keys_keep_as_many_answers_as_is_stated():
    layer, answers, cached = Share(len, fresh_for=60, most=1000), Answers(), Cached(7, 0.0, None)
    for key in range(1_000_000):
        answers.keep(layer, key, cached)
    assert len(answers) == 1000
    assert answers.find(0, 60, 0.0, None) is None
    assert answers.find(999_000, 60, 0.0, None).answer == 7
    answers.keep(layer, "new", Cached(1, 0.0, None))
    assert answers.find(999_000, 60, 0.0, None) is not None  # used last, although it came first
    assert answers.find(999_001, 60, 0.0, None) is None


def test_without_a_time_nothing_is_cached_and_no_call_is_remembered():
    server = Server(0)
    search, cached = shared(server), shared(server, fresh_for=60, most=50)

    async def work():
        for number in range(500):
            await asyncio.gather(search(number), search(number), cached(number))

    simulated(work)
    states = [each.__binding__.states.owned("share", Answers) for each in (search, cached)]
    assert [(len(each), len(each.flights)) for each in states] == [(0, 0), (50, 0)]
    assert server.asked == 1000


def test_an_answer_of_virtual_time_is_none_in_real_time():
    server = Server(0)
    search = shared(server, fresh_for=1e6)
    simulated(lambda: search("x"))
    assert asyncio.run(search("x")) == ["x", 2]
    assert asyncio.run(search("x")) == ["x", 2]


def test_a_call_that_is_over_is_freed():
    class Large:
        pass

    @rb.Policy(Share(key=lambda _: 1), rb.Retry(attempts=1))(idempotent=True)
    async def search(argument):
        await asyncio.sleep(1)
        raise ConnectionResetError

    async def work():
        for _ in range(3):
            for each in await asyncio.gather(
                search(Large()), search(Large()), return_exceptions=True
            ):
                assert type(each) is ConnectionResetError
            del each
        await asyncio.sleep(60)
        return sum(type(each) is Large for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        assert simulated(work)[0] == 0
    finally:
        gc.enable()


# ---- who may ------------------------------------------------------------------------------------


async def read(query):
    """Stand for a function of the reader's."""


def read_sync(query):
    """Stand for another."""


async def read_items(query):
    """Stand for a stream."""
    yield 1


def refusals():
    one = Share(key=len)
    policy = rb.Policy(one, rb.Retry())
    return {
        "without a key": (Share, "key"),
        "a key that is no function": (lambda: Share(key="x"), "a function of the call's arguments"),
        "idempotent=False": (lambda: policy(read, idempotent=False), "may run twice"),
        "unsaid": (lambda: rb.Policy(one)(read), "may run twice"),
        "sync": (lambda: policy(read_sync, idempotent=True), "async function"),
        "stream": (lambda: policy(read_items, idempotent=True), "its whole answer"),
        "block": (lambda: list(policy.attempts(idempotent=True)), "no Share"),
        "inside of Retry": (lambda: rb.Policy(rb.Retry(), one), "outside of Retry"),
        "outside of Fallback": (lambda: rb.Policy(one, rb.Fallback(read)), "inside of Fallback"),
        "transport": (lambda: rb.HTTPTransport(policy), "HTTPTransport.policy: .*no Share"),
        "adapter": (lambda: rb.HTTPAdapter(policy), "HTTPAdapter.policy: .*no Share"),
        "middleware": (lambda: rb.HTTPMiddleware(policy), "HTTPMiddleware.policy: .*no Share"),
        "client": (lambda: rb.wrap(httpx.AsyncClient(), policy), "no Share"),
        "one request": (lambda: get_with(policy), "extensions.*rb.policy.*no Share"),
    }  # fmt: skip


def get_with(policy):
    with httpx.Client(transport=rb.HTTPTransport(inner=httpx.MockTransport(read))) as client:
        client.get("http://x/", extensions={"rb.policy": policy})


@each_row("name", refusals())
def test_where_it_is_refused_with_words(name):
    refused, words = refusals()[name]
    with pytest.raises(rb.ConfigError, match=words) as raised:
        refused()
    violation = raised.value.failure.details["violations"][0]
    if write := violation.get("write"):
        line = write.partition(" above")[0].removeprefix("@policy").removeprefix("@")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(
                f"policy{line}" if line[0] == "(" else line,
                {"rb": rb, "read": read, "policy": rb.Policy(rb.Retry())},
            )


@each_row("key", [lambda query: [query], lambda query: 1 / 0, lambda: 1])
def test_what_goes_wrong_in_a_key_is_raised_before_anything_is_called(key):
    server = Server()
    search = rb.Policy(Share(key=key))(server.search, idempotent=True)
    with pytest.raises((rb.ConfigError, ZeroDivisionError, TypeError)):
        simulated(lambda: search("x"))
    assert server.asked == 0


def test_the_key_of_policy_call_gets_the_arguments_of_the_function():
    server = Server()
    policy = rb.Policy(Share(key=lambda query: query), rb.Retry())

    async def work():
        call = policy(idempotent=True).call
        return await asyncio.gather(call(server.search, "x"), call(server.search, "x"))

    assert simulated(work)[0] == [["x", 1]] * 2
    assert server.asked == 1


def test_a_method_that_may_not_run_twice_shares_nothing():
    server = Server()
    policy = rb.Policy(Share(key=lambda query: query), rb.Retry())

    async def work():
        wrapped = rb.wrap(server, policy, methods=("search",))
        return await asyncio.gather(wrapped.search("x"), wrapped.search("x"))

    simulated(work)
    assert server.asked == 2


def test_a_settings_file_names_the_key():
    config = rb.load(
        {"policies": {"p": {"share": {"key": "by_query", "stale_for": "5m"}, "retry": {}}}},
        names={"by_query": len},
    )
    assert config.policies["p"] == rb.Policy(Share(key=len, stale_for=300), rb.Retry())
    explanation = str(config.policies["p"].explain())
    assert "calls of one key at the same time make one" in explanation
    assert rb.Policy(rb.Retry()).replace(Share(key=len)).layers == (Share(key=len), rb.Retry())


def test_keyed_layers_inside_have_their_state_by_value():
    """One host is down: its circuit opens, that of the other does not."""

    async def search(host):
        if host == "down":
            raise ConnectionResetError
        return host

    policy = rb.Policy(
        Share(key=lambda host: host),
        rb.Breaker(rate=1, window=2, minimum=1, key=lambda host: host),
    )
    call = policy(search, idempotent=True)

    async def work():
        for _ in range(4):
            with suppress(ConnectionResetError, rb.CircuitOpenError):
                await call("down")
        with pytest.raises(rb.CircuitOpenError):
            await call("down")
        return await call("up")

    assert simulated(work)[0] == "up"


def test_a_policy_that_replaces_it_keeps_what_is_known():
    server = Server(0)
    search = shared(server, rb.Retry(), fresh_for=60)

    async def work():
        await search("x")
        search.policy = search.policy.replace(rb.Retry(attempts=2))
        again = await search("x")
        search.policy = rb.Policy(rb.Retry())
        return again, await search("x")

    assert simulated(work)[0] == (["x", 1], ["x", 2])
