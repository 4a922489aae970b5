"""The check of banned words: what it finds and what it does not."""

from __future__ import annotations

import pytest

from tests import words


@pytest.mark.parametrize("name", ["told", "_told", "is_told", "TOLD_BY", "ToldLater", "told_by"])
def test_a_name_is_found_in_either_style(name):
    """As a word of its own, not as a part of one."""
    assert list(words.found_in("a.py", f"x = 1\n{name} = 2\n")) == [(2, name)]


@pytest.mark.parametrize(
    ("text", "count"),
    [("from hypothesis import given\n@given(1)\ndef f(): ...\n", 0), ("f(given)\n", 1)],
)
def test_the_decorator_of_hypothesis_has_the_name_that_it_has(text, count):
    """Nothing else may have it."""
    assert len(list(words.found_in("a.py", text))) == count


@pytest.mark.parametrize(
    "text", ["ungiven = placed = untold = 1\n", "# told\n", '"""told"""\n', "f'told'\n"]
)
def test_other_words_and_texts_are_not(text):
    """Prose is read by people; a longer word is another one."""
    assert not list(words.found_in("a.py", text))


def test_the_name_of_a_module_counts():
    """Line 0 is the file itself."""
    assert list(words.found_in("resilient_bridge/kept.py", "")) == [(0, "kept")]
