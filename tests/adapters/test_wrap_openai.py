"""`wrap` around openai's clients: they look as they did, and what fails is repeated if a repeat can help and may happen."""

from __future__ import annotations

import asyncio
import contextvars
import io
import pickle

import httpx2
import openai
import pytest

import resilient_bridge as rb
from tests.adapters.wrapped_openai import ASK, FAST, answering, in_use, scripted, wrapped
from tests.peers.faults import Fault
from tests.peers.providers import Providers
from tests.peers.scripted_answers import Turn


real = pytest.mark.real


# ---- what it looks like ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [openai.AsyncOpenAI, openai.OpenAI])
def test_a_wrapped_client_is_the_client(kind):
    """Its class, its fields and its parts are the SDK's; the key is in no repr; its own retries are off."""
    own = kind(
        api_key="sk-secret", base_url="http://127.0.0.1:1/v1", organization="o", max_retries=7
    )
    client = rb.wrap(own)
    assert isinstance(client, kind)
    assert isinstance(client, type(own).__mro__[1])
    assert (client.api_key, client.organization, str(client.base_url)) == (
        "sk-secret",
        "o",
        "http://127.0.0.1:1/v1/",
    )
    assert client.__wrapped__.max_retries == client.max_retries == 0
    assert own.max_retries == 7
    assert isinstance(client.chat.completions, type(own.chat.completions))
    assert client.chat.completions.create.__doc__ == own.chat.completions.create.__doc__
    assert client.chat.completions.create.__name__ == "create"
    for shown in (
        repr(client),
        str(client),
        repr(client.chat.completions),
        repr(client.chat.completions.create),
    ):
        assert "sk-secret" not in shown
    with pytest.raises(AttributeError):
        _ = client.no_such_part


def test_setting_an_attribute_sets_that_of_the_client():
    """A key set later is the one that is sent."""
    client, requests = scripted({"data": []}, client=openai.OpenAI)
    client.api_key = "sk-other"
    client.models.list()
    assert client.__wrapped__.api_key == "sk-other"
    assert requests[0].headers["authorization"] == "Bearer sk-other"


async def test_a_client_whose_class_was_derived_is_known():
    """Azure's speaks to another address, and is protected like openai's own."""
    transport, requests = answering(503, 200, refused={})
    http = httpx2.AsyncClient(transport=transport)
    own = openai.AsyncAzureOpenAI(
        api_key="k", api_version="1", azure_endpoint="http://127.0.0.1:1", http_client=http
    )
    client = rb.wrap(own, FAST)
    assert isinstance(client, openai.AsyncAzureOpenAI)
    with rb.testing.virtual_time():
        await client.chat.completions.create(**ASK)
    assert len(requests) == 2


DERIVED = {
    "with_options": lambda client: client.with_options(timeout=3, max_retries=5),
    "copy": lambda client: client.copy(max_retries=5),
    "twice": lambda client: client.with_options(timeout=3).copy(),
}


@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED)
async def test_derived_clients_stay_wrapped_and_without_own_retries(derive):
    """Three calls until the circuit opens are three requests, also for a derived client with retries of its own; they share the circuit."""
    client, requests = scripted(*[503] * 4)
    derived = derive(client)
    assert isinstance(derived, openai.AsyncOpenAI)
    assert derived.max_retries == 0
    with rb.testing.virtual_time(), pytest.raises(openai.InternalServerError):
        await derived.chat.completions.create(**ASK)
    assert len(requests) == 3
    assert rb.calls.circuit(client).state == rb.calls.circuit(derived).state == "open"


async def test_leaving_the_client_closes_it():
    """`async with` gives the wrapped client itself, and closes the connection pool behind it."""
    client, requests = scripted(503, 200)
    async with client as entered:
        assert entered is client
        with rb.testing.virtual_time():
            await entered.chat.completions.create(**ASK)
    assert client.is_closed()
    assert len(requests) == 2


# ---- repeating ------------------------------------------------------------------------------------------------------


@real
@pytest.mark.requirement("S6")
async def test_a_passing_failure_is_repeated():
    """503, then an answer: two requests, one wait, and one line of log nobody has to read."""
    async with Providers() as server, wrapped(server) as client:
        server.script(Turn.refused("unavailable"))
        with rb.testing.virtual_time() as time, rb.testing.record() as seen:
            answer = await client.chat.completions.create(**ASK)
        assert answer.choices[0].message.content == "one two three"
        assert (server.requests, time.slept) == (2, [1.0])
        assert [type(event).__name__ for event in seen] == ["RetryScheduled", "RetryRecovered"]


@real
async def test_its_own_retries_do_not_multiply_ours():
    """A server that always fails gets as many requests as the policy says, and not three times as many."""
    async with Providers() as server, wrapped(server, rb.Policy(rb.Retry(attempts=3))) as client:
        server.script(*[Turn.refused("server_error")] * 9)
        with rb.testing.virtual_time(), pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(**ASK)
        assert server.requests == 3


@real
@pytest.mark.requirement("V2")
async def test_retry_after_is_a_lower_bound():
    """A rate limit waits for the server's `Retry-After`, in seconds or milliseconds; without one the preset waits 60 s."""
    async with Providers() as server, wrapped(server) as client:
        server.script(
            Turn.refused("rate_limited", retry_after=12),
            Turn.refused("rate_limited", retry_after_ms=2500),
        )
        with rb.testing.virtual_time() as time:
            await client.chat.completions.create(**ASK)
        assert len(time.slept) == 2
        assert 12 <= time.slept[0] < 14
        assert 2.5 <= time.slept[1] < 4
    async with Providers() as server, wrapped(server, rb.presets.openviber) as client:
        server.script(Turn.refused("rate_limited"), Turn.refused("rate_limited", retry_after=7))
        with rb.testing.virtual_time() as time:
            await client.chat.completions.create(**ASK)
        assert time.slept[0] == 60
        assert 7 <= time.slept[1] < 9


PERMANENT = ["quota", "context_length", "unauthorized"]


@real
@pytest.mark.requirement("V3")
@pytest.mark.parametrize("failing", PERMANENT)
async def test_a_lasting_failure_costs_one_request(failing):
    """A used up quota (429), a prompt that is too long (400) and a wrong key (401) fail at once, and the SDK's error says so."""
    async with Providers() as server, wrapped(server) as client:
        server.script(Turn.refused(failing))
        with rb.testing.virtual_time() as time, pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(**ASK)
        assert (server.requests, time.slept) == (1, [])
        assert not rb.classify(caught.value).retryable


@real
async def test_x_should_retry_beats_the_status():
    """`x-should-retry: false` stops a 503 at once, `true` repeats a 400."""
    async with Providers() as server, wrapped(server) as client:
        server.script(Turn.refused("unavailable", should_retry=False))
        with rb.testing.virtual_time(), pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(**ASK)
        assert server.requests == 1
    response = httpx2.Response(
        400, json={"error": {"message": "no"}}, headers={"x-should-retry": "true"}
    )
    client, requests = scripted(response)
    with rb.testing.virtual_time():
        await client.chat.completions.create(**ASK)
    assert len(requests) == 2


@real
@pytest.mark.requirement("S9")
async def test_the_error_that_comes_out_is_the_sdks_own():
    """Same object that was classified, its fields untouched, with a note and its history; the provider is in the details."""
    seen = []

    def take(failure):
        seen.append(failure)
        return False

    policy = rb.Policy(
        rb.Retry(attempts=2, backoff=rb.Backoff.constant(1), on=(rb.Kind.TRANSIENT, take))
    )
    async with Providers() as server, wrapped(server, policy) as client:
        server.script(*[Turn.refused("unavailable")] * 2)
        with rb.testing.virtual_time(), pytest.raises(openai.InternalServerError) as caught:
            await client.chat.completions.create(**ASK)
        error = caught.value
        assert (type(error), error.status_code, error.body["type"]) == (
            openai.InternalServerError,
            503,
            "server_error",
        )
        assert error.response.status_code == 503
        assert any("gave up after 2 calls" in note for note in error.__notes__)
        failure = rb.classify(error)
        assert failure.cause is error
        assert failure.stopped == "attempts"
        assert [each.code for each in failure.history] == ["SYS_UNAVAILABLE"]  # the one before
        assert failure.details["provider_id"] == "openai"


@real
async def test_a_connection_that_breaks_is_repeated():
    """A reset before an answer came is repeated for a model call: it costs money, and nothing else."""
    async with Providers() as server, wrapped(server) as client:
        server.strike(Fault.reset_after())
        with rb.testing.virtual_time():
            await client.chat.completions.create(**ASK)
        assert server.requests == 2


CALLS = {
    "files.create": lambda c: c.files.create(file=io.BytesIO(b"line"), purpose="batch"),
    "batches.create": lambda c: c.batches.create(
        completion_window="24h", endpoint="/v1/chat/completions", input_file_id="f"
    ),
    "files.delete": lambda c: c.files.delete("f"),
    "post": lambda c: c.post("/own", cast_to=httpx2.Response),
}


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("name", CALLS)
async def test_other_calls_are_repeated_only_if_they_did_not_run(name):
    """After a 500 it may have run, and the note names the switch; a refused connection, and 429, provably did not run."""
    client, requests = scripted(500)
    with rb.testing.virtual_time(), pytest.raises(openai.InternalServerError) as caught:
        await CALLS[name](client)
    assert len(requests) == 1
    assert any("idempotent" in note for note in caught.value.__notes__)
    client, requests = scripted(httpx2.ConnectError, 429, 200)
    with rb.testing.virtual_time():
        await CALLS[name](client)
    assert len(requests) == 3
    assert len({request.read() for request in requests}) == 1 or name == "files.create"
    if name == "files.create":
        assert all(b"line" in request.read() for request in requests)


IDEMPOTENT = {
    "everything": (True, 2),
    "by name": (["files.delete"], 2),
    "another name": (["batches.create"], 1),
    "a predicate": (lambda call: call.method == "files.delete" and call.args == ("f",), 2),
    "a predicate that refuses": (lambda call: False, 1),
}


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("mark", IDEMPOTENT)
async def test_idempotent_is_permission(mark):
    """True, names, or a predicate of the call allow a repeat after a 500."""
    idempotent, wanted = IDEMPOTENT[mark]
    client, requests = scripted(500, idempotent=idempotent)
    with rb.testing.virtual_time():
        await asyncio.gather(client.files.delete("f"), return_exceptions=True)
    assert len(requests) == wanted


async def test_a_predicate_may_take_the_permission_of_model_calls_back():
    """It is asked about every call, with its arguments."""
    seen = []

    def allow(call):
        seen.append((call.method, call.kwargs["model"]))
        return False

    client, requests = scripted(500, idempotent=allow)
    with rb.testing.virtual_time(), pytest.raises(openai.InternalServerError):
        await client.chat.completions.create(**ASK)
    assert (len(requests), seen) == (1, [("chat.completions.create", "m")])


async def poll(client):
    """A call of several steps: attach a file, then ask until it is done."""
    return await client.vector_stores.files.create_and_poll("f", vector_store_id="v")


@pytest.mark.requirement("S8")
async def test_what_takes_several_calls_is_protected_step_by_step():
    """A connection refused while it asks does not create again: the step is repeated, and not the whole."""
    done = {
        "id": "f",
        "status": "completed",
        "object": "vector_store.file",
        "created_at": 1,
        "vector_store_id": "v",
    }
    client, requests = scripted(done, httpx2.ConnectError, 503, done)
    with rb.testing.virtual_time():
        file = await poll(client)
    assert file.status == "completed"
    assert [request.method for request in requests] == ["POST", "GET", "GET", "GET"]


# ---- rejections, time, company --------------------------------------------------------------------------------------


@real
async def test_a_rejection_of_ours_is_caught_as_openais_and_can_be_pickled():
    """`except openai.OpenAIError` holds; in another process it is CircuitOpenError with the same failure."""
    async with Providers() as server, wrapped(server) as client:
        server.script(*[Turn.refused("server_error")] * 3)
        with rb.testing.virtual_time():
            with pytest.raises(openai.InternalServerError):
                await client.chat.completions.create(**ASK)
            with pytest.raises(openai.OpenAIError) as caught:
                await client.chat.completions.create(**ASK)
        error = caught.value
        assert isinstance(error, rb.CircuitOpenError)
        assert server.requests == 3
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is rb.CircuitOpenError
        assert again.failure.code == error.failure.code == rb.classify(error).code


@real
async def test_a_deadline_is_over_everything():
    """Attempts and waits together; the error is ours and openai's, and what went wrong last is its cause."""
    policy = rb.Policy(rb.Deadline(5), rb.Retry(attempts=9, backoff=rb.Backoff.constant(2)))
    async with Providers() as server, wrapped(server, policy) as client:
        server.script(*[Turn.refused("server_error")] * 9)
        with rb.testing.virtual_time() as time, pytest.raises(openai.OpenAIError):
            await client.chat.completions.create(**ASK)
        assert sum(time.slept) <= 5
        assert server.requests == 3


async def test_fifty_calls_share_one_budget():
    """When everything fails, the budget keeps fifty callers from making two hundred requests."""
    budget = rb.RetryBudget(ratio=0.2, floor=0)
    client, requests = scripted(*[503] * 400, policy=rb.Policy(rb.Retry(attempts=4, budget=budget)))
    with rb.testing.virtual_time():
        ended = await asyncio.gather(
            *[client.chat.completions.create(**ASK) for _ in range(50)], return_exceptions=True
        )
    assert all(isinstance(each, openai.InternalServerError) for each in ended)
    assert 50 <= len(requests) <= 50 + 50 * 0.2 + 1


@real
async def test_a_cancelled_call_leaves_nothing():
    """In the middle of a request: the cancellation arrives, the connection is closed, the circuit counts no failure."""
    async with Providers() as server, wrapped(server) as client:
        await client.chat.completions.create(**ASK)
        server.strike(Fault.black_hole())
        before = asyncio.all_tasks()
        call = asyncio.create_task(client.chat.completions.create(**ASK))
        async with asyncio.timeout(10):
            while server.requests < 2:
                await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert in_use(client) == 0
        assert "0/" in repr(rb.calls.circuit(client))
        assert asyncio.all_tasks() <= before


NAME = contextvars.ContextVar("NAME")


async def test_context_variables_are_seen_in_the_call():
    """What the caller set is what a transport or a hook of the SDK sees, and `current_attempt` counts."""
    seen = []

    def answer(request):
        seen.append((NAME.get(), rb.current_attempt().number))
        return 503 if len(seen) == 1 else 200

    client, _ = scripted(answer, answer)
    NAME.set("here")
    with rb.testing.virtual_time():
        await client.chat.completions.create(**ASK)
    assert seen == [("here", 1), ("here", 2)]
