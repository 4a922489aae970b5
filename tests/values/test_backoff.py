"""Schedules: against the numbers that others published, and against what a wait may never be."""

from __future__ import annotations

import pickle
import random
from datetime import timedelta

import pytest
import tenacity
from hypothesis import given, settings
from hypothesis import strategies as st

import resilient_bridge as rb
from resilient_bridge.failure import ConfigError
from resilient_bridge.values import Backoff
from tests.rows import each_row


# Wait n of each schedule, and where the numbers come from.
DELAYS = {
    "R3": (Backoff.steps(1, 2, 5, 10, 30), [1, 2, 5, 10, 30]),
    "R6": (
        Backoff.steps(1, 2, 5, then=Backoff.exponential(10, cap=60, jitter="none")),
        [1, 2, 5, 10, 20, 40, 60, 60],
    ),
    "R17": (Backoff.linear(1), [1, 2, 3, 4, 5]),
    "V7": (Backoff.exponential(1, cap=16, jitter="none"), [1, 2, 4, 8, 16]),
    "G2": (Backoff.steps(0, 1, 2, 4, 8, 30), [0, 1, 2, 4, 8, 30, 30]),
    "C2": (Backoff.exponential(2, jitter="none"), [2, 4, 8]),
    "Polly 8 constant": (Backoff.constant(1), [1, 1, 1]),
    "Polly 8 linear": (Backoff.linear(1, jitter="none"), [1, 2, 3]),
    "Polly 8 exponential": (Backoff.exponential(1, jitter="none"), [1, 2, 4]),
    "gRPC A6, 200 ms x 1": (Backoff.exponential(0.2, factor=1, jitter="none"), [0.2] * 5),
    "gRPC A6, 2 s under a cap of 1 s": (Backoff.exponential(2, cap=1, jitter="none"), [1] * 5),
    "gRPC A6, 2 ms x 2 up to 32 ms": (
        Backoff.exponential(0.002, factor=2, cap=0.032, jitter="none"),
        [0.002, 0.004, 0.008, 0.016, 0.032, 0.032, 0.032],
    ),
    "AWS retry 2.0, cap 3": (Backoff.exponential(1, cap=3, jitter="none"), [1, 2, 3, 3]),
    "AWS retry 2.1": (Backoff.exponential(0.05, cap=20, jitter="none"), [0.05, 0.1, 0.2, 0.4]),
    "SignalR": (Backoff.steps(0, 2, 10, 30), [0, 2, 10, 30]),
    "websockets 17, after its first": (
        Backoff.exponential(3.1, factor=1.618, cap=90, jitter="none"),
        [3.1, 5.0158, 8.1155644],
    ),
}
EVERY_SHAPE = [
    Backoff.constant(3, jitter="full"),
    Backoff.linear(1),
    Backoff.exponential(1, jitter="equal"),
    Backoff.exponential(1, factor=1e300, cap=7, jitter="none"),
    Backoff.decorrelated(1),
    Backoff.decorrelated(50, cap=30),
    Backoff.steps(0, 2, then=Backoff.decorrelated(1, cap=9)),
    Backoff.steps(5, jitter="full"),
]

seconds = st.floats(0, 1e6, allow_nan=False)
caps = st.floats(0, 1e6, exclude_min=True)
jitters = st.sampled_from(["none", "full", "equal"])
plain = st.one_of(
    st.builds(Backoff.constant, seconds, jitter=jitters),
    st.builds(Backoff.linear, seconds, cap=caps, jitter=jitters),
    st.builds(Backoff.exponential, seconds, factor=st.floats(1, 1e308), cap=caps, jitter=jitters),
    st.builds(Backoff.decorrelated, seconds, cap=caps),
)
schedules = plain | st.builds(
    lambda steps, then, jitter: Backoff.steps(*steps, then=then, jitter=jitter),
    st.lists(seconds, min_size=1, max_size=4),
    st.none() | plain,
    jitters,
)


@each_row("source", DELAYS)
def test_delays_are_the_published_ones(source):
    """Each schedule, row by row, is what its source prints."""
    backoff, expected = DELAYS[source]
    assert backoff.delays(len(expected)) == pytest.approx(expected, rel=1e-12)


@each_row("source", [name for name, (backoff, _) in DELAYS.items() if name != "R17"])
def test_a_schedule_without_jitter_waits_exactly_its_delays(source):
    """Without jitter every run is the schedule."""
    backoff, expected = DELAYS[source]
    assert backoff.sample(len(expected), seed=1) == backoff.delays(len(expected))


def _link(preset: str, code: str | None = None) -> Backoff:
    """The schedule of a preset's link, after a loss of this code."""
    reconnect = getattr(rb.presets, preset).reconnect
    return reconnect.backoff if code is None else reconnect.rules[code].backoff


@pytest.mark.parametrize(
    ("preset", "code", "delays"),
    [
        pytest.param("recursor", None, [1, 2, 5, 10, 30], marks=pytest.mark.requirement("R3")),
        pytest.param(
            "recursor",
            "CONN_TIMEOUT",
            [1, 2, 5, 10, 20, 40, 60, 60],
            marks=pytest.mark.requirement("R6"),
        ),
        pytest.param("openviber", None, [1, 2, 4, 8, 16, 16], marks=pytest.mark.requirement("V7")),
        pytest.param(
            "gasoline", None, [0, 1, 2, 4, 8, 30, 30], marks=pytest.mark.requirement("G2")
        ),
    ],
)
def test_h15_the_schedule_of_a_presets_link_is_what_its_specification_prints(preset, code, delays):
    """The preset's own value, without jitter."""
    assert _link(preset, code).delays(len(delays)) == delays
    assert _link(preset, code).sample(len(delays), seed=7) == delays


@each_row("backoff", EVERY_SHAPE, ids=repr)
@each_row("attempt", [1, 2, 3, 4, 10, 100, 1000, 1024, 1025, 1100, 10**400])
def test_a_wait_is_finite_and_under_its_cap_at_any_attempt(backoff, attempt):
    """Polly's row of attempts, 1,100 and an absurd one: no OverflowError, nothing above 30 s."""
    wait = backoff.next(attempt, 30.0, random.Random(attempt))
    assert 0 <= wait <= 30


@settings(max_examples=150)
@given(schedules, st.integers(1, 40), st.integers(0, 2**32))
def test_no_run_exceeds_its_delays(backoff, n, seed):
    """`delays` is the longest each wait can be, for every schedule and every draw."""
    for wait, longest in zip(backoff.sample(n, seed=seed), backoff.delays(n), strict=True):
        assert 0 <= wait <= longest


@settings(max_examples=150)
@given(schedules)
def test_a_schedule_is_a_value(backoff):
    """The repr evaluates to an equal schedule, and so does a pickle; equal ones hash alike."""
    for copy in (eval(repr(backoff), {"Backoff": Backoff}), pickle.loads(pickle.dumps(backoff))):
        assert copy == backoff
        assert hash(copy) == hash(backoff)


@pytest.mark.parametrize(
    ("backoff", "shown"),
    [
        (Backoff.steps(1, 2, 5), "Backoff.steps(1, 2, 5)"),
        (Backoff.steps(0.5, jitter="equal"), "Backoff.steps(0.5, jitter='equal')"),
        (
            Backoff.steps(1, 2, 5, then=Backoff.exponential(10, cap=60)),
            "Backoff.steps(1, 2, 5, then=Backoff.exponential(10, cap=60))",
        ),
        (
            Backoff.exponential(1, factor=3, jitter="none"),
            "Backoff.exponential(1, factor=3, jitter='none')",
        ),
        (Backoff.linear(1, cap=30), "Backoff.linear(1)"),
        (Backoff.decorrelated(1, cap=30), "Backoff.decorrelated(1)"),
        (Backoff.constant(60, jitter="full"), "Backoff.constant(60, jitter='full')"),
    ],
)
def test_repr_is_how_a_person_writes_it(backoff, shown):
    """Whole seconds without .0, defaults left out."""
    assert repr(backoff) == shown


def test_a_timedelta_is_seconds():
    """A timedelta and its seconds make the same schedule, everywhere."""
    second = timedelta(seconds=1)
    assert Backoff.constant(second) == Backoff.constant(1)
    assert Backoff.linear(second, cap=5 * second) == Backoff.linear(1, cap=5)
    assert Backoff.exponential(second, cap=5 * second) == Backoff.exponential(1, cap=5)
    assert Backoff.decorrelated(second, cap=5 * second) == Backoff.decorrelated(1, cap=5)
    assert Backoff.steps(second, 2 * second) == Backoff.steps(1, 2)


def test_jitter_spreads_over_the_promised_range():
    """A forced draw of 0, 1/4 and 1/2: full starts at nothing, equal at half, decorrelated at its base."""

    class Forced(random.Random):
        draw = 0.0

        def random(self) -> float:
            return self.draw

    rng = Forced()
    found = []
    for rng.draw in (0.0, 0.25, 0.5):
        found.append(
            (
                Backoff.exponential(4, jitter="full").next(2, None, rng),
                Backoff.exponential(4, jitter="equal").next(2, None, rng),
                Backoff.decorrelated(1).next(1, None, rng),
                Backoff.decorrelated(1).next(2, 5.0, rng),
                Backoff.decorrelated(1).next(9, 30.0, rng),
            )
        )
    assert found == [(0, 4, 1, 1, 1), (2, 5, 1.5, 4.5, 23.25), (4, 6, 2, 8, 30)]


def test_what_follows_steps_starts_at_its_own_beginning():
    """`then` sees its first attempt, and not the last step as its wait before."""
    then = Backoff.decorrelated(1)
    backoff = Backoff.steps(20, then=then)
    assert backoff.delays(3) == [20, 3, 9]
    for seed in range(20):
        assert backoff.next(2, 20.0, random.Random(seed)) == then.next(1, None, random.Random(seed))


def test_nested_schedules_of_any_depth_are_walked():
    """Two thousand schedules in a row neither recurse nor lose their place."""
    backoff = Backoff.constant(9)
    for step in range(2000, 0, -1):
        backoff = Backoff.steps(step, then=backoff)
    assert backoff.delays(2001)[-2:] == [2000, 9]


def test_the_same_seed_gives_the_same_run():
    """`sample` can be replayed, and two seeds differ."""
    backoff = Backoff.decorrelated(1)
    assert backoff.sample(20, seed=5) == backoff.sample(20, seed=5)
    assert backoff.sample(20, seed=5) != backoff.sample(20, seed=6)


def test_waits_never_end():
    """A loop of one's own may draw as long as it likes; two loops do not wait alike."""
    runs = []
    for _ in range(2):
        waits = Backoff.decorrelated(1).waits()
        runs.append([next(waits) for _ in range(50)])
    assert runs[0] != runs[1]
    assert all(1 <= wait <= 30 for run in runs for wait in run)


def test_explain_prints_the_table():
    """Shortest, mean, longest, and the longest added up; exact where there is no jitter."""
    assert Backoff.steps(1, 2.5, 1000).explain(3) == (
        "Backoff.steps(1, 2.5, 1000)\n"
        "  wait  shortest      mean   longest  total so far\n"
        "     1         1         1         1             1\n"
        "     2       2.5       2.5       2.5           3.5\n"
        "     3     1,000     1,000     1,000       1,003.5"
    )


def test_explain_estimates_the_mean_of_a_random_schedule():
    """Full jitter over 8 s has a mean near 4 s, and the table is the same every time."""
    backoff = Backoff.constant(8, jitter="full")
    rows = [line.split() for line in backoff.explain(4).splitlines()[2:]]
    assert all(abs(float(mean) - 4) < 0.25 for _, _, mean, _, _ in rows)
    assert [(shortest, longest, total) for _, shortest, _, longest, total in rows] == [
        ("0", "8", str(8 * n)) for n in range(1, 5)
    ]
    assert backoff.explain() == backoff.explain(10)


def test_tenacity_takes_a_backoff_as_its_wait():
    """tenacity sleeps exactly our schedule."""
    slept: list[float] = []
    retrying = tenacity.Retrying(
        wait=Backoff.steps(1, 2, 5, then=Backoff.constant(7)),
        stop=tenacity.stop_after_attempt(6),
        sleep=slept.append,
        reraise=True,
    )
    with pytest.raises(ZeroDivisionError):
        retrying(lambda: 1 / 0)
    assert slept == [1, 2, 5, 7, 7]


@pytest.mark.skipif(
    not hasattr(tenacity.RetryCallState(tenacity.Retrying(), None, (), {}), "upcoming_sleep"),
    reason="this tenacity forgets the wait before",
)
def test_tenacity_carries_the_wait_before():
    """A decorrelated schedule under tenacity grows from its own waits, within three times the one before."""
    for _ in range(20):
        slept: list[float] = []
        retrying = tenacity.Retrying(
            wait=Backoff.decorrelated(1, cap=1000),
            stop=tenacity.stop_after_attempt(12),
            sleep=slept.append,
        )
        with pytest.raises(tenacity.RetryError):
            retrying(lambda: 1 / 0)
        assert all(
            1 <= wait <= 3 * before for before, wait in zip([1.0, *slept], slept, strict=False)
        )
        if max(slept) > 3:  # what a wait that forgot the one before could never reach
            return
    pytest.fail("no run grew")


NAN = float("nan")


@each_row(
    ("make", "field"),
    [
        (lambda: Backoff.constant(-1), "Backoff.seconds"),
        (lambda: Backoff.constant(NAN), "Backoff.seconds"),
        (lambda: Backoff.linear(float("inf")), "Backoff.step"),
        (lambda: Backoff.exponential(True), "Backoff.base"),
        (lambda: Backoff.exponential("1"), "Backoff.base"),
        (lambda: Backoff.exponential(timedelta(seconds=-1)), "Backoff.base"),
        (lambda: Backoff.exponential(10**400), "Backoff.base"),
        (lambda: Backoff.exponential(1, cap=NAN), "Backoff.cap"),
        (lambda: Backoff.exponential(1, cap=float("inf")), "Backoff.cap"),
        (lambda: Backoff.exponential(1, cap=None), "Backoff.cap"),
        (lambda: Backoff.exponential(1, cap=0), "Backoff.cap"),
        (lambda: Backoff.parse("exponential(1, cap=0s)"), "Backoff.cap"),
        (lambda: Backoff.exponential(1, factor=0.5), "Backoff.factor"),
        (lambda: Backoff.exponential(1, factor=NAN), "Backoff.factor"),
        (lambda: Backoff.decorrelated(1e10), "Backoff.base"),
        (lambda: Backoff.linear(1, jitter="some"), "Backoff.jitter"),
        (lambda: Backoff.linear(1, jitter=["full"]), "Backoff.jitter"),
        (Backoff.steps, "Backoff.steps"),
        (lambda: Backoff.steps(1, 2, -5), "Backoff.steps[2]"),
        (lambda: Backoff.steps(1, None), "Backoff.steps[1]"),
        (lambda: Backoff.steps([1, 2]), "Backoff.steps[0]"),
        (lambda: Backoff.steps(1, then=5), "Backoff.then"),
        (lambda: Backoff.constant(1).delays(-1), "Backoff.delays.n"),
        (lambda: Backoff.constant(1).sample(1.5, seed=1), "Backoff.sample.n"),
        (lambda: Backoff.constant(1).explain(True), "Backoff.explain.n"),
        (lambda: Backoff.constant(1).next(0, None, random.Random()), "Backoff.next.attempt"),
    ],
)
def test_a_bad_number_is_refused_by_name(make, field):
    """Negative, NaN, infinite, bool, text, unknown word: a ConfigError with the argument's path."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.failure.details["violations"][0]["field"] == field


def test_e24_waits_add_up_with_those_of_tenacity():
    """In both orders, and as `sum` begins; anything else is refused by Python."""
    fixed, state = (
        tenacity.wait_fixed(2),
        tenacity.RetryCallState(tenacity.Retrying(), None, (), {}),
    )
    ours = Backoff.constant(1)
    for both in (ours + fixed, fixed + ours, sum([ours, fixed]), sum([fixed, ours])):
        assert both(retry_state=state) == 3
    assert (ours + ours)(retry_state=state) == 2
    with pytest.raises(TypeError):
        ours + 1
