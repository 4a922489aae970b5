"""The hundred faults of tests/mutants.toml: each can still be made, and what runs them tells a test that sees one from a test that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import mutants as judge
from tests.mutants import Mutant, draw, mutants, problem_of, survivors


def test_each_fault_can_be_made_and_its_test_exists():
    """The search text occurs once, what replaces it is Python that says something else, and the named test is there."""
    assert [problem for mutant in mutants() if (problem := problem_of(mutant))] == []


def test_there_are_a_hundred_of_both_kinds():
    """At least fifty drawn and fifty chosen, each with an id and a rule of its own."""
    rows = mutants()
    assert all(sum(row.id.startswith(kind) for row in rows) >= 50 for kind in "DC")
    assert len({row.id for row in rows}) == len({row.rule for row in rows}) == len(rows)
    assert all(row.rule.endswith(".") for row in rows)
    assert len({row.room for row in rows}) > 12


ROW = Mutant("T1", "Two is two.", "one", "src/one.py", "2", "3", "tests/test_one.py::test_two")


@pytest.fixture
def tree(tmp_path):
    """A package of one module, with a test that sees its value and one that does not."""
    for folder in ("src", "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "src/one.py").write_text("TWO = 2\n")
    (tmp_path / "tests/test_one.py").write_text(
        "from src.one import TWO\n\n\n"
        'def test_two():\n    """It is."""\n    assert TWO == 2\n\n\n'
        'def test_blind():\n    """Whatever it is."""\n    assert TWO\n'
    )
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"search": "4"}, "got it 0 times"),
        ({"search": "T"}, "T1: "),
        ({"replace": "2  # two"}, "changes nothing"),
        ({"replace": "("}, "T1: "),
        ({"file": "src/none.py"}, "no file"),
        ({"room": "other"}, "not in the room"),
        ({"test": "tests/test_one.py::test_three"}, "no test"),
        ({"test": "tests/none.py::test_two"}, "no test"),
    ],
)
def test_a_wrong_row_is_refused(tree, changed, words):
    """Before anything is run, with the reason."""
    row = Mutant(**{name: getattr(ROW, name) for name in Mutant.__dataclass_fields__} | changed)
    found = problem_of(row, tree)
    assert words in found
    assert bool(found) == bool(changed)


@pytest.mark.real
def test_a_fault_is_seen_or_survives_and_the_tree_is_as_it_was(tree, capsys):
    """Two rows, the second with a test that looks at nothing; a test that fails without a fault is an error."""
    blind = Mutant("T2", "Not seen.", *(getattr(ROW, name) for name in ("room", "file", "search", "replace")), "tests/test_one.py::test_blind")  # fmt: skip
    assert survivors([ROW, blind], tree) == [blind]
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "SURVIVES T2  Not seen.",
        "caught   T1  Two is two.",
    ]
    assert (tree / "src/one.py").read_text() == "TWO = 2\n"
    (tree / "src/one.py").write_text("TWO = 5 - 2\n")
    with pytest.raises(RuntimeError, match="passes without a fault expected"):
        survivors([ROW], tree)


@pytest.mark.parametrize(("caught", "code"), [(90, 0), (89, 1)])
def test_fewer_than_nine_of_ten_is_a_failure(monkeypatch, capsys, caught, code):
    """The totals of both kinds are printed, and the exit code says whether it is enough."""
    rows = mutants()[:100]
    monkeypatch.setattr(judge, "survivors", lambda _: rows[caught:])
    assert judge.run(rows) == code
    assert f"{caught} of 100 caught" in capsys.readouterr().out


def test_a_seed_draws_the_same_faults_again():
    """Over all modules, and each is one that can be made."""
    first = list(draw(12, 7))
    assert first == list(draw(12, 7)) != list(draw(12, 8))
    assert len({row.file for row in first}) == len(first) > 6
    for row in first:
        path = Path(judge.ROOT, row.file)
        assert row.applied(path.read_text()) != path.read_text()
