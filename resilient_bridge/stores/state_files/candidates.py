"""Whether a copy of a state can be used, and how far: by version, migrations, check and orphans.

Does no I/O.

Rule: exceptions of the user's functions count against the value only where that is their purpose
(`check`, `orphans`). A migration that raises is a defect of the program, not of the file: its error
is raised unchanged, before anything is touched.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import attrs

from ...failure import Failure, config_error, text_of
from ...values.fields import is_count
from .document import ENVELOPE, Document, Form, InvalidDocumentError


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from pathlib import Path


@attrs.frozen(kw_only=True)
class Candidate:
    """One copy of a state. `is_usable`: its value can be used. `failure`: what is wrong.

    `is_salvageable`: it can be used if no better copy exists. `dropped` says what `orphans` took
    out of the value, `lost` what an earlier load had lost already. `is_over`: it is sound, and says
    that there is no value. `is_outdated`: its backup is newer. `is_current`: this version of the
    program has written it. `is_complete`: its value has all that was appended since it was written.
    `is_from_journal`: the copy cannot be used, and its value is that of the journal.
    """

    path: Path
    data: bytes | None
    value: Any = None
    saved_at: datetime | None = None
    dropped: str = ""
    lost: str = ""
    is_over: bool = False
    is_usable: bool = False
    is_salvageable: bool = False
    is_outdated: bool = False
    is_current: bool = False
    is_complete: bool = False
    is_from_journal: bool = False
    failure: Failure

    @property
    def is_sound(self) -> bool:
        return self.is_over or (self.is_usable and not self.dropped and not self.is_from_journal)

    @property
    def label(self) -> str:
        """The label in the name under which it is set aside."""
        if self.is_outdated:
            return "outdated"
        return "foreign" if self.failure.code == "SYS_STATE_FOREIGN" else "damaged"


class _UnfitError(Exception):
    """A value that its check refuses."""


@attrs.frozen(kw_only=True)
class Demands:
    """A program's requirements for its state; the arguments of `StateFile`.

    Raises ConfigError for invalid ones.
    """

    version: int
    check: Callable[[Any], object] | None
    orphans: Callable[[Any], tuple[Any, str]] | None
    migrations: Mapping[int, Callable[[Any], Any]]
    form: Form = ENVELOPE

    def __attrs_post_init__(self) -> None:
        if not is_count(self.version):
            raise config_error("StateFile.version", "a whole number of at least 1", self.version)
        for name, function in (("check", self.check), ("orphans", self.orphans)):
            if function is not None and not _is_plain_function(function):
                raise config_error(
                    f"StateFile.{name}", "a function that takes the value, not async", function
                )
        for step, function in self.migrations.items():
            if not is_count(step) or step >= self.version or not _is_plain_function(function):
                wanted = f"functions by the version they start from, 1 to {self.version - 1}"
                raise config_error("StateFile.migrations", wanted, f"{step}: {function}")

    def examined(self, path: Path, data: bytes | None) -> Candidate:
        """Return the candidate for the content of a file; `data` is None if the file is missing.

        Raises what a migration raises.
        """
        if data is None:
            return Candidate(
                path=path, data=None, failure=_damaged(path, "wanted a file, got none")
            )
        try:
            document = self.form.read(data)
        except InvalidDocumentError as error:
            return self._salvaged(path, data, error)
        if not self._reaches(document.version):
            return Candidate(path=path, data=data, failure=self._foreign(path, document.version))
        if not document.has_value:
            failure = _damaged(path, "wanted a value, got none")
            return Candidate(
                path=path, data=data, lost=document.lost, is_over=True, failure=failure
            )
        failure = _damaged(path, "wanted references to what exists, got orphans")
        try:
            value, dropped = self._accepted(self._migrated(path, document))
        except _UnfitError as error:
            return Candidate(path=path, data=data, failure=_damaged(path, str(error), error))
        return Candidate(
            path=path,
            data=data,
            value=value,
            saved_at=document.saved_at,
            dropped=dropped,
            lost=document.lost,
            is_usable=True,
            is_current=document.version == self.version and not document.is_adopted,
            failure=failure,
        )

    def completed(self, candidate: Candidate, value: Any) -> Candidate | None:
        """Return a usable candidate with the value that it has now, None if the check refuses it."""
        try:
            value, dropped = self._accepted(value)
        except _UnfitError:
            return None
        return attrs.evolve(candidate, value=value, dropped=dropped, is_complete=True)

    def outdated(self, main: Candidate, backup: bytes | None) -> Candidate | None:
        """Return a sound file as outdated, if its backup can be used and is newer; else None."""
        if main.data is None or backup is None:
            return None
        newer = self.known(backup)
        if newer is None or not newer.has_value or not newer.is_newer(self.form.read(main.data)):
            return None
        if not self.examined(main.path, backup).is_sound:
            return None
        reason = "wanted a state no older than its backup, got one that is older than its backup"
        return attrs.evolve(
            main, is_usable=False, is_outdated=True, failure=_damaged(main.path, reason)
        )

    def known(self, data: bytes) -> Document | None:
        """Return the document in a file.

        None if it is damaged or of a later version, and so must not be overwritten.
        """
        with suppress(InvalidDocumentError):
            document = self.form.read(data)
            return document if document.version <= self.version else None
        return None

    def refuse_unfit(self, value: Any) -> None:
        """Raise what the check raises, or ConfigError if it returns False."""
        if self.check is not None and self.check(value) is False:
            raise config_error("value", "one that passes its check", "one that does not")

    def _salvaged(self, path: Path, data: bytes, error: InvalidDocumentError) -> Candidate:
        """Return the candidate of an invalid document: salvageable if the check accepts its value.

        Without a check it is not used.
        """
        failure = _damaged(path, str(error), error)
        if error.is_foreign:
            failure = attrs.evolve(self._foreign(path, None), cause=error)
        nothing = Candidate(path=path, data=data, failure=failure)
        document = error.document
        if (
            document is None
            or not document.has_value
            or document.version != self.version
            or self.check is None
        ):
            return nothing
        try:
            value, dropped = self._accepted(document.value)
        except _UnfitError:
            return nothing
        return attrs.evolve(
            nothing,
            value=value,
            saved_at=document.saved_at,
            dropped=dropped,
            lost=document.lost,
            is_salvageable=True,
        )

    def _reaches(self, version: int) -> bool:
        """Return whether the migrations lead from this version to ours."""
        return 1 <= version <= self.version and all(
            step in self.migrations for step in range(version, self.version)
        )

    def _migrated(self, path: Path, document: Document) -> Any:
        value = document.value
        for step in range(document.version, self.version):
            try:
                value = self.migrations[step](value)
            except Exception as error:
                error.add_note(
                    f"migration of {path} from version {step} to {step + 1}; the file is as it was"
                )
                raise
        return value

    def _accepted(self, value: Any) -> tuple[Any, str]:
        """Return the value without orphans, and what they were.

        The value is checked before and, if there were any, after.
        """
        self._checked(value)
        if self.orphans is None:
            return value, ""
        try:
            found = cast("object", self.orphans(value))
        except Exception as error:
            raise _UnfitError(f"the search for orphans raised {_error_text(error)}") from error
        name = type(found).__name__
        pair = cast("tuple[Any, Any]", found) if isinstance(found, tuple) else ()
        if len(pair) != 2 or not isinstance(pair[1], str):
            wanted = "a function that returns the value without orphans, and what they were as text"
            raise config_error("StateFile.orphans", wanted, f"one that returns {name}")
        if pair[1]:
            self._checked(pair[0])
        return pair

    def _checked(self, value: Any) -> None:
        try:
            passes = self.check is None or self.check(value) is not False
        except Exception as error:
            raise _UnfitError(f"its check raised {_error_text(error)}") from error
        if not passes:
            raise _UnfitError("wanted a value that passes its check, got one that does not")

    def _foreign(self, path: Path, version: int | None) -> Failure:
        got = "other JSON" if version is None else f"version {version}"
        wanted = f"version {self.version} of a state document"
        return Failure.of("SYS_STATE_FOREIGN", f"{path}: wanted {wanted}, got {got}")


def _damaged(path: Path, reason: str, cause: Exception | None = None) -> Failure:
    current: BaseException | None = cause
    while current is not None:  # its frames would keep the reader alive, with its lock on the file
        current.__traceback__ = None
        current = current.__cause__ or current.__context__
    return Failure.of("SYS_STATE_DAMAGED", f"{path}: {reason}", cause=cause)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {text_of(error)}".removesuffix(": ")


def _is_plain_function(function: object) -> bool:
    from inspect import iscoroutinefunction

    return callable(function) and not iscoroutinefunction(function)
