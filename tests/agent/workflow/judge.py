"""What the next run will have to say, read from the disk before it begins: the judge of any sequence of kills and damage.

Rule: it asks nothing of the runner. Where a copy of the state cannot be used, what is used instead has to be told; so have the phase that
a process died in, and every finished phase that does not hold. Damage that no run can see needs no word, and that is only this:
- to a backup whose file is sound: the next save mends it before anybody looks;
- both copies removed: nothing is left that could know that there was something;
- to an artifact of a phase that is not finished, or that an earlier run of the same word has found: it is made anew anyway;
- while the workflow is halted: a run that is not resumed tells how it halted, and looks at nothing; the resumed one does.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import attrs

from resilient_bridge.agent import WorkflowStatus
from tests.internals.agent import VERSION, WorkflowState
from tests.internals.stores import InvalidDocumentError, history_of, identity_of, instant, read_flat


_DEATHS = 3


@attrs.frozen
class Copy:
    """One copy of the state: whether it is there, what its envelope says, and the state if that can be used."""

    is_there: bool
    document: object = None
    state: WorkflowState | None = None
    is_sound: bool = False
    is_complete: bool = False
    """Its journal belongs to it, and the state is what both say."""
    is_without: bool = False
    """It should have a journal, and has none, or not all of it."""


def _read(path, main):
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Copy(is_there=False)
    try:
        document, is_sound = read_flat(data), True
    except InvalidDocumentError as error:
        document, is_sound = error.document, False
    state = None
    if document is not None and document.version in (1, VERSION) and document.has_value:
        try:
            state = WorkflowState.from_value(document.value)
        except ValueError:
            is_sound = False
    copy = Copy(is_there=True, document=document, state=state, is_sound=is_sound)
    if not is_sound or state is None:
        return copy
    history = _history(main)
    if not history.is_of(identity_of(data)):
        return attrs.evolve(copy, is_without=document.version == VERSION)
    return attrs.evolve(
        copy,
        state=WorkflowState.from_value(history.value),
        is_complete=history.is_whole,
        is_without=not history.is_whole,
    )


def _history(main):
    journals = (main.with_name(f"{main.name}.journal{more}") for more in ("", ".bak"))
    return history_of([one.read_bytes() if one.exists() else b"" for one in journals])


def _changed(root, name, checksum):
    try:
        return f"sha256:{sha256((root / name).read_bytes()).hexdigest()}" != checksum
    except FileNotFoundError:
        return True


@attrs.define
class Judge:
    """From life to life: `lost` has the words for the state that was lost last, `phases` those for phases which no report has said yet."""

    root: Path
    path: Path
    once: frozenset[str] = frozenset()
    """Phases that must not run twice: after a death in one of them a person is asked."""
    lost: str = ""
    phases: set[str] = attrs.field(factory=set)
    without: object = None
    """The content of the file that was without its journal last."""
    is_forgotten: bool = False
    """Both copies were gone at some time, so that a run began anew and could not know it."""

    def look(self, *, resumes=False):
        """Before a life; `resumes`: it goes on after a halt."""
        file = _read(self.path, self.path)
        backup = _read(self.path.with_name(f"{self.path.name}.bak"), self.path)
        state, lost = file.state, ""
        if (
            file.is_sound and state is None and not backup.is_there
        ):  # it says that there is none any more, and why
            lost = file.document.lost
        elif not (file.is_there or backup.is_there):
            self.lost, self.phases = "", set()
            self.is_forgotten |= self.path.with_name(f"{self.path.name}.owner").exists()
        elif not file.is_sound or state is None:
            state, lost = self._instead(file, backup)
        elif file.is_without:
            lost, self.without = "what was recorded after", file.document
        elif file.is_complete and self.lost and self.without == file.document:
            # a bit of its journal was flipped back before anybody wrote: it is there again
            self.lost = ""
        if lost:  # with the state, its warnings are lost
            self.lost, self.phases = lost, set()
        if state is not None and (state.status is not WorkflowStatus.HALTED or resumes):
            self.phases |= {*self._deaths(state), *self._broken(state)}

    def _instead(self, file, backup):
        """Which state is used, and the words for what is lost by that."""
        if backup.is_sound and backup.state is not None:
            later = f"what was saved after {instant(backup.document.saved_at)}"
            return backup.state, "" if backup.is_complete else later
        history = _history(self.path)
        if history.value is not None and history.is_whole:
            return WorkflowState.from_value(history.value), ""
        for one in (file, backup):
            if one.state is not None:
                return one.state, "perhaps a part: the checksum is wrong"
        return None, "all of it: neither the file nor a backup can be used"

    def _deaths(self, state):
        if state.starts and state.current_phase in self.once:
            yield f"phase {state.current_phase} may have run"
        elif 0 < state.starts < _DEATHS:
            yield f"phase {state.current_phase} began again: the process had ended inside of it"

    def _broken(self, state):
        newest = {name: one.checksums[name] for one in state.checkpoints for name in one.artifacts}
        for one in state.checkpoints:
            if any(_changed(self.root, name, newest[name]) for name in one.artifacts):
                yield f"phase {one.phase} was finished, but"

    def missing(self, report):
        """What a report, as a dictionary, should have said and does not. One of a halt may leave phases for those after it."""
        texts = [*report["warnings"], *(one["reason"] for one in report["skipped"])]
        text = "\n".join(
            texts if report["failure"] is None else [*texts, report["failure"]["message"]]
        )
        self.phases = {words for words in self.phases if words not in text}
        missing = set() if self.lost in text else {self.lost}
        return missing | (self.phases if report["status"] == "completed" else set())
