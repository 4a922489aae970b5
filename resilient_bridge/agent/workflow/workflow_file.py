"""The state file of a workflow: its one writer, its loading and its saving.

Rule: one process at a time writes; a step counts once it is on disk. The file changes when a phase
ends; what happens in between is appended to the journal beside it, of which there are two copies.
So any one of the four may be damaged, and no step is lost. A file of a later version is refused and
not changed.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

import attrs

from ...failure import BridgeError, ConfigError, Failure, StoreError
from ...files.owner import Owner
from ...files.private_files import path_of, read_private
from ...stores.state_files.copies import backup_of, is_whole
from ...world import current_world
from ..blocking import in_thread
from .checkpoint import WorkflowState
from .file_form import FORM, VERSION, WorkflowFile


if TYPE_CHECKING:
    import os
    from pathlib import Path

    from ...stores.state_files.state_file import Loaded


_OF: Final = "a state document"
_MEND: Final = ("run or resume: it is kept under another name, and its backup is used",)


class WorkflowStateFile:
    """The state file of one workflow. Call `take` first and `release` at the end."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        file_path = path_of(path, "Workflow.path")
        self._file = WorkflowFile(
            file_path,
            version=VERSION,
            check=WorkflowState.from_value,
            migrations={1: dict},  # it had no journal: the value was all
        )
        self._owner = Owner(self._file.path)
        self._saved_at: datetime | None = None
        self._last: WorkflowState | None = None  # as file and journal have it

    @property
    def path(self) -> Path:
        return self._file.path

    def take(self) -> None:
        """Become the only writer.

        Raises StoreError: SYS_STORE_IN_USE if another process is, SYS_STATE_FOREIGN for a file of a
        later version.
        """
        self._refuse_later()
        try:
            self._owner.take()
        except StoreError as error:
            if error.failure.code != "SYS_STORE_IN_USE":
                raise
            text = f"{self.path.name}: {error.failure.message.removeprefix('the store is ')}"
            failure = attrs.evolve(
                error.failure, message=text, suggestions=("wait for that run, or end it",)
            )
            raise StoreError(failure) from None

    def release(self) -> None:
        self._owner.release()

    async def load(self) -> tuple[WorkflowState | None, Loaded]:
        """Load the state; a damaged file is restored from its backup, which is one step older.

        Raises StoreError and ConfigError.
        """
        return await in_thread(self._load)

    def peek(self) -> WorkflowState | None:
        """Read the state without taking the file; None if there is no file.

        Changes nothing. Raises StoreError for a damaged file.
        """
        path = self._file.path
        self._refuse_later()
        try:
            while True:
                data = read_private(path, "Workflow.path")
                if data is None:
                    break
                value, lost = self._file.current(data)
                # while it was read, another process may have saved, and begun its journal anew
                if not lost or read_private(path, "Workflow.path") == data:
                    return (
                        None
                        if value is None
                        else _with_losses(WorkflowState.from_value(value), lost)
                    )
            if read_private(backup_of(path, FORM), "Workflow.path") is None:
                return None
            raise StoreError(
                Failure.of(
                    "SYS_STATE_DAMAGED",
                    f"{path} is missing, and its backup is not",
                    suggestions=_MEND,
                )
            )
        except ConfigError:  # is a ValueError too
            raise
        except ValueError as error:
            raise StoreError(
                Failure.of("SYS_STATE_DAMAGED", f"{path}: {error}", cause=error, suggestions=_MEND)
            ) from error

    async def note(self, state: WorkflowState, *, synced: int = 1) -> None:
        """Append a step to the journal; `synced`: how many of its two copies are flushed.

        None: the step survives the death of the process; one: also a power cut; two: also a power
        cut and damage in one copy. Raises StoreError: the step does not count then, unless
        `failure.executed` is MAYBE. A cancelled call is completed before CancelledError is raised.
        """
        await in_thread(self._note, state, synced)

    async def save(self, state: WorkflowState) -> None:
        """Save the step that ends a phase, or the workflow: to the journal, the backup, the file.

        Raises what `note` does.
        """
        await in_thread(self._save, state)

    def save_if_possible(self, state: WorkflowState) -> None:
        """Save the state when the run is cancelled, without awaiting anything; an error is ignored."""
        with suppress(BridgeError):
            self._note(state, 1)

    def _load(self) -> tuple[WorkflowState | None, Loaded]:
        self._refuse_later()  # again: a later version may have written until we took the file
        loaded = self._file.load()
        self._saved_at = loaded.saved_at
        self._last = None if loaded.value is None else WorkflowState.from_value(loaded.value)
        if self._last is None:
            return None, loaded
        if loaded.source == "backup" and not loaded.lost:
            # The journal had what the backup has not. The new file does not say that it was made.
            self._note(_with_losses(self._last, "nothing"), 1)
        return _with_losses(self._last, loaded.lost), loaded

    def _refuse_later(self) -> None:
        """Raise StoreError (SYS_STATE_FOREIGN) if a later version wrote the file or its backup.

        A save would overwrite it.
        """
        for path in (self._file.path, backup_of(self._file.path, FORM)):
            try:
                is_whole(path, VERSION, field="Workflow.path", of=_OF, form=FORM)
            except BridgeError as error:
                if error.failure.code == "SYS_STATE_FOREIGN":
                    raise  # a file that cannot be read is reported where it is used
        with suppress(ConfigError):
            self._file.history()

    def _note(self, state: WorkflowState, synced: int) -> None:
        if self._last is not None and self._file.append(
            self._owner, state.change_since(self._last), synced=synced
        ):
            self._last = state
        else:
            self._save(state)

    def _save(self, state: WorkflowState) -> None:
        # The present file becomes the backup.
        state = attrs.evolve(state, last_backup=self._saved_at)
        change = None if self._last is None else state.change_since(self._last)
        self._file.save_as(self._owner, state.to_value(), change)
        self._saved_at = current_world().now()
        self._last = state


def _with_losses(state: WorkflowState, lost: str) -> WorkflowState:
    """Return the state with a warning about what its file has lost."""
    return state.warned(f"the state was damaged; lost: {lost}") if lost else state
