"""What may be sent where, judged from the text alone."""

from __future__ import annotations

import pickle

import pytest
from websockets.exceptions import InvalidURI

from tests.internals.transports import (
    InsecureURLError,
    RedirectRefusedError,
    checked_headers,
    parse_url,
    redirect_within,
    refuse_credentials,
)
from tests.rows import each_row


@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    ("url", "headers", "has_credentials"),
    [
        ("ws://bridge.example/", [], True),
        ("ws://user:pa55@bridge.example/", [], False),
        ("ws://bridge.example/", [("X-Api-Key", "canary")], False),
    ],
)
def test_a_credential_needs_encryption(url, headers, has_credentials):
    """A credential is found in the caller's word, in the URL and in a header, and refused without being shown."""
    with pytest.raises(InsecureURLError) as caught:
        refuse_credentials(parse_url(url), headers, has_credentials=has_credentials)
    assert (
        str(caught.value) == "url: wanted wss:// to carry credentials, got ws://bridge.example:80"
    )


def test_no_credential_needs_none():
    """A link without credentials may be plain."""
    assert (
        refuse_credentials(parse_url("ws://h/"), [("X-Trace", "1")], has_credentials=False) is None
    )


@each_row(
    "url",
    [
        "ws://user:canary/1@host",
        "ws://user:canary@host:99999/",
        "ws://canary@host/",
        "http://user:canary@host/?token=canary",
        "ws://host/?token=canary#canary",
        "ws://[canary/",
        "user:canary@host",
        "ws://user:can@ary@host:x/",
        "ws://a..b/canary",
        "",
    ],
)
def test_an_unreadable_url_keeps_its_secrets(url):
    """`InvalidURI` never shows user, password or query, not even of a URL that cannot be taken apart."""
    with pytest.raises(InvalidURI) as caught:
        parse_url(url)
    error: BaseException | None = caught.value
    assert error.__suppress_context__
    assert not {"canary", "ary", "can"} & set(
        str(error).replace("@", " ").replace("/", " ").split()
    )
    assert "canary" not in repr(error)


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("/b?x=1", "wss://u:p@h:8/b?x=1"),
        ("c", "wss://u:p@h:8/a/c"),
        ("wss://h:8/b", "wss://u:p@h:8/b"),
        ("https://H:8/b#frag", "wss://u:p@h:8/b"),
        ("wss://evil:creds@h:8/b", "wss://u:p@h:8/b"),
    ],
)
def test_a_redirect_within_the_origin_keeps_our_credentials(location, leads_to):
    """Inside the origin a redirect is followed with the user and password of the first URL, never the location's."""
    assert redirect_within("wss://u:p@h:8/a/b", location) == leads_to


@pytest.mark.requirement("R5")
@each_row(
    "location",
    [
        "ws://h:8/b",
        "http://h:8/b",
        "wss://h/b",
        "wss://x:8/b",
        "//x/b",
        "wss://h:8@x:8/",
        "gopher://h:8/",
        "wss://[x",
    ],
)
def test_a_redirect_out_of_the_origin_is_refused(location):
    """Another scheme, host or port, or an unreadable location, is refused."""
    with pytest.raises(
        RedirectRefusedError, match=r"^redirect refused: wanted a url inside wss://h:8, got "
    ):
        redirect_within("wss://u:p@h:8/a/b", location)


@pytest.mark.parametrize(
    "headers", [{"X-Token": "canary\n"}, [("X-Token", "canary\r\nHost: x")], {"X-Token": "canary€"}]
)
def test_a_header_that_cannot_be_sent_is_named_but_not_shown(headers):
    """A line break or an unprintable character in a value is refused with the header's name only."""
    with pytest.raises(ValueError, match="in the value of X-Token") as caught:
        checked_headers(headers)
    assert "canary" not in str(caught.value)


def test_a_header_name_that_is_a_secret_is_not_shown():
    """A name that is no name may be a misplaced value, so it is not shown either."""
    with pytest.raises(ValueError, match="wanted names") as caught:
        checked_headers([("Bearer canary", "x")])
    assert "canary" not in str(caught.value)


def test_headers_come_as_mapping_or_pairs():
    """A mapping and a list of pairs mean the same; pairs may repeat a name."""
    assert checked_headers({"A": "1"}) == checked_headers([("A", "1")]) == [("A", "1")]
    assert checked_headers([("A", "1"), ("A", "2")]) == [("A", "1"), ("A", "2")]


@pytest.mark.parametrize("error", [InsecureURLError("x"), RedirectRefusedError("x")])
def test_the_errors_survive_pickling(error):
    """Both errors cross a process border unchanged."""
    assert repr(pickle.loads(pickle.dumps(error))) == repr(error)
