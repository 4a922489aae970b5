"""P10: what it costs to know what an error means.

    python bench/classify_cost.py [rounds]

By class: `rule_for(error)`, worked out before <= 4 x `dict.get(type(error))`. By text: a text that no rule knows <= 1.5 x asking with `in`
for one rule after another. Both: 100 verdicts registered with `classify.register` change it by <= 10 %. A whole `classify(error)`, which
builds the Failure, stands below for those who want to know: it is done once for a failed attempt, never for a success.
"""

from __future__ import annotations

import asyncio
import timeit

import httpx
import tenacity
from _measure import Samples, holds, interleave, rounds_asked, table

from resilient_bridge.failure import classify, rule_for, texts


UNKNOWN = "the worker said something nobody has a rule for, and said it in about ninety characters of text"
KNOWN = "write of 3 files failed, and the last of them said: operation incomplete, commit of sess-abc1 is missing"
REQUEST = httpx.Request("GET", "http://127.0.0.1/")
TIMED_OUT = httpx.ReadTimeout("x", request=REQUEST)
ERRORS = {
    "httpx.ReadTimeout": TIMED_OUT,
    "httpx 503": httpx.HTTPStatusError(
        "x", request=REQUEST, response=httpx.Response(503, request=REQUEST)
    ),
    "ConnectionRefusedError": ConnectionRefusedError(111, "x"),
    "LookupError, unknown": LookupError("x"),
    "RuntimeError, unknown text": RuntimeError(UNKNOWN),
    "RuntimeError, known text": RuntimeError(KNOWN),
}
# The rules of the text fallback, as substrings: one that has a number in it by its words.
WORDS = (
    *texts._PHRASES,  # noqa: SLF001 -- the very rules
    *texts._SYMBOLS,  # noqa: SLF001
    *(word.split("[")[0].split("(")[0] for word in texts._NUMBERED),  # noqa: SLF001
)
ALL_ERRORS = (httpx.TimeoutException, httpx.NetworkError, OSError)
HUNDRED = tuple(type(f"Error{number}", (Exception,), {}) for number in range(100))


def by_in(text: str) -> str | None:
    """Ask for one rule after another."""
    for word in WORDS:
        if word in text:
            return word
    return None


def by_in_lowered(text: str) -> str | None:
    """Do the same in any case, as the fallback does."""
    text = text.lower()
    for word in WORDS:
        if word in text:
            return word
    return None


def case(statement: str, **names: object):
    """Return a case: nanoseconds of a statement, in a batch of about a millisecond."""
    timer = timeit.Timer(statement, globals={**globals(), **names})
    number = 10
    while timer.timeit(number) < 1e-3:
        number *= 2

    async def run() -> float:
        return timer.timeit(number) / number * 1e9

    return run


def tenacity_state(error: Exception) -> tenacity.RetryCallState:
    """Return what a predicate of tenacity looks at."""
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    state.set_exception((type(error), error, None))
    return state


FLOOR, BY_CLASS = "dict.get(type(error))", "rule_for(error)"
CHAIN, BY_TEXT = (
    f"`in`, {len(WORDS)} rules one after another, none fits",
    "text_finding(text), none fits",
)
REGISTERED = "with 100 registered"
PREDICATE = "tenacity retry_if_exception_type, 3 classes"


def cases() -> dict:
    """Return what is measured, but for a registry that is not empty."""
    table_of = {type(TIMED_OUT): "x"}
    state, predicate = tenacity_state(TIMED_OUT), tenacity.retry_if_exception_type(ALL_ERRORS)
    found = {
        FLOOR: case("table_of.get(type(error))", table_of=table_of, error=TIMED_OUT),
        BY_CLASS: case("rule_for(error)", error=TIMED_OUT),
        "isinstance, 3 classes": case("isinstance(error, ALL_ERRORS)", error=TIMED_OUT),
        PREDICATE: case("predicate(state)", predicate=predicate, state=state),
        CHAIN: case("by_in(text)", text=UNKNOWN),
        "the same, in any case": case("by_in_lowered(text)", text=UNKNOWN),
        BY_TEXT: case("texts.text_finding(text)", text=UNKNOWN),
        "text_finding(text), one fits": case("texts.text_finding(text)", text=KNOWN),
    }
    for name, error in ERRORS.items():
        found[f"classify({name})"] = case("classify(error)", error=error)
    return found


def registered() -> dict:
    """Return the same with 100 verdicts registered: each case registers, measures, and takes them back."""

    def among(run):
        async def measured() -> float:
            verdicts = [classify.register(error, code="SYS_UNAVAILABLE") for error in HUNDRED]
            try:
                return await run()
            finally:
                for verdict in verdicts:
                    verdict.unregister()

        return measured

    names = (BY_CLASS, BY_TEXT, "classify(httpx.ReadTimeout)")
    all_cases = cases()
    return {f"{name}, {REGISTERED}": among(all_cases[name]) for name in names}


def rows_of(samples: Samples) -> list[list]:
    """Return every case with its goal."""
    goals = {
        BY_CLASS: (FLOOR, 4.0),
        BY_TEXT: (CHAIN, 1.5),
        f"{BY_CLASS}, {REGISTERED}": (BY_CLASS, 1.1),
        f"{BY_TEXT}, {REGISTERED}": (BY_TEXT, 1.1),
    }
    rows = []
    for name in samples:
        base, goal = goals.get(name, (FLOOR, None))
        if goal is None and name.startswith("classify(") and name.endswith(REGISTERED):
            base = name.removesuffix(f", {REGISTERED}")
        elif goal is None and ("text" in name or name in (CHAIN, "the same, in any case")):
            base = CHAIN
        ratio = samples.ratio(name, base)
        verdict = ["", ""] if goal is None else [goal, holds(ratio, goal)]
        shown = "the chain" if base == CHAIN else f"`{base}`"
        rows.append([name, samples.low(name), shown, ratio, samples.paired(name, base), *verdict])
    return rows


async def main() -> None:
    """Measure, then print."""
    rounds = rounds_asked(101)
    for error in ERRORS.values():
        rule_for(error)
    found = {**cases(), **registered()}
    samples = await interleave(found, rounds)
    ordered = Samples({name: samples[name] for name in found})
    head = ["", "ns, min", "base", "x base, min/min", "x base, paired median", "goal <=", "P10"]
    table(f"P10: {rounds} rounds", head, rows_of(ordered), ("httpx", "tenacity"))


if __name__ == "__main__":
    asyncio.run(main())
