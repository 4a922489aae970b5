"""P4: how far a failure and its repeat walk through this package: calls of our functions, modules entered, and changes of module.

    python bench/call_path.py

Measured: one call that fails, is repeated at once and succeeds, under a warm policy, with nobody listening and the log off.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import resilient_bridge as rb


ROOT = str(Path(rb.__file__).parent)
AT_ONCE = rb.Retry(backoff=rb.Backoff.constant(0))
CASES = {
    "retry": (rb.Policy(AT_ONCE), 90, 16),
    "retry + circuit": (rb.Policy(AT_ONCE, rb.Breaker()), None, None),
}


def failing(policy):
    """A function that fails at every other call."""
    calls = []

    @policy(idempotent=True)
    def work():
        calls.append(None)
        if len(calls) % 2:
            raise ConnectionRefusedError

    return work


def path_of(work):
    """Return the modules that one call enters, in their order."""
    entered: list[str] = []

    def hear(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(ROOT):
            entered.append(name)

    sys.setprofile(hear)
    try:
        work()
    finally:
        sys.setprofile(None)
    return entered


def main() -> None:
    """Print the table; fail if a goal is missed."""
    logging.disable(logging.CRITICAL)
    is_held = True
    for name, (policy, most_calls, most_modules) in CASES.items():
        work = failing(policy)
        for _ in range(5):
            work()
        entered = path_of(work)
        changes = 1 + sum(before != after for before, after in pairwise(entered))
        modules = Counter(entered)
        goal = "" if most_calls is None else f" (goal: {most_calls} calls, {most_modules} modules)"
        print(f"{name}: {len(entered)} calls in {len(modules)} modules, {changes} changes of module{goal}")
        is_held &= most_calls is None or (len(entered) <= most_calls and len(modules) <= most_modules)
    sys.exit(not is_held)


if __name__ == "__main__":
    main()
