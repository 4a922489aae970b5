"""`resilient-bridge workflow`: run, resume, abort or show a workflow, or skip one of its phases."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Final

from ..adapters.processes.signals import TERM, on_signals
from ..agent import Workflow, WorkflowReport, WorkflowStatus
from ..failure import BridgeError
from .modules import CannotLoadError, load, split
from .printing import complain, show
from .progress import Progress


_INTERRUPTED: Final = 130
_ENDS: Final = {WorkflowStatus.HALTED: 1, WorkflowStatus.ABORTED: 3}


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand and print the report.

    Return 0, 1 if the workflow halted, 2 after one line about what cannot be done, 3 if the
    workflow is aborted (but 0 for the subcommand `abort`), or 130 when interrupted.
    """
    try:
        flow = _found(arguments.target)
    except _NotFoundError as error:
        return complain("workflow", str(error))
    try:
        report = _done(flow, arguments)
    except BridgeError as error:
        return complain("workflow", str(error))
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError) as ended:
        # SystemExit: a phase raised it, and its code could be mistaken for one of ours.
        why = f" by sys.exit({ended.code!r})" if isinstance(ended, SystemExit) else ""
        complain(
            "workflow",
            f"interrupted{why}; go on with: resilient-bridge workflow run {arguments.target}",
        )
        return _INTERRUPTED
    text = (
        json.dumps(report.to_dict())
        if arguments.json
        else report.explain() + _next(report, arguments)
    )
    return show("workflow", text, is_data=arguments.json) or (
        0 if arguments.action == "abort" else _ENDS.get(report.status, 0)
    )


def _next(report: WorkflowReport, arguments: argparse.Namespace) -> str:
    """Return the line with the next command to type; "" if the workflow has ended."""
    verbs = {
        WorkflowStatus.HALTED: "resume",
        WorkflowStatus.RUNNING: "run",
        WorkflowStatus.NEW: "run",
    }
    verb = verbs.get(report.status)
    return "" if verb is None else f"\nnext: resilient-bridge workflow {verb} {arguments.target}"


def _done(flow: Workflow, arguments: argparse.Namespace) -> WorkflowReport:
    if arguments.action == "status":
        return flow.status()
    if arguments.action == "abort":
        return asyncio.run(flow.abort())
    if arguments.action == "skip":
        return asyncio.run(flow.skip(arguments.phase, reason=arguments.reason))
    return asyncio.run(_watched(flow, arguments.action))


async def _watched(flow: Workflow, action: str) -> WorkflowReport:
    task = asyncio.current_task()
    # SIGTERM of a supervisor cancels the run, as Ctrl-C does.
    with on_signals(task.cancel if task else lambda: None, *TERM), Progress(sys.stderr):
        return await (flow.run() if action == "run" else flow.resume())


class _NotFoundError(Exception):
    """The target cannot be loaded, or has no such workflow, or several."""


def _found(target: str) -> Workflow:
    """Return the workflow in `FILE.py`, `FILE.py:NAME`, `MODULE` or `MODULE:NAME`."""
    where, name = split(target)
    try:
        module = load(where)
    except CannotLoadError as error:
        raise _NotFoundError(f"TARGET: {error}") from error
    if name:
        found: object = getattr(module, name, None)
        if not isinstance(found, Workflow):
            raise _NotFoundError(
                f"TARGET: wanted a Workflow, got {where}:{name}, {type(found).__name__}"
            )
        return found
    flows = {key: value for key, value in vars(module).items() if isinstance(value, Workflow)}
    if len({id(flow) for flow in flows.values()}) != 1:
        names = ", ".join(flows) or "none"
        raise _NotFoundError(
            f"TARGET: wanted {where}:NAME, or one Workflow in {where}, got {names}"
        )
    return next(iter(flows.values()))
