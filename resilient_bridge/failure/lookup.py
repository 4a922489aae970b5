"""Finds the failure of an exception: which rule applies, and to which error of a chain or a group.

Rule: no exception, however broken, makes the classifier raise: its class is read with `type()`, and
its own methods are called inside `try`.
"""

from __future__ import annotations

import builtins
import errno
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from .contents import read_json
from .dispatch import KNOWN, PACKAGES, Dispatch, dispatch, rows_of
from .failure import Failure, Finding, changed, of_error, short_of, unproven
from .payloads import coded_finding, payload_failure
from .record import ATTRIBUTE, ONE_REQUEST, OWN_WORDS, Record, attach, ended, record_of
from .redaction import class_name, package_of, raw_text, text_of
from .registry import Registration, applied, seconds_in
from .rpc import mapping_of
from .texts import text_finding
from .vocabulary import STATED_ON_THE_WIRE, Executed


if TYPE_CHECKING:
    from .exceptions import BridgeError


_REJECTED: Final = "SYS_UPSTREAM_REJECTED"
_LONGEST_CHAIN: Final = 100
_LONGEST_TEXT: Final = 16_384  # characters
_MOST_LEAVES: Final = 1_000
_DEEPEST: Final = 20  # groups below wrappers below groups
_TRACEBACK: Final = BaseException.__dict__["__traceback__"]  # a class may hide its attributes


def exception_failure(error: BaseException, depth: int = 0) -> Failure:
    """Return the failure of an exception.

    Raises it again if it is not a failure (such as CancelledError).
    """
    known = KNOWN.get(type(error)) or dispatch(type(error))
    if known.is_group:
        failure = _of_group(cast("BaseExceptionGroup[BaseException]", error), depth)
        if failure is None:  # nothing but cancellation
            raise error
        return _with_record(failure, record_of(error))
    if known.stops:
        raise error
    if not known.wraps:
        return _judged(error, known, error, None)
    root, proof = _root(error)
    if (group := _as_group(root)) is not None and depth < _DEEPEST:
        below = _of_group(group, depth + 1)
        if below is not None:
            return _with_record(changed(below, cause=error), record_of(error))
    return _judged(error, known, root, proof)


def _judged(
    error: BaseException, known: Dispatch, root: BaseException, proof: str | None
) -> Failure:
    is_root = root is error
    found = _find(root, known if is_root else dispatch(type(root)))
    if found is None and not is_root and not known.through:
        # nothing known below: classify the wrapper
        root, found, is_root = error, _find(error, known), True
    own = _attributes_of(error)
    record = own.get(ATTRIBUTE)
    if not isinstance(record, Record):
        record = None if is_root else record_of(root)
    if isinstance(found, Failure):
        if proof in OWN_WORDS and not is_root:
            found = changed(found, executed=Executed.NO, proof=proof, cause=error)
        return applied(_with_record(found, record), error, root, known=True)
    finding = found or _by_answer(root) or _by_text(root)
    is_known = finding is not None
    finding = finding or _unknown(root)
    # The step of the call that failed says more than the kind of error.
    if proof is not None and not is_root and finding.proof not in STATED_ON_THE_WIRE:
        executed = None if proof else Executed.MAYBE
        finding = finding.evolve(executed=executed, proof=proof)
    if own.get(ONE_REQUEST) is True:
        finding = _with_proof(finding, error, root)
    provider = _provider(error, known) if known.provider or known.is_http else ""
    if not provider and not is_root:
        provider = _provider(root, dispatch(type(root)))
    if provider and "provider_id" not in finding.details:
        finding = finding.evolve(details={**finding.details, "provider_id": provider})
    failure = of_error(finding.made, root, error)
    if record is not None:
        failure = ended(failure, record)
    if failure.retry_after is None and (known.may_wait or "retry_after" in own):
        failure = _with_wait(failure, error)
    return applied(failure, error, root, known=is_known) if Registration.in_force else failure


def _with_proof(finding: Finding, error: BaseException, root: BaseException) -> Finding:
    """Return the verdict with what the error of one request of our own adapters proves."""
    from .http_clients import proof_of

    proof = proof_of(error, root)
    return finding.evolve(executed=None, proof=proof) if proof else finding


def read_failure(error: BaseException) -> Failure:
    """Return the failure of any exception, even a broken one.

    Raises it again if it is not a failure.
    """
    try:
        return exception_failure(error)
    except Exception as wrong:
        if wrong is error:  # it is no failure
            raise
        return _unreadable(error)


def raw_failure(error: BaseException) -> Failure | None:
    """Return the failure of an exception, None if it is not one.

    What a policy has recorded on it is left out: that is of a call that is over. A date in its
    Retry-After is not converted to seconds yet.
    """
    traceback = _TRACEBACK.__get__(error)
    try:
        record = object.__getattribute__(error, "__dict__").get(ATTRIBUTE)
    except Exception:  # noqa: BLE001 (a class may hide its dictionary)
        record = None
    if record is not None:
        attach(error, None)
    try:
        return exception_failure(error)
    except BaseException as wrong:  # noqa: BLE001 -- as in `read_failure`; what is no failure is raised again
        if wrong is not error and isinstance(wrong, Exception):
            return _unreadable(error)
    finally:
        if record is not None:
            attach(error, record)
    # without the frames that it has just been raised in: they hold it
    _TRACEBACK.__set__(error, traceback)
    return None


def _unreadable(error: BaseException) -> Failure:
    """Return the failure of an error whose own methods raise: its class has a name."""
    return Failure.of("SYS_INTERNAL_ERROR", class_name(error), cause=error)


def _attributes_of(error: BaseException) -> Mapping[str, Any]:
    """Return the attributes stored on an exception itself; none if its class hides them.

    Never raises and runs no code of the exception's class.
    """
    try:
        found: dict[str, Any] = object.__getattribute__(error, "__dict__")
    except Exception:  # noqa: BLE001 (a class may hide its dictionary)
        return {}
    return found if type(found) is dict else {}


def _with_wait(failure: Failure, error: BaseException) -> Failure:
    """Read the wait from an attribute of the error, if nothing else gives one."""
    try:
        wait = seconds_in(cast("Any", error).retry_after)
    except Exception:  # noqa: BLE001 (most have none, and a property may raise anything)
        return failure
    return failure if wait is None else changed(failure, retry_after=wait)


def _find(error: BaseException, known: Dispatch) -> Finding | Failure | None:
    if known.is_ours:
        return cast("BridgeError", error).failure
    for rule in known.rules:
        if isinstance(rule, Finding):
            return rule
        try:
            found = rule(error)
        except Exception:  # noqa: BLE001, S112 (an exception without the attributes of its class is still a failure)
            continue
        if found is not None:
            return found
    return None


def _by_answer(error: BaseException) -> Finding | None:
    """Return the verdict on an unlisted class that carries an HTTP answer, None for any other.

    It has a `response` with a status of 400 or more, or a `status_code` beside headers or a body.
    """
    if package_of(type(error)) == "builtins":
        return None
    from .http_clients import carried_finding

    try:
        return carried_finding(error)
    except Exception:  # noqa: BLE001 (a class may put a property of any kind in their place)
        return None


def _by_text(error: BaseException) -> Finding | None:
    if not dispatch(type(error)).textual:
        return None
    text = raw_text(error)[:_LONGEST_TEXT]  # redacted when it is read
    coded = coded_finding(text)
    if coded is None:
        return text_finding(text)
    return coded.evolve(executed=Executed.MAYBE)  # its code may have acted before it raised


def _unknown(error: BaseException) -> Finding:
    """Return the verdict on an error without a rule: internal, not retryable."""
    return Finding(code="SYS_INTERNAL_ERROR", message=class_name(error) + short_of(text_of(error)))


def _with_record(failure: Failure, record: Record | None) -> Failure:
    return failure if record is None else ended(failure, record)


def _provider(error: BaseException, what: Dispatch) -> str:
    known = what.provider
    if known != "litellm":
        return known or (_raised_by(error) if what.is_http else "")
    try:
        provider: object = cast("Any", error).llm_provider
    except Exception:  # noqa: BLE001 (not all of its classes have one)
        return known
    return provider if isinstance(provider, str) and provider else known


def _raised_by(error: BaseException) -> str:
    """Return the provider whose SDK does not wrap its HTTP library's errors.

    That is google-genai, found in their traceback.
    """
    if "google.genai" not in sys.modules:
        return ""
    try:
        trace = error.__traceback__
        for _ in range(_LONGEST_CHAIN):
            if trace is None:
                break
            if str(trace.tb_frame.f_globals.get("__name__", "")).startswith("google.genai."):
                return "google-gemini"
            trace = trace.tb_next
    except Exception:  # noqa: BLE001 (a class may put a property in its place)
        return ""
    return ""


def _root(error: BaseException) -> tuple[BaseException, str | None]:
    """Return the first error below the wrappers, and the proof of the outermost that has one."""
    seen: set[int] = set()
    proof: str | None = None
    current = error
    for _ in range(_LONGEST_CHAIN):
        known = dispatch(type(current))
        if not known.wraps:
            return current, proof
        proof = known.proof if proof is None else proof
        seen.add(id(current))
        below = _below(current)
        if below is None or id(below) in seen or dispatch(type(below)).stops:
            return current, proof
        current = below
    return error, None


def _below(error: BaseException) -> BaseException | None:
    try:
        # urllib3 wraps errors that it never raised: they are in its arguments, or in `reason`.
        chain: tuple[object, ...] = (
            error.__cause__,
            error.__context__,
            getattr(error, "reason", None),
        )
        found = next((below for below in (*chain, *error.args[:2]) if _is_error(below)), None)
    except Exception:  # noqa: BLE001 (a class may put a property in their place)
        return None
    return cast("BaseException | None", found)


def _is_error(value: object) -> bool:
    return issubclass(type(value), BaseException)


def _as_group(error: BaseException) -> BaseExceptionGroup[BaseException] | None:
    # not isinstance: that would call the error's __class__
    is_group = issubclass(type(error), BaseExceptionGroup)
    return cast("BaseExceptionGroup[BaseException]", error) if is_group else None


def _members(group: BaseExceptionGroup[BaseException]) -> list[BaseException] | None:
    """Return the members of a group.

    None if they cannot be read: a class may define `exceptions` as a property.
    """
    try:
        return [error for error in cast("tuple[Any, ...]", group.exceptions) if _is_error(error)]
    except Exception:  # noqa: BLE001 (whatever the property raises)
        return None


def _of_group(group: BaseExceptionGroup[BaseException], depth: int) -> Failure | None:
    failures = [
        _judged(leaf, dispatch(type(leaf)), leaf, None)
        if _as_group(leaf) is not None
        else exception_failure(leaf, depth)
        for leaf in _leaves(group)
    ]
    if not failures:
        return None
    # Several: a retry helps only if it helps all of them, and only after the longest of their waits.
    worst = next((failure for failure in failures if not failure.retryable), failures[0])
    waits = [failure.retry_after for failure in failures if failure.retry_after is not None]
    wait = max(waits, default=None) if worst.retryable else worst.retry_after
    executed = _most([failure.executed for failure in failures])
    proof = worst.proof if executed is Executed.NO else ""
    return changed(worst, cause=group, retry_after=wait, executed=executed, proof=proof)


def _most(executed: list[Executed]) -> Executed:
    """Return whether any of them ran, or may have run."""
    return next(
        (value for value in (Executed.YES, Executed.MAYBE) if value in executed), Executed.NO
    )


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the leaves of a group without cancellations, in order and without recursion.

    Interrupts are raised again.
    """
    leaves: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending and len(leaves) < _MOST_LEAVES:
        error = pending.pop()
        if (inner := _as_group(error)) is not None:
            members = _members(inner)
            if members is None:
                leaves.append(error)
            else:
                pending.extend(reversed(members))
        elif not dispatch(type(error)).stops:
            leaves.append(error)
        elif package_of(type(error)) == "builtins":  # an interrupt, not a cancellation
            raise group
    return leaves


# ---- texts ------------------------------------------------------------------------------------------


ERRNOS: Final[Mapping[str, int]] = {
    name: number for name, number in vars(errno).items() if name.startswith(("E", "WSA"))
}
"""Errnos by name, aliases such as EWOULDBLOCK included, which `errno.errorcode` leaves out."""
_LONGEST: Final = 8_192
_LINE: Final = re.compile(r"(?:([A-Za-z_]\w*)(?:\.\w+)*\.)?([A-Z]\w*)(?::\s*(.*))?", re.DOTALL)
_TIMEOUT: Final = Finding(code="CONN_TIMEOUT", message="timed out", executed=Executed.MAYBE)
_NUMBERED: Final = re.compile(r"\[(Errno|WinError) (\d{1,6})\] ?(.*)", re.DOTALL)


def read_text(text: str) -> tuple[Failure, bool]:
    """Return the failure that a text means, and whether anything in it is known."""
    text = str.__getitem__(text, slice(None)).strip()  # a subclass may have methods of its own
    found = _known(text)
    if found is not None:
        return applied(found), True
    unknown = Failure.of("SYS_INTERNAL_ERROR", "unknown error" + short_of(text))
    return applied(unknown, known=False), False


def _known(text: str) -> Failure | None:
    if text.startswith("{") and (found := _of_document(text)) is not None:
        # A code that nobody knows: a body says more, unless it is a response of JSON-RPC.
        is_bare = found.code == "SYS_INTERNAL_ERROR" and '"jsonrpc"' not in text[:_LONGEST]
        by_body = text_finding(text) if is_bare else None
        return found if by_body is None else by_body.failure()
    coded = coded_finding(text)
    if coded is not None:
        return coded.failure()
    if text in ERRNOS:
        found = of_errno(ERRNOS[text])
        return None if found is None else unproven(found)
    finding = _of_line(text) or text_finding(text)
    return finding.failure() if isinstance(finding, Finding) else finding


def of_errno(number: int, text: str = "") -> Failure | None:
    """Return the failure that an errno stands for."""
    return raw_failure(OSError(number, text or os.strerror(number)))


def _of_document(text: str) -> Failure | None:
    """Return the failure of a JSON object: a JSON-RPC or MCP response, else a bridge's error.

    None if it is neither.
    """
    from .answers import answer_failure

    document = mapping_of(read_json(text))
    found = answer_failure(document, of_server=True)
    if found is not None:
        return found
    payload = mapping_of(document.get("payload")) or document
    if not isinstance(payload.get("code"), str):
        return None
    return payload_failure(cast("Mapping[str, Any]", payload), _REJECTED)


def _of_line(text: str) -> Finding | Failure | None:
    """Return the verdict on `package.Class: words`, the last line of a traceback; None for another text."""
    if text.startswith("Traceback (most recent call last)"):
        text = text[-_LONGEST:].rpartition("\n")[2]
    line = _LINE.fullmatch(text[:_LONGEST])
    if line is None:
        return None
    package, name, words = line[1] or "builtins", line[2], line[3] or ""
    if package == "builtins":
        error = _made(getattr(builtins, name, None), words)
        failure = None if error is None else raw_failure(error)
        return None if failure is None else unproven(attrs.evolve(failure, cause=None))
    if package not in PACKAGES:
        return None
    rule = rows_of(package).rules.get((package, name), _TIMEOUT if "Timeout" in name else None)
    if rule is None:
        return None
    by_words = text_finding(words)
    if by_words is not None:  # the category of its code, as the exception has it
        return by_words.evolve(category=None)
    return rule.evolve(proof="") if isinstance(rule, Finding) else None


def _made(kind: object, words: str) -> Exception | None:
    """Return a built-in exception with these words; None if there is no such class."""
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        return None
    from .system import errno_of_windows

    numbered = _NUMBERED.fullmatch(words) if issubclass(kind, OSError) else None
    try:
        if numbered is None:
            return kind(words) if words else kind()
        number = int(numbered[2])
        return kind(errno_of_windows(number) if numbered[1] == "WinError" else number, numbered[3])
    except Exception:  # noqa: BLE001 -- a class that takes other arguments, such as UnicodeDecodeError
        return None
