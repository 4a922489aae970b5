"""`each_row`: no row is left out, and none that is wrong goes unnamed."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.rows import each_row


def below(limit):
    """A test of one number, as `each_row` takes it."""

    def test(number):
        assert number < limit

    return test


def test_every_wrong_row_is_named():
    """The message has each of them, with its values and what was wrong; the first traceback is kept."""
    with pytest.raises(AssertionError) as failed:
        each_row("number", [1, 5, 2, 7])(below(5))()
    message = str(failed.value)
    assert message.startswith(
        "2 of 4 rows are wrong:\n[5-1] number=5\n    AssertionError: assert 5 < 5"
    )
    assert "[7-3] number=7" in message
    assert isinstance(failed.value.__cause__, AssertionError)


def test_it_takes_what_parametrize_takes():
    """One name or more, rows with an id, ids as a list or a function, one on top of another, and fixtures beside them."""
    seen = []

    @each_row("first, second", [pytest.param(1, 2, id="named"), (3, 4)], ids=["never", "listed"])
    @each_row(["third"], [[5], [6]], ids=str)
    def test(first, second, third, tmp_path):
        seen.append((first, second, third, tmp_path))
        assert third == 5

    assert list(inspect.signature(test).parameters) == ["tmp_path"]
    with pytest.raises(AssertionError, match=r"2 of 2 rows") as failed:
        test(tmp_path="folder")
    assert seen == [(a, b, c, "folder") for a, b in [(1, 2), (3, 4)] for c in (5, 6)]
    assert "[named] first=1, second=2" in str(failed.value)
    assert "[listed] first=3, second=4" in str(failed.value)


def test_an_asynchronous_test_is_awaited_row_by_row():
    """`async def` stays what it is, and `pytest.fail` in a row does not hide the rows behind it."""
    seen = []

    @each_row("number", [1, 2])
    async def test(number):
        await asyncio.sleep(0)
        seen.append(number)
        pytest.fail("no")

    assert inspect.iscoroutinefunction(test)
    with pytest.raises(AssertionError, match=r"2 of 2 rows"):
        asyncio.run(test())
    assert seen == [1, 2]


def test_a_skipped_row_skips_and_an_interrupt_interrupts():
    """Neither is an error of a row."""
    with pytest.raises(pytest.skip.Exception):
        each_row("number", [1])(lambda number: pytest.skip("not here"))()


def test_a_table_without_rows_or_with_marks_is_no_table():
    """A test that checks nothing, and a mark that nothing heeds, are refused where they stand."""
    with pytest.raises(AssertionError, match="at least one row"):
        each_row("number", [])
    with pytest.raises(AssertionError, match="a test of its own"):
        each_row("number", [pytest.param(1, marks=pytest.mark.real)])
    with pytest.raises(AssertionError, match="does not take"):
        each_row("other", [1])(below(5))
    with pytest.raises(ValueError, match="zip"):
        each_row("first, second", [(1, 2, 3)])
