"""Classifies exceptions and answers as failures.

Rule: it decides by class name, errno, status and code, in that order of trust, and by text only if
there is nothing else. It uses no network, and imports no library in order to recognise its errors.
Only `classify` itself reads a clock, because a Retry-After may be a date.

What a user's function returns is its success, whatever it looks like. It is a failure only by its
type (an HTTP response, a result object of MCP, an Outcome) or to a reader that the user registered. A
mapping is searched for the forms of specifications only in the answer of a tool or a server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, overload

from ..world import current_world
from .failure import PLAIN, PLAIN_ANSWERS, Failure, changed, wait_asked


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .closes import By
    from .registry import Answer, Registered, Registration
    from .vocabulary import Category, Executed, Kind


__all__ = [
    "classify",
    "classify_close",
    "classify_error_payload",
    "failure_or_none",
]


class Classifier:
    """`classify(error)`, `classify(text)` and `classify(answer)` return what happened, as a `Failure`.

        failure = rb.classify(ConnectionRefusedError())
        print(failure.code, failure.retryable)      # CONN_REFUSED True

    `classify.register(...)` teaches it more.

    There is one, `classify`: verdicts that are registered hold for the whole process.
    """

    __slots__ = ()

    @overload
    def __call__(self, error: BaseException, /) -> Failure: ...
    @overload
    def __call__(self, text: str, /) -> Failure: ...
    @overload
    def __call__(self, answer: object, /) -> Failure | None: ...
    def __call__(self, error: object, /) -> Failure | None:
        """Return the failure that an exception, a text or an answer stands for.

        A `BridgeError` gives its own failure. An exception group gives that of its leaves: the
        first that repeating cannot help, else the first. What nobody has a rule for is
        SYS_INTERNAL_ERROR, not retryable. Exactly Exception, RuntimeError, OSError and
        ConnectionError have nothing but their text, and are read by it; a class of yours never is.
        An exception that a policy gave up on brings the `history` of its attempts and why it
        `stopped`.

        An answer (an HTTP response, an MCP result with `is_error`, a JSON-RPC error) gives None
        when it means success. A text never does: it is read as the line of an exception, as JSON,
        as a code, or by its words, and an unknown one is SYS_INTERNAL_ERROR with its words.

        CancelledError, KeyboardInterrupt, SystemExit and GeneratorExit are no failures: they are
        raised again. Nothing else is ever raised.
        """
        # not isinstance: it would read the error's __class__
        if issubclass(type(error), BaseException):
            return _counted(_read(cast("BaseException", error)))
        if issubclass(type(error), str):
            from .lookup import read_text

            return _counted(read_text(cast("str", error))[0])
        return _answered(error, of_server=True)

    def register(
        self,
        what: Registered,
        /,
        *,
        kind: Kind | None = None,
        category: Category | None = None,
        code: str | None = None,
        executed: Executed | None = None,
        suggestions: Iterable[str] = (),
        answer: Answer | None = None,
    ) -> Registration:
        """Teach every later `classify` what a failure means.

        Returns the registration, a context manager that ends it.

        `what` is an exception class, `named("package", "Class")` for one that need not be imported,
        an int (HTTP status, close code, JSON-RPC code), one of our codes, or a compiled pattern searched
        in the message and in the error's own text. The fields named replace the built-in verdict's,
        with `code` all that follows from it; `kind` decides `retryable`. The most specific
        registration wins, then the later one. Raises ConfigError for anything else, or nothing to
        say.

        `answer` is a function of the error or answer (with it `what` may be any class) that returns
        a dict with some of code, kind, category, executed, retry_after (seconds), message,
        suggestions, or None to leave it to others: a company's own error envelope. HTTPTransport
        asks it too; there it gets a response whose body can be read, as far as that was looked
        into. What it raises counts as None, and a wrong field as not said, which is logged once.
        """
        from .registry import register

        return register(what, kind, category, code, executed, suggestions, answer)

    def __repr__(self) -> str:
        """Return the name under which users know it."""
        return "classify"


def _first_read(error: BaseException) -> Failure:
    """Load what reads errors, then read with it; later errors are read at once.

    Most programs import `classify` long before they need it.
    """
    global _read  # noqa: PLW0603 -- an import in the function would cost a sixth of a verdict, every time
    from .lookup import read_failure

    _read = read_failure
    return read_failure(error)


_read: Callable[[BaseException], Failure] = _first_read


def _counted(failure: Failure) -> Failure:
    """Convert a Retry-After date to seconds from now."""
    if failure.retry_after is not None or not failure.retryable:
        return failure
    asked = wait_asked(failure, _now)
    return failure if asked is None else changed(failure, retry_after=asked)


def _now() -> float:
    return current_world().wall()


classify: Final = Classifier()


def failure_or_none(error: BaseException) -> Failure | None:
    """Return the failure of an exception.

    None for one that is no failure: a cancelled task, the end of the program.
    """
    try:
        return classify(error)
    except BaseException:  # noqa: BLE001 -- classify raises again what is none
        return None


def classify_close(code: int | None, text: str, by: By | None) -> Failure:
    """Return the failure that a WebSocket close stands for.

    `by` says whose close frame counts: "peer", "us", or None when the connection ended without one
    (then `code` is None too). The three are kept in the details as close_code, close_text and
    close_by.
    """
    from .closes import close_finding

    return close_finding(code, text, by).failure()


def classify_error_payload(
    payload: Mapping[str, Any], *, unknown: str = "SYS_UPSTREAM_REJECTED"
) -> Failure:
    """Return the failure that an `error` or `connection_error` message reports.

    `unknown` is the code for a message that names none of ours.

    Reads code, message, details, suggestions (or remediation and documentation_url), recoverable
    (or retryable), severity, retry_after, violations, expected, received, current_phase; each of
    them also inside an object `error`. An unlisted code with one of the seven prefixes is kept and treated
    like its prefix; any other becomes SYS_UPSTREAM_REJECTED with the original in
    `details["wire_code"]`. Never raises.
    """
    from .payloads import payload_failure

    return payload_failure(payload, unknown)


# ---- what a returned value means ----------------------------------------------------------------


_MOST_PLAIN: Final = 1_024


class Reading(NamedTuple):
    """How the results of a function are read.

    Those of the classes in `plain` are successes; `read` returns the failure of any other, None for a
    success.
    """

    plain: set[type]
    read: Callable[[object], Failure | None]


def failure_of_result(result: object) -> Failure | None:
    """Return the failure that a function's result represents by its type; None for a success."""
    return None if type(result) in PLAIN else _returned(result, PLAIN, of_server=False)


def failure_of_answer(result: object) -> Failure | None:
    """Do the same for the answer of a tool or server, in which a mapping is read too."""
    return (
        None if type(result) in PLAIN_ANSWERS else _returned(result, PLAIN_ANSWERS, of_server=True)
    )


RESULTS: Final = Reading(PLAIN, failure_of_result)
ANSWERS: Final = Reading(PLAIN_ANSWERS, failure_of_answer)


def _answered(answer: object, *, of_server: bool) -> Failure | None:
    """Return the failure that a value stands for, None for a success. A text is none.

    `of_server`: a server or a tool gave it, so a mapping is read too.
    """
    from .answers import answer_failure

    failure = answer_failure(answer, of_server=of_server)
    return None if failure is None else _counted(failure)


def _returned(result: object, plain: set[type], *, of_server: bool) -> Failure | None:
    from .answers import may_fail

    kind = type(result)
    if issubclass(kind, BaseException):
        return None  # a function may return an exception without meaning to raise it
    failure = _answered(result, of_server=of_server)
    # A sync function may not return an awaitable; each result is checked for that.
    if (
        failure is None
        and len(plain) < _MOST_PLAIN
        and not may_fail(kind, of_server=of_server)
        and not hasattr(cast("Any", kind), "__await__")
    ):
        plain.add(kind)
    return failure
