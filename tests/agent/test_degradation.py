"""A ladder of modes: down when a mode fails, told each time, one step for one failure, and up again when it is time."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from datetime import timedelta

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Degradation, degradations
from resilient_bridge.failure import ConfigError, Failure
from tests.agent.ladders import LIMITED, LOST, browse, steps


# ---- stepping down -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("V15")
def test_a_ladder_goes_down_mode_by_mode_and_tells_each_step():
    """Full capability, scraping, text; when text fails too that is said once, and text stays."""
    ladder = browse()
    assert (ladder.mode, ladder.is_degraded, ladder.history) == ("browser", False, ())
    with rb.testing.record() as reported:
        assert ladder.report(ConnectionResetError(104, "reset")) is True
        assert (ladder.mode, ladder.is_degraded) == ("web_scrape", True)
        assert ladder.report(LIMITED) is True
        assert ladder.report(LOST) is False
        assert ladder.report(LOST) is False
    assert ladder.mode == "text"
    assert steps(reported) == [("browser", "web_scrape"), ("web_scrape", "text"), ("text", None)]
    assert [(type(event), event.reason) for event in reported] == [
        (rb.events.ModeChanged, "failure")
    ] * 3
    assert [event.failure.code for event in reported] == [
        "CONN_RESET",
        "SYS_RATE_LIMITED",
        "CONN_RESET",
    ]
    assert {event.feature for event in reported} == {"browse"}
    assert ladder.history == tuple(reported)
    assert all(event.at.utcoffset() == timedelta(0) for event in reported)


@pytest.mark.requirement("V15")
def test_only_what_on_speaks_of_takes_it_down():
    """`on` is the one vocabulary of what; other failures change nothing and are not told here."""
    ladder = Degradation("parallelism", 8, 4, 2, 1, on=("SYS_RATE_LIMITED", 529))
    with rb.testing.record() as reported:
        assert not ladder.report(LOST)
        assert ladder.mode == 8
        assert ladder.report(LIMITED)
        assert ladder.report(Failure.of("SYS_UNAVAILABLE", details={"http_status": 529}))
    assert ladder.mode == 2
    assert steps(reported) == [("8", "4"), ("4", "2")]


@pytest.mark.requirement("V15")
def test_several_failures_of_one_mode_are_one_step():
    """Each says which mode it belongs to; a late one of a mode that was left is no news."""
    ladder = browse()
    with rb.testing.record() as reported:
        assert ladder.report(LOST, mode="browser") is True
        assert ladder.report(LOST, mode="browser") is False
        assert ladder.report(LOST, mode="web_scrape") is True
        assert ladder.report(LOST, mode="browser") is False
    assert steps(reported) == [("browser", "web_scrape"), ("web_scrape", "text")]


def test_a_failure_of_a_lower_mode_goes_below_that_one():
    """Where scraping fails the ladder has nothing better than text, wherever it stood."""
    ladder = browse()
    assert ladder.report(LOST, mode="web_scrape")
    assert ladder.mode == "text"
    assert steps(ladder.history) == [("browser", "text")]


def test_many_threads_step_down_once():
    """The step is taken under a lock: one of them takes it, and one event tells it."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    ladder = Degradation("parallelism", *range(100, 0, -1))
    start = threading.Barrier(8)
    taken = []

    def work():
        start.wait()
        taken.extend(ladder.report(LIMITED, mode=mode) for mode in range(100, 50, -1))

    with rb.testing.record() as reported:
        threads = [threading.Thread(target=work) for _ in range(8)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
    assert ladder.mode == 50
    assert taken.count(True) == len(reported) == 50


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt(), GeneratorExit()])
def test_cancellation_is_no_failure(error):
    """Who was cancelled has learnt nothing about the capability."""
    ladder = browse()
    assert ladder.report(error) is False
    assert ladder.mode == "browser"


def test_a_listener_may_use_the_ladder():
    """Events are told outside of the lock."""
    ladder = browse()
    seen = []
    with rb.listen(
        lambda _event: seen.append((ladder.mode, ladder.is_degraded, len(ladder.history)))
    ):
        ladder.report(LOST)
        ladder.reset()
    assert seen == [("web_scrape", True, 1), ("browser", False, 2)]


def test_the_history_is_bounded_and_holds_no_error():
    """A ladder lives for months, and an error holds the frames it passed."""
    ladder = browse()

    class CrashedTabError(Exception):
        """An error of a browser."""

    error = CrashedTabError("crashed")
    gone = weakref.ref(error)
    ladder.report(error)
    del error
    gc.collect()
    assert gone() is None
    for _ in range(200):
        ladder.report(LOST)
        ladder.reset()
    assert len(ladder.history) == 100


# ---- up again ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("V15")
def test_quiet_time_restores_one_mode_after_the_other():
    """`restore_after` seconds without a failure are one mode up, the same again the next; each is told."""
    ladder = browse(restore_after=timedelta(minutes=1))
    with rb.testing.virtual_time() as time, rb.testing.record() as reported:
        ladder.report(LOST)
        ladder.report(LOST)
        time.advance(59)
        assert ladder.mode == "text"
        time.advance(1)
        assert ladder.mode == "web_scrape"
        assert ladder.is_degraded
        time.advance(59)
        assert ladder.mode == "web_scrape"
        time.advance(1)
        assert not ladder.is_degraded
        time.advance(1000)
        assert ladder.mode == "browser"
    up = [event for event in reported if event.reason != "failure"]
    assert steps(up) == [("text", "web_scrape"), ("web_scrape", "browser")]
    assert {event.reason for event in up} == {"restore_after"}
    assert ladder.history == tuple(reported)


def test_a_long_silence_restores_all_of_it_when_somebody_looks():
    """Nothing runs in the background: two periods are two steps, told when the mode is read."""
    ladder = browse(restore_after=10)
    with rb.testing.virtual_time() as time, rb.testing.record() as reported:
        ladder.report(LOST)
        ladder.report(LOST)
        time.advance(25)
        assert len(reported) == 2
        assert repr(ladder) == "<Degradation browse browser, 1 of 3>"
        assert len(reported) == 2
        assert ladder.mode == "browser"
        assert len(reported) == 4


def test_a_failure_starts_the_quiet_time_again():
    """Also one of a mode that was left, or of the last mode; not one that `on` does not speak of."""
    ladder = browse(restore_after=10, on="CONN_RESET")
    with rb.testing.virtual_time() as time:
        ladder.report(LOST)
        time.advance(9)
        ladder.report(LOST, mode="browser")
        time.advance(9)
        assert ladder.mode == "web_scrape"
        ladder.report(LIMITED)
        time.advance(1)
        assert ladder.mode == "browser"


def test_without_restore_after_only_reset_goes_up():
    """It goes to the first mode at once, and says so; in the first mode there is nothing to say."""
    ladder = browse()
    with rb.testing.virtual_time() as time, rb.testing.record() as reported:
        ladder.report(LOST)
        ladder.report(LOST)
        time.advance(1e6)
        assert ladder.mode == "text"
        ladder.reset()
        ladder.reset()
    assert ladder.mode == "browser"
    assert steps(reported[2:]) == [("text", "browser")]
    assert reported[2].reason == "reset"


def test_after_a_reset_the_end_of_the_ladder_is_reported_again():
    """It was mended, so that it is news when it fails again."""
    ladder = Degradation("screenshots", "on", "off")
    for _ in range(2):
        ladder.report(LOST, mode="off")
        ladder.report(LOST, mode="off")
        ladder.reset()
    assert steps(ladder.history) == [("on", "off"), ("off", None), ("off", "on")] * 2


# ---- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Degradation("", "a", "b"), "Degradation.name"),
        (lambda: Degradation(None, "a", "b"), "Degradation.name"),
        (lambda: Degradation("x"), "Degradation.modes"),
        (lambda: Degradation("x", "a"), "Degradation.modes"),
        (lambda: Degradation("x", "a", ""), "Degradation.modes[1]"),
        (lambda: Degradation("x", "a", None), "Degradation.modes[1]"),
        (lambda: Degradation("x", True, False), "Degradation.modes[0]"),
        (lambda: Degradation("x", 1, float("nan")), "Degradation.modes[1]"),
        (lambda: Degradation("x", "a", "b", "a"), "Degradation.modes[2]"),
        (lambda: Degradation("x", 1, 1.0), "Degradation.modes[1]"),
        (lambda: Degradation("x", ["a"], "b"), "Degradation.modes[0]"),
        (lambda: browse(on="rate limited"), "Degradation.on"),
        (lambda: browse(on=["SYS_RATE_LIMITED", None]), "Degradation.on[1]"),
        (lambda: browse(restore_after=0), "Degradation.restore_after"),
        (lambda: browse(restore_after=float("inf")), "Degradation.restore_after"),
        (lambda: browse(restore_after="60"), "Degradation.restore_after"),
        (lambda: browse().report(LOST, mode="txt"), "Degradation.report.mode"),
        (lambda: browse().report("crashed"), "Degradation.report"),
        (lambda: degradations(parallelism=1), "degradations.parallelism"),
        (lambda: degradations(parallelism=True), "degradations.parallelism"),
        (
            lambda: degradations(disable_browser_on_error="yes"),
            "degradations.disable_browser_on_error",
        ),
    ],
)
def test_a_wrong_argument_is_named(make, field):
    """ConfigError with its path."""
    with pytest.raises(ConfigError) as raised:
        make()
    assert raised.value.failure.details["violations"][0]["field"] == field


def test_a_ladder_reads_as_a_status_line():
    """Name, mode and place."""
    ladder = Degradation("parallelism", 8, 4, 2, 1)
    ladder.report(LIMITED)
    assert repr(ladder) == "<Degradation parallelism 4, 2 of 4>"
