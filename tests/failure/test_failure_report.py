"""The report for a board: six fields, a time in UTC, and a context with only what is known."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import attrs
import pytest

from resilient_bridge.failure import Category, Executed, Failure
from tests.rows import each_row


NOON = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)


@pytest.mark.requirement("V16")
def test_a_report_has_the_six_fields_of_the_board():
    """type, message, recoverable, context, suggestion and timestamp, as the board's interface lists them."""
    failure = Failure.of(
        "SYS_RATE_LIMITED", details={"http_status": 429}, suggestions=("wait", "slow down")
    )
    assert failure.to_report(NOON, tool="web_scrape", provider="anthropic", attempt=2) == {
        "type": "upstream",
        "message": "rate limited",
        "recoverable": True,
        "context": {"tool": "web_scrape", "provider": "anthropic", "attempt": 2},
        "suggestion": "wait; slow down",
        "timestamp": "2024-01-15T10:30:00Z",
    }


@pytest.mark.requirement("V16")
@pytest.mark.parametrize("category", list(Category))
def test_the_type_is_the_category(category):
    """In lower case, whatever the code."""
    failure = Failure.of("SYS_INTERNAL_ERROR", category=category)
    assert failure.to_report(NOON)["type"] == category.value.lower()


@pytest.mark.requirement("V16")
def test_the_context_holds_what_is_known():
    """The context is empty if nothing is known; the provider comes from the details, the attempt from the history."""
    assert Failure.of("CONN_RESET").to_report(NOON)["context"] == {}
    known = Failure.of(
        "CONN_RESET",
        details={"provider_id": "openai"},
        history=(Failure.of("CONN_RESET"), Failure.of("CONN_TIMEOUT")),
    )
    assert known.to_report(NOON)["context"] == {"provider": "openai", "attempt": 3}
    assert known.to_report(NOON, provider="ollama", attempt=7)["context"] == {
        "provider": "ollama",
        "attempt": 7,
    }


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (NOON, "2024-01-15T10:30:00Z"),
        (NOON.replace(microsecond=250_000), "2024-01-15T10:30:00.250000Z"),
        (
            datetime(2024, 1, 15, 1, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
            "2024-01-14T20:00:00Z",
        ),
    ],
)
def test_the_timestamp_is_utc(at, expected):
    """ISO 8601 with a Z, from any time zone."""
    assert Failure.of("CONN_RESET").to_report(at)["timestamp"] == expected


def test_a_time_without_a_zone_is_refused():
    """A time without a zone does not identify an instant."""
    with pytest.raises(
        ValueError, match=r"^at: wanted a time with its zone, got 2024-01-15T10:30:00$"
    ):
        Failure.of("CONN_RESET").to_report(NOON.replace(tzinfo=None))


def test_a_report_is_json_without_secrets():
    """The names passed in are redacted like everything else; values that are not JSON become text."""
    failure = Failure.of(
        "SYS_UNAVAILABLE", "Bearer s3cret refused", details={"provider_id": ["a", ("b",)]}
    )
    report = json.dumps(failure.to_report(NOON, tool="fetch?token=s3cret\n"), allow_nan=False)
    assert "s3cret" not in report
    assert json.loads(report)["context"] == {
        "tool": "fetch?token=[redacted]\\n",
        "provider": ["a", ["b"]],
    }


@each_row("code", ["SYS_RATE_LIMITED", "SYS_UNAVAILABLE", "CONN_TIMEOUT", "CONN_REFUSED"])
def test_a02_a_refused_repeat_is_not_advised(code):
    """`recoverable` is false beside no "wait, then repeat": advice of a repeat has a condition, for a model and a board."""
    made = Failure.of(
        code, "x", executed=Executed.MAYBE, suggestions=("look at its log", "wait, then repeat")
    )
    refused, over = (
        attrs.evolve(made, stopped="not_idempotent"),
        attrs.evolve(made, stopped="attempts"),
    )
    for report in (json.loads(refused.to_llm()), refused.to_report()):
        assert report["recoverable"] is False
        assert report["suggestion"].split("; ") == [
            "it may have run: find out whether it did before doing it again",
            "look at its log",
            "if it did not run: wait, then repeat",
        ]
    for report in (json.loads(over.to_llm()), over.to_report()):
        assert report["suggestion"] == "look at its log; wait, then repeat"
