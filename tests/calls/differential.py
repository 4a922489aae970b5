"""What a user sees of protected calls, drawn by a seed: the net under the engine of `calls`, and the tool that shows where two commits differ.

    python -m tests.calls.differential show SEED [FORM]        # one scenario and what is seen of it, as JSON
    python -m tests.calls.differential compare DIR [SEED ...]  # the package of another checkout, such as one of `git worktree add`
    python -m tests.calls.differential write                   # the golden files: in a commit that changes nothing else

A seed draws a policy, a script of what the server does, and how eight calls are made: decorated, `policy.call`, `attempts()`, a
stream; one by one or together; some are cancelled. It runs in three forms: sync and async in virtual time, and `plain`, in real
time without any wait, where a first attempt may take a shorter way through the engine. What is seen are results, errors with their
notes and history, attempts, log lines, events and waits; no name of an internal class.

Rule: this file uses nothing but the public names of the package and no other file of the tests, so that `compare` can run it on
another commit. It draws in the order of its lines: whoever adds a choice changes all scenarios, and writes the golden files anew.
"""

from __future__ import annotations

import asyncio
import contextvars
import difflib
import hashlib
import json
import logging
import os
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx
import tenacity

import resilient_bridge as rb


HERE = Path(__file__).parent
HASHES = HERE / "differential_hashes.txt"
WHOLE = HERE / "differential_whole.json"
SEEDS = range(1, 1_501)
FORMS = ("sync", "async", "plain")
#: Those whose projections are kept in full, and in which form.
SHOWN = {seed: FORMS[seed % 3] for seed in range(1, 1_501, 76)}
CALLS = 8


class OwnError(Exception):
    """An exception of the user's, unknown to everybody."""


def _answer(status: int, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, request=httpx.Request("GET", "http://127.0.0.1/"))


def _status(status: int, **headers: str) -> httpx.HTTPStatusError:
    answer = _answer(status, **headers)
    return httpx.HTTPStatusError(f"status {status}", request=answer.request, response=answer)


def _bridge_error(code: str, **fields: Any) -> BaseException:
    return rb.BridgeError(rb.Failure.of(code, **fields))


ERRORS: list[Callable[[], BaseException]] = [
    ConnectionRefusedError,
    ConnectionRefusedError,
    ConnectionResetError,
    lambda: TimeoutError("t"),
    lambda: _status(503),
    lambda: _status(500),
    lambda: _status(401),
    lambda: _status(400),
    lambda: OwnError("mine"),
    lambda: ValueError("mine"),
    lambda: ExceptionGroup("two", [ConnectionRefusedError(), OwnError("mine")]),
    lambda: rb.NotExecutedError(rb.Failure.of("SYS_OVERLOADED", "busy")),
    lambda: rb.OutcomeUnknownError(rb.Failure.of("CONN_RESET", "lost")),
    MemoryError,
    KeyboardInterrupt,
    asyncio.CancelledError,
]
HINTED: list[Callable[[], BaseException]] = [
    lambda: _status(429, retry_after="2"),
    lambda: _status(429, retry_after="200"),
    lambda: _status(503, retry_after="1"),
    lambda: _bridge_error("SYS_RATE_LIMITED", message="slow", retry_after=3.0),
]
RESULTS: list[Callable[[], Any]] = [
    lambda: "again",
    lambda: _answer(503),
    lambda: _answer(429, retry_after="2"),
    lambda: None,
]
CALL = contextvars.ContextVar("CALL", default=0)


# ---- the scenario ------------------------------------------------------------------------------------------------------
class Scenario:
    """One seed in one form: it is drawn when it is made, and `run` makes its calls."""

    def __init__(self, seed: int, form: str) -> None:
        self.seed, self.form = seed, form
        self.rng = random.Random(f"{seed}")
        self.is_async = form == "async" or (form == "plain" and seed % 2 == 0)
        self.is_plain = form == "plain"
        self.seen: list[Any] = []
        self.clock: Any = None
        rng = self.rng
        self.idempotent = rng.random() < 0.8
        self.way = rng.choice(["decorated", "decorated", "decorated", "call", "attempts", "stream"])
        self.together = 1 if rng.random() < 0.6 else rng.choice([2, 3, 8])
        self.chance = rng.choice([0.2, 0.4, 0.7, 1])
        self.is_nested, self.is_replaced = rng.random() < 0.25, rng.random() < 0.15
        self.cancelled_after = rng.choice([0.5, 2, 3.5]) if rng.random() < 0.12 else None
        self.leaves_early = rng.random() < 0.2  # a stream, after its first item
        self.has_all_errors = rng.random() < 0.4
        self.pause = rng.choice([0, 0, 1, 12])  # of the clock, between the calls
        self.policies = [self._layers() for _ in range(3)]
        self.fallback = self._fallback_fields()
        self.script = [self._step() for _ in range(500)]

    def _step(self) -> tuple[float, Any, Any, float, float, int]:
        rng = self.rng
        errors = [*ERRORS, *HINTED] if self.has_all_errors else [*ERRORS[:5], *HINTED[:1]]
        takes = rng.choice([0, 0, 0, 0.5, 1.5, 4]) * (self.together == 1 or rng.random() < 0.8)
        return rng.random(), rng.choice(errors), rng.choice(RESULTS), takes, rng.random(), rng.randint(0, 3)  # fmt: skip

    def _schedule(self) -> Any:
        rng = self.rng
        return rng.choice([
            rb.Backoff.decorrelated(0.25), rb.Backoff.constant(0), rb.Backoff.exponential(1), rb.Backoff.steps(1, 2),
            rb.Backoff.exponential(0.5, cap=8, jitter="none"), self._ask, tenacity.wait_fixed(1.5),
            tenacity.wait_exponential(multiplier=0.5, max=4), tenacity.wait_fixed(0.5) + tenacity.wait_incrementing(0, 0.25),
        ])  # fmt: skip

    def _ask(self, attempt: Any) -> float:
        self._note("schedule", attempt.number, attempt.failure and attempt.failure.code)
        return attempt.number * 0.5

    def _condition(self) -> Any:
        def asked(of: Any) -> Any:
            self._note("condition", _named(of))
            is_one = isinstance(of, ConnectionError | OwnError) or getattr(of, "code", "") in {
                "CONN_REFUSED",
                "SYS_RATE_LIMITED",
            }
            return _later(is_one) if self.is_async and self.seed % 3 == 0 else is_one

        return asked

    def _rules(self) -> dict[Any, rb.Rule]:
        rng, rules = self.rng, {}
        if rng.random() < 0.4:
            rules[TimeoutError] = rb.Rule(attempts=rng.randint(1, 4), backoff=self._waits(self._schedule()) if rng.random() < 0.6 else None)  # fmt: skip
        if rng.random() < 0.3:
            rules["SYS_RATE_LIMITED"] = rb.Rule(attempts=rng.choice([None, 2, 6]), backoff=self._waits(rb.Backoff.constant(1)))  # fmt: skip
        if rng.random() < 0.4:
            refreshed = rng.choice([401, 503, ConnectionRefusedError])
            rules[refreshed] = rb.Rule(attempts=rng.randint(1, 4), before=self._before())
        if rng.random() < 0.2:
            rules[rng.choice([OwnError, Exception, ConnectionError, rb.Kind.TRANSIENT])] = rb.Rule(attempts=2)  # fmt: skip
        return rules

    def _before(self) -> Callable[[], Any]:
        fails = self.rng.random() < 0.2

        def refresh() -> None:
            self._note("before")
            if fails:
                raise ConnectionResetError

        async def refresh_later() -> None:
            await asyncio.sleep(0)
            refresh()

        return refresh_later if self.is_async and self.seed % 4 else refresh

    def _retry(self) -> rb.Retry:
        rng = self.rng
        on: list[Any] = [
            *[rb.Kind.TRANSIENT] * 5, Exception, ConnectionError, Exception, [ConnectionError, "SYS_CIRCUIT_OPEN"],
            [503, OwnError], self._condition(), tenacity.retry_if_exception_type(ConnectionError), [rb.Kind.TRANSIENT, OwnError],
        ]  # fmt: skip
        budgets = [None, None, rb.RetryBudget(), rb.RetryBudget(ratio=0.1, floor=1)]
        stops = [rng.randint(1, 3), rng.randint(2, 6), tenacity.stop_after_attempt(3)]
        stops.append(tenacity.stop_after_delay(4) | tenacity.stop_after_attempt(5))
        return rb.Retry(
            attempts=rng.choice(stops), on=rng.choice(on), rules=self._rules(), max_retry_after=rng.choice([1, 2.5, 120]),
            on_result=(lambda value: value == "again") if rng.random() < 0.4 else None,
            backoff=self._waits(self._schedule()), budget=rng.choice(budgets),
        )  # fmt: skip

    def _waits(self, schedule: Any) -> Any:
        return rb.Backoff.constant(0) if self.is_plain else schedule

    def _breaker(self) -> rb.Breaker:
        rng = self.rng
        fields: Any = {
            "open_for": rng.choice([1, 10, rb.Backoff.exponential(1, jitter="none")]),
            "slow_after": rng.choice([None, None, 2]), "probes": rng.choice([1, 1, 2]), "on": rng.choice([(), (), Exception, ConnectionError]),
            "ignore": rng.choice([(), (), TimeoutError, 503]), "lease": rng.choice([30, 2]),
        }  # fmt: skip
        if self.is_plain:
            fields.update(open_for=1_000, slow_after=None, lease=1_000)
        failures, minimum = rng.choice([1, 2, 3, 5, 8]), rng.randint(1, 4)
        if rng.random() < 0.7:
            return rb.Breaker.consecutive(failures, **fields)
        return rb.Breaker(rate=rng.choice([0.5, 0.8]), window=rng.choice([4, 10, "4s"]) if not self.is_plain else 4, minimum=minimum, **fields)  # fmt: skip

    def _layers(self) -> list[Any]:
        rng, layers = self.rng, []
        draws = [rng.random() for _ in range(6)]
        deadline, timeout = rng.choice([1, 5, 30]), rng.choice([(1,), (3,), (1, 2, 4)])
        if draws[0] < 0.3:
            layers.append(rb.Deadline(1_000 if self.is_plain else deadline))
        retry = self._retry()
        if draws[1] < 0.9:
            layers.append(retry)
        bulkhead = rb.Bulkhead(rng.randint(1, 2), queue=rng.randint(0, 2), max_wait=rng.choice([0, 1, None]))  # fmt: skip
        if draws[2] < 0.3 and not self.is_plain:
            layers.append(bulkhead)
        rate = rb.RateLimit(rng.randint(1, 4), per=rng.choice([1, 4]), max_wait=rng.choice([0, 1, 8]))  # fmt: skip
        if draws[3] < 0.3 and not self.is_plain:
            layers.append(rate)
        breaker = self._breaker()
        if draws[4] < 0.55:
            layers.append(breaker)
        if draws[5] < 0.5 and self.is_async and not self.is_plain:
            idle = rng.choice([None, 2])
            layers.append(rb.Timeout.escalating(*timeout, idle=idle) if len(timeout) > 1 else rb.Timeout(*timeout, idle=idle))  # fmt: skip
        if rng.random() < 0.08:
            rng.shuffle(layers)
        return layers or [breaker]

    def _fallback_fields(self) -> dict[str, Any] | None:
        rng = self.rng
        rungs, fails, on = rng.randint(1, 2), rng.random() < 0.4, rng.choice([(), (), ConnectionError, rb.Kind.TRANSIENT])  # fmt: skip
        says, may_have_run, is_there = rng.choice([None, None, True, False]), rng.random() < 0.6, rng.random() < 0.25  # fmt: skip
        fields = {"rungs": rungs, "fails": fails, "on": on, "says": says, "may": may_have_run}
        return fields if is_there else None

    def _fallback(self) -> list[Any]:
        fields = self.fallback
        if fields is None or self.way == "attempts":
            return []

        def rung(number: int) -> Callable[..., Any]:
            def instead(call: int) -> str:
                self._note("rung", number, call)
                if fields["fails"] and number == 0:
                    raise ConnectionResetError
                return f"rung {number}"

            async def instead_later(call: int) -> str:
                await asyncio.sleep(0)
                return instead(call)

            def instead_items(call: int) -> Iterator[str]:
                yield instead(call)

            async def instead_items_later(call: int) -> Any:
                yield instead(call)

            if self.way == "stream":
                return instead_items_later if self.is_async else instead_items
            return instead_later if self.is_async else instead

        def acknowledge(failure: rb.Failure) -> bool:
            self._note("acknowledge", failure.code)
            return bool(fields["says"])

        ladder = [rung(number) for number in range(fields["rungs"])]
        return [
            rb.Fallback(
                *ladder, on=fields["on"], may_have_run=fields["may"],
                acknowledge=None if fields["says"] is None else acknowledge,
            )
        ]  # fmt: skip

    # ---- what is seen --------------------------------------------------------------------------------------------------
    def _note(self, what: str, *facts: Any) -> None:
        now = 0 if self.is_plain else round(self.clock.elapsed, 3)
        self.seen.append([now, CALL.get(), what, *[_plain(fact) for fact in facts]])

    def _hear(self, event: Any) -> None:
        fields = {name: _plain(value) for name, value in vars(event).items() if name in FIELDS}
        if self.is_plain:
            fields = {name: value for name, value in fields.items() if name not in TIMES}
        self._note("event", type(event).__name__, dict(sorted(fields.items())))

    def emit_line(self, level: str, text: str) -> None:
        """Take a line of the log."""
        self._note("log", level, text)

    def _ended(self, error: BaseException) -> None:
        notes = getattr(error, "__notes__", [])
        failure = rb.classify(error) if isinstance(error, Exception) else None
        cause = type(error.__cause__).__name__ if error.__cause__ is not None else None
        self._note("raised", _named(error), notes, cause, failure and _whole(failure, is_plain=self.is_plain))  # fmt: skip

    # ---- running -------------------------------------------------------------------------------------------------------
    def _entered(self, call: int) -> tuple[BaseException | None, Any, float, float, int]:
        attempt = rb.current_attempt()
        chance, error, result, takes, second, items = next(self.steps)
        if attempt is None:
            self._note("ran unprotected", call)
        else:
            self._note("ran", call, attempt.number, attempt.failure and attempt.failure.code, None if self.is_plain else attempt.remaining)  # fmt: skip
        if error is KeyboardInterrupt and self.is_async:  # it would end the event loop
            error = ConnectionResetError
        if self.is_plain:
            takes = 0
            if error in HINTED or result is RESULTS[2]:
                error, result = ConnectionResetError, RESULTS[0]
        value = 7 if second < 0.75 else result()
        return (error() if chance < self.chance else None), value, takes, second, items

    def _sync_body(self) -> Callable[..., Any]:
        def body(call: int) -> Any:
            error, value, takes, _, _ = self._entered(call)
            if takes:
                self.clock.sleep(takes)
            if error is not None:
                raise error
            return value

        def items(call: int) -> Iterator[Any]:
            error, value, takes, second, count = self._entered(call)
            if takes:
                self.clock.sleep(takes)
            if error is not None and second < 0.8:
                raise error
            for _ in range(count):
                yield value
            if error is not None:
                raise error

        return items if self.way == "stream" else body

    def _async_body(self) -> Callable[..., Any]:
        async def body(call: int) -> Any:
            error, value, takes, _, _ = self._entered(call)
            if takes:
                await self.clock.asleep(takes)
            if error is not None:
                raise error
            return value

        async def items(call: int) -> Any:
            error, value, takes, second, count = self._entered(call)
            if takes:
                await self.clock.asleep(takes)
            if error is not None and second < 0.8:
                raise error
            for _ in range(count):
                yield value
                if takes:
                    await self.clock.asleep(takes / 2)
            if error is not None:
                raise error

        return items if self.way == "stream" else body

    def _prepare(self) -> Callable[[int], Any]:
        """Return the function that makes one call."""
        outer = rb.Policy(*self._fallback(), *self.policies[0], name="outer")
        body = self._async_body() if self.is_async else self._sync_body()
        if self.is_nested and self.way != "attempts":
            inner = [each for each in self.policies[1] if not isinstance(each, rb.Breaker)]
            body = rb.Policy(*(inner or self.policies[1]), name="inner")(body, idempotent=self.idempotent)  # fmt: skip
        if self.way in {"decorated", "stream"}:
            protected = outer(body, idempotent=self.idempotent)
            self.protected = protected
            return protected
        self.protected = outer
        if self.way == "call":
            return lambda call: self._current()(idempotent=self.idempotent).call(body, call)
        return lambda call: self._block(self._current(), body, call)

    def _current(self) -> rb.Policy:
        return self.protected

    def _block(self, policy: rb.Policy, body: Callable[..., Any], call: int) -> Any:
        attempts = policy.attempts(idempotent=self.idempotent)
        if not self.is_async:
            for attempt in attempts:
                with attempt:
                    value = body(call)
            return value

        async def loop() -> Any:
            async for attempt in attempts:
                with attempt:
                    value = await body(call)
            return value

        return loop()

    def _replace(self) -> None:
        """Another policy at run time, which keeps the state."""
        others = [each for each in self.policies[2] if not isinstance(each, rb.Timeout)]
        if self.way in {"decorated", "stream"}:
            self.protected.policy = self.protected.policy.replace(*others)
        else:
            self.protected = self.protected.replace(*others)

    def _pause(self) -> None:
        if self.pause and not self.is_plain:
            self.clock.advance(self.pause)

    def _state(self) -> None:
        if any(isinstance(layer, rb.Breaker) for layer in self.policies[0]):
            circuit = rb.calls.circuit(self.protected)
            self._note("circuit", str(circuit.state))

    def _sync_call(self, make: Callable[[int], Any], call: int) -> None:
        CALL.set(call)
        try:
            if self.way == "stream":
                stream = make(call)
                for item in stream:
                    self._note("item", item)
                    if self.leaves_early:
                        break
                getattr(stream, "close", int)()
                self._note("end of stream")
            else:
                self._note("returned", make(call))
        except BaseException as error:  # noqa: BLE001
            self._ended(error)

    async def _async_call(self, make: Callable[[int], Any], call: int) -> None:
        CALL.set(call)
        try:
            if self.way == "stream":
                stream = make(call)
                async for item in stream:
                    self._note("item", item)
                    if self.leaves_early:
                        break
                await stream.aclose()
                self._note("end of stream")
            else:
                self._note("returned", await make(call))
        except BaseException as error:  # noqa: BLE001
            self._ended(error)

    async def _cancel(self, task: asyncio.Task[None]) -> None:
        assert self.cancelled_after is not None
        await self.clock.asleep(self.cancelled_after)
        task.cancel()

    async def _async_calls(self, make: Callable[[int], Any]) -> None:
        for first in range(1, CALLS + 1, self.together):
            if first > CALLS // 2 and self.is_replaced:
                self.is_replaced = False
                self._replace()
            calls = range(first, min(first + self.together, CALLS + 1))
            tasks = [asyncio.create_task(self._async_call(make, call)) for call in calls]
            cancels = None
            if self.cancelled_after is not None and not self.is_plain and first % 3 == 1:
                cancels = asyncio.create_task(self._cancel(tasks[-1]))
            await asyncio.gather(*tasks)
            if cancels is not None:
                cancels.cancel()
                await asyncio.wait([cancels])
            CALL.set(0)
            self._state()
            self._pause()

    def run(self) -> list[Any]:
        """Make the calls and return what was seen."""
        self.steps = iter(self.script)
        in_time: Any = nullcontext() if self.is_plain else rb.testing.virtual_time(seed=self.seed)
        with warnings.catch_warnings(), in_time as self.clock:
            warnings.simplefilter("ignore")  # an order of layers that does harm
            if not self.is_plain:  # the clock begins with that of the machine: sums would be rounded differently on each
                vars(self.clock)["_origin"] = 1_000.0
            with rb.listen(self._hear), _lines(self):
                try:
                    make = self._prepare()
                except rb.ConfigError as error:
                    self._note("refused", str(error))
                    return self.seen
                if self.is_async:
                    asyncio.run(self._async_calls(make))
                else:
                    for call in range(1, CALLS + 1):
                        if call > CALLS // 2 and self.is_replaced:
                            self.is_replaced = False
                            self._replace()
                        self._sync_call(make, call)
                        self._state()
                        self._pause()
                CALL.set(0)
                if not self.is_plain:
                    self._note("waits", list(self.clock.slept))
        return self.seen


# ---- the projection ----------------------------------------------------------------------------------------------------
#: The fields of events that are projected: what they say, not how their classes are made.
FIELDS = frozenset(
    "name key attempt attempts wait seconds waited state reason retry_after outcome by rung runs_in failure".split()
)
TIMES = frozenset({"seconds", "waited", "retry_after"})
OF_FAILURE = frozenset(
    "code message kind severity retryable executed proof retry_after details cause stopped".split()
)


async def _later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


def _named(value: Any) -> Any:
    """The public or standard name of a class of error, with its text; a value as it is."""
    if isinstance(value, BaseException):
        kind = next(each for each in type(value).__mro__ if not each.__name__.startswith("_"))
        return f"{kind.__name__}: {value}"
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, rb.Failure):
        return f"{value.code}: {value.message}"
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, httpx.Response):
        return f"answer {value.status_code}"
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if value is None or isinstance(value, bool | int):
        return value
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


def _whole(failure: rb.Failure, *, is_plain: bool) -> dict[str, Any]:
    """The fields of a failure, with the codes of its history."""
    facts = {
        name: _plain(value)
        for name, value in failure.to_dict().items()
        if name in OF_FAILURE and value not in ("", None, [], {})
    }
    facts["history"] = [f"{each.code} {each.executed}" for each in failure.history]
    if is_plain and "retry_after" in facts:
        facts["retry_after"] = "some"
    return facts


class _Lines(logging.Handler):
    def __init__(self, scenario: Scenario) -> None:
        super().__init__(logging.DEBUG)
        self.scenario = scenario

    def emit(self, record: logging.LogRecord) -> None:
        self.scenario.emit_line(record.levelname, record.getMessage())


@contextmanager
def _lines(scenario: Scenario) -> Iterator[None]:
    """Hand the lines of the log to a scenario, and to nobody else."""
    logger, handler = logging.getLogger("resilient_bridge"), _Lines(scenario)
    before = logger.level, logger.propagate, logger.disabled
    logger.setLevel(logging.DEBUG)
    logger.propagate = logger.disabled = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate, logger.disabled = before[1:]


def projection(seed: int, form: str) -> list[Any]:
    """What is seen of a seed in a form, as JSON gives it back."""
    text = json.dumps(Scenario(seed, form).run())
    if form == "plain":  # without the seconds of a real clock
        text = re.sub(r"\d+(\.\d+)? s\b", "N s", text)
    return json.loads(text)


def digest(seen: list[Any]) -> str:
    """The first half of the SHA-256 of a projection."""
    return hashlib.sha256(json.dumps(seen, separators=(",", ":")).encode()).hexdigest()[:32]


def hashes(seeds: Any = SEEDS) -> dict[int, list[str]]:
    """The digests of each seed, a form each."""
    return {seed: [digest(projection(seed, form)) for form in FORMS] for seed in seeds}


def golden_hashes() -> dict[int, list[str]]:
    """What the file says."""
    rows = (line.split() for line in HASHES.read_text().splitlines() if line[:1] != "#")
    return {int(seed): digests for seed, *digests in rows}


def golden_whole() -> dict[str, list[Any]]:
    """The projections that are kept in full, by seed and form."""
    whole: dict[str, list[Any]] = json.loads(WHOLE.read_text())
    return whole


# ---- the commands ------------------------------------------------------------------------------------------------------
def _write() -> None:
    rows = [f"{seed} {' '.join(digests)}\n" for seed, digests in hashes().items()]
    HASHES.write_text(f"# seed {' '.join(FORMS)}: python -m tests.calls.differential write\n" + "".join(rows))  # fmt: skip
    parts = []
    for seed, form in SHOWN.items():
        lines = ",\n".join(f"  {json.dumps(each)}" for each in projection(seed, form))
        parts.append(f' "{seed} {form}": [\n{lines}\n ]')
    WHOLE.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _of_other(folder: str, seeds: list[int]) -> dict[str, Any]:
    """The projections of the package in another folder: this file, run by a process that imports it from there."""
    environment = os.environ | {"PYTHONPATH": folder}
    done = subprocess.run(
        [sys.executable, "-P", __file__, "project", *map(str, seeds)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    if not str(found["package"]).startswith(str(Path(folder).resolve())):
        sys.exit(f"a checkout with resilient_bridge/ expected, got {folder}")
    return found


def _compare(folder: str, seeds: list[int]) -> int:
    theirs = _of_other(folder, seeds)
    differing = 0
    for seed in seeds:
        for form in FORMS:
            ours, other = projection(seed, form), theirs[f"{seed} {form}"]
            if ours != other:
                differing += 1
                if differing <= 5:
                    pair = [[json.dumps(each) for each in seen] for seen in (other, ours)]
                    lines = difflib.unified_diff(*pair, f"{folder} {seed} {form}", "here", "", "", 3, "")  # fmt: skip
                    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.write(f"{differing} of {len(seeds) * len(FORMS)} differ\n")
    return min(differing, 1)


def main(words: list[str]) -> int:
    """One of the commands of this file's docstring."""
    match words:
        case ["write"]:
            _write()
        case ["show", seed, *form]:
            for each in form or FORMS:
                sys.stdout.write(f"---- {seed} {each}\n")
                sys.stdout.writelines(f"{json.dumps(line)}\n" for line in projection(int(seed), each))  # fmt: skip
        case ["compare", folder, *seeds]:
            return _compare(folder, [int(seed) for seed in seeds] or list(SEEDS))
        case ["project", *seeds]:
            facts: dict[str, Any] = {"package": str(Path(rb.__file__).resolve())}
            for seed in seeds:
                facts |= {f"{seed} {form}": projection(int(seed), form) for form in FORMS}
            sys.stdout.write(json.dumps(facts))
        case _:
            sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
