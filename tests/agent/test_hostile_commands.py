"""Commands that a model or a program misuses: what they had printed is not lost, and nobody's loop ends for them."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from tests.calls.forms import at_once


pytestmark = pytest.mark.real

ORPHAN = 'trap "" TERM; (trap "" TERM; sleep 60) & echo hello; exit 0'


def once(*layers):
    """A toolbox that repeats nothing."""
    return Toolbox(rb.Policy(*layers, at_once(attempts=1)))


@pytest.mark.requirement("V6")
@pytest.mark.parametrize("words", [["ls", 5], [], [""], [None], [["ls"]]])
async def test_words_that_a_model_filled_are_data(words):
    """A list of strings is judged no further: what is no word of it did not run, and the agent's loop goes on."""
    toolbox = once()

    @toolbox.command
    def run(words: list[str]) -> list[str]:
        return words

    outcome = await toolbox.call("run", {"words": words})
    assert (outcome.failure.code, outcome.type) == ("TOOL_ARGUMENTS_INVALID", "validation")
    assert outcome.failure.executed is rb.errors.Executed.NO
    with pytest.raises(rb.BridgeError, match="words"):
        await run(words)


@pytest.mark.requirement("R11")
@pytest.mark.parametrize("script", ["echo hello; sleep 60", ORPHAN])
async def test_a_deadline_does_not_lose_what_was_printed(script):
    """Ended by the policy's Deadline, a command's output is in the outcome, as it is when its own limit ends it."""
    toolbox = once(rb.Deadline(0.5))
    toolbox.command(lambda: ["sh", "-c", script], name="talk")
    outcome = await toolbox.call("talk", {})
    assert outcome.failure.code == "SYS_DEADLINE_EXCEEDED"
    assert outcome.stdout == "hello"
    assert '"stdout": "hello"' in outcome.to_llm()


async def test_a_cancelled_command_says_what_it_had_printed():
    """The cancellation is raised from a TimeoutExpired with the output; of its words only the program is told."""
    tool = once().command(lambda: ["sh", "-c", "echo hello; sleep 60"], name="talk")
    call = asyncio.create_task(tool())
    await asyncio.sleep(0.3)
    call.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await call
    reported = raised.value.__cause__
    assert isinstance(reported, subprocess.TimeoutExpired)
    assert (reported.cmd, reported.stdout) == (["sh"], b"hello\n")


async def test_disabled_a_cancelled_command_is_cancelled():
    """Without a policy too: a cancellation is never answered with an outcome."""
    toolbox = once()
    toolbox.command(lambda: ["sleep", "60"], name="sleep")
    with rb.testing.disabled():
        call = asyncio.create_task(toolbox.call("sleep", {}))
        await asyncio.sleep(0.2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
