"""`resilient-bridge backoff SCHEDULE`: print the waits as a table, a chart or JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from ..values.backoff import Backoff, spread
from .plot import Spread, bars, svg
from .printing import complain, show, write_file
from .schedules import read_schedule
from .terminal import columns, wanted_columns


_IN_A_PIPE: Final = 80  # columns


def run(arguments: argparse.Namespace) -> int:
    """Print the schedule and write it to `--out`; return 0, or 2 after a line about the problem."""
    try:
        schedule, others = read_schedule(arguments.schedule)
    except ValueError as error:
        return complain("backoff", f"SCHEDULE: {error}")
    count, seeds = arguments.n, _seeds(arguments.seed, arguments.samples)
    waits = spread(schedule, count)
    if arguments.json:
        text = json.dumps(_data(schedule, waits, seeds, others))
    else:
        text = _text(schedule, waits, seeds, others, width=_width() if arguments.plot else 0)
    if arguments.out is not None:
        if PurePath(arguments.out).suffix.lower() == ".svg":
            content = svg(waits, repr(schedule))
        else:
            content = _text(schedule, waits, seeds, others, width=_IN_A_PIPE) + "\n"
        failed = write_file("backoff", arguments.out, content)
        if failed:
            return failed
    return show("backoff", text, is_data=arguments.json)


def _seeds(seed: int | None, samples: int | None) -> range:
    first = seed or 0
    return range(first, first + (samples if samples is not None else seed is not None))


def _text(
    schedule: Backoff, waits: Spread, seeds: range, others: Mapping[str, Backoff], *, width: int
) -> str:
    count = len(waits)
    parts = [schedule.explain(count)]
    if width:
        parts.append(bars(waits, width))
    if seeds:
        parts.append("\n".join(f"seed {seed}: {_run(schedule, count, seed)}" for seed in seeds))
    if others:
        parts.append("\n".join(f"after {what}: {other!r}" for what, other in others.items()))
    return "\n\n".join(parts)


def _run(schedule: Backoff, count: int, seed: int) -> str:
    return " ".join(
        f"{wait:.3f}".rstrip("0").rstrip(".") for wait in schedule.sample(count, seed=seed)
    )


def _data(
    schedule: Backoff, waits: Spread, seeds: range, others: Mapping[str, Backoff]
) -> dict[str, Any]:
    total, rows = 0.0, list[dict[str, float]]()
    for number, (shortest, mean, longest) in enumerate(waits, 1):
        total += longest
        rows.append(
            {"wait": number, "shortest": shortest, "mean": mean, "longest": longest, "total": total}
        )
    runs = [{"seed": seed, "waits": schedule.sample(len(waits), seed=seed)} for seed in seeds]
    after = {what: repr(other) for what, other in others.items()}
    return {"schedule": repr(schedule), "waits": rows, "samples": runs, "after": after}


def _width() -> int:
    return columns(sys.stdout) or wanted_columns() or _IN_A_PIPE
