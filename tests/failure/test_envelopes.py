"""A company's own error envelope: functions registered with `classify`, used by HTTPTransport and around requests alike."""

from __future__ import annotations

from datetime import timedelta

import httpx
import httpx2
import pytest

import resilient_bridge as rb
from resilient_bridge.failure import classify
from tests.rows import each_row


BUSY = {"error": {"code": "E_BUSY", "wait": 3, "text": "come back"}}


def envelope(answer):
    """The function that such a company registers."""
    error = (answer if isinstance(answer, dict) else answer.json())["error"]
    if error["code"] == "E_BUSY":
        return {
            "code": "SYS_UNAVAILABLE",
            "kind": "transient",
            "retry_after": error["wait"],
            "message": error["text"],
        }
    if error["code"] == "E_GONE":
        return {"kind": rb.Kind.PERMANENT, "executed": "no"}
    return None


class Reply:
    """The response of another company, always with status 200."""

    def __init__(self, ok: bool) -> None:
        self.ok = ok


@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize("what", [409, rb.named("httpx", "Response")])
def test_f02_a_body_of_ones_own(library, what):
    """Registered by status or by class; fields that the function does not set stay unchanged."""
    if what != 409:
        what = rb.named(library.__name__, "Response")
    answer = library.Response(409, json=BUSY)
    assert classify(answer).retryable is False
    with rb.classify.register(what, answer=envelope):
        failure = classify(answer)
        assert (failure.code, failure.retryable, failure.retry_after) == (
            "SYS_UNAVAILABLE",
            True,
            3.0,
        )
        assert failure.message == "come back"
        assert failure.details["http_status"] == 409
        gone = classify(library.Response(409, json={"error": {"code": "E_GONE"}}))
        assert (gone.retryable, gone.executed) == (False, "no")
        other = classify(library.Response(409, json={"error": {"code": "E_X"}}))
        assert (other.code, other.retryable) == ("SYS_UPSTREAM_REJECTED", False)
        assert classify(library.Response(409, content=b"no json")).code == "SYS_UPSTREAM_REJECTED"
    assert classify(answer).retryable is False


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_f02_http_transport_asks_it(library):
    """The 409 is retried after the wait in its body, and the caller can still read the body."""
    answers = [
        library.Response(409, json=BUSY),
        library.Response(409, json=BUSY),
        library.Response(200),
    ]
    policy = rb.Policy(rb.Retry(attempts=4, backoff=rb.Backoff.constant(1), budget=None))
    inner = library.MockTransport(lambda _: answers.pop(0))
    client = library.Client(transport=rb.HTTPTransport(policy, inner))
    with rb.classify.register(409, answer=envelope), rb.testing.virtual_time() as time, client:
        assert client.get("http://127.0.0.1/").status_code == 200
        assert time.slept == [3.0, 3.0]
        answers += [library.Response(409, json=BUSY)] * 4
        assert client.post("http://127.0.0.1/").json() == BUSY
        assert len(answers) == 3


def test_f02_a_success_that_is_none():
    """An object of any class, or a dict, becomes a failure; a policy retries it like a returned 503."""
    calls = []
    policy = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0), budget=None))

    @policy(idempotent=True)
    def ask() -> Reply:
        calls.append(1)
        return Reply(ok=len(calls) > 2)

    assert classify(Reply(ok=False)) is None
    assert not ask().ok  # the class was cached as one without a function, until one is registered
    calls.clear()
    with rb.classify.register(
        Reply, answer=lambda reply: None if reply.ok else {"code": "SYS_UNAVAILABLE"}
    ):
        assert classify(Reply(ok=True)) is None
        failure = classify(Reply(ok=False))
        assert failure is not None
        assert (failure.code, failure.executed) == ("SYS_UNAVAILABLE", "maybe")
        assert ask().ok
        assert len(calls) == 3
    with rb.classify.register(dict, answer=envelope):
        assert classify(BUSY).retry_after == 3.0
        assert classify({"fine": 1}) is None


class Busy(Exception):  # noqa: N818 -- a name as users choose it
    """An error with an attribute of its own."""

    def __init__(self, retry_after: object) -> None:
        super().__init__("busy")
        self.retry_after = retry_after


def test_f02_an_error_is_read_too():
    """The function gets the exception; the most specific registration with an answer wins."""
    with rb.classify.register(Exception, answer=lambda _: {"code": "SYS_TIMEOUT"}):
        with rb.classify.register(
            Busy, answer=lambda error: {"kind": "transient"} if error.args else None
        ):
            assert (classify(Busy(None)).kind, classify(Busy(None)).code) == (
                "transient",
                "SYS_UNAVAILABLE",
            )
            assert classify(ValueError("x")).code == "SYS_TIMEOUT"
        with rb.classify.register(Busy, answer=lambda _: None):
            assert classify(Busy(None)).code == "SYS_TIMEOUT"


@each_row(("value", "wait"), [(5, 5.0), (0.5, 0.5), (timedelta(seconds=7), 7.0), (None, None), ("5", None), (-1, None), (float("nan"), None), (True, None)])  # fmt: skip
def test_f02_the_retry_after_of_an_exception_is_read(value, wait):
    """A number of seconds or a timedelta is read; a policy that names the class waits that long."""
    assert classify(Busy(value)).retry_after == wait
    policy = rb.Policy(rb.Retry(attempts=2, on=Busy, backoff=rb.Backoff.constant(1), budget=None))
    calls = []

    @policy(idempotent=True)
    def ask() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise Busy(value)
        return "ok"

    with rb.testing.virtual_time() as time:
        assert ask() == "ok"
    assert time.slept == [max(1.0, wait or 0)]


@each_row("value", [{"code": 7}, {"code": "no prefix"}, {"kind": "sometimes"}, {"retry_after": "soon"}, 3, "x", {"executed": 1}, {}, [("code", 1)]])  # fmt: skip
def test_f02_an_invalid_answer_of_a_function_is_ignored(value):
    """`classify` never raises."""
    with rb.classify.register(Busy, answer=lambda _: value):
        assert classify(Busy(None)).code == "SYS_INTERNAL_ERROR"

    def broken(_: object) -> None:
        raise RuntimeError

    with rb.classify.register(Busy, answer=broken):
        assert classify(Busy(None)).code == "SYS_INTERNAL_ERROR"


@each_row(
    ("value", "named"),
    [
        ({"code": 7}, "'code'"),
        ({"kind": "s3cret"}, "'kind'"),
        ({"retry_after": "soon"}, "'retry_after'"),
        ({"suggestions": "one"}, "'suggestions'"),
        ({"retryafter": 3}, "'retryafter'"),
        ("s3cret", "a str"),
        ([("code", 1)], "a list"),
        (None, None),
        ({}, None),
        (
            {
                "code": "SYS_TIMEOUT",
                "kind": None,
                "executed": "no",
                "message": None,
                "suggestions": ["a"],
            },
            None,
        ),
    ],
)
def test_l04_an_invalid_answer_is_logged_once(value, named, caplog):
    """The registration, the function and the field are named, what was wanted too, and never the value."""
    caplog.clear()
    with rb.classify.register(Busy, answer=lambda _: value):
        classify(Busy(None))
        classify(Busy(None))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (named is not None)
    for line in lines:
        assert line.startswith("classify.register.answer: ")
        assert named in line
        assert "must return a dict" in line
        assert "s3cret" not in line


def test_f02_what_is_no_function_is_refused():
    """It is refused at the registration, which names it."""

    async def later(_: object) -> None:
        """Stand for a function that would have to be awaited."""

    for wrong in ("f", 3, later):
        with pytest.raises(rb.ConfigError, match=r"classify\.register\.answer"):
            rb.classify.register(Busy, answer=wrong)
    for what in (object, Reply):
        with pytest.raises(rb.ConfigError):
            rb.classify.register(what, kind=rb.Kind.TRANSIENT)
