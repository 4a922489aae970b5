"""A spend budget in a file: what is spent, approved and cancelled survives whatever ends the process."""

from __future__ import annotations

import asyncio
import shutil
import threading
from decimal import Decimal

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import SpendBudget, SpendState
from resilient_bridge.failure import StoreError, error_for
from tests.calls.forms import settle
from tests.internals.telemetry import name_in_words
from tests.stores.states import damage


async def spending(budget, cost, estimate=0):
    async with budget.call(estimate, timeout=0) as call:
        call.spend(cost)


def after_a_crash(path):
    """A budget of a process that finds the files as they are now."""
    copy = path.parent.parent / "after a crash"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path.parent, copy)
    return SpendBudget(10, path=copy / path.name)


class Disk:
    """The file of a budget with a switch: while it is broken, nothing can be saved."""

    def __init__(self, budget):
        self.is_broken, self.saves = False, 0
        self._save = budget._book.file.save
        budget._book.file.save = self.save

    def save(self, value):
        self.saves += 1
        if self.is_broken:
            raise error_for(rb.Failure.of("SYS_STORE_UNAVAILABLE", "no space left"))
        self._save(value)


@pytest.mark.requirement("V11")
async def test_a_budget_goes_on_after_a_restart(path):
    """What was spent in a call, in a thread and elsewhere is spent; what was approved is approved; cancelled is cancelled."""
    budget = SpendBudget(10, path=path)
    await spending(budget, "6.5")
    with budget.call() as call:
        call.spend("0.75")
    budget.spend(3)
    budget.approve(5)
    budget.close()
    with rb.testing.record() as reported:
        again = SpendBudget(10, path=path)
        status = again.status()
    assert (status.spent, status.limit, status.state) == (Decimal("10.25"), 15, SpendState.RUNNING)
    assert reported == []
    again.cancel()
    again.close()
    with pytest.raises(rb.errors.SpendLimitError, match="cancelled"):
        await spending(SpendBudget(100, path=path), 1)


@pytest.mark.requirement("V11")
async def test_a_pause_outlives_the_process_and_is_reported_again(path):
    """A limit that was reached is reached after a restart, and whoever can approve hears of it; the warning was heard before."""
    SpendBudget(10, path=path).spend(10)
    with rb.testing.record() as reported, pytest.raises(rb.errors.SpendLimitError):
        await spending(SpendBudget(10, path=path), 1)
    assert [name_in_words(event) for event in reported] == ["spend paused"]


@pytest.mark.requirement("V11")
async def test_a_crash_during_a_call_counts_its_estimate(path):
    """The call is in the file before it begins, and its cost when its block has been left."""
    budget = SpendBudget(10, path=path)
    async with budget.call(2) as call:
        assert after_a_crash(path).status().spent == 2
        call.spend("0.5")
        assert after_a_crash(path).status().spent == 2
    assert after_a_crash(path).status().spent == Decimal("0.5")
    with budget.call(2) as call:
        assert after_a_crash(path).status().spent == Decimal("2.5")


async def test_what_cannot_be_saved_is_not_called(path):
    """A call that could be forgotten is not let in; when the disk works again, the next one is, and nothing is left of the first."""
    budget = SpendBudget(10, path=path)
    await spending(budget, 1)
    disk, called = Disk(budget), []
    disk.is_broken = True
    with pytest.raises(StoreError):
        async with budget.call(4):
            called.append("in a task")
    with pytest.raises(StoreError), budget.call(4):
        called.append("in a thread")
    assert (called, budget.status().spent, budget.status().reserved) == ([], 1, 0)
    disk.is_broken = False
    await spending(budget, 1)
    assert after_a_crash(path).status().spent == 2


async def test_a_cost_that_cannot_be_saved_is_reported_once_and_not_lost(path):
    """The result of the call comes through; until the disk works again no other is let in; then all of it is in the file."""
    budget = SpendBudget(10, path=path)
    disk = Disk(budget)
    with rb.testing.record() as reported:
        async with budget.call(3) as call:
            disk.is_broken = True
            call.spend(1)
        for _ in range(2):
            with pytest.raises(StoreError):
                await spending(budget, 1)
        assert after_a_crash(path).status().spent == 3  # its estimate, as in a crash
        with pytest.raises(StoreError):
            budget.spend(1)
        assert budget.status().spent == 2
        disk.is_broken = False
        await spending(budget, 1)
    assert [name_in_words(event) for event in reported] == ["store failed", "store recovered"]
    assert (reported[0].store, reported[0].degraded) == ("SpendBudget spend", False)
    assert after_a_crash(path).status().spent == 3


async def test_calls_at_once_share_their_writes(path):
    """Forty calls are saved before and after, in fewer writes than forty, and all of them are counted."""
    budget = SpendBudget(100, path=path)
    budget.status()
    disk, is_free, leave, inside = (
        Disk(budget),
        threading.Event(),
        asyncio.Event(),
        asyncio.Semaphore(0),
    )
    save = budget._book.file.save

    def save_later(value):
        assert is_free.wait(60)  # a write takes until all of them have asked for one
        save(value)

    async def call():
        async with budget.call(1, timeout=0) as call:
            inside.release()
            await leave.wait()
            call.spend(1)

    budget._book.file.save = save_later
    calls = [asyncio.create_task(call()) for _ in range(40)]
    await settle()
    is_free.set()
    for _ in calls:
        await inside.acquire()
    is_free.clear()
    leave.set()
    await settle()
    is_free.set()
    await asyncio.gather(*calls)
    assert disk.saves < 40
    assert after_a_crash(path).status().spent == 40


async def test_a_call_that_is_cancelled_while_it_is_saved_is_taken_out_again(path):
    """What was written down for it does not count after the next start: it never ran."""
    budget = SpendBudget(10, path=path)
    budget.status()
    save, started, go, done = budget._book.file.save, *(threading.Event() for _ in range(3))

    def slow(value):
        started.set()
        assert go.wait(10)
        save(value)
        done.set()

    budget._book.file.save = slow
    task = asyncio.create_task(spending(budget, 1, estimate=4))
    await asyncio.to_thread(started.wait, 10)
    task.cancel()
    await settle()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.wait(10)
    assert budget.status().reserved == 0
    budget.close()
    assert SpendBudget(10, path=path).status().spent == 0


async def test_damage_is_reported_and_the_backup_counts(path):
    """A damaged file is StateFile's business: it is set aside and told; a listener may ask the budget what is left."""
    budget = SpendBudget(10, path=path)
    budget.spend(3)
    budget.spend(4)
    budget.close()
    damage(path)
    again, heard = SpendBudget(10, path=path), []
    with rb.listen(lambda event: heard.append((type(event).__name__, again.status().spent))):
        assert again.status().spent == 7
    assert heard == [("StateSetAside", 7)]


def test_numbers_that_were_not_saved_are_damage(path):
    """A file with less than nothing spent is not believed."""
    budget = SpendBudget(10, path=path)
    budget.spend(9)
    found = budget._book.file.load().value
    budget.close()
    forged = rb.stores.StateFile(path, version=1)
    forged.save({**found, "spent": "-1000"})
    with rb.testing.record() as reported:
        assert SpendBudget(10, path=path).status().spent == 9
    assert [name_in_words(event) for event in reported] == ["state set aside"]


def test_a_budget_reads_its_file_when_it_is_used(path):
    """Making and printing one touches nothing."""
    SpendBudget(10, path=path).spend(10)
    budget = SpendBudget(10, path=path)
    shutil.rmtree(path.parent)
    assert "not read yet spent=0" in repr(budget)
    assert budget.status().spent == 0
    assert "RUNNING" in repr(budget)


def test_threads_that_use_it_first_read_it_as_one(path):
    """All of them have read the file before one goes on from it: what was approved is approved once, and nothing is lost."""
    SpendBudget(10, path=path).approve(5)
    budget = SpendBudget(10, path=path)
    change, together = budget._book.change, threading.Barrier(4, timeout=10)

    def meet(act):
        if not budget._book.is_open:
            together.wait()
        return change(act)

    budget._book.change = meet
    threads = [threading.Thread(target=budget.spend, args=(1,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = budget.status()
    budget.close()
    for status in (spent, SpendBudget(10, path=path).status()):
        assert (status.spent, status.limit) == (4, 15)


async def test_two_budgets_do_not_share_a_file(path):
    """Each would overwrite what the other has counted: the second is refused, until the first is closed or gone."""
    first, second = SpendBudget(10, path=path), SpendBudget(10, path=path)
    first.spend(1)
    for use in (second.status, lambda: second.spend(2), second.cancel):
        with pytest.raises(StoreError) as caught:
            use()
        assert caught.value.failure.code == "SYS_STORE_IN_USE"
    with pytest.raises(StoreError):
        await spending(second, 1)
    first.close()
    second.spend(2)
    with pytest.raises(StoreError):
        first.spend(1)
    second.close()
    first.spend(4)
    assert first.status().spent == 7
    del first
    assert second.status().spent == 7


async def test_a_budget_that_is_closed_and_used_again_counts_nothing_twice(path):
    """What was approved and spent is in the file once, however often it is taken back."""
    budget = SpendBudget(10, path=path)
    budget.approve(5)
    budget.spend(2)
    for _ in range(3):
        budget.close()
        assert (budget.status().limit, budget.status().spent) == (15, 2)


async def test_a_budget_is_not_closed_under_a_call(path):
    """The file would be given away, and what the call costs would be in nobody's account."""
    budget = SpendBudget(10, path=path)
    async with budget.call(0) as call:
        with pytest.raises(rb.ConfigError, match=r"SpendBudget\.close"):
            budget.close()
        call.spend(7)
    budget.close()
    budget.close()
    assert SpendBudget(10, path=path).status().spent == 7
