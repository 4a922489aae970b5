"""The page: one document that needs nothing else, that a screen reader can follow, and that no line of a log can break."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import pairwise
from random import Random

import pytest

from resilient_bridge.report import Incident, page
from tests.report.made_logs import BEGIN, RESET, line, log
from tests.report.reading_pages import Page


HOSTILE = "</title></script><script>alert(1)</script><img src=x onerror='alert(2)'>\"'&amp;\x00\x1b[31m\u202e"
SECRET = "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12Mn34Op56Qr78"


def incident_of(lines, name="session.jsonl") -> Incident:
    """The facts of these lines."""
    incident = Incident()
    incident.source(name)
    for one in lines:
        incident.take(one)
    incident.finish()
    return incident


@pytest.fixture(scope="module")
def whole() -> Page:
    """A page with every section."""
    return Page(
        page(
            incident_of(
                [
                    *log(3, mcp=True, seconds=900),
                    b"{",
                    line(BEGIN + 1, "StoreChanged", store="a", state="failed", failure=RESET),
                    line(BEGIN + 9, "LimitChanged", key="host GET /", state="exhausted", at_once=1),
                    line(BEGIN + 9, "EffectHeld", name="pay", first="unknown", seconds=2),
                ]
            )
        )
    )


@pytest.mark.requirement("X10")
def test_it_is_one_well_formed_document_that_fetches_nothing(whole):
    """No tag is left open; nothing but its own anchors is linked; its policy forbids every request; the script has the policy's hash."""
    assert whole.errors == []
    loads = [
        value
        for _, attrs in whole.tags
        for name, value in attrs.items()
        if name in ("src", "href", "action", "srcset", "data")
    ]
    assert loads
    assert all(value.startswith("#") for value in loads)
    (policy,) = [
        one["content"]
        for one in whole.all("meta")
        if one.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; ")
    (script,) = whole.texts_in("script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert not [name for _, attrs in whole.tags for name in attrs if name.startswith("on")]
    assert "http" not in "".join(whole.texts_in("style")) + "".join(whole.texts_in("script"))
    assert "@import" not in "".join(whole.texts_in("style"))


@pytest.mark.requirement("X10")
def test_it_can_be_followed_without_seeing_it(whole):
    """A language, one h1, headings in order, tables with captions and scopes, pictures with names, and ids that are there once."""
    assert whole.all("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in whole.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert len(whole.all("caption")) == len(whole.all("table")) > 12
    assert {"Files", "Events by name"} <= set(
        whole.texts_in("caption")
    )  # as the program writes them
    assert all(one.get("scope") in ("row", "col") for one in whole.all("th"))
    ids = [attrs["id"] for _, attrs in whole.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
    assert {
        attrs["aria-labelledby"] for _, attrs in whole.tags if "aria-labelledby" in attrs
    } <= set(ids)
    assert {attrs["href"][1:] for attrs in whole.all("a")} <= set(ids)
    pictures = [one for one in whole.all("svg") if one.get("aria-hidden") != "true"]
    assert len(pictures) > 8
    assert all(one["role"] == "img" and one["aria-label"] for one in pictures)


@pytest.mark.requirement("X10")
def test_no_state_is_a_colour_alone(whole):
    """Each drawn state says its word and has a pattern of its own, or is plain; every chart's facts stand in a table too."""
    states = [text.split(" for ")[0] for text in whole.texts_in("title") if " for " in text]
    assert {"ready", "waiting", "open", "critical", "paused", "lost", "exhausted"} <= set(states)
    style = "".join(whole.texts_in("style"))
    for look in ("busy", "wait", "bad", "mixed"):
        assert f".s-{look}{{fill:url(#p-{look})" in style
        assert any(one.get("id") == f"p-{look}" for one in whole.all("pattern"))
    cells = {cell for row in whole.rows for cell in row}
    assert {
        "CONN_RESET: connection reset by peer",
        "search",
        "tokens",
        "error_rate",
        "lost",
        "waiting to be sent",
    } <= cells


@pytest.mark.requirement("X10")
def test_it_has_a_light_a_dark_and_a_printed_form(whole):
    """Dark only on a screen, so paper is light; on paper nothing scrolls and no row is cut in two; a narrow window has one column."""
    style = "".join(whole.texts_in("style"))
    assert "@media screen and (prefers-color-scheme:dark)" in style
    assert "@media print" in style
    assert "@media(max-width:720px)" in style
    assert "break-inside:avoid" in style.partition("@media print")[2]


def test_every_section_is_there_and_linked(whole):
    """Links, outages, server, queues, circuits, limits, calls and those in doubt, failures, messages, others, the log."""
    wanted = [
        "timeline",
        "outages",
        "server",
        "queues",
        "circuits",
        "limits",
        "effects",
        "calls",
        "failures",
        "messages",
        "others",
        "log",
    ]
    assert [one["id"] for one in whole.all("section")] == wanted
    assert [one["href"] for one in whole.all("a")] == [f"#{name}" for name in wanted]


def test_a_log_with_one_kind_of_event_says_what_it_has_nothing_about():
    """Sections without facts are left out and named; a log of nothing at all is a page, too."""
    small = Page(
        page(
            incident_of(
                [line(BEGIN, "CallFinished", name="f", outcome="ok", attempts=1, seconds=0.1)]
            )
        )
    )
    assert [one["id"] for one in small.all("section")] == ["calls", "log"]
    assert any(
        text.startswith("The log has nothing about: connections, outages and gaps, mcp server")
        for text in small.texts_in("p")
    )
    empty = Page(page(incident_of([b"nothing\n"])))
    assert empty.errors == []
    assert "This log has no event that can be read." in empty.texts_in("p")


def hostile_lines():
    """One line of each event that a report reads, every text in it hostile and with a secret."""
    names = (
        "StateChanged Disconnected ReconnectScheduled Resumed Suspended GaveUp CallFinished call_finished RetryScheduled CallRejected \
        CircuitChanged SpendChanged AlertChanged server_lost MessageUndelivered StoreChanged list_changed Started LimitChanged EffectHeld \
        EffectResolved Hedged AnswerShared".split()
    )
    text = f"{HOSTILE} Authorization: Bearer {SECRET}"
    words = (
        "bridge session_id previous state reason verdict name outcome method key type by budget rule level remaining store list id version "
        "python command path proof first how"
    ).split()
    for number, name in enumerate([*names, text]):
        fields = dict.fromkeys(words, text) | {
            "wait": 1,
            "failure": {"code": text, "message": text, "suggestions": [text]},
        }
        yield line(BEGIN + number, name, **fields)
        yield json.dumps(
            {
                "ts": "2026-11-24T11:31:00Z",
                "level": text,
                "msg": text,
                "error": text,
                "duration_ms": 5,
                "tool": text,
            }
        ).encode()


@pytest.mark.requirement("X10")
def test_nothing_in_a_log_becomes_markup_and_no_secret_is_shown():
    """Hostile text in every field, in an event's name and in a file's name stays text; a token that a log still had is masked."""
    text = page(incident_of(hostile_lines(), name=HOSTILE))
    found = Page(text)
    assert found.errors == []
    assert len(found.all("script")) == 1
    assert found.all("img") == []
    assert not [name for _, attrs in found.tags for name in attrs if name.startswith("on")]
    assert any("<script>alert(1)</script>" in cell for row in found.rows for cell in row)
    assert SECRET not in text
    assert "\x00" not in text
    assert "\u202e" not in text


KEYS = (
    "at ts event msg bridge session_id previous state reason failure code message suggestions verdict since until wait attempt name outcome "
    "seconds attempts key at_once per_second waiting refused longest_wait first how began requests winner unknown age budget spent limit rule level value threshold queued unconfirmed unread restarts duration_ms retry_after lost cut"
).split()
EVENTS = (
    "StateChanged Disconnected ReconnectScheduled Resumed Suspended GaveUp CallFinished call_finished RetryScheduled CallRejected "
    "CircuitChanged SpendChanged AlertChanged server_lost server_ready MessageUndelivered Started StoreChanged LimitChanged EffectHeld "
    "EffectResolved Hedged AnswerShared"
).split()
TIMES = (
    "2026-11-24T11:30:00.000Z",
    "2026-11-24T11:45:01+02:00",
    "1970-01-01",
    1_795_519_800.5,
    0,
    1e11,
    253_402_299_999.0,
)
VALUES = (
    None,
    True,
    -1,
    0,
    7,
    1e400,
    -1e-300,
    10**30,
    0.5,
    float("nan"),
    "",
    "READY",
    "BACKOFF",
    "IDLE",
    "GAP",
    "ok",
    "<b>",
    "\ud800",
    "12.5",
    *TIMES,
)


def any_value(rng: Random, deep: int = 2):
    """A value of any kind that JSON has."""
    if deep and rng.random() < 0.2:
        keys = rng.sample(KEYS, 3)
        items = [any_value(rng, deep - 1) for _ in keys]
        return items if rng.random() < 0.5 else dict(zip(keys, items, strict=True))
    return rng.choice(VALUES)


def any_line(rng: Random) -> bytes:
    """A line: fields that a report reads with values of any kind; now and then any bytes."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(40))
    fields = {key: any_value(rng) for key in rng.sample(KEYS, rng.randrange(12))}
    return json.dumps({**fields, "at": rng.choice(TIMES), "event": rng.choice(EVENTS)}).encode()


@pytest.mark.requirement("X10")
def test_any_lines_give_a_well_formed_page():
    """Whatever the values are: no exception, and no tag that is not ours."""
    for seed in range(40):
        rng = Random(seed)
        found = Page(page(incident_of([any_line(rng) for _ in range(rng.randrange(1, 40))])))
        assert found.errors == [], seed
        assert len(found.all("script")) == 1, seed
        assert all(attrs.get("class") == "letter" for attrs in found.all("b")), seed
