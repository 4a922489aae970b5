"""Suggestions: registered rules, and what holds for any file system and any failure."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import resilient_bridge as rb
from resilient_bridge.agent import suggest
from tests.internals.agent import SearchAllowance, SuggestionContext, fixes


def _context(directory=None, **arguments):
    return SuggestionContext(arguments=arguments, directory=directory, look=SearchAllowance())


# ---- rules of one's own --------------------------------------------------------------------------------------------


class Busy(ConnectionError):  # noqa: N818 (as users name theirs)
    """An error of the user's."""


def test_a_registered_rule_is_heard_first_and_until_its_end():
    """The most specific first, then the later one; the failure's own hints last."""
    error = Busy("full")
    with (
        suggest.register(OSError, lambda failure, context: ["base"]),
        suggest.register(Busy, lambda failure, context: [f"own {context.arguments['x']}"]),
        suggest.register(Busy, lambda failure, context: ["later", "base"]),
        suggest.register(rb.Category.AUTH, lambda failure, context: ["not this"]),
        suggest.register(re.compile("lost"), lambda failure, context: "one text"),
    ):
        found = suggest(error, arguments={"x": 1})
    assert found == ("later", "base", "own 1", "one text", *rb.classify(error).suggestions)
    assert suggest(error) == rb.classify(error).suggestions


def test_a_rule_that_breaks_is_omitted():
    """A rule or a predicate that raises, yields no texts, or never ends costs the others nothing."""

    def breaks(failure, context):
        yield "before"
        raise RuntimeError("broken")

    def endless(failure, context):
        while True:
            yield "again"

    with (
        suggest.register(Busy, breaks),
        suggest.register(Busy, endless),
        suggest.register(Busy, lambda failure, context: [1, None, " "]),
        suggest.register(Busy, lambda failure, context: None),
        suggest.register(lambda failure: 1 / 0, lambda failure, context: ["never"]),
    ):
        assert suggest(Busy("full"))[:2] == ("again", "before")


def test_what_cannot_be_meant_is_refused():
    """Each wrong argument is named."""
    for wrong in (
        lambda: suggest("text"),
        lambda: suggest(Busy(), arguments=[1]),
        lambda: suggest(Busy(), directory=3),
        lambda: suggest.register("text", print),
        lambda: suggest.register(Busy, "text"),
    ):
        with pytest.raises(rb.ConfigError, match=r"^suggest\.\w+.*: wanted "):
            wrong()


def test_cancellation_is_no_failure():
    """It is raised again, as `classify` does."""
    with pytest.raises(asyncio.CancelledError):
        suggest(asyncio.CancelledError())


# ---- whatever comes ------------------------------------------------------------------------------------------------


def test_no_secret_and_no_line_break_comes_out(tmp_path):
    """Wherever it stands: in the missing path, in a file's name, in the directory, in a registered rule."""
    folder = tmp_path / "token=CANARY1"
    folder.mkdir()
    (folder / "sk-CANARY2.json.bak").write_text("{}")
    (folder / "a\nb.json").touch()
    with suggest.register(OSError, lambda failure, context: ["Bearer CANARY3"]):
        found = [*suggest(FileNotFoundError(2, "no", "sk-CANARY2.json"), directory=folder)]
        found += suggest(FileNotFoundError(2, "no", "a\nbb.json"), directory=folder)
    assert "CANARY" not in " ".join(found)
    assert any("restore the backup" in text for text in found)
    assert any("did you mean" in text for text in found)
    assert all(text.isprintable() for text in found)
    assert "CANARY" not in repr(_context(token="CANARY"))


def test_there_need_be_no_working_directory(tmp_path, monkeypatch):
    """One that was removed leaves absolute paths, and the failure's own hints."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert (
        suggest(FileNotFoundError(2, "no", "x"))
        == rb.classify(FileNotFoundError(2, "no")).suggestions
    )
    assert (
        suggest(FileNotFoundError(2, "no", f"{tmp_path}/x.c"))[0]
        == f"create it: touch {tmp_path}/x.c"
    )


EMPTY = Path(__file__).parent / "no such directory"
NAMES = st.one_of(
    st.sampled_from(
        [
            "config",
            "app.json",
            "app.jsn",
            "src",
            "data.db",
            "data.db.bak",
            "backups",
            "-rf",
            "a b",
            "é",
            "n\nn",
            "\udcff",
        ]
    ),
    st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=8).filter(
        lambda name: name not in {".", ".."}
    ),
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
CODES = st.sampled_from([2, 2, 2, 2, 13, 20])
KINDS = st.sampled_from(["file", "directory", "loop", "closed"])


def _made(root, tree):
    for path, kind in tree.items():
        folder = root / path
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            if kind == "file":
                folder.touch()
            elif kind == "loop":
                folder.symlink_to(folder)
            else:
                folder.mkdir(0o000 if kind == "closed" else 0o755)
        except (
            OSError,
            ValueError,
        ):  # a file where another path wants a directory, or a name that the disk refuses
            continue


@pytest.mark.requirement("C4")
@settings(max_examples=60)
@given(
    tree=st.dictionaries(PATHS, KINDS, max_size=8),
    missing=PATHS,
    code=CODES,
    is_absolute=st.booleans(),
    below=PATHS,
)
def test_every_path_that_is_named_is_there(tree, missing, code, is_absolute, below):
    """For any tree, any path and any refusal: what a suggestion names exists at that moment, and nothing is raised."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        root = Path(name)
        _made(root, tree)
        here = root / below if is_absolute else root
        path = str(root / missing) if is_absolute else missing
        error = OSError(code, "refused", path)
        before = sorted(map(str, root.rglob("*")))
        made = fixes(rb.classify(error), _context(here))
        assert [fix for fix in made if fix.path is not None and not os.path.lexists(fix.path)] == []
        found = suggest(error, directory=here)
        assert len(found) <= 6
        assert len(set(found)) == len(found)
        assert all(len(text) <= 500 and "\n" not in text for text in found)
        assert sorted(map(str, root.rglob("*"))) == before  # it only looks


@settings(max_examples=150)
@given(
    text=st.text(max_size=200),
    arguments=st.dictionaries(st.text(max_size=8), st.text(max_size=30), max_size=3),
    number=st.integers(),
)
def test_nothing_is_raised_for_any_text(text, arguments, number):
    """Any text behind any phrase, any arguments, any exit code."""
    for stated in (
        text,
        f"{text}: No such file or directory",
        f"ENOENT, open '{text}'",
    ):
        failure = rb.Failure.of(
            "TOOL_EXECUTION_FAILED",
            stated,
            details={"stderr": stated, "exit_code": number, "errno": number},
        )
        assert suggest(failure, arguments=arguments, directory=EMPTY) is not None
