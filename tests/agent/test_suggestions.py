"""Suggestions: waits, limits and names; registered rules; and what holds whatever the disk and the failure are."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import resilient_bridge as rb
from resilient_bridge.agent.suggestions import suggestion_rules
from resilient_bridge.agent.suggestions.near_misses import SearchAllowance
from resilient_bridge.agent.suggestions.suggest import suggest
from resilient_bridge.agent.suggestions.suggestion_context import SuggestionContext


NOW = datetime(2026, 1, 2, 23, 59, 30, 500_000, tzinfo=UTC)


def _context(directory=None, **passed):
    options = {
        "arguments": {},
        "names": (),
        "directory": directory,
        "now": NOW,
        "look": SearchAllowance(),
    } | passed
    return SuggestionContext(**options)


def _texts(code, message="", *, names=(), **overrides):
    failure = rb.Failure.of(code, message, **overrides)
    return [fix.text for fix in suggestion_rules.fixes(failure, _context(names=names))]


def test_how_long_to_wait_and_until_when():
    """A wait is a lower bound: rounded up; tomorrow has its date; a moment that was told counts from now."""
    assert _texts("SYS_RATE_LIMITED", retry_after=12) == ["wait 12 s, until 23:59:43Z"]
    assert _texts("SYS_RATE_LIMITED", retry_after=59.2) == ["wait 60 s, until 2026-01-03 00:00:31Z"]
    at = {"retry_at": NOW.timestamp() + 3}
    assert _texts("SYS_UNAVAILABLE", retry_after=99, details=at) == ["wait 3 s, until 23:59:34Z"]
    past = {"retry_at": NOW.timestamp() - 3}
    assert _texts("SYS_RATE_LIMITED", details=past) == [  # a 429 is no proof
        "the time to wait is over: find out whether it ran, else repeat it"
    ]
    assert _texts("SYS_RATE_LIMITED", details=past, executed=rb.Executed.NO) == [
        "the time to wait is over: repeat it"
    ]
    assert _texts("SYS_RATE_LIMITED", retry_after=1e12) == ["wait 1000000000000 s"]


def test_no_wait_without_a_reason():
    """Nobody said how long, or waiting does not help."""
    assert _texts("SYS_RATE_LIMITED") == []
    assert _texts("SYS_UPSTREAM_REJECTED", retry_after=5) == []
    assert _texts("SYS_UPSTREAM_REJECTED", retry_after=5, stopped="retry_after") != []


def test_a_context_that_is_too_long():
    """By how much, from the details or from the provider's words, and the way that was told to help."""
    counted = {"current_tokens": 130, "max_tokens": 100, "suggestion": "reduce_tools"}
    assert _texts("SYS_CONTEXT_OVERFLOW", details=counted) == [
        "offer fewer tools: 130 tokens are 30 more than the 100 that fit"
    ]
    for reported in (
        "prompt is too long: 130 tokens > 100 maximum",
        "This model's maximum context length is 100 tokens. However, your messages resulted in 130 tokens.",
    ):
        found = _texts("SYS_UPSTREAM_REJECTED", reported, details={"reason": "context_length_exceeded"})
        assert found == [
            "compact the history, or offer fewer tools: 130 tokens are 30 more than the 100 that fit"
        ]
    for unclear in ("1,500 tokens > 100 maximum", "11234567890 tokens > 100 maximum"):  # a part is no number
        assert _texts("SYS_UPSTREAM_REJECTED", unclear, details={"reason": "context_length_exceeded"}) == []
    assert _texts("SYS_CONTEXT_OVERFLOW") == []


def test_limits_that_waiting_does_not_lift():
    """A spend limit with its numbers, a quota and a refused content with who refused."""
    assert _texts("SYS_SPEND_LIMIT", details={"spent": "10.02", "limit": "10"}) == [
        "have a person approve more, or cancel: 10.02 of 10 are spent"
    ]
    assert _texts("SYS_SPEND_LIMIT", details={"spent": "NaN", "limit": "10"}) == []
    over = {"spent": "3", "limit": "10", "reason": "cancelled"}  # nobody can approve more of it
    assert _texts("SYS_SPEND_LIMIT", details=over) == []
    by = {"provider_id": "openai"}
    quota = _texts("SYS_UPSTREAM_REJECTED", details={"reason": "quota_exhausted", **by})
    assert quota == ["raise the limit or add credit at openai: to repeat it now does not help"]
    refused = _texts("SYS_UPSTREAM_REJECTED", details={"reason": "content_policy_violation"})
    assert refused == ["change the request: the provider refused it for its content, not for the moment"]


def test_names_spelled_alike():
    """Of a tool or an argument, from the text, the details or a violation; only names that there are."""
    names = ("grep", "read_file", "pattern")
    row = {"violations": ({"field": "arguments.patern", "constraint": "unexpected", "received": "x"},)}
    assert _texts("TOOL_NOT_FOUND", "no such tool: gerp", names=names) == ["did you mean grep?"]
    assert _texts("TOOL_NOT_FOUND", details={"tool": "gerp"}, names=names) == ["did you mean grep?"]
    assert _texts("TOOL_ARGUMENTS_INVALID", details=row, names=names) == ["did you mean pattern?"]
    unexpected = "f() got an unexpected keyword argument 'patern'"
    assert _texts("SYS_INTERNAL_ERROR", unexpected, names=names) == ["did you mean pattern?"]
    assert _texts("TOOL_NOT_FOUND", "no such tool: zzz", names=names) == [
        "call one of these: grep, pattern, read_file"
    ]
    assert _texts("SYS_CONFIG_INVALID", "no such file: 'gerp'", names=names) == []
    assert _texts("TOOL_NOT_FOUND", "no such tool: gerp") == []
    unlike = "unsupported operand type(s) for +: 'int' and 'str'"  # about no name that could be called
    assert _texts("SYS_INTERNAL_ERROR", unlike, names=("print", "string")) == []
    assert _texts("TOOL_ARGUMENTS_INVALID", "unknown argument 'x' of 'grep'", names=("grep", "greps")) == []


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
        lambda: suggest(Busy(), names="grep"),
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
    assert "CANARY" not in repr(_context(arguments={"token": "CANARY"}))


def test_there_need_be_no_working_directory(tmp_path, monkeypatch):
    """One that was removed leaves absolute paths, and the failure's own hints."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert suggest(FileNotFoundError(2, "no", "x")) == rb.classify(FileNotFoundError(2, "no")).suggestions
    assert suggest(FileNotFoundError(2, "no", f"{tmp_path}/x.c"))[0] == f"create it: touch {tmp_path}/x.c"


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
CODES = st.sampled_from([1, 2, 13, 17, 20, 21, 28, 30])
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
@settings(max_examples=150, deadline=None)
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
        fixes = suggestion_rules.fixes(rb.classify(error), _context(here))
        assert [fix for fix in fixes if fix.path is not None and not os.path.lexists(fix.path)] == []
        found = suggest(error, directory=here)
        assert len(found) <= 6
        assert len(set(found)) == len(found)
        assert all(len(text) <= 500 and "\n" not in text for text in found)
        assert sorted(map(str, root.rglob("*"))) == before  # it only looks


@settings(max_examples=150, deadline=None)
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
        f"command not found: {text}",
        f"ENOENT, open '{text}'",
    ):
        failure = rb.Failure.of(
            "TOOL_EXECUTION_FAILED", stated, details={"stderr": stated, "exit_code": number, "errno": number}
        )
        assert suggest(failure, arguments=arguments, names=[text]) is not None
