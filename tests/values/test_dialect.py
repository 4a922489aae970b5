"""Dialect: names on the wire."""

from __future__ import annotations

import pytest

from resilient_bridge.bridge import Dialect
from resilient_bridge.failure import ConfigError
from tests.rows import each_row


WORDS = (
    "auth auth_ack auth_error join joined request_replay replay ping pong ack error epoch".split()
)


def _field(**names) -> str:
    with pytest.raises(ConfigError) as caught:
        Dialect(**names)
    return caught.value.failure.details["violations"][0]["field"]


def test_the_defaults_are_recursors_names():
    """The seed's wire needs no configuration."""
    names = [getattr(Dialect(), word) for word in WORDS]
    assert names == [
        "auth",
        "connection_ack",
        "connection_error",
        "session_join",
        "session_joined",
        "request_replay",
        "replay_buffer",
        "heartbeat_ping",
        "heartbeat_pong",
        "message_ack",
        "error",
        "server_id",
    ]
    assert Dialect().superseded == (4409,)
    assert Dialect().unreplayed == ("heartbeat_", "connection_")
    assert (Dialect().codec, Dialect().max_frame_bytes) == ("auto", 16 * 1024 * 1024)


@each_row("word", WORDS)
@each_row("value", ["", "two words", "line\nbreak", 5, True])
def test_what_is_no_name_is_refused(word, value):
    """Empty, with spaces or line breaks, no text: the ConfigError names the field."""
    assert _field(**{word: value}) == f"Dialect.{word}"


@each_row("word", [word for word in WORDS if word not in ("pong", "replay")])
def test_none_switches_a_name_off(word):
    """A server that lacks something is described by None; other spellings are fine."""
    assert getattr(Dialect(**{word: None}), word) is None
    assert getattr(Dialect(**{word: "requestReplay"}), word) == "requestReplay"


def test_a_question_needs_the_name_of_its_answer():
    """A ping without a pong would declare every healthy peer dead; a replay nobody recognises would never end."""
    assert _field(pong=None) == "Dialect.pong"
    assert _field(replay=None) == "Dialect.replay"
    assert Dialect(ping=None, pong=None, request_replay=None, replay=None).pong is None


@pytest.mark.parametrize(
    ("names", "field"),
    [
        ({"superseded": (4409, 999)}, "Dialect.superseded[1]"),
        ({"superseded": (5000,)}, "Dialect.superseded[0]"),
        ({"superseded": (True,)}, "Dialect.superseded[0]"),
        ({"superseded": 4409}, "Dialect.superseded"),
        ({"unreplayed": "heartbeat_"}, "Dialect.unreplayed"),
        ({"unreplayed": ("",)}, "Dialect.unreplayed[0]"),
        ({"unreplayed": (1,)}, "Dialect.unreplayed[0]"),
    ],
)
def test_a_bad_item_is_refused_by_name(names, field):
    """An empty prefix would match every type; a bare text is not taken for its letters."""
    assert _field(**names) == field
