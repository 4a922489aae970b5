"""Redaction: secrets in every disguise they were seen in, text that forges log lines, and what must stay readable."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_bridge.failure import (
    MASK,
    Failure,
    config_error,
    error_for,
    is_sensitive,
    redact,
    redact_lines,
    redact_value,
    text_of,
)
from tests.rows import each_row


SECRET = "CANARY-s3cr3t"
DISGUISES = [
    f"Illegal header value b'Bearer {SECRET}\\n'",
    f"Illegal header value b'Bearer sk-{SECRET}\\n'",
    f"bearer  {SECRET}",
    f"Authorization: Bearer {SECRET}",
    f"authorization=Basic {SECRET}== trailing {SECRET}",
    f"Proxy-Authorization: Negotiate {SECRET}",
    f"Cookie: session={SECRET}; other={SECRET}",
    f"X-Api-Key: {SECRET}",
    f"x-auth-token={SECRET}",
    f"[('x-api-key', '{SECRET}'), (b'authorization', b'Bearer {SECRET}')]",
    f"{{'Authorization': 'Basic {SECRET}'}}",
    f'{{"token": "{SECRET}", "password":"{SECRET} with spaces"}}',
    f'escaped {{\\"token\\": \\"{SECRET}\\"}}',
    f"wss://user:{SECRET}@host/path",
    f"wss://{SECRET}@host/path",
    f"ws://user:{SECRET}#{SECRET}@host/",
    f"ws://user:p/{SECRET}@host/",
    f"GET /ws?token={SECRET}&x=1",
    f"wss://host/ws?a=1&access_token={SECRET}#f",
    f"https://host/?key={SECRET} for url",
    f"https://host/?api_key={SECRET}&apikey={SECRET}",
    f"password={SECRET},{SECRET}",
    f"client_secret = {SECRET}",
    f"GITHUB_TOKEN={SECRET}",
    f"key sk-{SECRET} rejected",
    f"invalid token {SECRET}",
    "jwt eyJhbGciOiJI.CANARYzdWIiOiIx.CANARYx",
    "ghp_CANARYCANARYCANARYCANARY",
    f"{'x' * 8180} Bearer {SECRET}",
    f"{'x' * 8180} ghp_CANARYCANARYCANARY",  # what is read ends in the middle of it
]


@each_row("text", DISGUISES)
def test_a_secret_is_masked_in_every_disguise(text):
    """The canary is gone, and masking twice changes nothing (threat 40)."""
    shown = redact(text, limit=100_000)
    assert "CANARY" not in shown
    assert redact(shown, limit=100_000) == shown


@each_row("text", DISGUISES)
def test_no_form_of_a_failure_shows_a_secret(text):
    """Wherever it came in: message, details (also as a key's value), suggestions, cause, history (threat 40)."""
    inner = Failure.of("CONN_RESET", text)
    failure = Failure.of(
        "SYS_INTERNAL_ERROR",
        text,
        details={
            "error": text,
            "nested": [{"token": SECRET, "text": (text,)}],
            "bytes": text.encode(),
        },
        suggestions=(text,),
        cause=ValueError(text),
        history=(inner,),
    )
    error = error_for(failure)
    forms = [
        str,
        repr,
        Failure.explain,
        Failure.to_llm,
        lambda f: json.dumps([f.to_dict(), f.to_mcp()]),
    ]
    for shown in [*(form(failure) for form in forms), str(error), repr(error), str(error.args)]:
        assert "CANARY" not in shown


@each_row(
    "text",
    [
        "[Errno 111] Connect call failed ('127.0.0.1', 7890)",
        "server rejected WebSocket connection: HTTP 503",
        "max_tokens: 4096 of 200000 tokens used",
        "wss://host:8443/path?since=2026-03-01T00:00:00Z&session=s1",
        "http://host:80/a@b",
        "token: wanted text, got 7",
        "received 1012 (service restart) sess-abc123",
        "idempotency_key abc: already processed",
        "wanted a dialect that says where a token goes; here: headers={'Authorization': 'Bearer …'}",  # our advice
        "headers={'Authorization': 'Bearer env:TOKEN'}",
    ],
)
def test_what_is_no_secret_stays_readable(text):
    """Addresses, statuses, counts and ids are what the reader needs."""
    assert redact(text) == text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\nERROR forged", "a\\nERROR forged"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("nul\x00 del\x7f c1\x9b", "nul\\x00 del\\x7f c1\\x9b"),
        ("line\u2028 override\u202e mark\u200f", "line\\u2028 override\\u202e mark\\u200f"),
        ("lone \ud800", "lone \\ud800"),
        ("grüße 日本 🙂", "grüße 日本 🙂"),
    ],
)
def test_text_from_outside_cannot_forge_a_line(raw, shown):
    """Newlines, ANSI, NUL, reordering marks and lone surrogates are escaped, letters are not (threat 46)."""
    assert redact(raw) == shown
    failure = Failure.of("CONN_WEBSOCKET_CLOSED", raw, details={"close_text": raw})
    for text in (str(failure), repr(failure), failure.to_llm()):
        assert text.isprintable()
    assert failure.explain().count("\n") == Failure.of(
        "CONN_WEBSOCKET_CLOSED", details={"close_text": "x"}
    ).explain().count("\n")


@given(st.text())
def test_any_text_comes_out_printable_bounded_and_stable(text):
    """One line, encodable, at most 500 characters, and redacting it again changes nothing."""
    shown = redact(text)
    assert len(shown) <= 500
    assert "\n" not in shown
    shown.encode()
    assert redact(shown) == shown


@each_row(
    "piece",
    "a a- token '\" :// token: Bearer key= ://@ token', \\ eyJ sk- ?token= u:p Basic".split(),
)
def test_a_hostile_text_costs_time_linear_in_it(piece):
    """Eight times the almost-matches cost at most some eight times as much, where squares would cost sixty-four."""

    def cost(size):
        spent = []
        for _ in range(3):
            started = time.process_time()
            redact(piece * (size // len(piece)))
            spent.append(time.process_time() - started)
        return min(spent)

    assert cost(1_000_000) < 28 * max(cost(125_000), 0.002)


def test_a_field_named_like_a_secret_is_masked_whatever_it_holds():
    """By the key of a mapping, and by the `field` of a violation."""
    assert redact_value({"api_key": 7, "Authorization": ["x"], "id": 7, "token": None}) == {
        "api_key": "[redacted]",
        "Authorization": "[redacted]",
        "id": 7,
        "token": None,
    }
    assert is_sensitive("reconnect.token")
    assert not is_sensitive("max_tokens")
    assert SECRET not in str(config_error("token", "text", SECRET))
    assert SECRET not in repr(config_error("client.token", "text", SECRET).failure)


def test_an_error_without_a_text_has_one():
    """A `__str__` that raises, or returns no text, is named instead of raised (threat 45)."""

    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RecursionError

    wrong = type("WrongError", (Exception,), {"__str__": lambda _error: 7})
    assert text_of(BrokenError()) == "<BrokenError without text>"
    assert text_of(wrong()) == "<WrongError without text>"
    assert text_of(TimeoutError()) == ""


@each_row(
    "value",
    [
        [("Authorization", SECRET)],
        [(b"authorization", SECRET.encode())],
        {b"api_key": SECRET},
        {"headers": {b"Cookie": SECRET.encode()}},
        {"name": "X-Api-Key", "value": SECRET},
        {"key": b"token", "value": SECRET},
        {"header": "Set-Cookie", "value": SECRET, "age": 3},
        ["curl", "--token", SECRET, "https://host"],
    ],
)
def test_a_secret_that_stands_beside_its_name_is_masked(value):
    """Pairs, records of a name and a value, keys of bytes, arguments of a command: the name need not be the key."""
    shown = repr(redact_value(value))
    assert SECRET not in shown
    assert MASK in shown


def test_what_stands_beside_a_harmless_name_stays():
    """Masking looks at names, not at places."""
    value = {
        "name": "colour",
        "value": "red",
        "pairs": [("size", "9")],
        "words": ["--verbose", "x"],
    }
    assert redact_value(value) == {
        "name": "colour",
        "value": "red",
        "pairs": (("size", "9"),),
        "words": ("--verbose", "x"),
    }


def test_a_private_key_is_masked_whole():
    """Over all of its lines, also where each line is shown on its own, and where its end is missing."""
    body = "\n".join(["MIIEpAIBAAKCAQEA7bq98"] * 3)
    for name in ("", "RSA ", "OPENSSH "):
        whole = f"before\n-----BEGIN {name}PRIVATE KEY-----\n{body}\n-----END {name}PRIVATE KEY-----\nafter"
        for shown in (redact(whole), redact_lines(whole, limit=100)):
            assert "MIIEp" not in shown
            assert "before" in shown
            assert "after" in shown
        assert "MIIEp" not in redact_lines(whole.partition("-----END")[0], limit=100)
    assert redact_lines("public\nlines", limit=100) == "public\nlines"
