"""A spend budget around calls: who is let in, who waits and for how long, and what a call has cost that went wrong."""

from __future__ import annotations

import asyncio
import pickle
import threading
from datetime import timedelta
from decimal import Decimal

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import SpendBudget, SpendState
from resilient_bridge.failure import ConfigError, SpendLimitError, error_for
from tests.calls.forms import settle
from tests.internals.telemetry import name_in_words


async def spending(budget, cost, estimate=0, timeout=None):
    """A call that costs this much."""
    async with budget.call(estimate, timeout=timeout) as call:
        call.spend(cost)
    return cost


def names(recorded):
    return [name_in_words(event) for event in recorded]


@pytest.mark.requirement("V11")
async def test_soft_warns_and_goes_on():
    """Twelve calls of 1 under a limit of 10: one warning, no wait, and the status has the overage."""
    budget = SpendBudget(10, mode="soft", name="chat")
    with rb.testing.record() as reported:
        for _ in range(12):
            await spending(budget, 1)
    assert names(reported) == ["spend warned"]
    assert (reported[0].budget, reported[0].spent, reported[0].limit) == ("chat", 8, 10)
    status = budget.status()
    assert (status.state, status.spent, status.remaining, status.share) == (
        SpendState.WARNING,
        12,
        -2,
        1.2,
    )


@pytest.mark.requirement("V11")
async def test_hard_pauses_until_approved():
    """The call after the limit waits; more that is approved lets it in."""
    budget = SpendBudget(10)
    with rb.testing.record() as reported:
        await spending(budget, "8.50")
        await spending(budget, "1.50")
        waiting = asyncio.create_task(spending(budget, 1))
        await settle()
        assert not waiting.done()
        assert budget.status().state is SpendState.PAUSED
        budget.approve(5)
        assert await waiting == 1
    assert names(reported) == ["spend warned", "spend paused", "spend approved"]
    assert (budget.status().spent, budget.status().limit) == (11, 15)


@pytest.mark.requirement("V11")
async def test_hard_pauses_until_cancelled():
    """Cancelling refuses who waits and who comes; approving is too late then."""
    budget = SpendBudget("10.00")
    await spending(budget, 10)
    waiting = [asyncio.create_task(spending(budget, 1)) for _ in range(3)]
    await settle()
    with rb.testing.record() as reported:
        budget.cancel()
        budget.cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
    assert names(reported) == ["spend cancelled"]
    assert [type(result) for result in results] == [SpendLimitError] * 3
    with pytest.raises(SpendLimitError, match=r"cancelled: 10 of 10\.00 spent"):
        await spending(budget, 1)
    with pytest.raises(SpendLimitError) as late:
        budget.approve(5)
    assert late.value.failure.details["reason"] == "cancelled"
    assert budget.status().limit == 10


@pytest.mark.requirement("V11")
async def test_waiting_has_a_time_limit():
    """After `timeout` seconds the call is refused, with what was spent, the limit and the mode; nothing of it is left."""
    budget = SpendBudget(10)
    await spending(budget, "10.25")
    with rb.testing.virtual_time() as time:
        waiting = asyncio.create_task(spending(budget, 1, timeout=timedelta(seconds=30)))
        await settle()
        time.advance(29)
        await settle()
        assert not waiting.done()
        time.advance(1)
        with pytest.raises(SpendLimitError) as refused:
            await waiting
    failure = refused.value.failure
    assert (failure.code, failure.executed, failure.retryable) == (
        "SYS_SPEND_LIMIT",
        rb.errors.Executed.NO,
        False,
    )
    assert {name: failure.details[name] for name in ("spent", "limit", "mode")} == {
        "spent": "10.25",
        "limit": "10",
        "mode": "hard",
    }
    assert "10.25 of 10 spent, nothing approved within 30 s" in str(failure)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    budget.approve(limit=20)
    assert (budget.status().spent, budget.status().reserved) == (Decimal("10.25"), 0)


async def test_no_time_is_no_wait():
    """`timeout=0` asks, and does not wait; what is let in at once needs no time."""
    budget = SpendBudget(1)
    await spending(budget, 1, timeout=0)
    with rb.testing.virtual_time(), pytest.raises(SpendLimitError):
        await spending(budget, 1, timeout=0)


async def test_a_deadline_around_it_ends_the_wait():
    """A call waits no longer than the policy around it has time."""
    budget = SpendBudget(1)
    budget.spend(1)
    with rb.testing.virtual_time() as time:
        task = asyncio.create_task(rb.Policy(rb.Deadline(60))(spending)(budget, 1))
        await settle()
        time.advance(60)
        with pytest.raises((SpendLimitError, rb.DeadlineExceededError)):
            await task
    assert budget.status().reserved == 0


@pytest.mark.requirement("V11")
async def test_a_hundred_at_once_do_not_slip_under_the_limit():
    """Each is expected to cost 1 and does: ten run, ninety wait, and when they are cancelled ten have been paid."""
    budget, inside = SpendBudget(10), []
    go = asyncio.Event()

    async def one():
        async with budget.call("1", timeout=60) as call:
            inside.append(1)
            await go.wait()
            call.spend("1.00")

    tasks = [asyncio.create_task(one()) for _ in range(100)]
    await settle()
    assert (len(inside), budget.status().reserved, budget.status().remaining) == (10, 10, 0)
    go.set()
    await settle()
    assert (len(inside), budget.status().spent, budget.status().state) == (
        10,
        10,
        SpendState.PAUSED,
    )
    budget.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(end, SpendLimitError) for end in ended) == 90


async def test_a_caller_that_is_cancelled_while_waiting_leaves_nothing_behind():
    """Its place in line goes to the next, also when it was let in in the same instant."""
    budget = SpendBudget(10)
    budget.spend(10)
    tasks = [asyncio.create_task(spending(budget, 1, estimate=1)) for _ in range(3)]
    await settle()
    tasks[0].cancel()
    await settle()
    budget.approve(1)  # for one of them: the second is let in …
    tasks[1].cancel()  # … and cancelled before it knows
    assert await tasks[2] == 1
    assert [task.cancelled() for task in tasks] == [True, True, False]
    assert (budget.status().spent, budget.status().reserved) == (11, 0)


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (ConnectionRefusedError(), 0),
        (error_for(rb.Failure.of("SYS_RATE_LIMITED")), 0),
        (ConnectionResetError(), 2),
        (TimeoutError(), 2),
        (KeyError("usage"), 2),
        (asyncio.CancelledError(), 2),
        (KeyboardInterrupt(), 2),
    ],
    ids=repr,
)
def test_a_failed_call_counts_its_estimate_if_it_may_have_run(error, counted):
    """And nothing if the error says that it has not; the error is the caller's own, and the next one is let in."""
    budget = SpendBudget(10)
    with pytest.raises(type(error)) as raised, budget.call(2):
        raise error
    assert raised.value is error
    assert (budget.status().spent, budget.status().reserved) == (counted, 0)


def test_a_failed_call_that_reported_its_cost_counts_that():
    """What was told before the failure is what it has cost, whatever the error says."""
    budget = SpendBudget(10)
    with pytest.raises(ConnectionRefusedError), budget.call(2) as call:
        call.spend("0.5")
        raise ConnectionRefusedError
    assert budget.status().spent == Decimal("0.5")


def test_a_cost_that_is_none_is_refused_and_the_estimate_counts():
    """Something was called if somebody knows a cost: a wrong amount is a ConfigError, and not a call for free."""
    budget = SpendBudget(10)
    with pytest.raises(ConfigError, match=r"SpendCall\.spend\.amount"), budget.call(2) as call:
        call.spend(None)
    assert budget.status().spent == 2


async def test_a_call_that_tells_nothing_counts_its_estimate():
    """Forgetting to tell is not for free; telling 0 is."""
    budget = SpendBudget(10)
    async with budget.call("0.3"):
        pass
    async with budget.call("0.3") as call:
        call.spend(0)
    assert budget.status().spent == Decimal("0.3")


async def test_a_call_that_costs_more_than_expected_is_counted_in_full():
    """The limit is passed by it, and the next one waits."""
    budget = SpendBudget(10)
    await spending(budget, "25.5", estimate=1)
    assert (budget.status().spent, budget.status().state) == (Decimal("25.5"), SpendState.PAUSED)


def test_a_thread_waits_as_a_task_does():
    """In a plain `with` the thread blocks, until another thread approves, or its time is up."""
    budget, order, waits = SpendBudget(1), [], threading.Event()

    def work():
        with budget.call(2) as call:
            order.append("in")
            call.spend("0.5")

    with rb.listen(lambda event: waits.set()):
        thread = threading.Thread(target=work)
        thread.start()
        assert waits.wait(10)  # paused: 2 do not fit into 1
        order.append("approved")
        budget.approve(1)
        thread.join(10)
    assert order == ["approved", "in"]
    assert budget.status().spent == Decimal("0.5")
    for patience in (0, 0.01):
        with pytest.raises(SpendLimitError), budget.call(5, timeout=patience):
            raise AssertionError


async def test_an_approval_may_come_from_another_thread():
    """It wakes a task of this loop."""
    budget = SpendBudget(1)
    budget.spend(1)
    waiting = asyncio.create_task(spending(budget, 1))
    await settle()
    await asyncio.to_thread(budget.approve, 1)
    assert await waiting == 1


async def test_a_listener_may_approve_at_once():
    """Whoever hears of the pause may answer it in the same breath."""
    budget = SpendBudget(1)

    def answer(event):
        if isinstance(event, rb.events.SpendChanged) and event.state == "paused":
            budget.approve(1)

    with rb.listen(answer):
        for _ in range(5):
            await spending(budget, 1, estimate=1, timeout=0)
    assert budget.status().limit == 6


def test_a_slot_of_a_loop_that_is_gone_goes_to_the_next():
    """A loop was closed with a call in line: the approval does not stop at it."""
    budget = SpendBudget(1)
    budget.spend(1)
    loop = asyncio.new_event_loop()
    task = loop.create_task(spending(budget, 1, estimate=1))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    budget.approve(1)
    assert budget.status().reserved == 0
    with budget.call(1, timeout=0) as call:
        call.spend(1)
    task._log_destroy_pending = False
    task.get_coro().close()


async def test_a_call_is_entered_once():
    """A second stay would have nothing reserved."""
    budget = SpendBudget(10)
    call = budget.call(1)
    async with call:
        with pytest.raises(RuntimeError, match="entered once"):
            await call.__aenter__()
    assert budget.status().spent == 1


def test_its_repr_is_a_status_line():
    """Name, mode, state and the sums."""
    budget = SpendBudget("10.00", name="chat")
    budget.spend(9)
    with budget.call("0.5"):
        assert repr(budget) == "<SpendBudget chat hard WARNING spent=9 reserved=0.5 limit=10.00>"


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"limit": 0}, "SpendBudget.limit"),
        ({"limit": "-1"}, "SpendBudget.limit"),
        ({"limit": float("nan")}, "SpendBudget.limit"),
        ({"limit": 1, "mode": "firm"}, "SpendBudget.mode"),
        ({"limit": 1, "warn_at": 80}, "SpendBudget.warn_at"),
        ({"limit": 1, "warn_at": 0}, "SpendBudget.warn_at"),
        ({"limit": 1, "name": ""}, "SpendBudget.name"),
        ({"limit": 1, "path": 5}, "StateFile.path"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, path):
    """The error names the argument."""
    with pytest.raises(ConfigError, match=path):
        SpendBudget(**arguments)


def test_a_wrong_amount_changes_nothing():
    """Spending or approving less than nothing, both ways of approving at once, and a timeout in milliseconds."""
    budget = SpendBudget(10)
    for wrong, path in (
        (lambda: budget.spend(-1), "SpendBudget.spend.amount"),
        (lambda: budget.approve(0), "SpendBudget.approve.more"),
        (lambda: budget.approve(limit="x"), "SpendBudget.approve.limit"),
        (budget.approve, "SpendBudget.approve"),
        (lambda: budget.approve(1, limit=20), "SpendBudget.approve"),
        (lambda: budget.call(-1), "SpendBudget.call.estimate"),
        (lambda: budget.call(1, timeout=-1), "SpendBudget.call.timeout"),
        (lambda: budget.call(1, timeout=True), "SpendBudget.call.timeout"),
    ):
        with pytest.raises(ConfigError, match=path):
            wrong()
    status = budget.status()
    assert (status.spent, status.reserved, status.limit) == (0, 0, 10)
