"""Which call of the trap fails, and how: drawn from a seed, or listed.

Rule: a plan is a value. What happens to a call depends on its number and the transport alone, so
that a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final


class TrapStrike(Enum):
    """What may happen to one call of a tool.

        trap = rb.mcp.Trap("ledger.jsonl", plan=[rb.mcp.TrapStrike.AFTER])

    All but `before` and `forgotten` come after the effect.
    """

    ANSWER = "answer"  # nothing: the call is answered
    BEFORE = "before"  # the server dies before the effect
    AFTER = "after"  # it dies after the effect, before a byte of the answer
    MIDDLE = "middle"  # it dies in the middle of the answer's bytes
    ANSWERED = "answered"  # it dies when the answer is out: the next call finds it gone
    EXIT0 = "exit0"  # as `after`, with the exit code of success; standard input and output only
    HANG = "hang"  # the answer never comes, and the server lives
    NOISE = "noise"  # lines that are no messages come before the answer
    FORGOTTEN = "forgotten"  # 404 without an effect: the sessions are lost; HTTP only
    CUT = "cut"  # the event stream ends without the answer; HTTP only
    RESET = "reset"  # the connection is reset before the status line; HTTP only

    @property
    def has_effect(self) -> bool:
        """Whether the tool has its effect."""
        return self not in {TrapStrike.BEFORE, TrapStrike.FORGOTTEN}


_HTTP_ONLY: Final = frozenset({TrapStrike.FORGOTTEN, TrapStrike.CUT, TrapStrike.RESET})
ON_HTTP: Final = tuple(
    kind for kind in TrapStrike if kind not in {TrapStrike.ANSWER, TrapStrike.EXIT0}
)
ON_STDIO: Final = tuple(kind for kind in TrapStrike if kind not in {TrapStrike.ANSWER, *_HTTP_ONLY})


@dataclass(frozen=True)
class Plan:
    """The plan: `steps`, one for each call, then none; else drawn from `seed` at `rate`."""

    seed: int = 0
    rate: float = 0.5
    steps: tuple[TrapStrike, ...] = ()

    def strike(self, number: int, kinds: tuple[TrapStrike, ...]) -> TrapStrike:
        """Return the strike of the call with this number, from 0; only `kinds` are possible."""
        if self.steps:
            return self.steps[number] if number < len(self.steps) else TrapStrike.ANSWER
        drawn = Random(f"{self.seed}:{number}")
        return drawn.choice(kinds) if drawn.random() < self.rate else TrapStrike.ANSWER

    def check(self, kinds: tuple[TrapStrike, ...]) -> None:
        if wrong := {step.value for step in self.steps} - {
            kind.value for kind in (*kinds, TrapStrike.ANSWER)
        }:
            raise ValueError(f"plan: not possible on this transport: {', '.join(sorted(wrong))}")


def steps_of(plan: str | Iterable[TrapStrike | str]) -> tuple[TrapStrike, ...]:
    """Return the steps of a text such as "after,before", or of strikes or their names; ValueError
    for an unknown name.
    """
    listed = plan.split(",") if isinstance(plan, str) else plan
    steps: list[TrapStrike] = []
    for step in listed:
        if isinstance(step, str) and step not in {kind.value for kind in TrapStrike}:
            wanted = ", ".join(kind.value for kind in TrapStrike)
            raise ValueError(f"plan: wanted steps of {wanted}, got {step!r}")
        steps.append(TrapStrike(step))
    return tuple(steps)
