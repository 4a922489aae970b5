"""Whether finished phases still hold: their artifacts, their commits, their checks.

Rule: an artifact is what the newest phase that lists it has made of it. If it has changed since,
none of the phases that list it holds: a phase that changes an artifact has to start from what the
first one makes.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from ...failure import Failure, Kind, error_for
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
    """Return the finished phases that no longer hold, with the reasons.

    Names in `excepted` are not checked. Blocks. Raises HiddenError for an artifact that cannot be
    read now.
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
    """Run the checks of a phase.

    Raises BridgeError (SYS_ARTIFACT_INVALID) if one returns False, and what they raise.
    """
    for one in spec.checks:
        name = getattr(one, "__name__", type(one).__name__)
        holds: object = await in_thread(one)
        if inspect.isawaitable(holds):
            holds = await holds
        if holds is False:
            raise error_for(invalid(f"phase {spec.name} ended, but its check {name} does not hold"))


def invalid(
    message: str, *, kind: Kind | None = None, suggestions: tuple[str, ...] = ()
) -> Failure:
    return Failure.of("SYS_ARTIFACT_INVALID", message, kind=kind, suggestions=suggestions)
