"""A phase that talks to a model until the context window is full: what it keeps before, what is said then, and where a new session goes on."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge import events
from tests.agent.workflow.flows import Flow


ROUNDS, WINDOW = 12, 100


class Session:
    """One session of an agent: phase b asks a model for twelve answers, each time with all that this session has said so far.

    What it has when the context is nearly full it keeps; `listens`: because it was told, else because it looks after each answer.
    """

    def __init__(self, root, *, listens):
        self.flow = Flow(root).build()
        self.flow.acts["b"] = self.talk
        self.guard = rb.agent.ContextGuard(
            WINDOW, count=lambda messages, _tools: sum(map(len, messages))
        )
        self.listens = listens
        self.restored, self.asked, self.rows = [], [], []

    async def model(self, messages):
        assert sum(map(len, messages)) <= WINDOW
        return f"answer {len(messages)}"

    async def talk(self, phase):
        parts = []
        with rb.listen(parts.append):
            self.restored.append(phase.restored)
            answers = list(phase.restored or ())
            history = [
                f"{len(answers)} answers are there"
            ]  # the summary that a new session begins with
            for turn in range(len(answers), ROUNDS):
                history.append("x" * 10)
                answers.append(await self.guard.call(self.model, history))
                self.asked.append(turn)
                is_full = any(isinstance(event, events.ContextNearlyFull) for event in parts)
                if is_full if self.listens else self.guard.is_nearly_full:
                    await phase.checkpoint(answers)
                    self.rows.append(len(answers))


@pytest.mark.requirement("C10")
@pytest.mark.parametrize("listens", [True, False], ids=["told", "looking"])
async def test_a_full_context_is_reported_saved_and_resumed_in_a_new_session(
    tmp_path, heard, listens
):
    """Told once, while there is room; the overflow halts the workflow and says what helps; the new session does what is left, and no more."""
    first = Session(tmp_path, listens=listens)
    halted = await first.flow.flow.run()

    (full,) = [event for event in heard if isinstance(event, events.ContextNearlyFull)]
    assert (full.limit, 90 <= full.tokens <= WINDOW) == (WINDOW, True)
    assert first.rows == [len(first.asked)] != [0]
    assert (halted.status, halted.completed) == (rb.agent.WorkflowStatus.HALTED, ("a",))
    assert halted.failure.code == "SYS_CONTEXT_OVERFLOW"
    assert "start a new session" in halted.failure.suggestions
    assert "start a new session" in halted.explain()

    second = Session(tmp_path, listens=listens)
    report = await second.flow.flow.resume()

    assert report.is_completed
    assert (first.flow.ran, second.flow.ran) == (["a", "b"], ["b", "c"])
    assert (first.restored, [len(one) for one in second.restored]) == ([None], first.rows)
    assert first.asked + second.asked == list(range(ROUNDS))


@pytest.mark.requirement("C10")
async def test_without_a_checkpoint_a_new_session_begins_the_phase_again(tmp_path):
    """The finished phases stay finished all the same."""
    first = Session(tmp_path, listens=False)
    first.guard = rb.agent.ContextGuard(
        5, count=lambda messages, _tools: sum(map(len, messages))
    )  # full at once
    assert (await first.flow.flow.run()).failure.code == "SYS_CONTEXT_OVERFLOW"
    second = Session(tmp_path, listens=False)
    await second.flow.flow.resume()
    assert (second.flow.ran[0], second.restored[0], second.asked[0]) == ("b", None, 0)


@pytest.mark.requirement("C10")
async def test_h06_a_nearly_full_context_saves_by_itself(tmp_path):
    """Nobody looks and nobody listens: what the phase says it needs is on the disk before the next answer, and the report says so."""
    flow, rows = Flow(tmp_path).build(), []
    guard = rb.agent.ContextGuard(WINDOW, count=lambda messages, _tools: sum(map(len, messages)))

    async def talk(phase):
        answers = list(phase.restored or ())
        phase.checkpoint_with(lambda: answers)
        history = [f"{len(answers)} answers are there"]
        for turn in range(len(answers), ROUNDS):
            history.append("x" * 10)
            answers.append(await guard.call(len, history))
            rows.append((turn, guard.is_nearly_full, flow.value()["saved"]))

    flow.acts["b"] = talk
    halted = await flow.flow.run()
    assert halted.failure.code == "SYS_CONTEXT_OVERFLOW"
    first = next(saved for _, is_full, saved in rows if is_full)
    assert first
    assert all(saved is None for _, is_full, saved in rows if not is_full)
    assert any("b: the context was nearly full (" in text for text in halted.warnings)
    assert (await flow.flow.resume()).failure is None or rows[-1][0] > len(first)


async def test_h06_a_guard_outside_of_a_phase_saves_nothing():
    """It is told, as ever."""
    with rb.testing.record() as seen:
        await rb.agent.ContextGuard(10, count=lambda messages, _tools: len(messages)).fit(["m"] * 9)
    assert [type(event).__name__ for event in seen] == ["ContextNearlyFull"]
