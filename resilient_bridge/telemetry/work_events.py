"""The events of single calls, alerts, commands, tools, workflows, budgets, contexts, degradation and
hooks. Public as `rb.events`.

Rule: an event has a name (of a call, a tool, a phase), an id or an amount, never an argument or a
result. Those of single calls and commands are created only while a listener is registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from ..failure import redact
from .event import ALWAYS, Event, with_failure


if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

    from ..failure import Failure
    from .event import Counts

__all__ = [
    "AlertChanged",
    "AlertLevel",
    "AlertRule",
    "AnswerShared",
    "CallFinished",
    "CallOutcome",
    "CallRejected",
    "CommandAnswered",
    "CommandSent",
    "ContextCompacted",
    "ContextNearlyFull",
    "EffectHeld",
    "EffectResolved",
    "FirstCall",
    "Hedged",
    "HookRejected",
    "ModeChanged",
    "PhaseChanged",
    "PollFailed",
    "Resolution",
    "ShadowRejected",
    "SpendChanged",
    "ToolFailed",
    "ToolPending",
    "WorkflowChanged",
]

# ---- calls --------------------------------------------------------------------------------------


CallOutcome: TypeAlias = Literal["ok", "failed", "rejected", "cancelled", "fell_back"]
"""How a call ended: `failed` also for a returned failure, `rejected` if nothing was called."""


class CallFinished(Event):
    """A call of `name` has ended; one event for each, while a listener is registered.

    `outcome` is ok, failed, rejected (nothing was called), cancelled or fell_back. `seconds` is the
    whole time, including the `waited` between attempts; `key` that of its circuit, or the owner of
    its state: a function, an origin.
    """

    name: str
    outcome: CallOutcome
    attempts: int
    seconds: float
    waited: float
    key: str
    failure: Failure | None = None

    __of_each_call__ = True

    def __counts__(self, counts: Counts) -> None:
        is_repeated = self.outcome == "ok" and self.attempts > 1
        outcome = "ok_after_retry" if is_repeated else self.outcome
        counts.add("calls", 1, self.name, outcome)
        counts.add("call.duration", self.seconds, self.name, outcome)
        counts.add("call.attempts", self.attempts, self.name)
        if outcome in ("failed", "rejected"):
            counts.failure(self.failure)


class CallRejected(Event):
    """An attempt of `name` was not admitted `by` a circuit, bulkhead, rate_limit or budget (a
    retry), or by a layer of yours, under the name of its class.

    Created only while a listener is registered.
    """

    name: str
    by: str
    key: str
    failure: Failure

    __of_each_call__ = True

    def __counts__(self, counts: Counts) -> None:
        counts.add("rejections", 1, self.name, self.by)

    def __note__(self) -> tuple[str, dict[str, Any]]:
        return "rejected", {"by": self.by, "error.type": self.failure.code}


class ShadowRejected(Event):
    """A call that the circuit `key` of `Breaker(shadow=True)` would have rejected; it is made.

    Created only while a listener is registered.
    """

    key: str
    failure: Failure

    __of_each_call__ = True

    def __note__(self) -> tuple[str, dict[str, Any]]:
        return "would be rejected", {"by": "circuit", "error.type": self.failure.code}


# ---- effects ------------------------------------------------------------------------------------


FirstCall: TypeAlias = Literal["running", "unknown", "ran", "unreadable"]
"""What is known of the call that holds identical ones; unreadable if its file cannot be used."""
Resolution: TypeAlias = Literal["verified", "late_answer", "not_run", "again", "hold"]
"""What ended a doubt: an answer, the word of `verify` or of the caller, or time."""


class EffectHeld(Event):
    """A call of `name` was not made: an identical one, that began `seconds` ago, is in doubt.

    `first` is what is known of that one: running, unknown, ran (its answer is not kept); or
    unreadable, if the file of the effects cannot be used.
    """

    name: str
    first: FirstCall
    seconds: float
    failure: Failure

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        return f"{self.name} was held: {self.failure}"

    def __counts__(self, counts: Counts) -> None:
        counts.failure(self.failure)


class EffectResolved(Event):
    """A call of `name` that `began` then is no longer in doubt.

    `how`: verified (it ran, and the next caller got its answer), late_answer (the same, by an
    answer that came late), not_run (verified, and called again), again (the caller said so), hold
    (its time is over).
    """

    name: str
    how: Resolution
    began: datetime

    def __text__(self) -> str:
        return (
            f"{self.name}, begun {self.began:%Y-%m-%dT%H:%M:%S}Z, is no longer in doubt: {self.how}"
        )


# ---- alerts -------------------------------------------------------------------------------------


AlertLevel: TypeAlias = Literal["warning", "critical"]
"""How bad an alert is."""
AlertRule: TypeAlias = Literal[
    "error_rate", "reconnect_failures", "session_drops", "hook_failures", "failure"
]
"""What an alert is about: the threshold of that name, or one failure."""


class Hedged(Event):
    """A call of `name` was slow, so that its request was sent again; the race has ended.

    `requests` were sent in all. The one with the number `winner` ended it: 1 is the first, 0 none,
    because the caller was cancelled. `unknown` of them were cancelled: whether they ran, and what
    they cost, nobody can say. With `Hedge(to=)` the further ones went to the function `to`, and
    `failure` is the last one of these, which did not count.
    """

    name: str
    requests: int
    winner: int
    unknown: int
    seconds: float
    to: str = ""
    failure: Failure | None = None

    def __level__(self) -> str:
        return "info" if self.failure is None or self.failure.retryable else "warning"

    def __text__(self) -> str:
        by = f"by request {self.winner} of {self.requests}" if self.winner else "by nobody"
        to = f", to {redact(self.to)}," if self.to else ""
        cut = f"; {self.unknown} cancelled, outcome and cost unknown"
        failed = "" if self.failure is None else f"; it failed there: {self.failure}"
        return (
            f"{redact(self.name)} was hedged{to} and ended {by} after {self.seconds:.3g} s"
            f"{cut if self.unknown else ''}{failed}"
        )

    def __counts__(self, counts: Counts) -> None:
        counts.add("hedges", self.requests - 1, self.name, "won" if self.winner > 1 else "lost")

    def __note__(self) -> tuple[str, dict[str, Any]]:
        note = {"requests": self.requests, "winner": self.winner, "unknown": self.unknown}
        return "hedged", note | ({"to": self.to} if self.to else {})


class AnswerShared(Event):
    """A call of `name` was given an answer without a call of its own; the answer is `age` seconds old.

    `how`: joined (another caller's call gave it), fresh (a new call was not yet due), stale (the
    call failed with `failure`, and an old answer took its place). The first two only while a
    listener is registered.
    """

    name: str
    how: Literal["joined", "fresh", "stale"]
    age: float
    failure: Failure | None = None

    def __level__(self) -> str:
        return "warning" if self.how == "stale" else ""

    def __text__(self) -> str:
        name, why = redact(self.name), "" if self.failure is None else f": {self.failure}"
        return f"{name} was given an answer {self.age:.3g} s old ({self.how}){why}"

    def __counts__(self, counts: Counts) -> None:
        counts.add("shared", 1, self.name, self.how)

    def __note__(self) -> tuple[str, dict[str, Any]]:
        return "answer_shared", {"how": self.how, "age": self.age}


class AlertChanged(Event):
    """`rb.telemetry.Alerts` has raised or cleared an alert of `level`; `value` is what it measured.

    `state` is "raised" when the value is above `threshold`; reported once until it is cleared or
    gets worse. For the rule `failure` one failure is enough, the one in this event: its severity is
    critical or fatal. It is "cleared" when the threshold was respected for one whole window;
    `remaining` is then `warning` if the warning still holds.
    """

    rule: AlertRule
    state: Literal["raised", "cleared"]
    level: AlertLevel
    value: float
    threshold: float
    failure: Failure | None = None
    remaining: Literal["", "warning"] = ""

    __state__ = "state"
    __words__: ClassVar = {"raised": "alert raised", "cleared": "alert cleared"}

    def __level__(self) -> str:
        return self.level if self.state == "raised" else "info"

    def __text__(self) -> str:
        if self.state == "cleared":
            return f"alert {self.rule} is over, {self.level}: {self.value:.3g}"
        why = "" if self.failure is None else f": {self.failure}"
        return (
            f"alert {self.rule}, {self.level}: {self.value:.3g} is above {self.threshold:.3g}{why}"
        )

    def __counts__(self, counts: Counts) -> None:
        if self.state == "raised":
            counts.add("alerts", 1, self.rule, self.level)


# ---- commands -----------------------------------------------------------------------------------


class CommandSent(Event):
    """A command was handed to its peer, which knows it by `correlation_id`."""

    name: str
    correlation_id: str

    __kind__ = "correlation"
    __of_each_call__ = True


class CommandAnswered(Event):
    """The peer reported a command complete, timed out or expired, `seconds` after it was sent or
    first followed.
    """

    name: str
    correlation_id: str
    status: str
    seconds: float

    __kind__ = "correlation"
    __of_each_call__ = True


class PollFailed(Event):
    """Polling a command failed; whether it is repeated depends on the failure."""

    name: str
    correlation_id: str
    failure: Failure

    __kind__ = "polling"
    __of_each_call__ = True


# ---- tools and hooks ---------------------------------------------------------------------------------------------


class ToolFailed(Event):
    """A tool of a Toolbox failed for good; its caller got the failure as data.

    `required` is False for a tool that may be skipped; `seconds` is how long the whole call took,
    waits included.
    """

    tool: str
    required: bool
    failure: Failure
    seconds: float = 0.0

    __notable__ = ALWAYS

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        text = "failed" if self.required else "is optional and skipped"
        return f"tool {self.tool} {text}: {self.failure}"

    def __counts__(self, counts: Counts) -> None:
        # no call was made for these, so no other event counts them
        if self.failure.code in ("TOOL_NOT_FOUND", "TOOL_ARGUMENTS_INVALID"):
            counts.failure(self.failure)


class ToolPending(Event):
    """A tool with escalating limits is still running after `seconds`.

    Its limit is `timeout` seconds in all.
    """

    tool: str
    seconds: float
    timeout: float

    __kind__ = "escalation"


class HookRejected(Event):
    """A hook event was not valid; the failure lists its wrong fields."""

    failure: Failure

    __by_strangers__ = True
    __notable__ = ALWAYS

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        return f"hook event refused: {self.failure}"

    def __counts__(self, counts: Counts) -> None:
        counts.add("hook.rejections", 1)
        counts.failure(self.failure)


# ---- workflows ---------------------------------------------------------------------------------------------------


class WorkflowChanged(Event):
    """A workflow has the `status` of its report; `completed` of its `total` phases are finished.

    "running": a run began or continued. "halted": a required `phase` failed for good, with
    `failure`; the checkpoint is saved, and a person resumes, skips or aborts. "completed": every
    phase is finished or `skipped`, and this run took `seconds`. "aborted": a person ended it, in
    `phase`; the results of its finished phases remain.
    """

    workflow: str
    status: Literal["running", "halted", "completed", "aborted"]
    completed: int
    total: int
    phase: str | None = None
    failure: Failure | None = None
    skipped: tuple[str, ...] = ()
    seconds: float | None = None

    __state__ = "status"
    __words__: ClassVar = {
        "running": "workflow started",
        "halted": "workflow halted",
        "completed": "workflow completed",
        "aborted": "workflow aborted",
    }
    __notable__ = ("halted", "aborted")

    def __level__(self) -> str:
        return {"halted": "error", "aborted": "warning"}.get(self.status, "info")

    def __text__(self) -> str:
        if self.status == "running":
            return f"{self.workflow} began, {self.completed} of {self.total} phases are finished"
        if self.status == "halted":
            return f"{self.workflow} halted at phase {self.phase}: {self.failure}"
        if self.status == "aborted":
            return f"{self.workflow} was aborted"
        return f"{self.workflow} completed{', without ' if self.skipped else ''}{', '.join(self.skipped)}"


class PhaseChanged(Event):
    """A phase of a workflow went to `status`; `number` counts the `total` phases from 1.

    "started": `run` counts its starts, across restarts. "completed", after `seconds`: its artifacts
    exist and it is recorded; it does not run again while they exist. "skipped": an optional one
    failed (with its failure), or a person skipped it. "undone": it will run again; it failed half
    way, or an artifact of a finished one is missing or changed.
    """

    workflow: str
    phase: str
    status: Literal["started", "completed", "skipped", "undone"]
    number: int
    total: int
    run: int | None = None
    seconds: float | None = None
    reason: str = ""
    failure: Failure | None = None

    __state__ = "status"
    __words__: ClassVar = {
        "started": "phase started",
        "completed": "phase completed",
        "skipped": "phase skipped",
        "undone": "phase undone",
    }
    __notable__ = ("undone",)

    def __level__(self) -> str:
        return "info" if self.status in ("started", "completed") else "warning"

    def __text__(self) -> str:
        if self.status == "started":
            return f"{self.workflow}: phase {self.phase} began ({self.number} of {self.total})"
        if self.status == "completed":
            return f"{self.workflow}: phase {self.phase} finished in {self.seconds:.3g} s"
        if self.status == "undone":
            return f"{self.workflow}: phase {self.phase} will run again: {self.failure}"
        return f"{self.workflow}: skipping phase {self.phase}: {with_failure(self.reason, self.failure)}"


# ---- model calls -------------------------------------------------------------------------------------------------


class SpendChanged(Event):
    """A budget went to `state`, with `spent` of its `limit`.

    "warning": spending has reached the warning threshold, 80 % of the limit by default. "paused":
    it has reached a hard limit; calls wait, or are refused, until more is approved. "approved": a
    higher limit was approved, and `limit` is the new one; one that is not high enough is followed
    by "paused". "cancelled": every further call is refused.
    """

    budget: str
    state: Literal["warning", "paused", "approved", "cancelled"]
    spent: Decimal
    limit: Decimal

    __state__ = "state"
    __words__: ClassVar = {
        "warning": "spend warned",
        "paused": "spend paused",
        "approved": "spend approved",
        "cancelled": "spend cancelled",
    }

    def __level__(self) -> str:
        return "info" if self.state == "approved" else "warning"

    def __text__(self) -> str:
        if self.state == "approved":
            return f"{self.budget}: goes on, up to {self.limit}"
        if self.state == "cancelled":
            return f"{self.budget}: cancelled at {self.spent}"
        how = " are spent" if self.state == "warning" else " spent, paused"
        return f"{self.budget}: {self.spent} of {self.limit}{how}"


class ContextCompacted(Event):
    """A conversation was too long and has been compacted, from `before` to `after` tokens of at
    most `limit`.
    """

    before: int
    after: int
    limit: int

    def __level__(self) -> str:
        return "info"

    def __text__(self) -> str:
        return f"context compacted from {self.before} to {self.after} of {self.limit} tokens"


class ContextNearlyFull(Event):
    """A conversation takes `tokens` of at most `limit`: save what a new session needs.

    Reported again only after a check in which it was not nearly full.
    """

    tokens: int
    limit: int

    __notable__ = ALWAYS

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        used = f"{self.tokens} of {self.limit} tokens"
        return f"context is nearly full: {used}: save what a new session needs"


class ModeChanged(Event):
    """A capability went from `previous` to `mode`.

    `reason` is "failure": to a lesser mode, after `failure`; None means that no mode remains. It is
    restored by "restore_after", by one mode after a time without failures, or to its first mode by
    "reset".
    """

    feature: str
    previous: str
    mode: str | None
    reason: Literal["failure", "restore_after", "reset"]
    failure: Failure | None = None

    __state__ = "reason"
    __words__: ClassVar = {"failure": "degraded", "restore_after": "restored", "reset": "restored"}
    __notable__ = ALWAYS

    def __level__(self) -> str:
        return "warning" if self.reason == "failure" else ""

    def __text__(self) -> str:
        return (
            f"{self.feature}: {self.mode or 'given up'} instead of {self.previous}: {self.failure}"
        )
