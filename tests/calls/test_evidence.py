"""A retry needs permission, or a proof that the call did not run. An error proves nothing about the whole function that raised it."""

from __future__ import annotations

import errno
from functools import partial

import httpx
import pytest
import tenacity

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, http_error
from tests.rows import each_row


SECOND_STEPS = {
    "refused": lambda: ConnectionRefusedError(errno.ECONNREFUSED, "mail server refused"),
    "in words": lambda: RuntimeError("connect ECONNREFUSED 127.0.0.1:25"),
    "429": lambda: http_error(429, retry_after="0"),
    "401": lambda: http_error(401),
    "name not resolved": lambda: OSError(-2, "Name or service not known"),
    "connect timeout": lambda: httpx.ConnectTimeout("no connection"),
    "pool timeout": lambda: httpx.PoolTimeout("no connection"),
    "local protocol": lambda: httpx.LocalProtocolError(
        "Too little data for declared Content-Length"
    ),
    "another circuit": lambda: rb.CircuitOpenError(rb.Failure.of("SYS_CIRCUIT_OPEN")),
    "not connected": lambda: rb.errors.NotConnectedError(rb.Failure.of("CONN_NOT_CONNECTED")),
    "a proof of a step": lambda: httpx.ConnectError("all connection attempts failed"),
}


@pytest.mark.requirement("S8")
@everywhere
@each_row("second", SECOND_STEPS.values(), ids=SECOND_STEPS)
def test_a01_a_function_with_two_steps_is_called_once(form, second):
    """A charge, then a refusal by the mail server: whatever the second step proves, the first one ran."""
    charged = []

    def order():
        charged.append(1)
        raise second()

    on = (rb.Kind.TRANSIENT, Exception)
    with form.world(), pytest.raises(Exception) as caught:
        form.run(rb.Policy(at_once(on=on))(form.of(order), idempotent=False))
    assert charged == [1]
    assert rb.classify(caught.value).executed is rb.errors.Executed.MAYBE


@both
@pytest.mark.parametrize(
    "layers", [(), (rb.Breaker(),), (rb.Deadline(60),)], ids=["bare", "breaker", "deadline"]
)
def test_a01_what_is_captured_says_maybe(form, layers):
    """Without a Retry, and without any policy, an error of a function says `executed=MAYBE` as well."""

    def order():
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")

    function = form.of(order)
    outcome = form.run(partial(rb.capture, rb.Policy(*layers)(function) if layers else function))
    assert (outcome.failure.code, outcome.failure.executed) == (
        "CONN_REFUSED",
        rb.errors.Executed.MAYBE,
    )
    assert '"executed": "maybe"' in outcome.to_llm()


@both
def test_what_our_own_layer_refused_did_not_run(form):
    """With an open circuit around the function nothing was called, and `executed` is NO."""
    policy = rb.Policy(rb.Breaker.consecutive(1))
    protected = policy(form.of(Server(always=ConnectionResetError).get))
    with pytest.raises(ConnectionResetError):
        form.run(protected)
    outcome = form.run(partial(rb.capture, protected))
    assert (outcome.failure.code, outcome.failure.executed) == (
        "SYS_CIRCUIT_OPEN",
        rb.errors.Executed.NO,
    )


# ---- NotExecutedError -----------------------------------------------------------------------------------------------


@everywhere
def test_code_that_knows_better_says_so(form):
    """`raise NotExecutedError from error` is a proof: the function is retried although it is not idempotent."""
    server = Server(ConnectionRefusedError, ConnectionRefusedError)

    def order():
        try:
            return server.get()
        except ConnectionRefusedError as error:
            raise rb.NotExecutedError from error

    with form.world():
        assert form.run(rb.Policy(at_once())(form.of(order), idempotent=False)) == "ok"
    assert server.calls == 3


@both
def test_a_repeat_that_cannot_help_is_not_made_though_it_would_be_safe(form):
    """The error that it was raised from decides whether a retry can help."""
    calls = []

    def order():
        calls.append(1)
        raise rb.NotExecutedError from http_error(404)

    with pytest.raises(rb.NotExecutedError) as caught:
        form.run(rb.Policy(at_once())(form.of(order), idempotent=False))
    failure = rb.classify(caught.value)
    assert (calls, failure.executed, failure.details["http_status"]) == (
        [1],
        rb.errors.Executed.NO,
        404,
    )


@everywhere
@each_row("inner", [(), (rb.Breaker(),), (at_once(attempts=1),)], ids=["bare", "no retry", "retry"])
def test_the_word_counts_for_the_innermost_function_alone(form, inner):
    """The outer function acted before it called the inner one; NotExecutedError of the inner one proves nothing about that."""
    steps = []

    def second():
        raise rb.NotExecutedError from ConnectionRefusedError()

    step = rb.Policy(*inner)(second, idempotent=False) if inner else second

    def order():
        steps.append("charged")
        step()

    with form.world(), pytest.raises(rb.NotExecutedError) as caught:
        form.run(rb.Policy(at_once(attempts=3))(form.of(order), idempotent=False))
    assert len(steps) == (1 if inner else 3)
    assert rb.classify(caught.value).executed is (
        rb.errors.Executed.MAYBE if inner else rb.errors.Executed.NO
    )


def test_the_same_error_object_raised_again_is_judged_anew():
    """An exception object raised by a function a second time proves as much as the first time."""
    constant, calls = rb.NotExecutedError("busy"), []

    def order():
        calls.append(1)
        raise constant

    protected = rb.Policy(at_once(attempts=2))(order, idempotent=False)
    for _ in range(2):
        with pytest.raises(rb.NotExecutedError):
            protected()
    assert len(calls) == 4


def test_a_registration_is_the_same_word():
    """`classify.register(Busy, executed=NO)` means that the function that raises it did nothing."""

    class BusyError(Exception):
        pass

    server = Server(BusyError, BusyError)
    with rb.classify.register(BusyError, kind=rb.Kind.TRANSIENT, executed=rb.errors.Executed.NO):
        inner = rb.Policy(at_once())(server.get, idempotent=False)
        assert inner() == "ok"
        server = Server(always=BusyError)

        def get():
            return rb.Policy(rb.Breaker())(server.get)()

        outer = rb.Policy(at_once())(get, idempotent=False)
        with pytest.raises(BusyError):
            outer()
    assert server.calls == 1


def test_it_pickles_and_says_what_happened():
    """NotExecutedError pickles like our other errors; without a cause it is retryable."""
    import pickle

    again = pickle.loads(pickle.dumps(rb.NotExecutedError("queue is full")))
    failure = rb.classify(again)
    assert (failure.message, failure.executed, failure.retryable, failure.proof) == (
        "queue is full",
        rb.errors.Executed.NO,
        True,
        "not_executed",
    )


# ---- permission is said, never guessed -----------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["decorate", "with a name", "call", "attempts", "resilient"])
def test_a_retry_around_a_function_needs_idempotent(door):
    """The policy does not guess whether a retry is safe; the error says what to write, and names the function."""
    policy = rb.Policy(rb.Retry())

    def search():
        pass

    with pytest.raises(
        rb.ConfigError, match=r"say whether a repeat is safe: @policy\(idempotent=True\)"
    ) as caught:
        match door:
            case "decorate":
                policy(search)
            case "with a name":
                policy(name="search")(search)
            case "call":
                policy.call(search)
            case "attempts":
                policy.attempts()
            case "resilient":
                rb.resilient(search)
    assert caught.value.failure.details["violations"][0]["field"] == "idempotent"


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_policy_with_idempotent_makes_calls_and_loops_too(idempotent):
    """`policy(idempotent=…)` is a decorator with `.call` and `.attempts`."""
    protected = rb.Policy(at_once(attempts=2))(idempotent=idempotent)
    expected = 2 if idempotent else 1
    for use in ("decorate", "call", "attempts"):
        server = Server(always=ConnectionResetError)
        with pytest.raises(ConnectionResetError):
            match use:
                case "decorate":
                    protected(server.get)()
                case "call":
                    protected.call(server.get)
                case "attempts":
                    for attempt in protected.attempts():
                        with attempt:
                            server.get()
        assert server.calls == expected, use


def test_a_policy_without_a_retry_needs_no_word():
    """Without a Retry there is nothing to permit; if one is set at run time, `idempotent` is required then."""
    protected = rb.Policy(rb.Breaker())(Server().get)
    assert protected() == "ok"
    protected.policy = rb.Policy(rb.Retry())
    with pytest.raises(rb.ConfigError, match="say whether a repeat is safe"):
        protected()


def test_the_explanation_of_a_function_says_what_may_be_repeated():
    """`explain()` shows it beside the order and the worst case."""
    policy = rb.Policy(rb.Retry(), rb.Breaker())
    assert "also what may have run" in str(policy(lambda: 1, idempotent=True).explain())
    assert "only what provably did not run" in str(policy(lambda: 1, idempotent=False).explain())


# ---- worth is no permission -----------------------------------------------------------------------------------------


class OwnError(Exception):
    """An exception of the user's."""


WORTHS = {
    "a class": {"on": OwnError},
    "its name": {"on": rb.named("tests", "OwnError")},
    "a predicate": {"on": lambda failure: True},
    "everything": {"on": Exception},
    "tenacity": {"on": tenacity.retry_if_exception(lambda error: True)},
    "tenacity by type": {"on": tenacity.retry_if_exception_type(OwnError)},
    "a rule": {"rules": {OwnError: rb.Rule(attempts=3)}},
    "a rule with before": {"rules": {OwnError: rb.Rule(attempts=3, before=lambda: None)}},
}


@both
@each_row("worth", WORTHS.values(), ids=WORTHS)
def test_a06_a08_what_is_worth_repeating_is_not_allowed_by_that(form, worth):
    """A class in `on=`, a predicate, a tenacity object and a rule say what to retry, but not that a retry is safe."""
    for idempotent, calls in ((False, 1), (True, 3)):
        server = Server(always=OwnError)
        with pytest.raises(OwnError):
            form.run(
                rb.Policy(at_once(attempts=3, **worth))(form.of(server.get), idempotent=idempotent)
            )
        assert server.calls == calls


@both
def test_a07_a_result_to_repeat_is_repeated_with_permission_only(form):
    """A result proves that the function ran."""
    for idempotent, calls in ((False, 1), (True, 3)):
        server = Server()
        policy = rb.Policy(at_once(attempts=3, on_result=lambda result: result == "ok"))
        assert form.run(policy(form.of(server.get), idempotent=idempotent)) == "ok"
        assert server.calls == calls


# ---- events ---------------------------------------------------------------------------------------------------------


def test_the_event_says_what_allowed_the_repeat():
    """It has the permission, or the name of the proof."""
    seen = []
    with rb.listen(seen.append):
        rb.Policy(at_once())(Server(ConnectionResetError).get, idempotent=True)()
        rb.Policy(at_once())(Server(rb.NotExecutedError).get, idempotent=False)()
    scheduled = [event for event in seen if isinstance(event, rb.events.RetryScheduled)]
    assert [event.permission for event in scheduled] == ["idempotent", "not_executed"]


def test_the_schedule_and_the_callee_see_the_native_error():
    """F02: `attempt.failure.cause` is the exception during the call; afterwards it is released."""
    seen, attempts = [], []
    server = Server(OwnError)

    def schedule(attempt):
        seen.append(type(attempt.failure.cause))
        return 0

    def call():
        attempt = rb.current_attempt()
        attempts.append(attempt)
        if attempt.failure is not None:
            seen.append(type(attempt.failure.cause))
        return server.get()

    rb.Policy(at_once(on=OwnError, backoff=schedule))(call, idempotent=True)()
    assert seen == [OwnError, OwnError]
    assert [attempt.failure and attempt.failure.cause for attempt in attempts] == [None, None]
