"""A conversation within its bounds: counted, compacted if it may be, and else refused with the numbers and what would help."""

from __future__ import annotations

import asyncio
import json
import pickle

import httpx
import openai
import pytest

import resilient_bridge as rb
from resilient_bridge.agent import ContextGuard
from resilient_bridge.failure import ConfigError, ContextOverflowError


def count(messages, tools):
    """Here a token is a character."""
    return sum(map(len, messages)) + sum(map(len, tools))


class Compaction:
    """Leaves out the oldest messages; `asked` are the targets it was asked for."""

    def __init__(self, measure=len):
        self.asked = []
        self._measure = measure

    def __call__(self, messages, target):
        self.asked.append(target)
        while messages and sum(map(self._measure, messages)) > target:
            del messages[0]  # its own list: it may do with it as it likes
        return messages


def too_long():
    """The error of a provider whose context is exceeded, as its SDK raises it."""
    request = httpx.Request("POST", "https://api.example/v1/chat/completions")
    body = {"error": {"code": "context_length_exceeded", "message": "maximum context length is 90"}}
    response = httpx.Response(400, json=body, request=request)
    return openai.BadRequestError(
        "maximum context length is 90", response=response, body=body["error"]
    )


class Provider:
    """Takes what is at most `most` long, and notes what came."""

    def __init__(self, most):
        self.most = most
        self.seen = []

    async def __call__(self, messages, model="m", *, tools=()):
        self.seen.append(list(messages))
        if count(messages, tools) > self.most:
            raise too_long()
        return f"{model}: ok"


OLD, NEWER, NEW = "o" * 50, "n" * 40, "!" * 30


async def overflow(guard, *args):
    with pytest.raises(ContextOverflowError) as raised:
        await guard.fit(*args)
    return raised.value.failure


@pytest.mark.requirement("V12")
async def test_what_fits_comes_back_as_it_is():
    """The messages themselves, in a list of their own; up to the last token that is not reserved."""
    guard = ContextGuard(100, count=count, compact=Compaction(), reserve=10, warn_at=1)
    value = [OLD, NEWER[1:]]
    with rb.testing.record() as reported:
        fitting = await guard.fit(value)
        assert await guard.fit((OLD,), tools=(NEWER[1:],)) == [OLD]
    with rb.testing.record() as full:
        assert await guard.fit([OLD, NEWER]) == [OLD, NEWER]
    assert fitting == value
    assert fitting is not value
    assert (reported, [type(event).__name__ for event in full]) == ([], ["ContextNearlyFull"])


@pytest.mark.requirement("V12")
async def test_what_is_too_long_is_compacted_and_reported():
    """The hook is asked for what the tools leave of the room; the caller's list stays as it was."""
    compact = Compaction()
    guard = ContextGuard(100, count=count, compact=compact, reserve=10)
    value = [OLD, NEWER, NEW]
    with rb.testing.record() as reported:
        assert await guard.fit(value, ["t" * 15]) == [NEWER, NEW]
    assert value == [OLD, NEWER, NEW]
    assert compact.asked == [75]
    compacted, full = reported  # 85 of 90 is nearly full
    assert (type(compacted), type(full)) == (
        rb.events.ContextCompacted,
        rb.events.ContextNearlyFull,
    )
    assert (compacted.before, compacted.after, compacted.limit) == (135, 85, 90)


@pytest.mark.requirement("V12")
async def test_without_a_hook_it_is_an_error_that_says_compact():
    """The form of V12: type, numbers and suggestion, and the suggestion in words; nothing was sent."""
    guard = ContextGuard(100, count=count)
    failure = await overflow(guard, [OLD, NEWER, NEW])
    assert dict(failure.details) == {
        "type": "context_overflow",
        "current_tokens": 120,
        "max_tokens": 100,
        "reserve": 0,
        "suggestion": "compact_history",
        "tools_tokens": 0,
    }
    assert (failure.code, failure.executed, failure.retryable) == (
        "SYS_CONTEXT_OVERFLOW",
        rb.errors.Executed.NO,
        False,
    )
    assert failure.suggestions[0].startswith("compact the history")
    assert str(failure) == "context of 120 tokens, wanted at most 100 (UPSTREAM, not retryable)"
    assert json.loads(failure.to_llm())["suggestion"].startswith("compact the history")


@pytest.mark.requirement("V12")
async def test_tools_that_take_it_all_are_to_be_reduced():
    """No history is short enough for them: the hook is not asked."""
    compact = Compaction()
    failure = await overflow(
        ContextGuard(100, count=count, compact=compact), [NEW], ["t" * 60, "t" * 40]
    )
    assert (failure.details["suggestion"], failure.details["tools_tokens"]) == ("reduce_tools", 100)
    assert "tools" in failure.suggestions[0]
    assert compact.asked == []


@pytest.mark.requirement("V12")
async def test_compaction_that_does_not_suffice_asks_for_a_new_session():
    """Two tries and no more, the second for half; the numbers are those of the caller's conversation."""
    asked = []

    def barely(messages, target):
        asked.append((len(messages), target))
        return messages[1:]

    with rb.testing.record() as reported:
        failure = await overflow(ContextGuard(100, count=count, compact=barely), [OLD] * 5)
    assert asked == [(5, 100), (4, 50)]
    details = failure.details
    assert (details["suggestion"], details["current_tokens"], details["compacted_tokens"]) == (
        "start_new_session",
        250,
        150,
    )
    assert "new session" in failure.suggestions[0]
    assert [type(event).__name__ for event in reported] == ["ContextNearlyFull"]


async def test_a_hook_that_measures_otherwise_has_a_second_try():
    """It took a token for two characters; asked for less, its answer fits."""
    compact = Compaction(measure=lambda message: len(message) // 2)
    guard = ContextGuard(100, count=count, compact=compact)
    assert await guard.fit([OLD, NEWER, NEW, NEWER]) == [NEW, NEWER]
    assert compact.asked == [100, 50]


async def test_an_answer_that_is_longer_is_not_gone_on_from():
    """The second try begins with the conversation as it was."""
    seen = []

    def blow_up(messages, target):
        seen.append(list(messages))
        messages.append(OLD)
        return messages if len(seen) == 1 else [NEW]

    assert await ContextGuard(100, count=count, compact=blow_up).fit([OLD] * 3) == [NEW]
    assert seen == [[OLD] * 3] * 2


async def test_counting_and_compacting_may_be_async():
    """A provider's own endpoint may count, and a model may compact."""

    async def counted(messages, tools):
        await asyncio.sleep(0)
        return count(messages, tools)

    async def compacted(messages, target):
        await asyncio.sleep(0)
        return tuple(messages[-1:])

    guard = ContextGuard(100, count=counted, compact=compacted)
    assert await guard.fit([OLD, NEWER, NEW], [NEWER]) == [NEW]


@pytest.mark.requirement("V12")
async def test_it_knows_when_it_is_nearly_full():
    """`share` is that of the last count, `is_nearly_full` from 90 % on; compacting empties it, an overflow stands."""
    guard = ContextGuard(110, count=count, compact=Compaction(), reserve=10)
    assert (guard.share, guard.is_nearly_full) == (0.0, False)
    await guard.fit(["x" * 89])
    assert (guard.share, guard.is_nearly_full) == (0.89, False)
    await guard.fit(["x" * 90])
    assert (guard.share, guard.is_nearly_full) == (0.9, True)
    assert repr(guard) == "<ContextGuard 90 of 100 tokens, nearly full>"
    await guard.fit([OLD, NEWER, NEW])
    assert (guard.share, guard.is_nearly_full) == (0.7, False)
    without = ContextGuard(100, count=count, warn_at=1)
    await overflow(without, [OLD, OLD, OLD])
    assert (without.share, without.is_nearly_full) == (1.5, True)


def as_error_record(reported):
    """What was heard of a context: the class, and its numbers."""
    return [
        (type(event).__name__, getattr(event, "tokens", None), event.limit) for event in reported
    ]


@pytest.mark.requirement("C10")
async def test_it_tells_once_when_it_is_nearly_full():
    """As soon as it takes 90 % of what it may; again only after it took less in between; an overflow is told if that was not."""
    guard = ContextGuard(110, count=count, reserve=10)
    nearly = [("ContextNearlyFull", 90, 100)]
    for tokens, heard in [
        (89, []),
        (90, nearly),
        (95, []),
        (101, []),
        (89, []),
        (90, nearly),
        (0, []),
    ]:
        with rb.testing.record() as reported:
            if tokens > 100:
                await overflow(guard, ["x" * tokens])
            else:
                await guard.fit(["x" * tokens])
        assert as_error_record(reported) == heard
    with rb.testing.record() as reported:
        await overflow(guard, ["x" * 150])
    assert as_error_record(reported) == [("ContextNearlyFull", 150, 100)]


@pytest.mark.requirement("C10")
async def test_what_is_compacted_is_nearly_full_if_it_still_is_then():
    """Not what was counted before; so too if it was the provider that refused it."""
    guard = ContextGuard(100, count=count, compact=Compaction())
    with rb.testing.record() as reported:
        await guard.fit([OLD, NEWER, NEW])  # to 70
        assert as_error_record(reported) == [("ContextCompacted", None, 100)]
        await guard.fit([OLD, "x" * 95])
    assert as_error_record(reported)[1:] == [
        ("ContextCompacted", None, 100),
        ("ContextNearlyFull", 95, 100),
    ]
    eager = ContextGuard(100, count=count, compact=Compaction(), warn_at=0.8)
    with rb.testing.record() as reported:
        await eager.call(Provider(80), ["x" * 20, OLD, "x" * 20])
    assert as_error_record(reported) == [
        ("ContextNearlyFull", 90, 100),
        ("ContextCompacted", None, 72),
    ]
    with rb.testing.record() as reported:
        await eager.fit(["x" * 80])
    assert as_error_record(reported) == [("ContextNearlyFull", 80, 100)]


@pytest.mark.requirement("V12")
async def test_a_call_sends_what_fits():
    """Arguments pass through, tools are counted, sync functions are called as well."""
    guard, provider = ContextGuard(100, count=count, compact=Compaction()), Provider(100)
    assert await guard.call(provider, [OLD, NEWER, NEW], "large", tools=["t" * 30]) == "large: ok"
    assert provider.seen == [[NEWER, NEW]]
    assert await guard.call(lambda messages: len(messages), [NEW, NEW]) == 2  # noqa: PLW0108 -- a sync function
    with pytest.raises(ContextOverflowError):
        await guard.call(provider, [OLD], tools=[OLD, OLD])
    assert len(provider.seen) == 1


@pytest.mark.requirement("V12")
async def test_a_provider_that_finds_it_too_long_is_called_again_with_less():
    """Compacted to 80 % of what was counted, because the count was wrong; once, and told."""
    compact = Compaction()
    guard, provider = ContextGuard(200, count=count, compact=compact), Provider(90)
    with rb.testing.record() as reported:
        assert await guard.call(provider, [OLD, NEWER, NEW]) == "m: ok"
    assert provider.seen == [[OLD, NEWER, NEW], [NEWER, NEW]]
    assert compact.asked == [96]
    assert [(event.before, event.after, event.limit) for event in reported] == [(120, 70, 96)]


@pytest.mark.requirement("V12")
@pytest.mark.parametrize(
    ("compact", "calls", "suggestion"),
    [
        (Compaction(), 2, "start_new_session"),
        (None, 1, "compact_history"),
        (lambda m, _: m, 1, "start_new_session"),
    ],
    ids=["still too long", "no hook", "no shorter"],
)
async def test_a_provider_that_cannot_be_satisfied_is_an_overflow(compact, calls, suggestion):
    """It comes from the provider's own error, which is its cause."""
    guard, provider = ContextGuard(200, count=count, compact=compact), Provider(5)
    with pytest.raises(ContextOverflowError) as raised:
        await guard.call(provider, [OLD, NEWER, NEW])
    assert len(provider.seen) == calls
    assert isinstance(raised.value.__cause__, openai.BadRequestError)
    failure = raised.value.failure
    assert failure.cause is raised.value.__cause__
    assert (failure.details["suggestion"], failure.details["max_tokens"]) == (suggestion, 200)
    assert failure.message.endswith("which the provider refused")
    assert pickle.loads(pickle.dumps(raised.value)).failure == failure


async def test_every_other_error_is_the_callers_own():
    """What the function raises comes out as it is, after one call."""
    guard, calls = ContextGuard(100, count=count, compact=Compaction()), []
    error = ConnectionResetError()

    async def fail(messages):
        calls.append(messages)
        raise error

    with pytest.raises(ConnectionResetError) as raised:
        await guard.call(fail, [NEW])
    assert raised.value is error
    assert len(calls) == 1


@pytest.mark.parametrize("which", ["count", "compact"])
async def test_what_a_hook_raises_comes_out_unchanged(which):
    """A hook that fails is the caller's to mend: no overflow is made of it, also after the provider's refusal."""
    error = LookupError("no tokenizer")

    def fail(*_):
        raise error

    hooks = {"count": count, "compact": Compaction(), which: fail}
    with pytest.raises(LookupError) as raised:
        await ContextGuard(100, **hooks).fit([OLD, NEWER, NEW])
    assert raised.value is error
    if which == "compact":
        with pytest.raises(LookupError) as raised:
            await ContextGuard(200, **hooks).call(Provider(5), [OLD, NEWER, NEW])
        assert (raised.value.__cause__, raised.value.__context__) == (None, None)


@pytest.mark.parametrize("wrong", [None, 1.5, -1, True, "12"])
async def test_a_count_that_is_none_is_refused(wrong):
    """A hook that forgot to return, or counts in halves."""
    with pytest.raises(ConfigError, match=r"ContextGuard\.count"):
        await ContextGuard(100, count=lambda *_: wrong).fit([NEW])


@pytest.mark.parametrize("wrong", [None, "summary", 5])
async def test_messages_that_are_none_are_refused(wrong):
    """A hook that changed its list and returned nothing, or returned the summary alone."""
    with pytest.raises(ConfigError, match=r"ContextGuard\.compact"):
        await ContextGuard(10, count=count, compact=lambda *_: wrong).fit([NEW])


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"limit": 0}, "ContextGuard.limit"),
        ({"limit": 1e5}, "ContextGuard.limit"),
        ({"reserve": -1}, "ContextGuard.reserve"),
        ({"reserve": 100}, "ContextGuard.reserve"),
        ({"count": 5}, "ContextGuard.count"),
        ({"compact": True}, "ContextGuard.compact"),
        ({"warn_at": 90}, "ContextGuard.warn_at"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, path):
    """The error names the argument."""
    with pytest.raises(ConfigError, match=path):
        ContextGuard(**{"limit": 100, "count": count, **arguments})
