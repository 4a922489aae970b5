"""A spend budget whose files are not as it left them: what is spent survives one damaged file, and is never forgotten silently."""

from __future__ import annotations

import asyncio
import gc
import shutil
import weakref
from decimal import Decimal

import attrs
import pytest

import resilient_bridge as rb
from resilient_bridge.agent import SpendBudget, SpendState
from resilient_bridge.failure import StoreError, error_for
from tests.internals.stores import read_document, write_document
from tests.internals.telemetry import name_in_words
from tests.stores.states import backup_of


def names(recorded):
    return [name_in_words(event) for event in recorded]


def used(path, act, limit=10):
    """The files of a budget that did this and is closed."""
    budget = SpendBudget(limit, path=path)
    act(budget)
    owner = weakref.ref(budget)
    del budget  # as at the end of a process: what is not in the files by now never will be
    while owner() is not None:  # x05: an error that was raised in it may have it in a cycle
        gc.collect()


async def status_once_released(path):
    """The status that another budget reads: the thread that saved the last one releases the file a moment later."""
    while True:
        try:
            return SpendBudget(10, path=path).status()
        except StoreError as error:
            assert error.failure.code == "SYS_STORE_IN_USE"
        await asyncio.sleep(0)


def spoil(*paths):
    """Write over files, as a broken disk would."""
    for path in paths:
        path.write_bytes(b"\0" * 50)


def change(path, **fields):
    """Have a file say something else, in a document that is whole."""
    path.write_bytes(write_document(attrs.evolve(read_document(path.read_bytes()), **fields)))


def spend_twice(budget):
    budget.spend(1)
    budget.spend("8.9")


def after_a_crash(path, limit=10, **options):
    """A budget of the next process, which finds the files as they are now."""
    copy = path.parent.parent / "after a crash"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path.parent, copy)
    return SpendBudget(limit, path=copy / path.name, **options)


def contents(path):
    return {one.name: one.read_bytes() for one in path.parent.iterdir()}


def saves(budget):
    """A list that grows with every save of the budget."""
    done, save = [], budget._book.file.save
    budget._book.file.save = lambda value: (done.append(value), save(value))
    return done


# ---- one damaged file ------------------------------------------------------------------------------------------------


def call_with_cost(budget):
    with budget.call("0.5") as call:
        call.spend("9.9")


def call_without_a_word(budget):
    with budget.call("9.9"):
        pass


def call_that_fails(budget):
    with pytest.raises(KeyError), budget.call("9.9"):
        raise KeyError


def approve(budget):
    budget.spend("9.9")
    budget.approve(5)


def cancel(budget):
    budget.spend("9.9")
    budget.cancel()


@pytest.mark.requirement("V11")
@pytest.mark.parametrize("spoiled", ["file", "backup"])
@pytest.mark.parametrize(
    "act", [spend_twice, call_with_cost, call_without_a_word, call_that_fails, approve, cancel]
)
def test_one_damaged_file_takes_nothing_back(path, act, spoiled):
    """What was spent, approved and cancelled stands in the file and in its backup as soon as it is done."""
    used(path, act)
    spoil(path if spoiled == "file" else backup_of(path))
    status = SpendBudget(10, path=path).status()
    assert (status.spent, status.limit) == (Decimal("9.9"), 15 if act is approve else 10)
    assert (status.state is SpendState.CANCELLED) == (act is cancel)
    assert status.is_known


@pytest.mark.requirement("V11")
async def test_one_damaged_file_takes_nothing_back_in_a_task(path):
    """The end of an async block is in both as well."""
    budget = SpendBudget(10, path=path)
    async with budget.call("0.5") as call:
        call.spend("9.9")
    del budget, call
    spoil(path)
    assert (await status_once_released(path)).spent == Decimal("9.9")


def test_each_step_is_saved_once(path):
    """A call is saved when it is let in and when it ends, whatever it costs."""
    budget = SpendBudget(10, path=path)
    budget.spend(1)
    done = saves(budget)
    with pytest.raises(ConnectionRefusedError), budget.call(2):
        raise ConnectionRefusedError
    assert len(done) == 2
    with budget.call(2) as call:
        call.spend(1)
    assert len(done) == 4
    budget.spend(1)
    assert len(done) == 5


def test_a_save_that_fails_is_made_up_for(path):
    """It is told as any other, and whoever saves next makes both files what they should be."""
    budget = SpendBudget(10, path=path)
    budget.spend(1)
    save, done = budget._book.file.save, []

    def fail_once(value):
        done.append(value)
        if len(done) == 1:
            raise error_for(rb.Failure.of("SYS_STORE_UNAVAILABLE", "no space left"))
        save(value)

    budget._book.file.save = fail_once
    with pytest.raises(StoreError):
        budget.spend(5)
    with pytest.raises(ConnectionRefusedError), budget.call():
        raise ConnectionRefusedError
    del budget
    spoil(path)
    assert SpendBudget(10, path=path).status().spent == 6


# ---- nothing that can be believed ------------------------------------------------------------------------------------


def lose(path):
    """The files of a budget with 9.9 of 10 spent, both of them damaged."""
    used(path, spend_twice)
    spoil(path, backup_of(path))


@pytest.mark.requirement("V11")
async def test_a_hard_budget_that_has_lost_its_files_is_paused(path):
    """Nobody can say that there is room: all of the limit counts as spent, and a person is asked, after every restart again."""
    lose(path)
    first = SpendBudget(10, path=path, name="chat")
    for heard in (["state set aside", "spend warned", "spend paused"], ["spend paused"]):
        budget = after_a_crash(path, name="chat") if heard == ["spend paused"] else first
        with rb.testing.record() as recorded:
            status = budget.status()
        assert names(recorded) == heard
        assert (status.state, status.is_known, status.remaining) == (SpendState.PAUSED, False, 0)
        assert "PAUSED spent=unknown" in repr(budget)
        with pytest.raises(rb.errors.SpendLimitError) as refused:
            async with budget.call(1, timeout=0):
                raise AssertionError
    failure = refused.value.failure
    assert failure.message.startswith(
        "budget chat paused: what was spent is not known, all of 10 counts as spent, 1 asked"
    )
    assert "approve what may be spent from here on" in failure.suggestions[0]
    assert (failure.details["spent"], failure.details["limit"]) == ("unknown", "10")


@pytest.mark.requirement("V11")
def test_what_is_approved_then_may_be_spent(path):
    """An approval of 2 lets in calls for 2, and the budget knows again how it stands, in this process and in the next."""
    lose(path)
    budget = SpendBudget(10, path=path)
    budget.approve(2)
    with budget.call(2, timeout=0) as call:
        call.spend("1.5")
    for one in (budget.status(), SpendBudget(10, path=closed(budget)).status()):
        assert (one.state, one.remaining, one.is_known) == (
            SpendState.WARNING,
            Decimal("0.5"),
            True,
        )


def closed(budget):
    budget.close()
    return budget._book.file.path


@pytest.mark.requirement("V11")
def test_a_higher_limit_in_the_program_does_not_let_it_go_on(path):
    """Whoever starts it again with 100 has not said that what was spent is known."""
    lose(path)
    budget = SpendBudget(10, path=path)
    budget.status()
    assert after_a_crash(path, 100).status().state is SpendState.PAUSED


@pytest.mark.requirement("V11")
def test_a_soft_budget_that_has_lost_its_files_warns_and_goes_on(path):
    """It has never stopped anybody; whoever listens hears of the damage, and that the threshold may be crossed."""
    lose(path)
    budget = SpendBudget(10, mode="soft", path=path)
    with rb.testing.record() as recorded, budget.call(1, timeout=0) as call:
        call.spend(1)
    assert names(recorded) == ["state set aside", "spend warned"]
    status = budget.status()
    assert (status.state, status.spent, status.is_known) == (SpendState.WARNING, 11, False)


@pytest.mark.requirement("V11")
def test_amounts_with_a_wrong_checksum_are_not_believed(path):
    """A digit that the disk has changed may be what keeps a budget within its limit."""
    used(path, spend_twice)
    spoil(backup_of(path))
    path.write_bytes(path.read_bytes().replace(b'"spent":"9.9"', b'"spent":"1.9"'))
    budget, heard = SpendBudget(10, path=path), []
    with rb.listen(
        lambda event: heard.append(budget.status().state)
    ):  # one that asks before all of it is read
        first = budget.status()
    assert set(heard) == {SpendState.PAUSED}
    for status in (first, after_a_crash(path).status()):
        assert (status.state, status.is_known) == (SpendState.PAUSED, False)


@pytest.mark.requirement("V11")
def test_what_was_lost_is_known_after_a_death_before_the_first_save(path):
    """The files are mended before the loss is written: the next process must not take them for sound."""
    used(path, spend_twice)
    spoil(backup_of(path))
    path.write_bytes(path.read_bytes().replace(b'"spent":"9.9"', b'"spent":"1.9"'))
    budget = SpendBudget(10, path=path)
    budget._book.file.load()  # and then the process is gone
    status = after_a_crash(path).status()
    assert (status.state, status.is_known) == (SpendState.PAUSED, False)


@pytest.mark.requirement("V11")
def test_a_backup_that_was_used_is_no_loss_to_the_process_after_the_next(path):
    """It has all that was spent, and the process that used it says so."""
    used(path, spend_twice)
    spoil(path)
    SpendBudget(100, path=path).status()
    status = after_a_crash(path, 100).status()
    assert (status.spent, status.is_known) == (Decimal("9.9"), True)


@pytest.mark.requirement("V11")
def test_amounts_that_no_budget_saved_are_a_loss_if_both_files_have_them(path):
    """Their checksums fit, and less than nothing cannot have been spent."""
    used(path, spend_twice)
    for one in (path, backup_of(path)):
        change(one, value={**read_document(one.read_bytes()).value, "spent": "-1000"})
    status = SpendBudget(10, path=path).status()
    assert (status.state, status.is_known) == (SpendState.PAUSED, False)


def test_no_files_at_all_are_a_beginning(path):
    """Whoever removes both of them begins anew; a file alone that is damaged is a loss."""
    used(path, spend_twice)
    path.unlink()
    backup_of(path).unlink()
    assert SpendBudget(10, path=path).status().state is SpendState.RUNNING
    used(path, spend_twice)
    backup_of(path).unlink()
    spoil(path)
    assert not SpendBudget(10, path=path).status().is_known


def test_a_file_that_does_not_say_whether_it_knows_is_believed(path):
    """An earlier version wrote no such thing."""
    used(path, spend_twice)
    value = read_document(path.read_bytes()).value
    change(path, value={name: field for name, field in value.items() if name != "known"})
    with rb.testing.record() as recorded:
        status = SpendBudget(10, path=path).status()
    assert (status.spent, status.is_known, recorded) == (Decimal("9.9"), True, [])


# ---- a later version -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("V11")
@pytest.mark.parametrize("later", ["both", "file", "backup"])
async def test_what_a_later_version_has_written_is_not_touched(path, later):
    """The budget refuses to work, and says which file: it cannot read what was spent, and may not put it aside to begin anew."""
    used(path, spend_twice)
    for one in (path, backup_of(path)):
        if later == "both" or (later == "file") == (one == path):
            change(one, version=2)
    path.with_name(f"{path.name}.owner").unlink()
    before, called = contents(path), []
    budget = SpendBudget(10, path=path)

    async def call():
        async with budget.call(1, timeout=0):
            called.append(1)

    with rb.testing.record() as recorded:
        for use in (
            budget.status,
            lambda: budget.spend(1),
            lambda: budget.approve(1),
            budget.cancel,
        ):
            with pytest.raises(StoreError) as refused:
                use()
            assert refused.value.failure.code == "SYS_STATE_FOREIGN"
            assert str(backup_of(path) if later == "backup" else path) in str(refused.value)
        with pytest.raises(StoreError):
            await call()
    assert (recorded, called) == ([], [])
    assert contents(path) == before
    assert "not read yet" in repr(budget)


def test_a_budget_that_was_refused_leaves_the_file_to_the_one_that_can_read_it(path):
    """It has not taken it: the version that wrote it may use it in the same moment."""
    used(path, spend_twice)
    change(path, version=2)
    refused = SpendBudget(10, path=path)
    with pytest.raises(StoreError):
        refused.status()
    change(path, version=1)
    assert SpendBudget(10, path=path).status().spent == Decimal("9.9")


def test_another_program_instead_of_both_is_a_loss(path):
    """It is set aside, as StateFile does it, and what was spent is not known."""
    path.parent.mkdir(mode=0o700)
    path.write_text('{"from": "somebody else"}')
    status = SpendBudget(10, path=path).status()
    assert (status.state, status.is_known) == (SpendState.PAUSED, False)


def test_a_budget_that_read_a_damaged_file_lets_go_of_it(path):
    """Nobody has it any more, and the next one may have the file at once: what was wrong with the file does not keep its reader alive."""
    gc.disable()
    try:
        first = rb.agent.SpendBudget(10, path=path)
        first.spend(3)
        first.close()
        path.write_text(f"x{path.read_text()}")
        for spent in (4, 5):
            budget = rb.agent.SpendBudget(10, path=path)
            budget.spend(1)
            assert budget.status().spent == spent
            del budget
    finally:
        gc.enable()
