"""What users can expect across a cut, in sentences, from the dialect and the observations. Pure.

Rule: a sentence promises only what the observed proof of a replay supports, or without one, the
proofs that the dialect can have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..protocol.dialects._plain import plain
from ..protocol.policies import Dialect
from ..protocol.policies.positions import Positions
from .doctor_values import Findings


_IF: Final = {
    "stated": "the server says that its replay is complete",
    "window": "all events between the first and the last that it names come",
    "anchor": "the last event that you had comes again with the same content, and has an id or a time",
    "contiguity": "the numbers go on directly behind yours",
    "session": "the server names the session that you had",
    "barrier": "it has not said otherwise when it answers the ping behind the question",
}


def promise_of(findings: Findings, dialect: Dialect) -> str:
    """Return one sentence: which verdicts a cut may end in, and when."""
    if dialect.encode is None:
        return _of_envelopes(findings, dialect)
    policy = dialect.positions
    if policy is None:
        again = (
            "; what was not acknowledged is sent again" if dialect.acknowledges is not None else ""
        )
        return f"Across a cut: UNKNOWN, always: nothing is asked for, and nobody knows what was missed{again}."
    seen = findings.after.proof if findings.after is not None else ""
    proofs = [seen] if seen in _IF else list(_proofs(policy))
    if not proofs:
        return "Across a cut: UNKNOWN: nothing that this server sends proves a replay."
    gap = " GAP, with the numbers, where some are missing;" if policy.contiguous else ""
    gap = gap or (" GAP where it forgot the session;" if policy.proof is not None else "")
    where = " for each log" if policy.per_channel else ""
    return f"Across a cut{where}: RECOVERED if {' or '.join(_IF[name] for name in proofs)};{gap} else UNKNOWN."


def _proofs(policy: Positions) -> Sequence[str]:
    """Return the proofs of a complete replay that this policy can have."""
    found: list[str] = [] if policy.proof is None else [policy.proof]
    if policy.ends == "stated" and policy.proof is None:
        found += (
            ["stated"]
            if policy.order != "number" or not policy.contiguous
            else ["stated", "window"]
        )
    if (policy.overlap or policy.repeats) and (policy.ends == "anchor" or policy.contiguous):
        found.append("anchor")
    if policy.contiguous and not policy.overlap and policy.ends != "barrier":
        found.append("contiguity")
    return found


def _of_envelopes(findings: Findings, dialect: Dialect) -> str:
    if dialect.request_replay is None or dialect.request_replay in findings.gone_without:
        return "Across a cut: UNKNOWN, always: this server replays nothing that could be asked for."
    return (
        "Across a cut: RECOVERED if the replay holds the last message that you had; GAP if it holds later ones only, or the session "
        "is another one; else UNKNOWN."
    )


def notes_of(findings: Findings, dialect: Dialect, fits: Sequence[str] = ()) -> list[str]:
    """Return remarks for a program that uses this dialect, a sentence each."""
    return [
        *_about_replay(findings, dialect),
        *_about_events(findings, dialect, fits),
        *_about_sends(findings, dialect),
    ]


def _about_replay(findings: Findings, dialect: Dialect) -> list[str]:
    after, policy = findings.after, dialect.positions
    notes: list[str] = []
    if after is None:
        return notes
    has_replay = policy is not None or dialect.request_replay is not None
    if after.verdict is not None and after.verdict != "RECOVERED" and has_replay:
        page = "the docstring of rb.bridge.Gap" if policy is None else "docs/reference/positions.md"
        notes.append(
            f"This cut ended {after.verdict}({after.reason}): {page} says what that means."
        )
    if policy is None or after.includes_asked is None:
        return notes
    if after.reason == "no_anchor" and after.includes_last:
        notes.append(
            "The last event came again, but nothing in it shows that the log is the same, so a restart of this server "
            "could not be noticed: name the field of an id (id=) or of a time (timestamp=) in its events, or say distinct=True if no "
            "two logs of it hold equal events at one position."
        )
    if after.includes_asked and policy.overlap:
        notes.append(
            "The event that is asked after comes again, so inclusive=True saves one event of each replay."
        )
    if not after.includes_asked and policy.ends == "anchor" and not policy.overlap:
        notes.append(
            "The event that is asked after does not come again, though the dialect expects it."
        )
    return notes


def _about_events(findings: Findings, dialect: Dialect, fits: Sequence[str]) -> list[str]:
    before, policy = findings.before, dialect.positions
    notes: list[str] = []
    if findings.accepted is None:
        return notes
    better = [name for name in fits if not name.endswith("plain")]
    if dialect is plain and better:
        notes.append(f"What its frames would fit, too: {', '.join(better)}.")
    if policy is not None and before.events and not before.with_position:
        notes.append(
            "No event had a position: the field that the dialect reads may have another name."
        )
    if policy is not None and not before.events:
        notes.append(
            "No event came before the cut, so there was nothing to ask after: try again while the server sends some."
        )
    if policy is not None and policy.contiguous and before.numbering == "with holes":
        notes.append(
            "The numbers have holes, which this dialect takes for losses: contiguous=False does not."
        )
    return notes


def _about_sends(findings: Findings, dialect: Dialect) -> list[str]:
    if findings.repetition == "noticed" and dialect.dedupes is False:
        return [
            "The server notices a repetition: dialect.evolve(dedupes=True) lets the client send again after a cut."
        ]
    if findings.repetition == "two answers" and dialect.dedupes is True:
        return [
            "Both were answered alike, though the dialect says that the server notices a repetition."
        ]
    return []
