"""The short cut of redaction: it may skip the search only where the search finds nothing."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tests.internals.failure import redaction, secret_shapes
from tests.rows import each_row


PIECES = """token= api_key: "x" api key is Bearer Basic QWxhZGRpbjpvcGVu sk-live123 eyJhbGciOi.eyJzdWIi ghp_0123456789abcdef0 xoxb-12345678
    AKIA0123456789AB AIzaSyA0123456789abcdefghij https://user:pw@host ?key=abc &sig=abc ;code=abc password=1 passwd:2 pwd=3 passphrase: x
    Set-Cookie: a=b Authorization: Basic x signature=abc credentials=abc secret 12345678 private_key='x' access-key="y" plain words
    ('x-api-key', 'abc') K\u212aEN=x toke\u017f=y @ :// = & ?""".split()  # fmt: skip


def _searched(text: str) -> str:
    """What is masked where no clue is asked for."""
    for shape in secret_shapes.shapes():
        text = shape.pattern.sub(shape.mask, text)
    text = secret_shapes.replaced(text, secret_shapes.spans_by_name(text, text))
    for shape in secret_shapes._later_shapes():
        text = shape.pattern.sub(shape.mask, text)
    return secret_shapes.tokens().sub(secret_shapes.MASK, text)


# One text for each pattern by itself, so that no word of the short cut can go unnoticed.
ALONE = [
    "TOKEN=x", "my_api_key: x", "API KEY is abcdef12", "access-key=x", "private_key=x", "secret=x", "password=x", "passwd=x",
    "passphrase=x", "pwd=x", "credentials=x", "Cookie: a", "signature=x", "Authorization: x", "bearer abc", "Basic QWxhZGRpbjpv",
    "sk-live123", "eyJhbGciOi.eyJzdWIi", "ghp_0123456789abcdef0", "gho_0123456789abcdef0", "ghu_0123456789abcdef0",
    "ghs_0123456789abcdef0", "ghr_0123456789abcdef0", "github_pat_0123456789abcdef0", "xoxb-12345678", "AKIA0123456789AB",
    "AIzaSyA0123456789abcdefghij", "wss://h:p@x", "https://k7u@h/", "/?key=abc", "/?auth=abc", "/?sig=abc", "/;code=xK9abc", "pw=x", "sid=a1b2", "pin=4711", "cred=x",
    "K\u212aEN=x tok\u212aen: x", "to\u212aen=x",
]  # fmt: skip


@each_row("text", ALONE)
def test_every_secret_is_searched_for(text):
    """Each form of a secret, alone, is masked as if it had been searched without the clues."""
    assert secret_shapes.masked(text) == _searched(text)


def test_every_form_above_is_a_secret():
    """All but the look-alikes of another script are masked: the list proves something."""
    assert [text for text in ALONE if redaction.redact(text) == text and text.isascii()] == []


@given(st.lists(st.sampled_from(PIECES), max_size=6).map(" ".join) | st.text(max_size=60))
@example("TOKEN=x")
@example("wss://h:p@x")
@example("API KEY is abcdef12")
def test_what_is_skipped_holds_nothing(text):
    """Every text that the patterns would change is searched."""
    assert secret_shapes.masked(text) == _searched(text)


@given(st.text(max_size=40))
def test_what_is_printable_needs_no_escape(text):
    """`isprintable` lets nothing through that would have been escaped."""
    if text.isprintable():
        assert redaction._UNSAFE.search(text) is None
