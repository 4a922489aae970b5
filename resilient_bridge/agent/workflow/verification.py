"""Whether finished phases still hold: their artifacts, their commits, their checks.

Rule: an artifact is what the newest phase that lists it has left. If it is not that any more, no phase that lists it holds: who
changes it has to begin with what the first one makes.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from ...errors import Failure, Kind, error_for
from ..blocking import in_thread
from .artifacts import Measured, problems


if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from .checkpoint import WorkflowState
    from .phase import PhaseSpec


def broken(
    state: WorkflowState, measured: Measured, root: Path, excepted: AbstractSet[str]
) -> dict[str, list[str]]:
    """Which finished phases do not hold any more, and why. A name in `excepted` is not asked for.

    Blocks. Raises HiddenError for what cannot be looked at.
    """
    newest: dict[str, tuple[str, str]] = {}
    for one in state.checkpoints:
        newest.update({name: (one.phase, one.checksums.get(name, "")) for name in one.artifacts})
    bad: dict[str, str] = {}
    for one in state.checkpoints:
        sums = {
            name: checksum
            for name, (phase, checksum) in newest.items()
            if phase == one.phase and name not in excepted
        }
        bad |= problems(measured, root, one, sums)
    found = {
        one.phase: [bad[name] for name in (*one.artifacts, *one.commits) if name in bad]
        for one in state.checkpoints
    }
    return {phase: wrong for phase, wrong in found.items() if wrong}


async def check(spec: PhaseSpec) -> None:
    """Ask the checks of a phase. Raises BridgeError (SYS_ARTIFACT_INVALID) for one that says no, and what they raise."""
    for one in spec.checks:
        name = getattr(one, "__name__", type(one).__name__)
        holds: object = await in_thread(one)
        if inspect.isawaitable(holds):
            holds = await holds
        if holds is False:
            raise error_for(invalid(f"phase {spec.name} ended, but its check {name} does not hold"))


def invalid(message: str, *, kind: Kind | None = None, suggestions: tuple[str, ...] = ()) -> Failure:
    """The failure of an artifact, a commit or a check."""
    return Failure.of("SYS_ARTIFACT_INVALID", message, kind=kind, suggestions=suggestions)
