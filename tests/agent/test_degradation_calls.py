"""Calls on a ladder of modes, and the ladders of the seed's flags: the next function where one fails, each step told."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Degradation, degradations
from resilient_bridge.failure import ConfigError, RejectedError
from tests.agent.ladders import LIMITED, LOST, browse, steps


def failing(error):
    """A function that raises the error."""

    def call(*_args, **_kwargs):
        raise error

    return call


# ---- calling -----------------------------------------------------------------------------------------------------


async def fetch(url, *, depth):
    """An async function of a mode."""
    return f"fetched {url} {depth}"


@pytest.mark.requirement("V15")
async def test_a_call_goes_down_the_ladder_until_a_mode_works():
    """With the arguments of the call, sync and async functions alike; the next call starts where this one ended."""
    ladder, crashed, calls = browse(), OSError("crashed"), []

    async def browser(url, *, depth):
        calls.append((url, depth))
        await asyncio.sleep(0)
        raise crashed

    def scrape(url, *, depth):
        calls.append((url, depth))
        raise LookupError(url)

    functions = {"text": fetch, "browser": browser, "web_scrape": scrape}
    with rb.testing.record() as reported:
        assert await ladder.call(functions, "a", depth=1) == "fetched a 1"
        assert await ladder.call(functions, "b", depth=2) == "fetched b 2"
    assert calls == [("a", 1), ("a", 1)]
    assert steps(reported) == [("browser", "web_scrape"), ("web_scrape", "text")]
    assert ladder.mode == "text"


@pytest.mark.requirement("V15")
async def test_the_last_failure_is_raised_as_it_is():
    """The same object, and it is told that nothing is left."""
    ladder, last = browse(), ValueError("nothing to read")
    functions = dict(
        zip(ladder.modes, map(failing, (OSError("a"), OSError("b"), last)), strict=True)
    )
    with (
        rb.testing.record() as reported,
        pytest.raises(ValueError, match="nothing to read") as raised,
    ):
        await ladder.call(functions)
    assert raised.value is last
    assert steps(reported) == [("browser", "web_scrape"), ("web_scrape", "text"), ("text", None)]


async def test_what_on_does_not_speak_of_is_raised_at_once():
    """The ladder stays, and no other function is called."""
    ladder, calls = browse(on=OSError), []
    functions = {"browser": failing(LookupError("x")), "text": lambda: calls.append("text")}
    with pytest.raises(LookupError):
        await ladder.call(functions)
    assert (ladder.mode, calls) == ("browser", [])
    functions["browser"] = failing(ConnectionResetError("x"))
    await ladder.call(functions)
    assert calls == ["text"]


async def test_a_mode_without_a_function_is_passed_over():
    """Downwards only; with none left at or below the mode the call is refused, and nothing was called."""
    ladder = browse()
    assert await ladder.call({"web_scrape": lambda: "scraped"}) == "scraped"
    assert ladder.mode == "browser"
    assert await ladder.call({"browser": failing(OSError("x")), "text": lambda: "text"}) == "text"
    ladder.report(LOST, mode="web_scrape")
    with pytest.raises(
        RejectedError, match="browse is degraded to text, and there is no function for that"
    ):
        await ladder.call({"browser": lambda: "browsed", "web_scrape": lambda: "scraped"})


async def test_a_cancelled_call_is_cancelled():
    """No step down, no next function."""
    ladder, called = browse(), asyncio.Event()

    async def forever():
        called.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(ladder.call({"browser": forever, "text": lambda: "text"}))
    await called.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ladder.history == ()


@pytest.mark.requirement("V15")
async def test_two_calls_that_fail_together_step_down_once():
    """Both were in the browser, both go on with scraping: one step, one event."""
    ladder, both, inside = browse(), asyncio.Event(), []

    async def browser():
        inside.append(1)
        if len(inside) == 2:
            both.set()
        await both.wait()
        raise OSError("crashed")

    async def scrape():
        return "scraped"

    functions = {"browser": browser, "web_scrape": scrape, "text": failing(AssertionError("text"))}
    assert await asyncio.gather(ladder.call(functions), ladder.call(functions)) == ["scraped"] * 2
    assert steps(ladder.history) == [("browser", "web_scrape")]


async def test_a_call_does_not_try_what_another_one_found_broken():
    """While it was busy the ladder went further down: it goes on from there."""
    ladder, scraped = browse(), []

    def browser():
        ladder.report(LOST, mode="web_scrape")  # another task, meanwhile
        raise OSError("crashed")

    functions = {
        "browser": browser,
        "web_scrape": lambda: scraped.append(1),
        "text": lambda: "text",
    }
    assert await ladder.call(functions) == "text"
    assert scraped == []


# ---- a mode that may do the same again ----------------------------------------------------------------------------


@pytest.mark.requirement("V15")
@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(111, "mail server"), TimeoutError(), OSError("crashed")]
)
async def test_a14_the_next_mode_does_not_do_again_what_may_have_run(error):
    """Two ways to send a mail: the first may have sent it. It is raised with a note; the next call uses the other way."""
    sent = []

    def ses():
        sent.append("ses")
        raise error

    ladder = Degradation("mail", "ses", "sendgrid")
    functions = {"ses": ses, "sendgrid": lambda: sent.append("sendgrid")}
    with pytest.raises(type(error)) as raised:
        await ladder.call(functions)
    assert (sent, ladder.mode) == (["ses"], "sendgrid")
    assert raised.value.__notes__ == [
        "not replaced: it may have run; may_have_run=['sendgrid'] of the Degradation allows it"
    ]
    await ladder.call(functions)
    assert sent == ["ses", "sendgrid"]


@pytest.mark.parametrize(
    ("options", "last"),
    [
        ({"may_have_run": ["web_scrape", "text"]}, "text"),
        ({"may_have_run": ["web_scrape"]}, "web_scrape"),
        ({"may_have_run": ("text",)}, "browser"),
        ({"may_have_run": True}, "text"),
        ({"idempotent": True}, "text"),
        ({"idempotent": True, "may_have_run": []}, "text"),
        ({"may_have_run": False}, "browser"),
    ],
)
async def test_a14_permission_is_for_the_modes_that_it_names(options, last):
    """Each mode that is called needs it, whichever comes before."""
    called = []

    def mode(name):
        def call():
            called.append(name)
            raise OSError("crashed")

        return call

    ladder = Degradation("browse", "browser", "web_scrape", "text", **options)
    with pytest.raises(OSError, match="crashed"):
        await ladder.call({name: mode(name) for name in ladder.modes})
    assert called[-1] == last


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"may_have_run": ["txt"]}, "Degradation.may_have_run"),
        ({"may_have_run": "text"}, "Degradation.may_have_run"),
        ({"may_have_run": 1}, "Degradation.may_have_run"),
        ({"idempotent": None}, "Degradation.idempotent"),
    ],
)
def test_a_permission_that_cannot_be_meant_is_refused(options, field):
    """A misspelt mode, a text, a number."""
    with pytest.raises(ConfigError) as raised:
        Degradation("browse", "browser", "text", **options)
    assert raised.value.failure.details["violations"][0]["field"] == field


def test_a14_the_ladder_of_the_seed_may_follow_a_browser_that_acted():
    """Scraping and text only read; what is done without a screenshot, or with less parallelism, is done again."""
    ladders = degradations()
    assert ladders["browser"]._may_follow == ("web_scrape", "text")
    assert ladders["screenshots"]._may_follow == ladders["parallelism"]._may_follow == ()


@pytest.mark.parametrize(
    ("functions", "field"),
    [
        ({}, "Degradation.call.functions"),
        ({"browsr": len}, "Degradation.call.functions"),
        ({"text": "text"}, "Degradation.call.functions[text]"),
    ],
)
async def test_wrong_functions_are_named(functions, field):
    """A misspelt mode is a mistake, and not a mode that is never used."""
    with pytest.raises(ConfigError) as raised:
        await browse().call(functions)
    assert raised.value.failure.details["violations"][0]["field"] == field


# ---- the seed's flags --------------------------------------------------------------------------------------------


@pytest.mark.requirement("V15")
def test_the_flags_of_the_seed_are_three_ladders():
    """Browser to scraping to text and screenshots off on any error, half the parallelism on a rate limit."""
    flags = {
        "disable_browser_on_error": True,
        "disable_screenshots_on_error": True,
        "reduce_parallelism_on_rate_limit": True,
    }
    ladders = degradations(**flags)
    assert {name: ladder.modes for name, ladder in ladders.items()} == {
        "browser": ("browser", "web_scrape", "text"),
        "screenshots": ("on", "off"),
        "parallelism": (8, 4, 2, 1),
    }
    for ladder in ladders.values():
        ladder.report(LOST)
    assert [ladder.mode for ladder in ladders.values()] == ["web_scrape", "off", 8]
    ladders["parallelism"].report(LIMITED)
    assert ladders["parallelism"].mode == 4
    assert degradations()["parallelism"].mode == 8  # each call makes its own


@pytest.mark.requirement("V15")
async def test_a_flag_that_is_off_leaves_its_ladder_where_it_is():
    """It is there all the same, and a failure is raised at once."""
    ladders = degradations(
        disable_browser_on_error=False,
        disable_screenshots_on_error=False,
        reduce_parallelism_on_rate_limit=False,
    )
    for ladder in ladders.values():
        assert not ladder.report(LIMITED)
        assert not ladder.is_degraded
    with pytest.raises(OSError, match="crashed"):
        await ladders["browser"].call(
            {"browser": failing(OSError("crashed")), "text": lambda: "text"}
        )


def test_parallelism_is_halved_down_to_one():
    """Rounded down; where it starts and when it recovers is up to the caller."""
    assert degradations(parallelism=5)["parallelism"].modes == (5, 2, 1)
    assert degradations(parallelism=2)["parallelism"].modes == (2, 1)
    with rb.testing.virtual_time() as time:
        ladder = degradations(restore_after=30)["parallelism"]
        ladder.report(LIMITED)
        time.advance(30)
        assert ladder.mode == 8


async def test_a_transient_failure_that_exhausted_its_tries_takes_the_ladder_down():
    """`on=Kind.TRANSIENT` with a Retry inside: after the last attempt it is permanent, and was transient."""
    ladder = rb.agent.Degradation(
        "browse", "browser", "text", on=rb.Kind.TRANSIENT, may_have_run=True
    )

    @rb.Policy(rb.Retry(attempts=2))(idempotent=True)
    async def browse():
        raise ConnectionRefusedError(111, "refused")

    async def describe():
        return "in words"

    with rb.testing.virtual_time():
        assert await ladder.call({"browser": browse, "text": describe}) == "in words"


async def test_a_mode_that_says_that_it_did_nothing_is_followed():
    """Its own word counts; that of something inside of it, which it let through, does not."""
    called = []

    def one():
        called.append("one")
        raise rb.NotExecutedError from ConnectionRefusedError(111, "refused")

    @rb.Policy(rb.Breaker())
    def inner():
        raise rb.NotExecutedError from ConnectionRefusedError(111, "refused")

    def charges():
        called.append("charged")
        inner()

    functions = {"browser": one, "text": lambda: "text"}
    assert await Degradation("a", "browser", "text").call(functions) == "text"
    with pytest.raises(rb.NotExecutedError):
        await Degradation("b", "browser", "text").call({**functions, "browser": charges})
    assert called == ["one", "charged"]
