"""The gate before a call that must not run twice: an identical call in doubt is not made again.

A ledger (`stores.Effects`) has a row for each such call, written before the function is called and
again after its end. A call whose end is not known is in doubt: its process was killed, it timed
out, it was cancelled, or it failed in a way that proves nothing. Rule: a call identical to one in
doubt is not made, until `verify` says what became of the first, its caller says so, or the time of
the hold is over. An end that its caller never got is handed to the next identical call.

The gate is around the whole policy: it is passed once, whatever is repeated inside.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import Enum
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import attrs

from .. import events
from ..failure import (
    EffectHeldError,
    Executed,
    Failure,
    StoreError,
    classify,
    config_error,
)
from ..failure.failure import was_declined
from ..telemetry import emit
from ..values.identical import NotComparableError, digest_of
from ..world import current_world
from .keys import asked


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from ..failure.classifier import Reading
    from .frame import Form


# ---- what a verify function is asked, and says ----------------------------------------------------


class _Verdict(Enum):
    """The call did not run, and cannot run any more: what a `verify` function returns then.

        def find_payment(call):
            paid = payments.find(call.arguments["order"])
            return rb.stores.Ran(paid) if paid else rb.stores.NOT_RUN

    The call that asks is made now.
    """

    NOT_RUN = "not_run"

    def __repr__(self) -> str:
        return "NOT_RUN"


NOT_RUN: Final = _Verdict.NOT_RUN
"""What a `verify` function returns if the call did not run, and cannot run any more."""


@attrs.frozen
class Ran:
    """What a `verify` function returns if the call ran: `answer` is given to the caller.

        def find_payment(call):
            paid = payments.find(call.arguments["order"])
            return rb.stores.Ran(paid) if paid else rb.stores.NOT_RUN

    None means that it cannot be said.
    """

    answer: Any = None


@attrs.frozen(kw_only=True)
class DoubtfulCall:
    """A call whose outcome is not known, as a `verify` function gets it.

        def find_payment(call):
            return rb.stores.Ran(find(call.arguments["order"])) if call.began else None

    `arguments` by name, with defaults; `began` is the time at which the call in doubt began; `key`
    is the caller's, None without one.
    """

    name: str
    arguments: Mapping[str, Any]
    began: datetime
    key: str | None = None


Verdict: TypeAlias = "Ran | Literal[_Verdict.NOT_RUN] | None"
"""What a `verify` function returns."""


# ---- rows ---------------------------------------------------------------------------------------


class Effect:
    """One call of the ledger.

    `began` is wall time, `at` the monotonic time in this process, None for a call of an earlier
    one. `is_abandoned`: its caller has gone without its end; `inside`: how many of its functions still run.
    """

    __slots__ = (
        "answer",
        "at",
        "began",
        "digest",
        "ended",
        "has_answer",
        "inside",
        "is_abandoned",
        "is_keyed",
        "late",
        "name",
        "number",
        "state",
    )  # fmt: skip

    def __init__(
        self, number: int, name: str, digest: str, began: float, at: float | None = None
    ) -> None:
        self.number = number
        self.name = name
        self.digest = digest
        self.began = began
        self.at = at
        self.ended = 0.0
        self.state: State = "open"
        self.is_keyed = False
        self.has_answer = False
        self.answer: Any = None
        self.is_abandoned = at is None
        self.inside = 0
        self.late: tuple[Any, ...] = ()  # what its function returned, until its caller has it

    @property
    def is_running(self) -> bool:
        """Whether this process is still at it."""
        return self.state == "open" and (not self.is_abandoned or self.inside > 0)

    def age(self, mono: float, wall: float) -> float:
        """Return the seconds since its end, or its begin if that is not known.

        Never more than what a clock of this process measured: a wall clock may be set.
        """
        since = wall - (self.ended or self.began)
        ages = [since] if self.at is None else [since, mono - self.at]
        return max(0.0, min(ages))


State: TypeAlias = Literal["open", "ran", "given"]
"""`open` until its end is known; `ran`, and nobody is known to have its answer; `given`."""


class Asked(NamedTuple):
    """A call that is about to be made.

    `is_keyed`: its digest is that of a key of the caller's, so its end is remembered. `is_again`:
    the caller says that it is made whatever the ledger has. `is_in_doubt`: it may have run already,
    as another journal says.
    """

    name: str
    digest: str
    arguments: Mapping[str, Any]
    key: str | None = None
    is_again: bool = False
    is_in_doubt: bool = False


class Admission(NamedTuple):
    """What a ledger has for a call: a new row, or that of an identical one.

    `replaced` is the row in doubt that the new one replaces, `how` it was resolved.
    """

    effect: Effect
    is_new: bool
    replaced: Effect | None = None
    how: events.Resolution = "hold"


class EffectRule(NamedTuple):
    """What a ledger's user says of the calls of one name."""

    key: Callable[[Mapping[str, Any]], str] | None = None
    ignore: frozenset[str] = frozenset()
    verify: Callable[[DoubtfulCall], Any] | None = None


class EffectLedger(ABC):
    """What remembers calls that must not run twice: `rb.stores.Effects` is one.

    For annotations, and the gate's way to it. Its methods may be called in any thread; those that
    write raise StoreError.
    """

    hold: float
    """Seconds for which a call in doubt holds identical ones."""

    @abstractmethod
    def rule(self, name: str) -> EffectRule:
        """Return what its user says of the calls of this name."""

    @abstractmethod
    def begin(self, asked: Asked, mono: float, wall: float, *, replaces: int = 0) -> Admission:
        """Write a row before the call is made, or return that of an identical call.

        `replaces` is the number of a row in doubt that is known not to have run.
        """

    @abstractmethod
    def end(self, effect: Effect, wall: float, *answer: Any) -> None:
        """Write that the call ran, with its answer if it returned one.

        A write that fails is made up for with the next one.
        """

    @abstractmethod
    def drop(self, effect: Effect) -> None:
        """Remove a row: the call provably did not run."""

    @abstractmethod
    def leave(self, effect: Effect, wall: float) -> None:
        """Note that the caller has gone without the end of the call."""

    @abstractmethod
    def took(self, effect: Effect, *answer: Any) -> bool:
        """Give the end of a call to the caller who asks now; False if another was faster.

        `answer` is the one that the caller gets, if `verify` found it.
        """

    @abstractmethod
    def enter(self, effect: Effect) -> None:
        """Note that a function of the call runs."""

    @abstractmethod
    def exit(self, effect: Effect, wall: float, *answer: Any) -> None:
        """Note that a function of the call has ended, with its answer if it returned one."""

    @abstractmethod
    def in_thread(self, work: Callable[..., Any], *args: Any, **named: Any) -> Awaitable[Any]:
        """Do this in the ledger's thread; when cancelled, raise after it is done."""


# ---- what the caller of one call says -------------------------------------------------------------


class _CallOptions(NamedTuple):
    """What the caller says of the next call, or, inside of one, its row: it says nothing more."""

    key: str | None = None
    is_again: bool = False
    is_in_doubt: bool = False
    effect: Effect | None = None


_OPTIONS: ContextVar[_CallOptions] = ContextVar("resilient_bridge.effects", default=_CallOptions())  # noqa: B039 -- a tuple


@contextmanager
def call_options(key: str | None, *, again: bool, is_in_doubt: bool = False) -> Generator[None]:
    """Say of the calls inside that they have this key, are made again, or may have run already."""
    token = _OPTIONS.set(_CallOptions(key, again, is_in_doubt))
    try:
        yield
    finally:
        _OPTIONS.reset(token)


# ---- the gate -------------------------------------------------------------------------------------


class Gate:
    """The gate of one function: what its calls are compared by, and what the ledger says."""

    def __init__(self, ledger: EffectLedger, name: str, function: Any, reading: Reading) -> None:
        self.ledger = ledger
        self.name = name
        self.reading = reading
        self.rule = ledger.rule(name)
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError):
            wanted = "a function whose signature can be read"
            raise config_error(f"{name}(effects=)", wanted, function) from None

    def asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Asked | None:
        """Return the call; None for arguments that the function does not take."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            return None  # the function refuses them, and did not run
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        for name, parameter in self._signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                arguments |= arguments.pop(name)
        return asked_for(self.name, self.rule, arguments)

    # ---- the begin of a call

    def admitted(self, asked: Asked) -> Effect | Ran:
        """Return the new row of a call, or the answer of an identical one.

        Raises EffectHeldError if the call is not to be made.
        """
        admitted: Effect | Ran | int = 0
        while isinstance(admitted, int):
            found = self.begin(asked, self._now(), admitted)
            admitted = self.settled(found, self.question(found, asked), admitted)
        return admitted

    async def admitted_async(self, asked: Asked) -> Effect | Ran:
        """Do what `admitted` does, without blocking the loop."""
        admitted: Effect | Ran | int = 0
        while isinstance(admitted, int):
            found = await self._begin_in_thread(asked, admitted)
            returned = self.question(found, asked)
            if inspect.isawaitable(returned):
                returned = await returned
            admitted = self.settled(found, returned, admitted)
        return admitted

    def _now(self) -> tuple[float, float]:
        world = current_world()
        return world.monotonic(), world.wall()

    def begin(self, asked: Asked, now: tuple[float, float], replaces: int) -> Admission:
        """Ask the ledger. Raises EffectHeldError if it cannot be used: then nothing is called."""
        try:
            found = self.ledger.begin(asked, *now, replaces=replaces)
        except StoreError as error:
            raise unusable(self.name, error) from error
        if found.replaced is not None:
            resolved(found.replaced, found.how)
        if asked.is_in_doubt and found.is_new and not replaces:
            # of another journal: from now on it is in doubt here, too, and not called
            self.ledger.leave(found.effect, now[1])
            return Admission(found.effect, is_new=False)
        return found

    async def _begin_in_thread(self, asked: Asked, replaces: int) -> Admission:
        """Begin in the ledger's thread; a row that was written for a cancelled caller goes again."""
        found: list[Admission] = []
        now = self._now()
        try:
            await self.ledger.in_thread(lambda: found.append(self.begin(asked, now, replaces)))
        except BaseException:
            if found and found[0].is_new:  # cancelled meanwhile: nothing was called
                self.ledger.drop(found[0].effect)
            raise
        return found[0]

    # ---- an identical call

    def question(self, found: Admission, asked: Asked) -> Any:
        """Return what `verify` returns of an identical call, None if it is not asked."""
        verify, earlier = self.rule.verify, found.effect
        if found.is_new or verify is None or earlier.has_answer or earlier.is_running:
            return None
        began = datetime.fromtimestamp(earlier.began, UTC)
        call = DoubtfulCall(name=self.name, arguments=asked.arguments, began=began, key=asked.key)
        return verify(call)

    def settled(self, found: Admission, returned: Any, replaces: int) -> Effect | Ran | int:
        """Return the new row, or the answer of an identical call, of which `verify` returned this.

        A number: ask the ledger again, for a row that replaces this one. Raises EffectHeldError if
        there is no answer.
        """
        earlier = found.effect
        if found.is_new:
            return earlier
        verdict = self.verdict(returned)
        if verdict is NOT_RUN and earlier.state == "open":
            return earlier.number
        ran = Ran(earlier.answer) if earlier.has_answer else verdict
        if isinstance(ran, Ran):
            if not self.ledger.took(earlier, ran.answer):
                return replaces
            resolved(earlier, "verified" if ran is verdict else "late_answer")
            return ran
        if earlier.state != "open" and not self.ledger.took(earlier):
            return replaces
        is_verified = self.rule.verify is not None
        raise held(self.name, earlier, self.ledger.hold, is_verified=is_verified)

    def verdict(self, returned: Any) -> Verdict:
        """Check what `verify` returned. Raises ConfigError."""
        if returned is None or returned is NOT_RUN or isinstance(returned, Ran):
            return returned
        if inspect.iscoroutine(returned):
            returned.close()
        wanted = "rb.stores.Ran(answer), rb.stores.NOT_RUN, or None if it cannot say"
        raise config_error(f"verify({self.name})", wanted, type(returned).__name__)

    # ---- the end of a call

    def raised(self, effect: Effect, error: BaseException) -> Callable[[], None] | None:
        """Return what writes the end of a call that raised this; None if it is in doubt.

        That a server declined a request, as with a 422, is no end here: the function may have done
        something before it. An answer that it returns is its end, whatever is in it.
        """
        executed, wall = Executed.MAYBE, current_world().wall()
        if isinstance(error, Exception):
            executed = classify(error).executed
        if executed is Executed.NO:
            return partial(self.ledger.drop, effect)
        if executed is Executed.YES:
            return partial(self.ledger.end, effect, wall)
        self.ledger.leave(effect, wall)
        return None

    def returned(self, effect: Effect, result: Any) -> Callable[[], None] | None:
        """Return what writes the end of a call that returned this; None if it is in doubt.

        A response of a server is read: one that it gave up with, such as a 504, says no more than
        an error does.
        """
        plain, read = self.reading
        failure, wall = None if type(result) in plain else read(result), current_world().wall()
        if failure is not None and "http_status" in failure.details:
            if failure.executed is Executed.NO:
                return partial(self.ledger.drop, effect)
            if failure.executed is Executed.MAYBE and not was_declined(failure.details):
                effect.late = ()  # its caller has it
                self.ledger.leave(effect, wall)
                return None
        return partial(self.ledger.end, effect, wall, result)


def asked_for(name: str, rule: EffectRule, arguments: Mapping[str, Any]) -> Asked:
    """Return a call by what it is compared by. Raises ConfigError for what cannot be compared."""
    key, is_again, is_in_doubt, _ = _OPTIONS.get()
    if key is None and rule.key is not None:
        made: Any = asked(rule.key, "Effects", (arguments,), {})
        key = made if isinstance(made, str) else ""
        if not key:
            raise config_error(f"key({name})", "a text that is not empty", made)
    try:
        compared = {field: item for field, item in arguments.items() if field not in rule.ignore}
        digest = digest_of(name, compared) if key is None else digest_of(name, ["key", key])
    except NotComparableError as error:
        field = error.path.partition(".")[0].partition("[")[0]
        raise config_error(
            f"{name}({error.path[:200]})",
            "a value that can be compared with that of another call",
            error.got,
            write=f"Effects(path, ignore={{{name.rpartition('.')[2]!r}: [{field!r}]}})",
        ) from None
    return Asked(name, digest, arguments, key, is_again, is_in_doubt)


def guarded(function: Any, gate: Gate, form: Form) -> Any:
    """Return the protected `function` behind the gate. ConfigError for one that yields."""
    if form == "async":
        return _guarded_async(function, gate)
    if form == "sync":
        return _guarded_sync(function, gate)
    wanted = "a function that returns its answer: one that yields has many"
    raise config_error(f"{gate.name}(effects=)", wanted, "a generator function")


def _guarded_sync(function: Any, gate: Gate) -> Any:
    ledger, attributes = gate.ledger, function.__dict__

    def call(*args: Any, **kwargs: Any) -> Any:
        attributes["policy"] = call.__dict__["policy"]
        asked = gate.asked(args, kwargs)
        if asked is None:
            return function(*args, **kwargs)
        effect = gate.admitted(asked)
        if isinstance(effect, Ran):
            return effect.answer
        token = _OPTIONS.set(_CallOptions(effect=effect))
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            if (write := gate.raised(effect, error)) is not None:
                write()
                ledger.took(effect)
            raise
        finally:
            _OPTIONS.reset(token)
        if (write := gate.returned(effect, result)) is not None:
            write()
            ledger.took(effect)
        return result

    call.__dict__["policy"] = attributes["policy"]
    return call


def _guarded_async(function: Any, gate: Gate) -> Any:
    ledger, attributes = gate.ledger, function.__dict__

    async def call(*args: Any, **kwargs: Any) -> Any:
        attributes["policy"] = call.__dict__["policy"]
        asked = gate.asked(args, kwargs)
        if asked is None:
            return await function(*args, **kwargs)
        effect = await gate.admitted_async(asked)
        if isinstance(effect, Ran):
            return effect.answer
        token = _OPTIONS.set(_CallOptions(effect=effect))
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            if (write := gate.raised(effect, error)) is not None:
                await ledger.in_thread(write)
                ledger.took(effect)
            raise
        finally:
            with suppress(ValueError):  # closed by the garbage collector: its context is gone
                _OPTIONS.reset(token)
        if (write := gate.returned(effect, result)) is not None:
            await ledger.in_thread(write)
            ledger.took(effect)
        return result

    call.__dict__["policy"] = attributes["policy"]
    return call


def inside(function: Any, ledger: EffectLedger, form: Form) -> Any:
    """Return a function whose end the ledger learns though its caller has left it behind.

    A tool that has timed out may still run, in a task or a thread.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _entered(ledger) as answer:
            answer.append(function(*args, **kwargs))
        return answer[0]

    @wraps(function)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        with _entered(ledger) as answer:
            answer.append(await function(*args, **kwargs))
        return answer[0]

    return call_async if form == "async" else call


@contextmanager
def _entered(ledger: EffectLedger) -> Generator[list[Any]]:
    """Report to the ledger that a function of the call runs, and that it has ended.

    The list gets its answer.
    """
    answer: list[Any] = []
    effect = _OPTIONS.get().effect
    if effect is None:
        yield answer
        return
    ledger.enter(effect)
    try:
        yield answer
    finally:
        ledger.exit(effect, current_world().wall(), *answer)


# ---- what a caller gets instead of a call -----------------------------------------------------------


def resolved(effect: Effect, how: events.Resolution) -> None:
    """Report that it is known what became of a call in doubt, or that its hold is over."""
    emit(
        events.EffectResolved(
            name=effect.name, how=how, began=datetime.fromtimestamp(effect.began, UTC)
        )
    )


def first_of(effect: Effect) -> events.FirstCall:
    """Return what is known of a call: "running", "unknown", "ran"."""
    if effect.state != "open":
        return "ran"
    return "running" if effect.is_running else "unknown"


def held_text(name: str, effect: Effect, wall: float) -> str:
    """Return what the caller of a held call is to know, up to how it can be made all the same."""
    when = datetime.fromtimestamp(effect.began, UTC).isoformat(timespec="seconds")
    age = max(0.0, wall - effect.began)
    same = f"{name} was called with the same arguments at {when}, {age:.0f} s ago"
    first = first_of(effect)
    if first == "ran":
        return (
            f"ALREADY RAN: {same}, and ran to its end; its answer is not kept. "
            "NOT EXECUTED: this call was not made."
        )
    doubt = "it is still running" if first == "running" else "it may or may not have run"
    return f"OUTCOME UNKNOWN: {same}, and {doubt}. NOT EXECUTED: this call was not made."


def held(name: str, effect: Effect, hold: float, *, is_verified: bool) -> EffectHeldError:
    """Return the error for a call that was not made because of an identical one; report it."""
    first, world = first_of(effect), current_world()
    wall = world.wall()
    remaining = max(0.0, hold - effect.age(world.monotonic(), wall))
    hints = ["to run it a second time, say so: again=True"]
    if first == "unknown":
        look = "its verify function cannot say" if is_verified else "look whether it took effect"
        hints = [
            f"{look}; then call it with again=True, or not at all",
            f"without that, it can be called again in {remaining:.0f} s",
        ]
    failure = Failure.of(
        "SYS_EFFECT_HELD",
        held_text(name, effect, wall),
        executed=Executed.YES if first == "ran" else Executed.MAYBE,
        suggestions=hints,
        details={
            "effect": name,
            "first": first,
            "began": datetime.fromtimestamp(effect.began, UTC).isoformat(),
        },
    )
    age = max(0.0, wall - effect.began)
    emit(events.EffectHeld(name=name, first=first, seconds=age, failure=failure))
    return EffectHeldError(failure)


def unusable(name: str, error: StoreError) -> EffectHeldError:
    """Return the error for a call that was not made because the ledger cannot be used."""
    cause = error.failure
    failure = Failure.of(
        "SYS_EFFECT_HELD",
        f"{name} was not made: whether an identical call is in doubt cannot be looked up: {cause.message}",
        suggestions=cause.suggestions,
        details={"effect": name, "first": "unreadable", "store": cause.code},
        cause=error,
    )
    emit(events.EffectHeld(name=name, first="unreadable", seconds=0.0, failure=failure))
    return EffectHeldError(failure)
