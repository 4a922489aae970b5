"""OpenViber's own words as input, where no other test has them: its budget, its ladder, its session logs, its lines for a model."""

from __future__ import annotations

import json
import re

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import classify
from resilient_bridge.stores import SessionLog
from resilient_bridge.telemetry import emit
from tests.agent.ladders import steps
from tests.internals.telemetry import name_in_words
from tests.rows import each_row


BUDGET = """\
budget:
  mode: soft  # soft | hard
  limit_usd: 10.00
  warning_threshold: 0.8  # Warn at 80%
"""
DEGRADATION = """\
degradation:
  disable_browser_on_error: true   # Fall back to web_scrape
  disable_screenshots_on_error: true
  reduce_parallelism_on_rate_limit: true
"""
HIERARCHY = """\
Full capability
    ↓ (browser fails)
Web scraping only
    ↓ (scraping fails)
Text-only mode (report limitation to user)
"""
MODES = {
    "Full capability": "browser",
    "Web scraping only": "web_scrape",
    "Text-only mode (report limitation to user)": "text",
}
# "Error Classification": type, meaning
TYPES = """\
| `timeout` | Execution exceeded limit | Retry with simpler params or report |
| `permission` | Access denied | Report to user, suggest approval |
| `not_found` | Resource missing | Verify path/URL and retry |
| `rate_limit` | External API throttled | Wait and retry |
| `validation` | Invalid parameters | Fix params and retry |
| `unknown` | Unexpected error | Report with full context |
"""
SESSIONS = "~/.openviber/vibers/{id}/sessions/*.jsonl"


def _load(tmp_path, text: str) -> rb.settings.Config:
    path = tmp_path / "viber.yaml"
    path.write_text(text)
    return rb.load(path)


async def _spend(budget, *amounts: str) -> None:
    for amount in amounts:
        async with budget.call() as call:
            call.spend(amount)


@pytest.mark.requirement("V11")
@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_the_printed_budget_warns_at_80_percent_and_pauses_at_100(tmp_path, mode):
    """`soft`: warn and allow overage; `hard`: pause at the limit until approved; `cancel` is the other way out."""
    budget = _load(tmp_path, BUDGET.replace("mode: soft", f"mode: {mode}")).tables["budget"].make()
    with rb.testing.record() as seen:
        await _spend(budget, "7.99")
        assert seen == []
        await _spend(budget, "0.01", "2.00")
        paused = ["spend paused"] if mode == "hard" else []
        assert [name_in_words(event) for event in seen] == ["spend warned", *paused]
        assert (seen[0].spent, seen[0].limit, budget.status().share) == (8, 10, 1)
        if mode == "soft":
            await _spend(budget, "2.00")
            assert budget.status().share == 1.2
            return
        with pytest.raises(rb.BridgeError):
            async with budget.call(timeout=0.01):
                raise AssertionError("a hard budget lets no call in at its limit")
        budget.approve(5)
        await _spend(budget, "1.00")
    assert [name_in_words(event) for event in seen][-1] == "spend approved"
    assert (budget.status().spent, budget.status().limit) == (11, 15)


@pytest.mark.requirement("V15")
async def test_the_printed_hierarchy_is_gone_down_step_by_step(tmp_path):
    """The flags as printed; the browser fails, then the scraping: text is left, and each step is reported."""
    ladder = _load(tmp_path, DEGRADATION).tables["degradation"].make()["browser"]
    modes = [MODES[line] for line in HIERARCHY.splitlines() if "↓" not in line]
    fails = re.findall(r"\((\w+) fails\)", HIERARCHY)
    assert (list(ladder.modes), fails) == (modes, ["browser", "scraping"])

    def failing() -> str:
        raise ConnectionResetError(modes[0])

    with rb.testing.record() as seen:
        assert (
            await ladder.call({"browser": failing, "web_scrape": failing, "text": lambda: "text"})
            == "text"
        )
    assert steps(seen) == [(modes[0], modes[1]), (modes[1], modes[2])]


@pytest.mark.requirement("V15")
def test_a_flag_that_is_off_keeps_its_ladder_at_the_top(tmp_path):
    """Each of the three, as the file says."""
    made = _load(tmp_path, DEGRADATION.replace("true", "false")).tables["degradation"].make()
    for ladder in made.values():
        first = ladder.mode
        for failure in ("CONN_RESET", "SYS_RATE_LIMITED"):
            ladder.report(rb.Failure.of(failure))
        assert ladder.mode == first


@pytest.mark.requirement("V6")
@each_row("line", TYPES.splitlines())
def test_each_type_of_a_tools_failure_is_read_and_written(line):
    """`{ success: false, error: { type, … } }` of a tool: the type comes out as it went in."""
    kind, meaning, _ = (cell.strip() for cell in line.strip("|").split("|"))
    kind = kind.strip("`")
    error = {"type": kind, "message": meaning, "recoverable": True, "suggestion": "report it"}
    failure = classify({"success": False, "error": error})
    report = json.loads(failure.to_llm())
    assert {name: report[name] for name in error} == error


@pytest.mark.requirement("V14")
def test_session_logs_are_where_it_says_and_only_ever_appended_to(tmp_path, monkeypatch):
    """`~/.openviber/vibers/{id}/sessions/*.jsonl`: what an earlier session wrote stays as it is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = SESSIONS.replace("{id}", "viber-1").replace("*", "s1")
    emitted = [rb.events.Closed(reason=one) for one in ("one", "two")]
    before = b""
    for event in emitted:
        with SessionLog(path, form="openviber"):
            emit(event)
        after = (tmp_path / ".openviber/vibers/viber-1/sessions/s1.jsonl").read_bytes()
        assert after.startswith(before)
        assert len(after) > len(before)
        before = after
    assert all(json.loads(line) for line in before.splitlines())
    assert not (tmp_path / "~").exists()


OVERFLOW = {"type": "context_overflow", "current_tokens": 131_072, "max_tokens": 128_000}


@pytest.mark.requirement("V12")
@each_row("suggestion", ["compact_history", "reduce_tools", "start_new_session"])
def test_its_context_overflow_error_is_read(suggestion):
    """The object that a board gets, alone or as a tool's error: the numbers and the suggestion; a repeat cannot help."""
    printed = {**OVERFLOW, "suggestion": suggestion}
    for answer in (printed, {"success": False, "error": printed}):
        failure = classify(answer)
        assert (failure.code, failure.retryable) == ("SYS_CONTEXT_OVERFLOW", False)
        assert {name: failure.details[name] for name in ("current_tokens", "max_tokens")} == {
            "current_tokens": 131_072,
            "max_tokens": 128_000,
        }
        assert failure.suggestions[0] == suggestion
        report = json.loads(failure.to_llm())
        assert (report["type"], report["recoverable"]) == ("context_overflow", False)
    assert classify({**OVERFLOW, "current_tokens": "many"}) is None
    assert classify({"type": "context_overflow"}) is None
