"""The answers of the sidecar to calls that the server did not answer.

Their first words are fixed: people, models and tests depend on them.

`OUTCOME UNKNOWN` says that the call may have run, `NOT EXECUTED` that it did not and may be made
again. For a tool both are a result with `isError`, which clients show to the model; for any other
request an error of JSON-RPC is the only form. Pure.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import attrs

from . import message


if TYPE_CHECKING:
    from .message import Message
    from .upstream import Loss


PREFIX: Final = "io.github.resilient-bridge"
"""The prefix of our names in `_meta`."""

NOT_RUN: Final = "not_run"
"""What a read tool says of a call that did not run."""

_UNKNOWN_CODE: Final = -32010  # in the range that JSON-RPC leaves to implementations
_NOT_EXECUTED_CODE: Final = -32011
_MOST_NAMES: Final = 30


class Outcome(StrEnum):
    """How a request ended, for events and counters."""

    ANSWERED = "answered"  # with a result that is none of the following
    FAILED = "failed"  # the server's own error, or a tool's `isError`
    UNKNOWN = "unknown"  # it may have run
    NOT_EXECUTED = "not_executed"  # it provably did not run, or was refused by us
    CANCELLED = "cancelled"  # by the client, which gets no answer


@attrs.frozen(kw_only=True)
class Ending:
    """How a call ended without an answer of the server.

    `outcome` is UNKNOWN or NOT_EXECUTED, `code` names the reason for programs, `text` for a model;
    `retry_after` is in seconds.
    """

    outcome: Outcome
    code: str
    text: str
    retry_after: float | None = None


def unknown(name: str, loss: Loss, check: str | None) -> Ending:
    """Return the ending of a call that was sent and has no usable answer."""
    look = f" (for example with: {check})" if check else ""
    what = (
        f"the answer to {_quoted(name)} came and cannot be used ({loss.reason})"
        if loss.is_unusable
        else f"the connection to the server was lost ({loss.reason}) after {_quoted(name)} was sent"
    )
    text = (
        f"OUTCOME UNKNOWN: {what}. It may or may not "
        f"have run. Do not call it again yet. First check whether it took effect{look}, then decide.{_words(loss)}"
    )
    code = "answer_unusable" if loss.is_unusable else "connection_lost"
    return Ending(outcome=Outcome.UNKNOWN, code=code, text=text)


def timed_out(name: str, seconds: float, check: str | None) -> Ending:
    """Return the ending of a call that was sent and not answered in time."""
    look = f" (for example with: {check})" if check else ""
    text = (
        f"OUTCOME UNKNOWN: {_quoted(name)} got no answer within {seconds:g} s. It may or may not have run, or may still be running. "
        f"Do not call it again yet. First check whether it took effect{look}, then decide."
    )
    return Ending(outcome=Outcome.UNKNOWN, code="timeout", text=text)


def unreachable(name: str, loss: Loss, attempts: int, seconds: float) -> Ending:
    """Return the ending of a call that was not sent: the server did not come back in time."""
    tries = (
        f", {attempts} {'attempt' if attempts == 1 else 'attempts'} in {seconds:.0f} s"
        if attempts
        else ""
    )
    text = (
        f"NOT EXECUTED: the server is not reachable ({loss.reason}{tries}). {_quoted(name)} was not executed. "
        f"It is safe to call it again later.{_words(loss)}"
    )
    return Ending(
        outcome=Outcome.NOT_EXECUTED, code="unreachable", text=text, retry_after=loss.retry_after
    )


def refused(name: str, loss: Loss) -> Ending:
    """Return the ending for a permanent refusal by the server or the system."""
    text = f"NOT EXECUTED: {loss.reason}. {_quoted(name)} was not executed.{_words(loss)}"
    return Ending(outcome=Outcome.NOT_EXECUTED, code="refused", text=text)


def circuit_open(name: str, loss: Loss | None, seconds: float) -> Ending:
    """Return the ending of a call while the circuit is open."""
    why = f" ({loss.reason})" if loss is not None else ""
    text = (
        f"NOT EXECUTED: the server failed too often and is left alone for now{why}. {_quoted(name)} was not sent. "
        f"Call it again in {math.ceil(seconds)} s.{_words(loss)}"
    )
    return Ending(outcome=Outcome.NOT_EXECUTED, code="circuit_open", text=text, retry_after=seconds)


def limited(name: str, limit: str, seconds: float | None) -> Ending:
    """Return the ending for a limit of the sidecar; `limit` completes "is limited to"."""
    later = "later" if seconds is None else f"in {max(1, math.ceil(seconds))} s"
    text = f"NOT EXECUTED: {_quoted(name)} is limited to {limit}. Call it again {later}."
    return Ending(outcome=Outcome.NOT_EXECUTED, code="limited", text=text, retry_after=seconds)


def gone(name: str, known: list[str]) -> Ending:
    """Return the ending for a tool that the server no longer has."""
    names = ", ".join(known[:_MOST_NAMES]) + (", …" if len(known) > _MOST_NAMES else "")
    text = f"NOT EXECUTED: the server was restarted and no longer has {_quoted(name)}; it now has: {names or 'no tools'}."
    return Ending(outcome=Outcome.NOT_EXECUTED, code="tool_gone", text=text)


def closing(name: str, *, was_sent: bool) -> Ending:
    """Return the ending of a call that is open when the sidecar is stopped."""
    if was_sent:
        text = f"OUTCOME UNKNOWN: the sidecar was stopped after {_quoted(name)} was sent. It may or may not have run."
        return Ending(outcome=Outcome.UNKNOWN, code="stopped", text=text)
    text = f"NOT EXECUTED: the sidecar was stopped. {_quoted(name)} was not sent."
    return Ending(outcome=Outcome.NOT_EXECUTED, code="stopped", text=text)


def in_doubt(
    name: str, began: str, check: str | None, remaining: float | None, *, is_running: bool
) -> Ending:
    """Return the ending of a call that was not sent, because an identical one may have run.

    `remaining`: seconds until it can be made; None if it is made when it is called once more.
    """
    look = f" (for example with: {check})" if check else ""
    doubt = "it is still running" if is_running else "it may or may not have run"
    then = (
        "To run it all the same, call it once more."
        if remaining is None
        else f"It can be called again in {math.ceil(remaining)} s."
    )
    text = (
        f"OUTCOME UNKNOWN: {_quoted(name)} was called with the same arguments at {began}, and {doubt}. "
        f"NOT EXECUTED: this call was not sent. First check whether it took effect{look}, then decide. {then}"
    )
    return Ending(
        outcome=Outcome.UNKNOWN, code="identical_in_doubt", text=text, retry_after=remaining
    )


def already_ran(name: str, began: str, check: str | None) -> Ending:
    """Return the ending of a call that was not sent, because an identical one ran unseen."""
    look = f" (for example with: {check})" if check else ""
    text = (
        f"OUTCOME UNKNOWN: {_quoted(name)} was called with the same arguments at {began} and ran to its end; "
        f"its answer was lost. NOT EXECUTED: this call was not sent. Look at what it did{look}, then decide."
    )
    return Ending(outcome=Outcome.UNKNOWN, code="identical_ran", text=text)


def unreadable(name: str, why: str) -> Ending:
    """Return the ending of a call that was not sent, because the file of effects is of no use."""
    text = (
        f"NOT EXECUTED: whether the same call of {_quoted(name)} is in doubt cannot be looked up "
        f"({why}). It was not sent."
    )
    return Ending(outcome=Outcome.NOT_EXECUTED, code="effects_unusable", text=text)


def answer(id: object, method: str, ending: Ending, *, is_modern: bool) -> Message:
    """Return the answer to a request with this ending, in the form of its method."""
    meta: dict[str, Any] = {
        f"{PREFIX}/outcome": str(ending.outcome),
        f"{PREFIX}/reason": ending.code,
    }
    if ending.retry_after is not None:
        meta[f"{PREFIX}/retryAfterMs"] = round(ending.retry_after * 1000)
    if method != "tools/call":
        code = _UNKNOWN_CODE if ending.outcome is Outcome.UNKNOWN else _NOT_EXECUTED_CODE
        return message.error(id, code, ending.text, meta)
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": ending.text}],
        "isError": True,
        "_meta": meta,
    }
    return message.result(id, ({"resultType": "complete"} if is_modern else {}) | result)


def _quoted(name: str) -> str:
    return f'"{name}"' if name else "the request"


def _words(loss: Loss | None) -> str:
    return f" The server's last words: {loss.words}" if loss is not None and loss.words else ""
