"""Why nothing was repeated: one note on the error, and one line in the log for each class."""

from __future__ import annotations

import asyncio
import logging

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from tests.calls.forms import Server, at_once, both, everywhere, http_error
from tests.rows import each_row


class MyError(Exception):
    """An exception of the user's."""


UNKNOWN = "not repeated: MyError is not known to be transient; name it in Retry(on=…)"


def notes_of(form, policy, error, *, idempotent=True):
    """Return the notes of the error that a call raises, and how often it was made."""
    server = Server(always=error)
    with form.world(), pytest.raises(BaseException) as raised:
        form.run(policy(form.of(server.get), idempotent=idempotent))
    return getattr(raised.value, "__notes__", []), server.calls


@everywhere
def test_k03_an_unknown_class_says_how_to_name_it(form):
    """One call, and one note that says why and what to write."""
    assert notes_of(form, rb.Policy(at_once()), MyError) == ([UNKNOWN], 1)
    assert notes_of(form, rb.Policy(at_once(on=MyError, attempts=2)), MyError)[1] == 2


@everywhere
def test_k03_a_timeout_that_on_leaves_out_is_named(form):
    """It could pass, but the policy names other failures: the note says which."""
    notes, calls = notes_of(form, rb.Policy(at_once(on=ConnectionError)), TimeoutError)
    text = "not repeated: TimeoutError (CONN_TIMEOUT) can pass, but Retry(on=ConnectionError) leaves it out; name it there"
    assert (notes, calls) == ([text], 1)


def test_k03_our_own_timeout_is_named_too():
    """A Timeout whose error `on=` leaves out."""

    async def slow():
        await asyncio.Event().wait()

    on = [rb.named("httpx", "ConnectError"), 503]
    work = rb.Policy(at_once(on=on), rb.Timeout(1))(slow, idempotent=True)
    with pytest.raises(rb.errors.AttemptTimeoutError) as raised:
        rb.testing.simulate(lambda _: work())
    note = raised.value.__notes__[0]  # the simulation adds its own
    assert note.startswith("not repeated: AttemptTimeoutError (")
    assert "Retry(on=(named('httpx', 'ConnectError'), 503)) leaves it out" in note


@both
@each_row(
    ("policy", "error", "idempotent"),
    [
        (rb.Policy(rb.Breaker()), MyError, None),
        (rb.Policy(rb.Deadline(60)), MyError, None),
        (rb.Policy(at_once(attempts=1)), MyError, True),
        (rb.Policy(at_once()), MyError, False),  # what it raises may follow an effect
        (rb.Policy(at_once()), http_error(404), True),
        (rb.Policy(at_once()), FileNotFoundError(2, "no"), True),
        (rb.Policy(at_once()), http_error(401), True),
        (rb.Policy(at_once()), KeyboardInterrupt, True),
    ],
)
def test_k03_no_note_where_nothing_could_be_repeated(form, policy, error, idempotent):
    """Without a Retry, a second attempt or a permission; and of a failure that is known to last, which says enough."""
    assert notes_of(form, policy, error, idempotent=idempotent) == ([], 1)


@both
def test_k03_nested_policies_and_a_constant_say_it_once(form):
    """The innermost says it; an error that is raised again and again has one note; an outer repeat replaces it."""
    error = MyError("mine")
    inner = rb.Policy(at_once())(Server(always=error).get, idempotent=True)
    outer = rb.Policy(at_once())(form.of(inner), idempotent=True)
    for _ in range(3):
        with pytest.raises(MyError):
            form.run(outer)
    assert error.__notes__ == [UNKNOWN]
    repeating = rb.Policy(at_once(on=MyError, attempts=2))(form.of(inner), idempotent=True)
    with pytest.raises(MyError):
        form.run(repeating)
    assert len(error.__notes__) == 1
    assert error.__notes__[0].startswith("gave up after 2 calls")


def lines(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]


@both
def test_k03_the_log_has_one_line_for_each_class_and_owner(form, caplog):
    """A line at INFO for the first of its class, none for the next ones; another function has its own."""
    caplog.set_level(logging.INFO, "resilient_bridge")

    class OtherError(MyError):
        pass

    names = ("first", "second")
    for name in names:
        server = Server(MyError(), MyError(), OtherError(), MyError())
        work = rb.Policy(at_once())(form.of(server.get), idempotent=True, name=name)
        for _ in range(4):
            with pytest.raises(MyError):
                form.run(work)
    other = UNKNOWN.replace("MyError", "OtherError")
    assert lines(caplog) == [f"{name}: {text}" for name in names for text in (UNKNOWN, other)]


def test_k03_a_policys_own_calls_say_it_once(caplog):
    """`policy.call` and `policy.attempts()` are compiled anew each time, and have one owner: the policy."""
    caplog.set_level(logging.INFO, "resilient_bridge")
    policy = rb.Policy(at_once(), name="mine")
    for _ in range(3):
        with pytest.raises(MyError) as raised:
            policy(idempotent=True).call(Server(always=MyError).get)
        assert raised.value.__notes__ == [UNKNOWN]
        with pytest.raises(MyError) as raised:
            for attempt in policy(idempotent=True).attempts():
                with attempt:
                    raise MyError
        assert raised.value.__notes__ == [UNKNOWN]
    assert lines(caplog) == [f"mine: {UNKNOWN}"]


async def test_k03_a_tools_error_says_it_too(caplog):
    """The native error behind an outcome has the note."""
    caplog.set_level(logging.INFO, "resilient_bridge")
    toolbox = Toolbox(rb.Policy(at_once()))
    toolbox.tool(Server(always=MyError).get, name="get", idempotent=True)
    outcome = await toolbox.call("get", {})
    assert outcome.error.__notes__ == [UNKNOWN]
    assert f"get: {UNKNOWN}" in lines(caplog)


def test_k03_a_success_logs_and_notes_nothing(caplog):
    """Nothing of this exists while calls succeed."""
    caplog.set_level(logging.DEBUG, "resilient_bridge")
    work = rb.Policy(at_once())(lambda: 1, idempotent=True)
    work()
    assert caplog.records == []
