"""The verdict of a rule on an exception, as a value.

Rule: a rule is data or one small function; the Failure is built only for an error that is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import attrs

from .failure import Failure, changed, with_detail
from .redaction import READ, class_name, raw_text, text_of
from .vocabulary import Category, Executed, Kind, Severity, code_info


@attrs.frozen(kw_only=True, slots=False)
class Finding:
    """One verdict: a code, and the fields that differ from its row in the table.

    None means the table's value.

    `executed=NO` is never set directly: it follows from `proof`, the name of a row of
    `vocabulary.PROOFS`. Without a proof the call may have run.
    """

    code: str
    message: str = ""
    category: Category | None = None
    kind: Kind | None = None
    retryable: bool | None = None
    executed: Executed | None = None
    proof: str = ""
    session_valid: bool | None = None
    severity: Severity | None = None
    retry_after: float | None = None
    suggestions: tuple[str, ...] = ()
    details: Mapping[str, Any] = MappingProxyType({})

    def evolve(self, **fields: Any) -> Finding:
        """Return the verdict with these fields changed; what it says otherwise stays."""
        made = object.__new__(Finding)
        made.__dict__.update(self.__dict__)
        made.__dict__.pop("_failure", None)
        made.__dict__.update(fields)
        return made

    @property
    def summary(self) -> str:
        """The message, or else the summary of the code."""
        return self.message or code_info(self.code).summary

    @property
    def ran(self) -> Executed:
        """Whether the call can have run: NO only with a proof."""
        if self.proof and self.executed in (None, Executed.NO):
            return Executed.NO
        executed = self.executed or code_info(self.code).executed
        return Executed.MAYBE if executed is Executed.NO else executed

    @property
    def repeats(self) -> bool:
        """Whether repeating may help, without building the failure."""
        return code_info(self.code).retryable if self.retryable is None else self.retryable

    def failure(
        self,
        cause: BaseException | None = None,
        seen: BaseException | None = None,
    ) -> Failure:
        """Return the failure.

        `cause` is the classified error, `seen` the error below it with the more useful text.
        """
        made: Failure | None = self.__dict__.get("_failure")
        if made is None:  # once for a rule that is data, however often it is met
            made = self.__dict__["_failure"] = Failure.of(
                self.code,
                self.message,
                category=self.category,
                kind=self.kind,
                retryable=self.retryable,
                executed=self.ran,
                proof=self.proof,
                session_valid=self.session_valid,
                severity=self.severity,
                retry_after=self.retry_after,
                suggestions=self.suggestions,
                details=self.details,
            )
        source = cause if seen is None else seen
        if source is None:
            return made
        if "error" in self.details:
            return changed(made, cause=cause)
        text = raw_text(source)[: READ + 1].strip()  # redacted when it is read
        name = class_name(source)
        return with_detail(made, "error", f"{name}: {text}" if text else name, cause)


_LOOKED_AT: Final = 4_096  # characters, of which 160 are shown: a text may have megabytes

Reader: TypeAlias = Callable[[Any], Finding | Failure | None]
"""A rule for one class that has to read the exception; None passes it on to a base class's rule."""

Rules: TypeAlias = Mapping[tuple[str, str], Finding | Reader]
"""Rules of one subject by (top package, class name): nothing is imported to recognise an error."""


def wrong_setting(message: str, executed: Executed | None = None) -> Finding:
    """Return the verdict on a setting that a library refuses."""
    return Finding(code="SYS_CONFIG_INVALID", message=message, executed=executed)


def chain_of(error: BaseException, most: int) -> Iterator[BaseException]:
    """Yield an error and the errors below it, suppressed or not."""
    below: BaseException | None = error
    for _ in range(most):
        if below is None:
            return
        yield below
        below = below.__cause__ or below.__context__


def own_words(error: BaseException, *packages: str) -> str:
    """Return the text of a library's error; empty for a subclass of the user's.

    Such a class is read by its base, never by its words.
    """
    return text_of(error) if package_of(type(error)) in packages else ""


def package_of(cls: type) -> str:
    """Return the top package in a class's `__module__`; empty if that is no text."""
    module = cast("object", cls.__module__)  # it may be any object
    return module.partition(".")[0] if isinstance(module, str) else ""


def short_of(text: str) -> str:
    """Return the peer's text as the end of a message: empty, or `: text` of at most 160 characters."""
    text = " ".join(text[:_LOOKED_AT].split())
    return f": {text[:159]}…" if len(text) > 160 else f": {text}" if text else ""
