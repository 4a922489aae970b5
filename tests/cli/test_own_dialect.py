"""A dialect of the user's own on the command line: `MODULE:NAME`, imported from the current directory."""

from __future__ import annotations

import sys

import pytest

from tests.internals.cli import forms_of, read_dialect, read_served


OWN = """import json
import resilient_bridge as rb
from resilient_bridge import dialects as say

def decode(frame):
    return (say.Received(raw=json.loads(frame)),)

def encode(intent):
    return json.dumps({"op": intent.type}) if isinstance(intent, say.Send) else None

D = rb.bridge.Dialect.envelopes(decode=decode, encode=encode)
number = 7
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """A directory with the module, which is the current one."""
    (tmp_path / "own_words.py").write_text(OWN)
    (tmp_path / "broken_words.py").write_text("import json\n1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("own_words", None)


@pytest.mark.parametrize("text", ["own_words:D", "own_words.py:D", " own_words:D "])
def test_a_dialect_of_ones_own_is_imported(text):
    """By module or by file, found from here; it is called by its name in code."""
    spelled = read_dialect(text)
    assert spelled.code == "own_words.D"
    assert spelled.dialect.decode('{"a": 1}')[0].raw == {"a": 1}
    assert forms_of(spelled.dialect).types


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("own_words:number", "a Dialect expected, got 'own_words:number', which is of type int"),
        ("own_words:E", "a Dialect expected, got 'own_words:E', which is not in it"),
        (
            "no_words:D",
            "'no_words' cannot be imported: ModuleNotFoundError: No module named 'no_words'",
        ),
        (
            "broken_words:D",
            "'broken_words' cannot be imported: ZeroDivisionError: division by zero",
        ),
        ("none.py:D", "wanted a Python file or a module, got 'none.py'"),
    ],
)
def test_what_is_no_dialect_is_named(text, why):
    """What was wanted, and what was found; an error of the module with its class."""
    with pytest.raises(ValueError, match=r"^") as raised:
        read_dialect(text)
    assert str(raised.value).startswith(why)


def test_the_embedded_bridge_does_not_import_it():
    """It serves only its own dialects, and runs nothing to say so."""
    with pytest.raises(ValueError, match="whose server has to be a real one"):
        read_served("broken_words:D")
    assert "broken_words" not in sys.modules
