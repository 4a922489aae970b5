"""The exceptions of this package: its own decisions and losses; each carries its `Failure`.

Rule: `except` by class, decide by `.failure`. Every class takes exactly one argument, so all of
them pickle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from ..lazy_names import address
from .failure import Failure
from .record import ATTRIBUTE
from .vocabulary import CODES


class BridgeError(Exception):
    """Base of every error raised by this package.

        try:
            rb.load({"policies": {"search": {"retry": {"attempts": "many"}}}})
        except rb.BridgeError as error:
            print(error.failure.code, error.failure.retryable)      # SYS_CONFIG_INVALID False

    `str()` is the failure's line and the first thing to do about it.
    """

    def __init__(self, failure: Failure, /) -> None:
        """Carry the failure; raise with `from native_error` where there is one."""
        if not isinstance(failure, Failure):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _no_failure(type(self), failure)
        super().__init__(str(failure))
        self._failure = failure

    @property
    def failure(self) -> Failure:
        """What happened, as a record."""
        return self._failure

    def __str__(self) -> str:
        """Return the failure's line and its first suggestion."""
        hint = self._failure.suggestions[:1]
        return ": ".join((str(self._failure), *hint))

    def __repr__(self) -> str:
        """Return the class, the code and the failure's line."""
        return f"<{type(self).__name__} {self._failure.code} {self._failure}>"

    def __reduce__(self) -> tuple[Any, ...]:
        attached = {
            name: value for name, value in vars(self).items() if name in ("__notes__", ATTRIBUTE)
        }
        return type(self), (self._failure,), attached or None


class Problem(NamedTuple):
    """One wrong setting.

        try:
            rb.Retry(attempts=0)
        except rb.ConfigError as error:
            for problem in error.problems:
                print(problem.path, problem.received)      # Retry.attempts 0

    Its path, what was wanted and got in words, what was got as plain data, and its line if that is
    known.
    """

    path: str
    message: str
    received: Any = None
    line: int | None = None

    def __str__(self) -> str:
        """Return path, message and line."""
        return f"{self.path}: {self.message}" + (f" (line {self.line})" if self.line else "")


class ConfigError(BridgeError, ValueError):
    """A setting is wrong, or several; `problems` has all of them, each with its path.

        try:
            rb.Retry(attempts=0)
        except rb.ConfigError as error:
            print(error.problems[0].path)      # Retry.attempts

    Nothing was started.
    """

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong, in the order of the file, at most 50; secrets are masked."""
        found: list[Problem] = []
        for each in self._failure.details.get("violations", ()):
            received = each.get("received")
            message = each.get("message") or f"wanted {each.get('constraint')}, got {received!r}"
            found.append(Problem(each.get("field", ""), message, received, each.get("line")))
        return tuple(found)

    def __str__(self) -> str:
        """Return one line; of settings that were loaded, a line for each problem."""
        failure = self._failure
        if "source" not in failure.details:
            # What was wanted and what to write are the message; a suggestion could only say it again.
            hint = () if "violations" in failure.details else failure.suggestions[:1]
            return ": ".join((failure.message, *hint))
        return "\n".join(
            ["Configuration errors:", *(f"  - {problem}" for problem in self.problems)]
        )


class ArgumentError(ConfigError, TypeError):
    """A call that does not fit: an unknown or missing argument, or another use of an object.

        try:
            rb.Retry(max_attempts=3)
        except TypeError as error:
            print(str(error).rpartition("; ")[2])      # write rb.Retry(attempts=3)

    It is both, so that those who catch Python's TypeError and those who catch ConfigError get it.
    """


class WrongUseError(ArgumentError, AttributeError):
    """The same for a method that Python looks up by itself, such as `__enter__` for `with`."""


class AuthError(BridgeError):
    """The credentials were refused, or could not be refreshed.

        try:
            async with rb.BridgeClient("wss://host/ws", token="expired") as bridge:
                await bridge.wait_ready()
        except rb.errors.AuthError as error:
            print(error.failure.retryable)      # False

    It is permanent: a link ends with it.
    """


class ProtocolError(BridgeError):
    """One end broke the protocol: a message, its order or its size.

        try:
            rb.agent.HookEvent.parse("[]")
        except rb.errors.ProtocolError as error:
            print(error.failure.code)      # HOOK_VALIDATION_FAILED

    `str()` says what was wrong.
    """


class SessionError(BridgeError):
    """The session is unknown, closed, not resumable, or belongs to another client.

        async with rb.stores.Sessions("sessions.db") as sessions:
            try:
                await sessions.get("unknown")
            except rb.errors.SessionError as error:
                print(error.failure.code)      # SESS_NOT_FOUND

    `failure.code` says which of these.
    """


class PositionGoneError(SessionError):
    """The events after a position are no longer stored.

        async def backfill(record: rb.dialects.Record) -> AsyncIterator[str]:
            if not stored(record.positions):
                raise rb.errors.PositionGoneError
            yield "..."
        bridge = rb.BridgeClient("wss://host/ws", dialect=dialect, backfill=backfill)

    Raised by the function that you give as `backfill=`, it makes a gap of the verdict."""

    def __init__(self, failure: Failure | str = "", /) -> None:
        """Carry a failure, or make one of a text."""
        if isinstance(failure, str):
            failure = Failure.of(
                "SESS_NOT_RESUMABLE", failure or "what came after this position is gone"
            )
        super().__init__(failure)


class AttemptTimeoutError(BridgeError, TimeoutError):
    """One attempt exceeded its time limit; it may have run.

        try:
            await rb.Policy(rb.Timeout(5)).call(asyncio.sleep, 60)
        except rb.errors.AttemptTimeoutError as error:
            print(error.failure.executed)      # maybe

    It is a TimeoutError as well.
    """


class DeadlineExceededError(BridgeError, TimeoutError):
    """All attempts together exceeded the deadline.

        try:
            await rb.Policy(rb.Deadline(5)).call(asyncio.sleep, 60)
        except rb.DeadlineExceededError as error:
            print(error.failure.executed)      # maybe

    It is a TimeoutError as well. `failure.executed` says whether an attempt may have run.
    """


class OutcomeUnknownError(BridgeError):
    """It is unknown whether the server acted on what was sent.

        try:
            await bridge.request("order", {"item": "book"})
        except rb.OutcomeUnknownError as error:
            print(error.failure.executed)      # maybe

    It was not repeated.
    """


class InboxFullError(OutcomeUnknownError):
    """The answer came, or may have come, and was not read: the inbox is full.

        try:
            await bridge.request("order", {"item": "book"})
        except rb.errors.InboxFullError:
            async for message in bridge:
                ...      # read what waits

    Read while requests are under way, or give the `Inbox` more room.
    """


class EffectHeldError(OutcomeUnknownError):
    """An identical call may have run, or has run, so this one was not made.

        try:
            rb.resilient(idempotent=False, effects=rb.stores.Effects()).call(search, "x")
        except rb.errors.EffectHeldError as error:
            print(error.failure.details["began"])

    `failure.executed` speaks of the effect: "maybe" while the first is in doubt, "yes" if it ran.
    `rb.stores.Effects` says how it is found out.
    """


class NotExecutedError(BridgeError):
    """Nothing of the function that raises this has happened: `raise NotExecutedError from error`.

        @rb.resilient(idempotent=False)
        def charge(order: str) -> None:
            try:
                connection = connect()
            except OSError as error:
                raise rb.NotExecutedError from error      # nothing was charged: call it again

    It is the proof that lets a policy repeat a function that may not run twice. It counts for the
    innermost protected function that it leaves and for no outer one. Whether a repeat can help is
    judged by the error it was raised from; without one it can.
    """

    def __init__(self, failure: Failure | str = "", /) -> None:
        """Take a text, or nothing; a Failure where the error is made again, as by pickle."""
        if isinstance(failure, str):
            failure = Failure.of("SYS_NOT_EXECUTED", failure, proof="not_executed")
        super().__init__(failure)


class RejectedError(BridgeError):
    """It never left this process: sending it again is safe.

        policy = rb.Policy(rb.Breaker())
        rb.calls.circuit(policy).isolate()
        try:
            policy.call(search, "x")
        except rb.errors.RejectedError as error:
            print(error.failure.executed)      # no

    It is the base of CircuitOpenError, BulkheadFullError and ThrottledError, among others.
    """

    @property
    def retry_after(self) -> float | None:
        """Seconds until trying again makes sense, None if unknown."""
        return self._failure.retry_after


class CircuitOpenError(RejectedError):
    """The circuit is open.

        policy = rb.Policy(rb.Breaker())
        rb.calls.circuit(policy).isolate()
        try:
            policy.call(search, "x")
        except rb.CircuitOpenError as error:
            print(error.failure.executed)      # no

    Nothing was called. `error.retry_after` says when to try again, in seconds; None if unknown.
    """


class BulkheadFullError(RejectedError):
    """Too many calls run already.

        policy = rb.Policy(rb.Bulkhead(1))
        try:
            await asyncio.gather(*[policy.call(asyncio.sleep, 1) for _ in range(2)])
        except rb.errors.BulkheadFullError as error:
            print(error.failure.executed)      # no

    Nothing was called.
    """


class ThrottledError(RejectedError):
    """The rate limit is used up.

        policy = rb.Policy(rb.RateLimit(1, per=60))
        try:
            [policy.call(search, query) for query in ("x", "y")]
        except rb.errors.ThrottledError as error:
            print(round(error.failure.retry_after))      # 60

    Nothing was called. `error.retry_after` says when to try again, in seconds.
    """


class OutboxFullError(RejectedError):
    """The outbox has reached its bound.

        try:
            await bridge.send("note", {"text": "hello"})
        except rb.errors.OutboxFullError as error:
            print(error.failure.executed)      # no

    The message was not accepted. `Outbox.overflow` has other answers than this error.
    """


class NotDeliveredError(RejectedError):
    """The message was withdrawn, expired or returned before it was ever handed to the link.

        receipt = await bridge.send("note", {"text": "hello"})
        receipt.withdraw()
        try:
            await receipt.confirmed()
        except rb.errors.NotDeliveredError as error:
            print(error.failure.executed)      # no

    `Receipt.confirmed` raises it; the server has not seen the message.
    """


class SpendLimitError(RejectedError):
    """The budget is spent: nothing was called.

        budget = rb.agent.SpendBudget("10.00")
        budget.cancel()
        try:
            async with budget.call():
                ...
        except rb.errors.SpendLimitError: ...

    `failure.details` says how much was spent.
    """


class ContextOverflowError(RejectedError):
    """The conversation is longer than the model can take: nothing was sent.

        guard = rb.agent.ContextGuard(8000, count=lambda messages, tools: 9000)
        try:
            await guard.fit([])
        except rb.errors.ContextOverflowError as error:
            print(error.failure.details["suggestion"])      # compact_history

    `failure.details` has `current_tokens` and `max_tokens`.
    """


class NotConnectedError(RejectedError, ConnectionError):
    """There is no usable connection.

        try:
            await bridge.send("note", {"text": "hello"})
        except rb.errors.NotConnectedError as error:
            print(error.failure.executed)      # no

    Nothing was sent.
    """


class StoreError(RejectedError):
    """Nothing was stored or accepted: the store is full, unreachable, in use or damaged.

        try:
            async with rb.stores.Sessions("x.db"), rb.stores.Sessions("x.db"):
                ...
        except rb.errors.StoreError as error:
            print(error.failure.code)      # SYS_STORE_IN_USE

    `failure.code` says which of these.
    """


def _no_failure(kind: type[BridgeError], received: object) -> ConfigError:
    """Return the error for one of our errors that was made of a text: it carries a Failure."""
    # a class of several codes is mostly made for ours, not for the link's
    codes = sorted(_BY_CODE, key=lambda code: not code.startswith("SYS_"))
    code = next((code for code in codes if _BY_CODE[code] is kind), "SYS_INTERNAL_ERROR")
    text = received if isinstance(received, str) else "what happened"
    if text in CODES:  # a code that was taken for what happened
        code, text = text, "what happened"
    name = address(kind.__name__) or f"rb.errors.{kind.__name__}"
    write = f"{name}(rb.Failure.of({code!r}, {text!r}))"
    return config_error(kind.__name__, "a Failure", received, write=write, error=ArgumentError)


_BY_CODE: Mapping[str, type[BridgeError]] = MappingProxyType(
    {code: globals()[row.raised] for code, row in CODES.items() if row.raised}
)
_BY_PREFIX: Mapping[str, type[BridgeError]] = MappingProxyType(
    {"AUTH": AuthError, "PROTO": ProtocolError, "SESS": SessionError}
)


_MOST_PROBLEMS = 50  # as many items as a failure's details hold

REJECTED: frozenset[str] = frozenset(
    code for code, kind in _BY_CODE.items() if issubclass(kind, RejectedError)
)
"""The codes of what we rejected ourselves: it never left this process."""


def error_class(failure: Failure) -> type[BridgeError]:
    """Return the class of the exception that belongs to the failure's code."""
    return _BY_CODE.get(failure.code) or _BY_PREFIX.get(failure.code.partition("_")[0], BridgeError)


def error_for(failure: Failure) -> BridgeError:
    """Return the exception that belongs to the failure's code, ready to be raised."""
    return error_class(failure)(failure)


def config_error(
    field: str,
    constraint: str,
    received: object,
    *,
    write: str | None = None,
    error: type[ConfigError] = ConfigError,
    got: str = "",
) -> ConfigError:
    """Return the error for one wrong setting: its path, what was wanted, what was got, what to write.

    `write` is a line that can be pasted; left out, it is looked for by the path, and none is shown if
    none is known. `got` replaces the value in the text.
    """
    from .mistakes import received_text
    from .wrong_values import line_for_value

    write = line_for_value(field, received) if write is None else write
    violation = {"field": field, "constraint": constraint, "received": received}
    if write:
        violation["write"] = write
    shown = Failure.of("SYS_CONFIG_INVALID", details={"violations": (violation,)})
    plain = shown.details["violations"][0]["received"]
    text = f"{field}: wanted {constraint}, got {got or received_text(received, plain, is_long=not write)}"
    return error(
        Failure.of(
            "SYS_CONFIG_INVALID",
            f"{text}; write {write}" if write else text,
            details=shown.details,
        )
    )


def config_errors(source: str, problems: Iterable[Problem]) -> ConfigError:
    """Return the one error for everything that is wrong with settings from `source`.

    Of more than 50 problems it has the first 49 and a count.
    """
    found = list(problems)
    if len(found) > _MOST_PROBLEMS:
        rest = len(found) - _MOST_PROBLEMS + 1
        found = [*found[: _MOST_PROBLEMS - 1], Problem(source, f"and {rest} more problems")]
    rows = tuple(
        {"field": path, "message": message, "received": received} | ({"line": line} if line else {})
        for path, message, received, line in found
    )
    many = "1 configuration error" if len(rows) == 1 else f"{len(rows)} configuration errors"
    return ConfigError(
        Failure.of(
            "SYS_CONFIG_INVALID",
            f"{many} in {source}: {'; '.join(map(str, found[:3]))}",
            details={"source": source, "violations": rows},
            suggestions=(f"correct {source}; nothing was started",),
        )
    )


def stays_here(self: object, *, name: str = "") -> NoReturn:
    """Refuse to be pickled or copied: the `__reduce__` of what holds connections.

    `name`: what its user knows it by.
    """
    raise config_error(
        name or type(self).__name__,
        "one made where it is used: it holds connections",
        "a pickle or a copy of one",
    )
