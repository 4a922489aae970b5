"""Combinations that could not work are refused where they are written, by the name of the field: positions, dialects, ends, families."""

from __future__ import annotations

import re

import pytest

import resilient_bridge as rb
from tests.protocol.frames_rig import ask, d, decode, dialect, encode
from tests.rows import each_row


P = d.Positions


@each_row(
    ("fields", "named"),
    [
        ({"order": "time", "contiguous": True}, "Positions.contiguous"),
        ({"order": "opaque", "contiguous": True}, "Positions.contiguous"),
        ({"order": "time", "overlap": 1}, "Positions.overlap"),
        ({"order": "opaque", "overlap": 3}, "Positions.overlap"),
        ({"overlap": -1}, "Positions.overlap"),
        ({"overlap": True}, "Positions.overlap"),
        ({"ends": "anchor"}, "Positions.ends"),
        ({"ends": "never"}, "Positions.ends"),
        ({"ends": "stated", "proof": "barrier"}, "Positions.proof"),
        ({"proof": "window"}, "Positions.proof"),
        ({"order": "numbers"}, "Positions.order"),
        ({"contiguous": 1}, "Positions.contiguous"),
        ({"repeats": "yes"}, "Positions.repeats"),
        ({"per_channel": None}, "Positions.per_channel"),
        ({"quiet": 0}, "Positions.quiet"),
        ({"quiet": float("inf")}, "Positions.quiet"),
    ],
)
def test_positions_that_contradict_themselves(fields, named):
    """What has no meaning beside the order, what has no proof, what is no such word."""
    with pytest.raises(rb.ConfigError, match=re.escape(named)):
        P(**fields)


def test_an_overlap_of_times_is_refused_with_what_helps():
    """The error names the value that fits the order, and how to ask earlier all the same; that is accepted."""
    with pytest.raises(rb.ConfigError) as caught:
        P(order="time", overlap=60)
    failure = caught.value.failure
    wanted = (
        '0 with order "time", and repeats=True with a resume that asks from before Record.position'
    )
    assert failure.message.startswith(f"Positions.overlap: wanted {wanted}, got 60")
    assert str(caught.value) == failure.message  # and not once more as a suggestion
    assert P(order="time", overlap=0, repeats=True).repeats
    with pytest.raises(rb.ConfigError, match='wanted False with order "opaque", got True'):
        P(order="opaque", contiguous=True)


FUNCTIONS_ONLY = {
    "positions": P(),
    "resume": ask,
    "waits_for_hello": True,
    "login": "first",
    "pings": True,
    "silence": 5,
    "answers": True,
    "confirms": True,
    "echo": str,
    "acknowledges": "taken",
    "acknowledge_within": 3,
}


@each_row("field", FUNCTIONS_ONLY)
def test_what_goes_only_with_functions(field):
    """Without encode and decode the session speaks its own protocol, and these would say nothing."""
    with pytest.raises(
        rb.ConfigError, match=f"Dialect.{field}: wanted only beside encode and decode"
    ):
        rb.bridge.Dialect.envelopes(**{field: FUNCTIONS_ONLY[field]})


@each_row(
    ("fields", "named"),
    [
        ({"decode": decode}, "Dialect.encode"),
        ({"encode": encode}, "Dialect.encode"),
        ({"positions": "number"}, "Dialect.positions"),
        ({"resume": "url"}, "Dialect.resume"),
        ({"login": "later"}, "Dialect.login"),
        ({"pings": "ordered"}, "Dialect.pings"),
        ({"positions": P(ends="barrier")}, "Dialect.pings"),
        ({"acknowledges": "read"}, "Dialect.acknowledges"),
        ({"silence": 0}, "Dialect.silence"),
        ({"dedupes": "sometimes"}, "Dialect.dedupes"),
        ({"close_code": 999}, "Dialect.close_code"),
        ({"close_code": 5000}, "Dialect.close_code"),
        ({"ends": ("busy",)}, "Dialect.ends"),
        ({"ends": d.End(close=4000, means="busy")}, "Dialect.ends"),
        ({"join": "join"}, "Dialect.join"),
        ({"ack": "ack"}, "Dialect.ack"),
    ],
)
def test_dialects_that_contradict_themselves(fields, named):
    """One function without the other, a barrier without pings, a name of the protocol beside functions."""
    functions = {} if {"decode", "encode"} & fields.keys() else {"decode": decode, "encode": encode}
    with pytest.raises(rb.ConfigError, match=re.escape(named)):
        rb.bridge.Dialect.envelopes(error=None, **functions, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {"login": "asked"}, id="the question comes when we are READY and is not answered"
        ),
        pytest.param({"acknowledge_within": 3.0}, id="a time for what is never owed"),
        pytest.param(
            {"acknowledges": "received", "acknowledge_within": 3.0},
            id="a time for what is done at once",
        ),
        pytest.param({"echo": str}, id="an echo of what nothing waits for"),
    ],
)
def test_fields_that_have_no_effect_alone(fields):
    """A field that means nothing without another is refused."""
    with pytest.raises(rb.ConfigError, match=re.escape(f"Dialect.{[*fields][-1]}")):
        dialect(None, **fields)


@each_row(
    ("fields", "named"),
    [
        ({}, "End"),
        ({"close": 5}, "End.close"),
        ({"close": (4100, 4000)}, "End.close"),
        ({"close": (4000, 4001, 4002)}, "End.close"),
        ({"close": "4000"}, "End.close"),
        ({"status": True}, "End.status"),
        ({"status": 40}, "End.status"),
        ({"code": ""}, "End.code"),
        ({"code": 4000}, "End.code"),
        ({"close": 4000, "means": "later"}, "End.means"),
    ],
)
def test_ends_that_fit_nothing(fields, named):
    """A rule without a condition, a range that holds nothing, a meaning that is none."""
    with pytest.raises(rb.ConfigError, match=f"{re.escape(named)}: wanted"):
        d.End(**{"means": "busy", **fields})


@each_row(
    ("family", "fields", "named"),
    [
        (d.sequence, {"field": "seq", "ask": ""}, "rb.dialects.sequence.ask"),
        (d.sequence, {"field": "seq", "ask": 7}, "rb.dialects.sequence.ask"),
        (
            d.sequence,
            {"field": "seq", "ask": "after", "ping": {"type": "ping"}},
            "rb.dialects.sequence",
        ),
        (d.sequence, {"field": "seq", "ask": "after", "pong": "pong"}, "rb.dialects.sequence"),
        (d.last_event_id, {"ask": {}}, "rb.dialects.last_event_id.ask"),
        (d.last_event_id, {"pong": "pong"}, "rb.dialects.last_event_id"),
        (d.since, {"ask": None}, "rb.dialects.since.ask"),
        (d.since, {"ping": {}}, "rb.dialects.since"),
    ],
)
def test_arguments_of_families_that_could_not_work(family, fields, named):
    """Nothing to ask with, a ping that nothing answers."""
    with pytest.raises(rb.ConfigError, match=re.escape(named)):
        family(**fields)


def test_a_dialect_of_channels_needs_one():
    """Centrifugo's channels are named."""
    for channels in ((), ("",)):
        with pytest.raises(rb.ConfigError, match=r"rb\.dialects\.centrifugo"):
            d.centrifugo(*channels)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        pytest.param({"ask": {"type": "resume"}}, "ask", id="a frame without the position"),
        pytest.param(
            {"ask": "after", "epoch": "epoch"},
            "epoch",
            id="an epoch of a greeting that is not named",
        ),
        pytest.param({"ask": "after", "start": "0"}, "start", id="a start that is no number"),
        pytest.param(
            {"ask": "after", "reset": "x", "end": "x"}, "end", id="one frame that says both"
        ),
        pytest.param({"ask": "after", "field": ""}, "field", id="a path of nothing"),
        pytest.param({"ask": "after", "field": 7}, "field", id="a path that is no text"),
        pytest.param(
            {"ask": {"after": "{position}", "x": {1}}}, "ask", id="a frame that is no JSON"
        ),
    ],
)
def test_arguments_of_a_sequence_that_could_not_work(fields, named):
    """The client would ask for nothing, or read no number, and say UNKNOWN each time."""
    with pytest.raises(rb.ConfigError, match=re.escape(f"rb.dialects.sequence.{named}")):
        d.sequence(**{"field": "seq", **fields})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"dialect": dialect(None), "backfill": lambda record: None}, "BridgeClient.backfill"),
        ({"dialect": dialect({}), "backfill": 7}, "BridgeClient.backfill"),
        ({"dialect": dialect(None), "token": "t"}, "BridgeClient.token"),
        ({"dialect": "openhands"}, "BridgeClient.dialect"),
    ],
)
def test_a_client_that_could_not_use_what_it_is_passed(arguments, named):
    """A fetch without positions to fetch after, a token that the dialect has no word for."""
    with pytest.raises(rb.ConfigError, match=re.escape(named)):
        rb.BridgeClient("ws://127.0.0.1:9", **arguments)


def test_what_was_refused_is_shown():
    """A word of a configuration is no secret, whatever its field is called."""
    with pytest.raises(rb.ConfigError, match="'ordered'"):
        dialect(None, pings="ordered")


def test_what_was_refused_is_shown_for_login_as_well():
    """It is one of two words, and no credential."""
    with pytest.raises(rb.ConfigError) as refused:
        dialect(None, login="later")
    assert "'later'" in str(refused.value)
