"""What a rule says about an exception: the vocabulary of this room.

Rule: a rule is data or one small function; the record is built only for an error that somebody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from ..errors import READ, Category, Executed, Failure, Kind, class_name, code_info, raw_text


def _no_details() -> Mapping[str, Any]:
    return {}


@attrs.frozen(kw_only=True)
class Finding:
    """One verdict: a code, and only what differs from that code's row in the table; None means as the table says.

    `executed=NO` is never said here: it follows from `proof`, the name of a row of `proofs.PROOFS`. Without a proof it may have run.
    """

    code: str
    message: str = ""
    category: Category | None = None
    kind: Kind | None = None
    retryable: bool | None = None
    executed: Executed | None = None
    proof: str = ""
    session_valid: bool | None = None
    retry_after: float | None = None
    suggestions: tuple[str, ...] = ()
    details: Mapping[str, Any] = attrs.field(factory=_no_details)

    @property
    def summary(self) -> str:
        """The message, or what the code says without one."""
        return self.message or code_info(self.code).summary

    @property
    def ran(self) -> Executed:
        """Whether it can have run: NO with a proof, and with nothing else."""
        if self.proof and self.executed in (None, Executed.NO):
            return Executed.NO
        executed = self.executed or code_info(self.code).executed
        return Executed.MAYBE if executed is Executed.NO else executed

    def failure(
        self,
        cause: BaseException | None = None,
        seen: BaseException | None = None,
    ) -> Failure:
        """Return the failure; `cause` is what was classified, `seen` the error below it whose text tells more."""
        details = dict(self.details)
        told_by = cause if seen is None else seen
        if told_by is not None:
            text = raw_text(told_by)[: READ + 1].strip()  # made safe when somebody reads it
            details.setdefault("error", f"{class_name(told_by)}: {text}" if text else class_name(told_by))
        return Failure.of(
            self.code,
            self.message,
            category=self.category,
            kind=self.kind,
            retryable=self.retryable,
            executed=self.ran,
            proof=self.proof,
            session_valid=self.session_valid,
            retry_after=self.retry_after,
            suggestions=self.suggestions,
            details=details,
            cause=cause,
        )


Reader: TypeAlias = Callable[[Any], Finding | Failure | None]
"""A rule for one class that has to look at the exception; None passes it on to the rule of a base class."""

Rules: TypeAlias = Mapping[tuple[str, str], Finding | Reader]
"""Rules of one subject, keyed by (top package, class name): nothing is imported in order to be recognised."""


def short_of(text: str) -> str:
    """Return text of the other side as the tail of a message: empty, or `: text` of at most 160 characters."""
    text = " ".join(text.split())
    return f": {text[:159]}…" if len(text) > 160 else f": {text}" if text else ""
