"""From an exception to its failure: which rule speaks, about which error of a chain or a group.

Rule: no exception, however broken, breaks the classifier: its class is asked with `type()`, and what it says of itself is read
behind a guard.
"""

from __future__ import annotations

from typing import Any, Final, cast

import attrs

from ..errors import (
    OWN_WORDS,
    BridgeError,
    Executed,
    Failure,
    Record,
    changed,
    class_name,
    ended,
    record_of,
    text_of,
)
from .dispatch import KNOWN, Dispatch, dispatch, package_of
from .finding import Finding, short_of
from .http_libraries import ONE_REQUEST, proof_of
from .payloads import coded_finding
from .proofs import STATED_ON_THE_WIRE
from .registry import Registration, applied, seconds_in
from .texts import text_finding


_LONGEST_CHAIN: Final = 100
_MOST_LEAVES: Final = 1_000
_DEEPEST: Final = 20  # groups below wrappers below groups


def failure_of(error: BaseException, depth: int = 0) -> Failure:
    """Return the failure of an exception; raises what is none (CancelledError and its like) again."""
    known = KNOWN.get(type(error)) or dispatch(type(error))
    if known.is_group:
        failure = _of_group(cast("BaseExceptionGroup[BaseException]", error), depth)
        if failure is None:  # nothing but cancellation
            raise error
        return _with_record(failure, record_of(error))
    if known.stops:
        raise error
    if not known.wraps:
        return _judged(error, error, None)
    root, proof = _root(error)
    if (group := _as_group(root)) is not None and depth < _DEEPEST:
        below = _of_group(group, depth + 1)
        if below is not None:
            return _with_record(attrs.evolve(below, cause=error), record_of(error))
    return _judged(error, root, proof)


def _judged(error: BaseException, root: BaseException, proof: str | None) -> Failure:
    is_root = root is error
    known = KNOWN.get(type(error)) or dispatch(type(error))
    found = _find(root)
    if found is None and not is_root and not known.through:
        root, found, is_root = error, _find(error), True  # nothing known below: the wrapper speaks for itself
    record = record_of(error) or (None if is_root else record_of(root))
    if isinstance(found, Failure):
        if proof in OWN_WORDS and not is_root:
            found = attrs.evolve(found, executed=Executed.NO, proof=proof, cause=error)
        return applied(_with_record(found, record), error, root, known=True)
    finding = found or _by_text(root)
    is_known = finding is not None
    finding = finding or _unknown(root)
    if (
        proof is not None and not is_root and finding.proof not in STATED_ON_THE_WIRE
    ):  # where in the call it broke says more than how
        executed = None if proof else Executed.MAYBE
        finding = attrs.evolve(finding, executed=executed, proof=proof)
    if _is_of_one_request(error) and (own := proof_of(error, root)):
        finding = attrs.evolve(finding, executed=None, proof=own)
    provider = _provider(error, known)
    if not provider and not is_root:
        provider = _provider(root, dispatch(type(root)))
    if provider and "provider_id" not in finding.details:
        finding = attrs.evolve(finding, details={**finding.details, "provider_id": provider})
    failure = finding.failure(error, root)
    if record is not None:
        failure = ended(failure, record)
    if failure.retry_after is None:
        failure = _with_wait(failure, error)
    return applied(failure, error, root, known=is_known) if Registration.in_force else failure


def _is_of_one_request(error: BaseException) -> bool:
    """Return whether an adapter of ours says that the error came of one request that it sent; never raises."""
    try:
        return object.__getattribute__(error, "__dict__").get(ONE_REQUEST) is True
    except Exception:  # noqa: BLE001 (a class may hide what it has)
        return False


def read_failure(error: BaseException) -> Failure:
    """Return the failure of any exception, one too that cannot be looked at; raises what is none again."""
    try:
        return failure_of(error)
    except Exception as wrong:
        if wrong is error:  # it is no failure
            raise
        # Whatever it does when it is asked, its class has a name.
        return Failure.of("SYS_INTERNAL_ERROR", class_name(error), cause=error)


def raw_failure(error: BaseException) -> Failure | None:
    """Return the failure of an exception, None for one that is none; a moment in its Retry-After is not counted in seconds yet."""
    try:
        return read_failure(error)
    except BaseException:  # noqa: BLE001 -- what is no failure is raised again
        return None


def _with_wait(failure: Failure, error: BaseException) -> Failure:
    """Read how long an error asks to wait by an attribute of its own, where nothing else says so."""
    try:
        wait = seconds_in(cast("Any", error).retry_after)
    except Exception:  # noqa: BLE001 (most have none, and a property may raise anything)
        return failure
    return failure if wait is None else changed(failure, retry_after=wait)


def _find(error: BaseException) -> Finding | Failure | None:
    if issubclass(type(error), BridgeError):
        return cast("BridgeError", error).failure
    for rule in (KNOWN.get(type(error)) or dispatch(type(error))).rules:
        if isinstance(rule, Finding):
            return rule
        try:
            found = rule(error)
        except Exception:  # noqa: BLE001, S112 (an exception without the attributes of its class is still a failure)
            continue
        if found is not None:
            return found
    return None


def _by_text(error: BaseException) -> Finding | None:
    if not dispatch(type(error)).textual:
        return None
    text = text_of(error)
    coded = coded_finding(text)
    if coded is None:
        return text_finding(text)
    return attrs.evolve(coded, executed=Executed.MAYBE)  # who raised it may have done something before


def _unknown(error: BaseException) -> Finding:
    """Return the verdict on what nobody has a rule for: internal, not retryable."""
    return Finding(code="SYS_INTERNAL_ERROR", message=class_name(error) + short_of(text_of(error)))


def _with_record(failure: Failure, record: Record | None) -> Failure:
    return failure if record is None else ended(failure, record)


def _provider(error: BaseException, what: Dispatch) -> str:
    known = what.provider
    if known != "litellm":
        return known or (_raised_by(error) if what.is_http else "")
    try:
        told: object = cast("Any", error).llm_provider
    except Exception:  # noqa: BLE001 (not all of its classes have one)
        return known
    return told if isinstance(told, str) and told else known


def _raised_by(error: BaseException) -> str:
    """Return the provider whose SDK lets the errors of its HTTP library through as they are: google-genai stands in their traceback."""
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
    """Return the first error below wrappers that is none itself, and what the outermost of them that knows proves about the call."""
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
        # urllib3 hands over what it never raised: that is in its arguments, or in `reason`.
        chain: tuple[object, ...] = (error.__cause__, error.__context__, getattr(error, "reason", None))
        found = next((below for below in (*chain, *error.args[:2]) if _is_error(below)), None)
    except Exception:  # noqa: BLE001 (a class may put a property in their place)
        return None
    return cast("BaseException | None", found)


def _is_error(value: object) -> bool:
    return issubclass(type(value), BaseException)


def _as_group(error: BaseException) -> BaseExceptionGroup[BaseException] | None:
    # not isinstance: it would ask the error for its __class__
    is_group = issubclass(type(error), BaseExceptionGroup)
    return cast("BaseExceptionGroup[BaseException]", error) if is_group else None


def _members(group: BaseExceptionGroup[BaseException]) -> list[BaseException] | None:
    """Return what is in a group, None where that cannot be had: a class may put a property in the place of `exceptions`."""
    try:
        return [error for error in cast("tuple[Any, ...]", group.exceptions) if _is_error(error)]
    except Exception:  # noqa: BLE001 (whatever the property raises)
        return None


def _of_group(group: BaseExceptionGroup[BaseException], depth: int) -> Failure | None:
    failures = [
        _judged(leaf, leaf, None) if _as_group(leaf) is not None else failure_of(leaf, depth)
        for leaf in _leaves(group)
    ]
    if not failures:
        return None
    # Several: repeating helps only if it helps all of them; then not before the last of them is ready.
    worst = next((failure for failure in failures if not failure.retryable), failures[0])
    waits = [failure.retry_after for failure in failures if failure.retry_after is not None]
    wait = max(waits, default=None) if worst.retryable else worst.retry_after
    executed = _most([failure.executed for failure in failures])
    proof = worst.proof if executed is Executed.NO else ""
    return attrs.evolve(worst, cause=group, retry_after=wait, executed=executed, proof=proof)


def _most(executed: list[Executed]) -> Executed:
    """Return what holds for all of them together: one that ran is enough."""
    return next((told for told in (Executed.YES, Executed.MAYBE) if told in executed), Executed.NO)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the group's leaves without cancellations, in order and without recursion; stops are raised again."""
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
        elif package_of(type(error)) == "builtins":  # an interrupt, no cancellation
            raise group
    return leaves
