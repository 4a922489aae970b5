"""The check of the words that are to go: what it finds, and that its list only shrinks."""

from __future__ import annotations

import pytest

from tests import words


def listed(**files):
    """The lines of the list for these files."""
    return {path: words.digest(text) for path, text in files.items()}


@pytest.mark.parametrize("name", ["told", "_told", "is_told", "TOLD_BY", "ToldLater", "told_by"])
def test_a_name_is_found_in_either_style(name):
    """As a word of its own, not as a part of one."""
    assert list(words.found_in("a.py", f"x = 1\n{name} = 2\n")) == [(2, name)]


@pytest.mark.parametrize(
    ("text", "count"), [("from hypothesis import given\n@given(1)\ndef f(): ...\n", 0), ("f(given)\n", 1)]
)
def test_the_decorator_of_hypothesis_has_the_name_that_it_has(text, count):
    """Nothing else may have it."""
    assert len(list(words.found_in("a.py", text))) == count


@pytest.mark.parametrize("text", ["ungiven = placed = untold = 1\n", "# told\n", '"""told"""\n', "f'told'\n"])
def test_other_words_and_texts_are_not(text):
    """Prose is read by people; a longer word is another one."""
    assert not list(words.found_in("a.py", text))


def test_the_name_of_a_module_counts():
    """Line 0 is the file itself."""
    assert list(words.found_in("resilient_bridge/kept.py", "")) == [(0, "kept")]


def test_a_file_may_keep_its_words_until_it_is_changed():
    """Listed as it is: nothing. Changed: every word of it."""
    text = "told = 1\n"
    assert words.problems({"a.py": text}, listed(**{"a.py": text})) == ([], [])
    wrong, not_needed = words.problems({"a.py": text + "x = 2\n"}, listed(**{"a.py": text}))
    assert wrong == ["a.py:1: told"]
    assert not_needed == ["a.py"]


def test_a_line_that_is_not_needed_is_reported():
    """A file that is clean, changed or gone has none."""
    text = "told = 1\n"
    assert words.problems({"a.py": "x = 1\n"}, listed(**{"a.py": text, "b.py": text}))[1] == ["a.py", "b.py"]
