"""Secrets by reference: what they read, what they refuse, and that nothing waits for them."""

from __future__ import annotations

import os
import sys

import pytest

import resilient_bridge as rb
from tests.internals.transports import (
    Headers,
    Secret,
    UnreadableError,
    in_words,
    is_reference,
    only_names_secret,
    read_secret,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("env:TOKEN", True),
        ("file:/run/secrets/token", True),
        ("file:///run/secrets/token", True),
        ("env:", False),
        ("file:", False),
        ("file://", False),  # the Origin of a page that was opened from a disk
        ("Bearer env:TOKEN", False),  # of a header: each word is looked at
        ("tok:en", False),
        (7, False),
    ],
)
def test_what_is_a_reference(text, expected):
    """A kind, a colon and a place."""
    assert is_reference(text) is expected


def test_m02_a_secret_is_read_each_time(tmp_path, monkeypatch):
    """M02: both kinds; the line break that an editor adds is none of it."""
    monkeypatch.setenv("RB_TOKEN", "one")
    path = tmp_path / "token"
    path.write_text("two\n")
    token, filed = Secret("env:RB_TOKEN"), Secret(f"file:{path}")
    headers = Headers(
        (("Authorization", f"Bearer file:{path}"), ("X-Key", "env:RB_TOKEN"), ("X-Team", "a b"))
    )
    assert (token(), filed()) == ("one", "two")
    assert headers() == {"Authorization": "Bearer two", "X-Key": "one", "X-Team": "a b"}
    monkeypatch.setenv("RB_TOKEN", "three")
    path.write_text("four\r\n")
    assert (token(), filed()) == ("three", "four")
    assert headers()["Authorization"] == "Bearer four"


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_m02_a_mark_at_the_beginning_of_a_file_is_no_part_of_the_secret(tmp_path, end):
    """M02: rotated with an editor of Windows, which begins UTF-8 with a byte order mark."""
    path = tmp_path / "token"
    path.write_bytes(b"\xef\xbb\xbfone" + end)
    assert read_secret(f"file:{path}") == "one"
    path.write_bytes(b"\xef\xbb\xbf" + end)
    with pytest.raises(UnreadableError, match="holds a secret"):
        read_secret(f"file:{path}")


@pytest.mark.parametrize("where", ["/nowhere/at/all", "~nobody-of-this-name/key", "a\0b"])
def test_what_is_missing_may_come(where):
    """No file, no such user, no name that a file can have: a refresh that failed, which names the reference."""
    with pytest.raises(
        rb.errors.AuthError, match="wanted a file that can be read and holds a secret"
    ) as caught:
        Secret(f"file:{where}")()
    assert caught.value.failure.code == "AUTH_REFRESH_FAILED"
    with pytest.raises(
        rb.errors.AuthError, match="wanted a variable that is set, got env:RB_NOT_SET"
    ):
        Secret("env:RB_NOT_SET")()


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes in the file system")
def test_sec6_a_named_pipe_is_refused_at_once(tmp_path):
    """SEC6: it has no writer, so reading it would never end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(rb.ConfigError, match="wanted a regular file"):
        Secret(f"file:{pipe}")()


@pytest.mark.parametrize(
    ("data", "wanted"),
    [(b"x" * 65_537, "a file of at most 65536 bytes"), (b"\xff\xfe", "a file of text in UTF-8")],
    ids=["large", "binary"],
)
def test_sec6_a_file_that_holds_no_secret_is_refused(tmp_path, data, wanted):
    """SEC6: neither cut nor repaired, because half a token is a wrong one."""
    path = tmp_path / "token"
    path.write_bytes(data)
    with pytest.raises(rb.ConfigError, match=wanted):
        Secret(f"file:{path}")()
    with pytest.raises(rb.ConfigError, match="wanted a regular file"):
        Secret(f"file:{tmp_path}")()


def test_a_secret_with_a_line_break_goes_into_no_header(tmp_path):
    """It would end the header; the error does not show it."""
    path = tmp_path / "token"
    path.write_text("one\ntwo")
    assert read_secret(f"file:{path}") == "one\ntwo"
    with pytest.raises(UnreadableError, match="without a line break") as caught:
        in_words(f"Bearer file:{path}")
    assert "two" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("env:TOKEN", True),
        ("Bearer env:TOKEN", True),
        ("Bearer abc", False),
        ("s3cret99 env:TOKEN", False),
        ("Bearer env:TOKEN abc", False),
    ],
)
def test_a_secret_beside_a_reference_is_one(text, expected):
    """In settings a header with the name of a secret has references alone, behind a scheme."""
    assert only_names_secret(text) is expected
