"""A test over a table whose rows are cheap: one test that goes through all of them and names every row that is wrong.

Rule: `each_row` takes what `pytest.mark.parametrize` takes. It is for checks of a value, which take less time than pytest
needs to begin a test; rows that need fixtures of their own, may be skipped, or take seconds stay tests of their own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest


_Case = tuple[str, dict[str, Any]]
_Ids = Iterable[str | None] | Callable[[Any], Any] | None


class _Wrong:
    """What went wrong, row by row."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.first: BaseException | None = None

    @contextmanager
    def judged(self, name: str, values: dict[str, Any]) -> Iterator[None]:
        """Note an error of this row, and go on to the next."""
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 -- each is in the message at the end
            shown = ", ".join(f"{key}={_short(value)}" for key, value in values.items())
            self.lines.append(f"[{name}] {shown}\n    {type(error).__name__}: {error}")
            self.first = self.first or error

    def raise_all(self, count: int) -> None:
        """Fail with all of them, and with the traceback of the first."""
        if self.lines:
            raise AssertionError(
                f"{len(self.lines)} of {count} rows are wrong:\n" + "\n".join(self.lines)
            ) from self.first


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


def _name(
    values: Sequence[Any],
    number: int,
    its_id: str | None,
    ids: list[str | None] | Callable[[Any], Any] | None,
) -> str:
    if its_id is not None:
        return its_id
    if callable(ids):
        return "-".join(str(ids(value)) for value in values)
    if ids is not None and ids[number] is not None:
        return str(ids[number])
    plain = [str(value) for value in values if isinstance(value, str | int | float)]
    return "-".join([*plain, str(number)])


def _cases(keys: list[str], rows: Iterable[Any], ids: _Ids, *, is_one: bool) -> Iterator[_Case]:
    called = ids if ids is None or callable(ids) else list(ids)
    for number, row in enumerate(rows):
        values, its_id = (row,) if is_one else row, None
        if isinstance(row, type(pytest.param())):
            assert not row.marks, f"a row with a mark is a test of its own: {row}"
            values, its_id = row.values, row.id
        yield _name(values, number, its_id, called), dict(zip(keys, values, strict=True))


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], ids: _Ids = None
) -> Callable[[Callable[..., Any]], Any]:
    """Run a test for every row, in one go; a failure lists each row that is wrong with its values and its error."""
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = list(_cases(keys, rows, ids, is_one=isinstance(names, str) and len(keys) == 1))
    assert cases, f"at least one row expected for {keys}"

    def over(test: Callable[..., Any]) -> Callable[..., Any]:
        asked = inspect.signature(test)
        fixtures = [one for name, one in asked.parameters.items() if name not in keys]
        assert len(fixtures) == len(asked.parameters) - len(keys), (
            f"{test} does not take all of {keys}"
        )

        @functools.wraps(test)
        def looped(**values_of_fixtures: Any) -> None:
            wrong = _Wrong()
            for name, values in cases:
                with wrong.judged(name, values):
                    test(**values_of_fixtures, **values)
            wrong.raise_all(len(cases))

        @functools.wraps(test)
        async def looped_async(**values_of_fixtures: Any) -> None:
            wrong = _Wrong()
            for name, values in cases:
                with wrong.judged(name, values):
                    waiting: Awaitable[None] = test(**values_of_fixtures, **values)
                    await waiting
            wrong.raise_all(len(cases))

        wrapper = looped_async if inspect.iscoroutinefunction(test) else looped
        wrapper.rows = [*getattr(test, "rows", ()), *(values for _, values in cases)]  # type: ignore[attr-defined]
        wrapper.__signature__ = asked.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return wrapper

    return over
