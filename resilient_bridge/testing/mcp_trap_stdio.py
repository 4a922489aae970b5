"""The trap over standard input and output: one client, and a process that dies by its plan.

Rule: standard library only. It ends when its input does.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Final, NoReturn

from . import mcp_trap_ledger as ledger
from .mcp_trap_plan import ON_STDIO, Plan, TrapStrike
from .mcp_trap_tools import TrapServer


NOISE: Final = b'Listening on stdio ...\n\n{"half": \n\xff\xfe\n[warn] this is no message\r\n42\n'


def serve_stdio(file: Path, plan: Plan) -> None:
    """Answer each line until the input ends, or until the plan ends the process."""
    server = TrapServer(file, plan, ON_STDIO)
    ledger.append(file, "start", pid=os.getpid())
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except (
            ValueError
        ):  # a line that is no message; what `answer` raises is a defect of the trap
            continue
        answer, strike = server.answer(message)
        if answer is not None:
            _write(json.dumps(answer).encode() + b"\n", strike)


def _write(line: bytes, strike: TrapStrike) -> None:
    """Write the answer as far as the strike allows."""
    if strike in {TrapStrike.BEFORE, TrapStrike.AFTER}:
        _die(1)
    if strike is TrapStrike.EXIT0:
        _die(0)
    if strike is TrapStrike.HANG:
        return
    if strike is TrapStrike.NOISE:
        _output(NOISE)
    if strike is TrapStrike.MIDDLE:
        _output(line[: len(line) // 2])
        _die(1)
    _output(line)
    if strike is TrapStrike.ANSWERED:
        _die(1)


def _output(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _die(code: int) -> NoReturn:
    os._exit(code)
