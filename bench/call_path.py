"""P1, P2 and P4: how far a call walks through this package: calls of our functions, modules entered, and changes of module.

    python bench/call_path.py

Measured: one call that succeeds, and one that fails, is repeated at once and succeeds, under a warm policy, with nobody
listening and the log off. It returns an int, a dict, a list and an object of 20 fields in turn, and the worst counts.
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
CASES = {  # the policy, whether it fails first, the goals
    "success, retry": (rb.Policy(AT_ONCE), False, 3, 2),
    "success, retry + circuit": (rb.Policy(AT_ONCE, rb.Breaker()), False, 3, 2),
    "retry": (rb.Policy(AT_ONCE), True, 90, 16),
    "retry + circuit": (rb.Policy(AT_ONCE, rb.Breaker()), True, None, None),
}


class Record:
    """An object of 20 fields."""

    def __init__(self):
        for number in range(20):
            setattr(self, f"field{number}", number)


RESULTS = (1, {f"field{number}": number for number in range(20)}, [{"field": 1}], Record())


def working(policy, result, *, fails):
    """A function that returns this; with `fails` it fails at every other call."""
    calls = []

    @policy(idempotent=True)
    def work():
        calls.append(None)
        if fails and len(calls) % 2:
            raise ConnectionRefusedError
        return result

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
    for name, (policy, fails, most_calls, most_modules) in CASES.items():
        entered: list[str] = []
        for result in RESULTS:
            work = working(policy, result, fails=fails)
            for _ in range(5 if fails else 60):  # a circuit counts its first 50 successes
                work()
            entered = max(entered, path_of(work), key=len)
        changes = 1 + sum(before != after for before, after in pairwise(entered))
        modules = Counter(entered)
        goal = "" if most_calls is None else f" (goal: {most_calls} calls, {most_modules} modules)"
        print(
            f"{name}: {len(entered)} calls in {len(modules)} modules, {changes} changes of module{goal}"
        )
        is_held &= most_calls is None or (
            len(entered) <= most_calls and len(modules) <= most_modules
        )
    sys.exit(not is_held)


if __name__ == "__main__":
    main()
