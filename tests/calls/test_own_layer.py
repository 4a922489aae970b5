"""A user's own layer is a layer: it stands where it is written, and what goes wrong in it is reported as theirs."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref

import attrs
import pytest

import resilient_bridge as rb
from resilient_bridge import events


class Notes(rb.Layer):
    """Notes what passes through it."""

    def __init__(self, label: str = "notes") -> None:
        self.label = label
        self.seen: list[tuple[object, ...]] = []

    def enter(self, attempt):
        self.seen.append(("enter", attempt.number))

    def leave(self, attempt, error):
        self.seen.append(("leave", attempt.number, error))


def fails(times, error=ConnectionRefusedError):
    calls = []

    def function():
        calls.append(None)
        if len(calls) <= times:
            raise error
        return len(calls)

    return function


AT_ONCE = rb.Retry(attempts=3, backoff=rb.Backoff.constant(0))


def test_it_is_entered_and_exited_with_each_attempt():
    """Inside of a Retry once per attempt, outside of it once per call; what it returns from `leave` may be nothing."""
    inside, outside = Notes(), Notes()
    rb.Policy(AT_ONCE, inside)(fails(1), idempotent=True)()
    assert [entry[:2] for entry in inside.seen] == [
        ("enter", 1), ("leave", 1), ("enter", 2), ("leave", 2),
    ]  # fmt: skip
    assert isinstance(inside.seen[1][2], ConnectionRefusedError)
    assert inside.seen[3][2] is None
    rb.Policy(outside, AT_ONCE)(fails(1), idempotent=True)()
    assert outside.seen == [("enter", 1), ("leave", 1, None)]


async def test_it_works_around_every_kind_of_call():
    """Async, a stream up to its first item, a block, `policy.call`."""
    notes = Notes()
    policy = rb.Policy(rb.Retry(), notes)

    @policy(idempotent=True)
    async def work():
        return 1

    @policy(idempotent=True)
    async def stream():
        yield 1
        yield 2

    assert await work() == 1
    assert [item async for item in stream()] == [1, 2]
    async for attempt in policy.attempts(idempotent=True):
        with attempt:
            pass
    assert policy(idempotent=True).call(len, "abc") == 3
    assert [entry[0] for entry in notes.seen] == ["enter", "leave"] * 4


def test_it_refuses_by_raising_and_nothing_is_called():
    """The error is that of the layer, it proves that nothing ran, and listeners see by whom it was refused."""
    heard = []

    class Closed(rb.Layer):
        def enter(self, attempt):
            raise rb.NotExecutedError("closed on Sundays")

    called = []
    with rb.listen(heard.append), pytest.raises(rb.NotExecutedError) as caught:
        rb.Policy(AT_ONCE, Closed())(called.append, idempotent=False)(1)
    assert called == []
    assert rb.classify(caught.value).executed is rb.errors.Executed.NO
    rejected = [event for event in heard if isinstance(event, events.CallRejected)]
    assert {(event.by, event.key) for event in rejected} == {("Closed", "Closed")}


@pytest.mark.parametrize("kind", [ConnectionRefusedError, TimeoutError])
def test_a_refusal_that_passes_is_repeated_also_without_permission(kind):
    """It is proof that the function did not run, also where the error of a function would prove nothing."""
    refusals = iter([kind("busy"), None])

    class Busy(rb.Layer):
        def enter(self, attempt):
            if (error := next(refusals)) is not None:
                raise error

    assert rb.Policy(AT_ONCE, Busy())(lambda: "ran", idempotent=False)() == "ran"


def test_the_seconds_that_it_returns_are_waited():
    """A number, a timedelta or "2s": the loop of the call waits, in virtual time too."""

    class Slow(rb.Layer):
        def enter(self, attempt):
            return "2s"

    policy = rb.Policy(Slow())
    with rb.testing.virtual_time() as clock:
        assert policy.call(lambda: 1) == 1
        assert clock.slept == [2.0]

        @policy
        async def work():
            return 2

        assert asyncio.run(work()) == 2
        assert clock.slept == [2.0, 2.0]


def test_a_wait_that_does_not_fit_the_deadline_is_refused_as_the_layers():
    """At once, with its name and both numbers; nothing was called."""

    class Slow(rb.Layer):
        def enter(self, attempt):
            return 30

    called = []
    with rb.testing.virtual_time() as clock, pytest.raises(rb.DeadlineExceededError) as caught:
        rb.Policy(rb.Deadline(5), Slow()).call(called.append, 1)
    assert "Slow.enter asks to wait 30 s" in str(caught.value)
    assert called == clock.slept == []


def test_it_may_put_another_error_for_that_of_the_call():
    """As a Timeout does; the Retry outside of it sees that one."""

    class Translated(rb.Layer):
        def leave(self, attempt, error):
            return KeyError("theirs") if isinstance(error, ConnectionError) else error

    with pytest.raises(KeyError):
        rb.Policy(AT_ONCE, Translated())(fails(9), idempotent=True)()


def test_a_layer_that_raises_while_it_lets_a_call_in_is_named():
    """The call ends in that error, with a note; the function was not called."""

    class Broken(rb.Layer):
        def enter(self, attempt):
            return 1 / 0

    called = []
    with pytest.raises(ZeroDivisionError) as caught:
        rb.Policy(AT_ONCE, Broken())(called.append, idempotent=True)(1)
    assert called == []
    assert any(
        "raised by Broken.enter, a layer of this policy" in note for note in caught.value.__notes__
    )


TOKEN = rb.errors.AuthError(rb.Failure.of("AUTH_INVALID_TOKEN", "the token has expired"))


@pytest.mark.parametrize("error", [rb.NotExecutedError("closed on Sundays"), TOKEN], ids=repr)
def test_an_error_of_ours_is_a_refusal_and_has_no_note(error):
    """Who raises one means it: it is what the caller gets, and the proof that nothing ran is on it."""

    class Closed(rb.Layer):
        def enter(self, attempt):
            raise error

    with pytest.raises(type(error)) as caught:
        rb.Policy(Closed(), rb.Retry())(idempotent=True).call(print, "never printed")
    assert caught.value is error
    assert getattr(error, "__notes__", []) == []
    assert rb.classify(error).executed is rb.errors.Executed.NO


class GoneError(Exception):
    """An error of a user's own."""


@pytest.mark.parametrize(
    ("error", "layers", "entered"),
    [
        (lambda: rb.NotExecutedError("busy"), "inside", 3),
        (lambda: rb.NotExecutedError("busy"), "outside", 1),
        (lambda: GoneError("for good"), "inside", 1),
        (lambda: rb.errors.AuthError(rb.Failure.of("AUTH_INVALID_TOKEN")), "inside", 1),
    ],
)
def test_how_to_refuse_for_good(error, layers, entered):
    """Outside of the Retry, or by an error that no Retry repeats; NotExecutedError inside of it is repeated."""
    seen = []

    class Closed(rb.Layer):
        def enter(self, attempt):
            seen.append(attempt.number)
            raise error()

    policy = rb.Policy(AT_ONCE, Closed()) if layers == "inside" else rb.Policy(Closed(), AT_ONCE)
    with pytest.raises(type(error())):
        policy(idempotent=True).call(print, "never printed")
    assert len(seen) == entered


def test_a_retry_whose_every_attempt_was_refused_says_so(caplog):
    """The note speaks of no call, because there was none, and of as many attempts as the log."""

    class Closed(rb.Layer):
        def enter(self, attempt):
            raise rb.NotExecutedError("closed")

    with (
        caplog.at_level(logging.INFO, logger="resilient_bridge"),
        pytest.raises(rb.NotExecutedError) as caught,
    ):
        rb.Policy(AT_ONCE, Closed())(idempotent=True).call(print, "never printed")
    note = "gave up before the first call, after 3 attempts in 0.0 s: attempts used up"
    assert caught.value.__notes__ == [note]
    assert "after 3 attempts in 0.0 s" in caplog.messages[-1]


@pytest.mark.parametrize("mistake", ["raises", "nonsense"])
def test_a_mistake_in_leave_never_takes_the_result(caplog, mistake):
    """A success stays one, a failure keeps its error; the log names the layer, once."""

    class Broken(rb.Layer):
        def leave(self, attempt, error):
            if mistake == "raises":
                raise ValueError("mine")
            return 7

    policy = rb.Policy(Broken())
    with caplog.at_level(logging.ERROR, logger="resilient_bridge"):
        assert policy.call(lambda: "paid") == "paid"
        assert policy.call(lambda: "paid") == "paid"
        with pytest.raises(ConnectionRefusedError):
            policy.call(fails(1))
    lines = [line for line in caplog.messages if "Broken.leave" in line]
    assert len(lines) == 1
    wanted = (
        "raised ValueError: mine" if mistake == "raises" else "wanted an exception or None, got 7"
    )
    assert wanted in lines[0]


@pytest.mark.parametrize("answer", ["soon", -1, True, object()])
def test_nonsense_from_enter_is_refused(answer):
    """With what was wanted, what was got, and whose it is."""

    class Odd(rb.Layer):
        def enter(self, attempt):
            return answer

    with pytest.raises(rb.ConfigError, match=r"Odd.enter: wanted None or the seconds to wait"):
        rb.Policy(Odd()).call(lambda: 1)


def test_an_async_method_is_refused_and_closed():
    """Layers are entered in sync calls, too."""

    class Odd(rb.Layer):
        async def enter(self, attempt):
            return None

    with pytest.raises(rb.ConfigError, match=r"Odd.enter: wanted .*not async"):
        rb.Policy(Odd()).call(lambda: 1)


def test_one_that_blocks_is_named(caplog):
    """A layer that sleeps instead of returning the seconds stops every task of a loop."""

    class Blocks(rb.Layer):
        def enter(self, attempt):
            clock.sleep(0.5)

    with (
        rb.testing.virtual_time() as clock,
        caplog.at_level(logging.WARNING, logger="resilient_bridge"),
    ):
        policy = rb.Policy(Blocks())
        policy.call(lambda: 1)
        policy.call(lambda: 1)
    lines = [line for line in caplog.messages if "Blocks.enter" in line]
    assert len(lines) == 1
    assert "blocked its call for 0.5 s" in lines[0]


def test_what_was_logged_of_a_layer_does_not_keep_its_class():
    """Classes may be made as a program runs."""

    class Broken(rb.Layer):
        def leave(self, attempt, error):
            return 7

    rb.Policy(Broken()).call(lambda: 1)
    gone = weakref.ref(Broken)
    del Broken
    gc.collect()
    assert gone() is None


def test_cancellation_is_never_replaced():
    """A layer that refusals every error into its own does not keep a task alive."""

    class Greedy(rb.Layer):
        def leave(self, attempt, error):
            return ValueError("mine") if error is not None else None

    @rb.Policy(Greedy())
    async def work():
        await asyncio.sleep(60)

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_it_is_a_value_of_a_policy():
    """It has a repr, is replaced by class, explains itself, and counts in the worst case."""

    @attrs.frozen
    class Patient(rb.Layer):
        most: float = 2.0

        worst_wait = property(lambda self: self.most)

        def summary(self):
            return f"waits up to {self.most:g} s"

    policy = rb.Policy(
        rb.Retry(attempts=2, backoff=rb.Backoff.constant(1)), Patient(), rb.Timeout(3)
    )
    assert "Patient(most=2.0)" in repr(policy)
    assert "2. Patient(most=2.0): waits up to 2 s" in str(policy.explain())
    assert policy.explain().max_seconds >= 2 * (2 + 3)
    assert policy.replace(Patient(5)).layers[1] == Patient(5)
    assert rb.Policy(rb.Retry(), rb.Timeout(1)).replace(Notes()).layers[1].label == "notes"
    assert repr(Notes("x")).startswith("Notes(label='x'")
    assert Notes("x") == Notes("x") != Notes("y")
    with pytest.raises(rb.ConfigError, match="one Notes at most"):
        rb.Policy(Notes(), Notes("b"))
    with pytest.raises(rb.ConfigError, match=r"Policy\.layers"):
        rb.Policy(rb.Layer())


def test_one_that_was_not_entered_is_not_exited():
    """An inner layer that refuses gives the outer ones back, and itself nothing."""
    outer, inner = Notes(), Notes()

    class Closed(rb.Layer):
        def enter(self, attempt):
            raise rb.NotExecutedError("no")

    class Inner(Notes):
        pass

    inner = Inner()
    with pytest.raises(rb.NotExecutedError):
        rb.Policy(outer, Closed(), inner).call(lambda: 1)
    assert [entry[0] for entry in outer.seen] == ["enter", "leave"]
    assert inner.seen == []
