"""Small workflows for tests: what ran, in order, and what was heard."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resilient_bridge.agent import Workflow
from tests.internals.agent import WorkflowStateFile
from tests.internals.stores import Document, write_flat


FILES = ("state.json", "state.json.bak", "state.json.journal", "state.json.journal.bak")


class Flow:
    """Phases a, b, c in a directory, each writing NAME.txt; `ran` has the phases that began, `acts` what they do besides."""

    def __init__(self, root, *, names="abc", name="flow", **options):
        self.root = root
        self.ran: list[str] = []
        self.acts = {}
        self.flow = Workflow(root / "state.json", name=name, root=root, **options)
        self.options = {one: {} for one in names}

    def build(self, **options):
        """Declare the phases; `options` by phase."""
        for one in self.options:
            fields = {"artifacts": [f"{one}.txt"], "idempotent": True, **options.get(one, {})}
            self.flow.phase(name=one, **fields)(self._phase(one))
        return self

    def _phase(self, one):
        async def run(phase):
            self.ran.append(one)
            (self.root / f"{one}.txt").write_text(one)
            act = self.acts.get(one)
            if act is not None:
                await act(phase)

        return run

    def value(self):
        """What stands in the file."""
        return value_in(self.root / "state.json")


def fails(*errors):
    """An act that raises these in turn, then nothing more."""
    remaining = list(errors)

    async def act(_):
        if remaining:
            raise remaining.pop(0)

    return act


def damage(path: Path, data: bytes = b"\0" * 100) -> None:
    """Write over a file, as a broken disk would."""
    path.write_bytes(data)


@contextmanager
def without(path: Path):
    """Take a file away for a while."""
    aside = path.with_name("taken-away")
    path.rename(aside)
    yield
    aside.rename(path)


def value_in(path: Path) -> dict:
    """The fields of a state file with what its journal says, without the envelope beside them."""
    return WorkflowStateFile(path)._file.current(path.read_bytes())[0]


def write_value(path: Path, value: dict, *, version: int = 1) -> None:
    """Write a state file that says this; one of version 1 is no less for having no journal."""
    document = Document(version=version, saved_at=datetime.now(UTC), value=value)
    path.write_bytes(write_flat(document))


def died_in(root, phase, *, starts=1):
    """What a process that was killed inside of that phase leaves in the file and in its backup."""
    for name in ("state.json.bak", "state.json"):
        value = value_in(root / name)
        done = [one for one in value["checkpoints"] if one["phase"] < phase]
        value.update(
            status="running", checkpoints=done, phases_completed=[one["phase"] for one in done],
            current_phase=phase, failure=None,
        )  # fmt: skip
        value["begun"] = starts
        write_value(root / name, value)


async def started(flow, *, until):
    """A run of the flow, under way, in which these phases have begun."""
    task = asyncio.create_task(flow.flow.run())
    while flow.ran != list(until):
        await asyncio.sleep(0)
    return task


async def cancelled(task):
    """Cancel a run, and wait for its end."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def stay(_):
    """An act that does not end by itself."""
    await asyncio.Event().wait()
