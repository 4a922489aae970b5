"""Text as the last resort: the patterns of the seed, where they count, and where they must not."""

from __future__ import annotations

import re

import aiohttp
import httpx
import pytest
import requests
import urllib3

import resilient_bridge as rb
from resilient_bridge.failure import classify, text_finding
from tests.rows import each_row


TRANSIENT = """connect ECONNREFUSED 127.0.0.1:80|connect ETIMEDOUT 10.0.0.1:443|getaddrinfo ENOTFOUND host.test
    |429 Too Many Requests|EBUSY: resource busy or locked, rename 'a'|write EAGAIN|HTTP 423 LOCKED
    |Rate limit exceeded|you exceeded your rate limit: slow down|quota exceeded for minute|connection reset by peer
    |Request failed with status code 503|Error code: 529 - overloaded|502 Bad Gateway|Client error '429 Too Many Requests' for url
    |listen EADDRINUSE: address already in use :::7890|Port already bound|Failed to start daemon: timeout
    |No connection could be made because the target machine actively refused it|The remote computer refused the network connection
    |An existing connection was forcibly closed by the remote host
    |An established connection was aborted by the software in your host machine
    |A connection attempt failed because the connected party did not properly respond after a period of time
    |A socket operation was attempted to an unreachable network
    |The process cannot access the file because it is being used by another process
    |[Errno 111] Connect call failed ('127.0.0.1', 8801)|[Errno 61] Connect call failed ('::1', 8801, 0, 0)|[Errno 65] Connect call failed ('10.0.0.1', 80)"""
PERMANENT = """ENOENT: no such file or directory, open 'config.json'|EACCES: permission denied|EPERM
    |404 Not Found|403 Forbidden|Invalid argument|Syntax error near line 3|bash: foo: command not found
    |HTTP 400|status code 501|429 {"error": {"code": "insufficient_quota"}} HTTP 429"""
CORRUPT = (
    "Unexpected token < in JSON at position 0|Invalid JSON|Schema validation failed|State mismatch"
)
PARTIAL = "Operation incomplete|operation incomplete: 3 of 5 written"
NOTHING = """processed 429 rows|429|row 503 of 504|error 4290|EBUSYBODY|preECONNREFUSED|econnrefused|the account is locked
    |relocked|status 200|HTTP 200 OK|generate limits|x429 Too Many Requests|in chapter 404 Not Foundation|LOCKED_BY_USER"""


def _each(texts: str) -> list[str]:
    return [" ".join(text.split()) for text in texts.split("|")]


def test_several_failed_connects_are_the_first_of_them():
    """As asyncio prints them, for a host with two addresses."""
    text = "Multiple exceptions: [Errno 111] Connect call failed ('::1', 80, 0, 0), [Errno 113] Connect call failed ('127.0.0.1', 80)"
    assert classify(text).code == "CONN_REFUSED"


@pytest.mark.requirement("C1")
@each_row(
    ("text", "kind"),
    [
        *((text, "transient") for text in _each(TRANSIENT)),
        *((text, "permanent") for text in _each(PERMANENT)),
        *((text, "corruption") for text in _each(CORRUPT)),
        *((text, "partial") for text in _each(PARTIAL)),
    ],
)
def test_every_pattern(text, kind):
    """The kind of the seed; UPSTREAM, because whose error it was is unknown; and it may have run."""
    for error in (RuntimeError(text), Exception(text), OSError(text)):
        failure = classify(error)
        assert (failure.kind, failure.retryable) == (kind, kind == "transient")
        assert (failure.category, failure.executed) == ("UPSTREAM", "maybe")
        assert text[:30].split("'")[0] in failure.message


@pytest.mark.requirement("C1")
@each_row("text", _each(NOTHING))
def test_where_a_number_or_a_word_means_nothing(text):
    """ "processed 429 rows" stays permanent: anchored to whole words, capitals of errnos, and a status that says so."""
    assert text_finding(text) is None
    failure = classify(RuntimeError(text))
    assert (failure.kind, failure.retryable, failure.category) == ("permanent", False, "INTERNAL")


@pytest.mark.requirement("S10")
@pytest.mark.parametrize(
    "cls", [ValueError, TypeError, KeyError, AssertionError, NotImplementedError, RecursionError]
)
def test_a_defect_stays_a_defect_whatever_it_says(cls):
    """The text counts only where there is nothing else: a TypeError about a connection is a TypeError."""
    failure = classify(cls("connect ECONNREFUSED 127.0.0.1:80"))
    assert (failure.code, failure.category, failure.retryable) == (
        "SYS_INTERNAL_ERROR",
        "INTERNAL",
        False,
    )


def subclass(base, package="tests"):
    """Return a class of the user's, or one that says that it is this package's."""
    return type("TheirError", (base,), {"__module__": f"{package}.errors"})


BASES = [
    *(Exception, RuntimeError, OSError, ConnectionError, ValueError, UnicodeError),
    *(
        httpx.ProxyError,
        requests.ConnectionError,
        aiohttp.ClientConnectionError,
        urllib3.exceptions.HTTPError,
    ),
]


@each_row(
    "text",
    [
        *(
            *_each(TRANSIENT),
            *_each(PERMANENT),
            CORRUPT,
            PARTIAL,
            "SESS_NOT_FOUND",
            "label too long: idna",
        ),
        "No API key was provided. Please pass a valid API key.",  # google-genai's, in a plain ValueError
    ],
)
@each_row("base", BASES, ids=lambda base: base.__name__)
def test_k02_a_class_of_the_users_is_never_judged_by_its_words(base, text):
    """The same verdict whatever it says: that of its base, by type, or none."""
    mine = subclass(base)
    silent, spoken = classify(mine("")), classify(mine(text))
    assert (spoken.code, spoken.kind, spoken.category) == (
        silent.code,
        silent.kind,
        silent.category,
    )
    if not issubclass(base, ConnectionError | httpx.ProxyError | aiohttp.ClientError | OSError):
        assert (spoken.code, spoken.retryable) == ("SYS_INTERNAL_ERROR", False)
        assert text[:30].split("'")[0] in spoken.message


def test_k02_a_card_that_was_declined_is_not_a_timeout():
    """One call, although its text has the words of a timeout; by its type a subclass of TimeoutError is one."""

    class CardDeclined(Exception):  # noqa: N818 -- the user's name
        pass

    class Late(TimeoutError):  # noqa: N818 -- the same
        pass

    calls = []

    @rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0)))(idempotent=True)
    def pay(error):
        calls.append(None)
        raise error

    text = "card terminal timed out, customer left"
    most = rb.Retry().attempts
    rows = ((CardDeclined(text), 1), (Late("no words"), most), (RuntimeError(text), most))
    for error, count in rows:
        calls.clear()
        with pytest.raises(type(error)):
            pay(error)
        assert len(calls) == count


def test_k02_what_wraps_or_holds_it_changes_nothing():
    """Raised from a timeout, in a group, below an SDK's wrapper: still the user's class, and not its words."""
    mine = subclass(Exception)("connection timed out")
    mine.__cause__ = TimeoutError("timed out")
    assert classify(mine).code == "SYS_INTERNAL_ERROR"
    assert classify(ExceptionGroup("both", [mine, TimeoutError()])).code == "SYS_INTERNAL_ERROR"
    around = httpx.ConnectError("failed")
    around.__cause__ = subclass(Exception)("429 Too Many Requests")
    assert classify(around).code == "CONN_UNREACHABLE"  # by the wrapper's own type
    plain = RuntimeError("no words")
    plain.__cause__ = mine
    assert classify(plain).code == "SYS_INTERNAL_ERROR"


def test_k02_a_class_that_is_registered_is_read():
    """By its class, or by a pattern in its words: the user said so."""
    mine = subclass(Exception)
    with classify.register(mine, code="SYS_UNAVAILABLE"):
        assert classify(mine("no words")).retryable
    with classify.register(re.compile("terminal timed out"), code="CONN_TIMEOUT"):
        assert classify(mine("terminal timed out")).code == "CONN_TIMEOUT"
    assert classify(mine("terminal timed out")).code == "SYS_INTERNAL_ERROR"


@each_row(
    ("package", "name", "text", "code"),
    [
        ("sqlite3", "OperationalError", "database is locked", "CONN_RESOURCE_EXHAUSTED"),
        ("psycopg", "OperationalError", "server closed the connection unexpectedly", "CONN_RESET"),
        (
            "redis",
            "ConnectionError",
            "Error 111 connecting to h:1. Connection refused.",
            "CONN_REFUSED",
        ),
        ("fastmcp", "ToolError", "connect ECONNREFUSED 127.0.0.1:80", "CONN_REFUSED"),
        ("requests", "ConnectionError", "connection reset by peer", "CONN_RESET"),
    ],
)
def test_k02_a_librarys_own_class_that_has_only_words_is_read(package, name, text, code):
    """Drivers pass the system's words on in a class that we know; a subclass of the user's is not read."""
    theirs = type(name, (Exception,), {"__module__": f"{package}.errors"})
    assert classify(theirs(text)).code == code
    assert classify(subclass(theirs)(text)).code == classify(subclass(theirs)("")).code


@pytest.mark.requirement("S10")
def test_what_pydantic_raises_is_internal():
    """A ValidationError is a ValueError: INTERNAL, not retryable."""
    from mcp_types import ErrorData
    from pydantic import ValidationError

    with pytest.raises(ValidationError) as caught:
        ErrorData.model_validate({})
    assert (classify(caught.value).category, classify(caught.value).retryable) == (
        "INTERNAL",
        False,
    )


def test_the_class_beats_the_text():
    """An errno or a known class is not overruled by what the text mentions."""
    assert classify(OSError(2, "429 Too Many Requests")).category == "CONFIG"
    assert classify(ConnectionResetError("404 Not Found")).retryable


def test_the_first_pattern_counts_and_a_quota_anywhere():
    """The leftmost says what happened; an exhausted quota behind a 429 makes it final."""
    assert text_finding("ENOENT: open 'ECONNREFUSED.log'").code == "SYS_UPSTREAM_REJECTED"
    assert text_finding("429 Too Many Requests: ok").code == "SYS_RATE_LIMITED"
    assert text_finding("429 Too Many Requests: insufficient_quota").failure().retryable is False


@pytest.mark.requirement("G8")
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("connect ECONNREFUSED 127.0.0.1:7890", "check the port"),
        ("read ECONNRESET", "growing wait"),
        ("connect ETIMEDOUT", "growing wait"),
        ("Failed to start daemon: spawn", "lsof -ti :<port>"),
        ("Port already bound", "wait for the server on that port"),
        ("Address already in use", "wait for the server on that port"),
        ("Daemon started but not responding after 4s", "it may only be slow"),
    ],
)
def test_what_to_do(text, hint):
    """The advice for each errno, for a daemon that does not start and for a port in use."""
    assert hint in text_finding(text).failure().suggestions[0]


def test_a_long_or_strange_text_is_bounded():
    """A megabyte, letters whose lower case is longer, and nothing at all."""
    assert text_finding("İ" * 1_000_000 + "ECONNREFUSED") is None
    assert text_finding("İ 429 Too Many Requests") is None
    assert text_finding("İ ECONNREFUSED") is None
    assert text_finding("") is None
