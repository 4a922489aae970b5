"""Calls with a shared circuit and a shared budget: when they wait, for how long, and what they return. The test answers for the store."""

from __future__ import annotations

import asyncio
import threading
import time

import attrs
import pytest

import resilient_bridge as rb
from tests.calls.forms import ASYNC, SYNC, both
from tests.calls.shared_driving import HALF_OPEN, OPEN, Asked, Store, view
from tests.internals.calls import CircuitAnswer


LET_IN = CircuitAnswer(view(), 0)
NO_WAIT = rb.Backoff.constant(0)


class Down(Exception):  # noqa: N818
    """The server is down."""


def down() -> None:
    raise Down


def retry(attempts: int = 3, **how) -> rb.Retry:
    return rb.Retry(attempts=attempts, on=Down, backoff=NO_WAIT, **how)


# ---- the circuit ---------------------------------------------------------------------------------------------------


@both
def test_a_call_asks_once_and_then_goes_by_the_view(form, key):
    """The first call waits for an answer; the next ones do not ask."""
    store = Store()
    ask = rb.Policy(rb.Breaker(key=key), state=store)(form.of(lambda: "ok"))
    store.circuits[key].answers.append(LET_IN)
    for _ in range(3):
        assert form.run(ask) == "ok"
    assert len(store.circuits[key].asked) == 1


def test_e19_a_call_that_is_overdue_and_under_way_is_reported_to_the_store(key):
    """The next call to enter reports it, once, and not again when it ends."""
    store = Store()
    slow = 0.001

    @rb.Policy(rb.Breaker.consecutive(5, slow_after=slow, key=key), state=store)
    def ask(depth):
        if depth:
            time.sleep(2 * slow)
            ask(depth - 1)
            reported.extend(line.reported)

    reported: list = []
    line = store.circuits[key]
    line.answers.append(LET_IN)
    ask(1)
    assert [ending for _, _, ending, _ in reported] == ["slow"]
    assert line.reported == reported


@both
def test_an_answer_that_comes_later_is_waited_for(form, key, monkeypatch):
    """The call waits in a thread or in a task, whichever thread answers."""
    monkeypatch.setattr(Asked, "patience", 30)  # the thread below may be slow to answer
    store = Store()
    ask = rb.Policy(rb.Breaker(key=key), state=store)(form.of(lambda: "ok"))
    line = store.circuits[key]
    asked: list = []

    def answer() -> None:
        while not line.asked:
            time.sleep(0.001)
        asked.extend(line.asked)
        line.learn(OPEN)
        line.asked[0].give(CircuitAnswer(OPEN, 0))

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(rb.CircuitOpenError):
        form.run(ask)
    thread.join()
    assert not asked[0].was_late


@both
def test_a_store_that_does_not_answer_costs_its_patience(form, key):
    """The call waits for the patience of 0.05 s and is then made; the store learns that it was late."""
    store = Store()
    ask = rb.Policy(rb.Breaker(key=key), state=store)(form.of(lambda: "ok"))
    began = time.monotonic()
    assert form.run(ask) == "ok"
    assert 0.05 <= time.monotonic() - began < 1
    assert store.circuits[key].asked[0].was_late


@both
def test_a_call_with_less_time_than_that_waits_less(form, key):
    """Its deadline bounds the wait, and the store does not count as late."""
    store = Store()
    ask = rb.Policy(rb.Deadline(0.02), rb.Breaker(key=key), state=store)(form.of(lambda: "ok"))
    outcome = form.run(rb.capture, ask)
    assert outcome.failure is None or outcome.failure.code == "SYS_DEADLINE_EXCEEDED"
    assert not store.circuits[key].asked[0].was_late


def test_a_cancelled_task_takes_its_question_back(key):
    """The permit that the answer grants goes to another call."""
    store = Store()

    async def main() -> None:
        asking = asyncio.create_task(rb.Policy(rb.Breaker(key=key), state=store)(asyncio.sleep)(0))
        await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()

    asyncio.run(main())
    assert store.circuits[key].asked[0].is_cancelled


@both
def test_the_attempts_of_a_call_tell_each_their_end(form, key):
    """Two failures and a success are reported, each with its era; the success because there were failures."""
    store = Store()
    script = [Down, Down, None]

    def body() -> str:
        if (step := script.pop(0)) is not None:
            raise step
        return "ok"

    ask = rb.Policy(retry(budget=None), rb.Breaker(key=key), state=store)(
        form.of(body), idempotent=True
    )
    line = store.circuits[key]
    line.learn(view(is_quiet=False))
    assert form.run(ask) == "ok"
    code = "SYS_INTERNAL_ERROR"
    assert line.reported == [
        (7, 0, "failed", code),
        (7, 0, "failed", code),
        (7, 0, "succeeded", ""),
    ]


def test_a_probe_that_is_cancelled_is_released(key):
    """A cancelled call returns its probe permit for all processes."""
    store = Store()

    async def main() -> None:
        ask = rb.Policy(rb.Breaker(key=key), state=store)(asyncio.sleep)
        store.circuits[key].answers.append(CircuitAnswer(HALF_OPEN, 4))
        asking = asyncio.create_task(ask(9))
        await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait([asking])

    asyncio.run(main())
    assert store.circuits[key].reported == [(9, 4, "released", "")]


@pytest.mark.parametrize("is_async", [False, True], ids=["stream", "async stream"])
def test_a_stream_that_breaks_off_is_reported(is_async, key):
    """The failure is reported, not a success at the first item."""
    store = Store()
    policy = rb.Policy(retry(budget=None), rb.Breaker(key=key), state=store)

    def items():
        yield 1
        raise Down

    async def async_items():
        yield 1
        raise Down

    function = policy(async_items if is_async else items, idempotent=True)
    store.circuits[key].learn(view())

    async def read() -> None:
        async for _ in function():
            pass

    with pytest.raises(Down):
        asyncio.run(read()) if is_async else list(function())
    assert store.circuits[key].reported == [(7, 0, "failed", "SYS_INTERNAL_ERROR")]


def test_a_plan_without_state_is_as_short_as_ever():
    """A policy without shared state takes the fast path, which has no code for shared state."""
    store = Store()
    plans = [
        policy(down, idempotent=True).__binding__.operation.plan
        for policy in (
            rb.Policy(rb.Retry(), rb.Breaker()),
            rb.Policy(rb.Retry(budget=None), state=store),  # there is nothing to share
            rb.Policy(rb.Retry(budget=None), rb.Breaker(), state=store),
            rb.Policy(rb.Retry(), state=store),
        )
    ]
    assert [plan.is_short for plan in plans] == [True, True, False, False]


# ---- the budget ----------------------------------------------------------------------------------------------------


def budgeted(
    form,
    store: Store,
    key: str,
    *answers: bool,
    layer: rb.Retry | None = None,
    body=down,
    around=(),
    idempotent=True,
):
    """A function with a shared retry budget; `answers` are those of the budget."""
    budget = rb.RetryBudget(ratio=0, floor=5, key=key)
    policy = rb.Policy(*around, attrs.evolve(layer or retry(), budget=budget), state=store)
    function = policy(form.of(body), idempotent=idempotent)
    store.budgets[key].answers.extend(answers)
    return function


@both
def test_a_repeat_is_asked_for_and_made(form, key):
    """One question per retry, none for the last failure, and one deposit per call."""
    store = Store()
    assert form.run(rb.capture, budgeted(form, store, key, True, True)).attempts == 3
    line = store.budgets[key]
    assert (len(line.asked), line.deposits, line.returned) == (2, 1, 0)


@both
def test_a_repeat_that_is_not_granted_is_not_made(form, key):
    """The call's own error is raised, with the reason."""
    store = Store()
    outcome = form.run(rb.capture, budgeted(form, store, key, False))
    assert (outcome.attempts, outcome.failure.stopped) == (1, "budget")


@both
def test_a_failure_that_is_never_retried_asks_no_budget(form, key):
    """A failure that is not retryable, one that may have run, and the last attempt."""
    store = Store()
    wrong = budgeted(form, store, key, body=lambda: int("x"))
    form.run(rb.capture, wrong)
    maybe = budgeted(
        form,
        store,
        key,
        layer=rb.Retry(backoff=NO_WAIT),
        body=lambda: _raise(ConnectionResetError),
        idempotent=False,
    )
    form.run(rb.capture, maybe)
    single = budgeted(form, store, key, layer=retry(1))
    form.run(rb.capture, single)
    assert store.budgets[key].asked == []


def _raise(error: type[BaseException]) -> None:
    raise error


@both
def test_a_repeat_that_the_decision_does_without_goes_back(form, key):
    """The wait does not fit the deadline: that is known only after the budget was asked."""
    store = Store()
    layer = rb.Retry(attempts=3, on=Down, backoff=rb.Backoff.constant(30))
    ask = budgeted(form, store, key, True, layer=layer, around=[rb.Deadline(5)])
    assert form.run(rb.capture, ask).failure.stopped == "deadline"
    assert (len(store.budgets[key].asked), store.budgets[key].returned) == (1, 1)


@both
def test_a_repeat_inside_another_policy_is_asked_for_like_any_other(form, key):
    """The innermost policy retries as often as the larger of the two allows, each time with a token."""
    store = Store()
    inner = budgeted(form, store, key, True, True, True)

    if form is ASYNC:

        async def calling() -> None:
            await inner()
    else:

        def calling() -> None:
            inner()

    outer = rb.Policy(retry(4, budget=None))(calling, idempotent=True)
    assert form.run(rb.capture, outer).attempts == 1
    assert (len(store.budgets[key].asked), store.budgets[key].returned) == (3, 0)


@both
def test_a_result_that_is_repeated_asks_as_well(form, key):
    """`on_result` asks for a retry, the budget refuses it: the result is returned unchanged."""
    store = Store()
    layer = rb.Retry(attempts=3, on_result=lambda result: result == "busy", backoff=NO_WAIT)
    ask = budgeted(form, store, key, True, False, layer=layer, body=lambda: "busy")
    assert form.run(ask) == "busy"
    assert len(store.budgets[key].asked) == 2


@both
def test_without_an_answer_the_own_budget_decides(form, key):
    """Of a floor of 5 the store granted two: this process alone may make three more."""
    store = Store()
    ask = budgeted(form, store, key, True, True, layer=retry(9))
    store.budgets[key].answers.append(None)
    outcome = form.run(rb.capture, ask)
    assert (outcome.attempts, outcome.failure.stopped) == (6, "budget")
    line = store.budgets[key]
    line.is_up = False
    assert form.run(rb.capture, ask).attempts == 1
    assert len(line.asked) == 6
    assert line.deposits == 1


def _loop(form, policy: rb.Policy, attempts: list[int], body=down):
    def sync() -> None:
        for attempt in policy.attempts(idempotent=True):
            with attempt:
                attempts.append(attempt.number)
                body()

    async def task() -> None:
        async for attempt in policy.attempts(idempotent=True):
            with attempt:
                attempts.append(attempt.number)
                body()

    return sync if form is SYNC else task


@both
@pytest.mark.parametrize(
    ("answers", "made"), [((True, True), 3), ((True, False), 2), ((False,), 1)]
)
def test_blocks_ask_before_the_next_turn(form, answers, made, key):
    """The same numbers as for a function, and the loop raises the last failure with its history."""
    store = Store()
    policy = rb.Policy(retry(budget=rb.RetryBudget(ratio=0, floor=5, key=key)), state=store)
    store.budget(key, None)
    store.budgets[key].answers.extend(answers)
    attempts: list[int] = []
    with pytest.raises(Down) as caught:
        form.run(_loop(form, policy, attempts))
    failure = rb.classify(caught.value)
    assert attempts == list(range(1, made + 1))
    assert failure.stopped == ("attempts" if made == 3 else "budget")
    assert len(failure.history) == made - 1


@both
def test_a_block_that_recovers_has_asked_once(form, key):
    """One failure, one question, and nothing is returned to the budget."""
    store = Store()
    policy = rb.Policy(retry(budget=rb.RetryBudget(ratio=0, floor=5, key=key)), state=store)
    store.budget(key, None)
    line = store.budgets[key]
    line.answers.append(True)
    attempts: list[int] = []
    form.run(_loop(form, policy, attempts, body=lambda: down() if attempts == [1] else None))
    assert (attempts, len(line.asked), line.returned) == ([1, 2], 1, 0)


def test_a_task_that_is_cancelled_while_its_block_asks_takes_the_question_back(key):
    """The loop raises the cancellation."""
    store = Store()
    policy = rb.Policy(retry(budget=rb.RetryBudget(ratio=0, floor=5, key=key)), state=store)

    async def main() -> None:
        looping = asyncio.create_task(_loop(ASYNC, policy, [])())
        await asyncio.sleep(0.01)
        looping.cancel()
        await asyncio.wait([looping])
        assert looping.cancelled()

    asyncio.run(main())
    assert store.budgets[key].asked[0].is_cancelled
