"""The form of a workflow's state file: the fields of ccsetup's checkpoint format, and ours.

Ours are beside them, at the top level.

Rule: one form is written, the flat one. Two are read: also a file in ccsetup's own form, which
another program has written and which has no checksums.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast
from uuid import NAMESPACE_URL, uuid5

from ...stores.state_files.document import (
    Document,
    Form,
    InvalidDocumentError,
    read_flat,
    read_json,
    write_flat,
)
from ...stores.state_files.journaled import JournaledFile
from .workflow_fields import each, items, mapping, moment, optional, text, texts, wrong


VERSION: Final = 2
"""The version of the file: from 2 on a journal beside it has what happened since it was saved."""
UNNAMED: Final = "unnamed"
"""The name of an adopted workflow whose file has none."""
UNSAID: Final = "1970-01-01T00:00:00Z"
"""The start of an adopted workflow whose file has none."""


def read(data: bytes) -> Document:
    """Read a document in either form. Raises InvalidDocumentError for anything else."""
    try:
        return read_flat(data)
    except InvalidDocumentError as error:
        if not error.is_foreign:
            raise
        body = read_json(data)
        if "phases_completed" not in body or not ({"current_phase", "workflow"} & body.keys()):
            raise
        try:
            value, saved_at = _adopted(body)
        except ValueError as reason:
            raise InvalidDocumentError(f"wanted ccsetup's checkpoint format: {reason}") from None
        return Document(version=VERSION, saved_at=saved_at, value=value, is_adopted=True)


FORM: Final = Form(write=write_flat, read=read, backup=".bak")


class WorkflowFile(JournaledFile):
    """A state file in these forms, with a journal; its backup is `<name>.bak`."""

    _form = FORM


# ---- ccsetup's own form ----------------------------------------------------------------------------------------------


def _adopted(body: dict[str, Any]) -> tuple[dict[str, Any], datetime | None]:
    """Return the fields of a state from another program's file, and when it was saved.

    Its current phase is in doubt. Its excerpt for partial recovery has neither name nor start.
    """
    workflow = text(body.get("workflow", UNNAMED), "workflow")
    started = text(body.get("started_at", UNSAID), "started_at")
    moment(started, "started_at")
    saved_at = optional(body.get("last_backup"), moment, "last_backup")
    current = optional(body.get("current_phase"), text, "current_phase")
    completed = texts(body["phases_completed"], "phases_completed")
    listed = each(body.get("checkpoints") or [], mapping, "checkpoints")
    made = {
        text(one.get("phase"), f"checkpoints[{index}].phase"): one
        for index, one in enumerate(listed)
    }
    if unknown := sorted(made.keys() - set(completed)):
        raise ValueError(
            f"checkpoints: wanted phases of phases_completed, got {', '.join(unknown)[:100]}"
        )
    ended = body.get("last_backup") or started
    checkpoints = [_checkpoint(name, made.get(name, {}), ended) for name in completed]
    if checkpoints and body.get("artifacts"):  # its partial recovery names them beside the phases
        more = _artifacts(body["artifacts"], "artifacts")
        for field, names in zip(("artifacts", "commits"), more, strict=True):
            checkpoints[-1][field] = [*dict.fromkeys([*checkpoints[-1][field], *names])]
    errors = items(body.get("errors") or [], "errors")
    value: dict[str, Any] = {
        "workflow": workflow,
        "started_at": started,
        "phases_completed": list(completed),
        "current_phase": None if current in completed else current,
        "checkpoints": checkpoints,
        "errors": [one if isinstance(one, dict) else {"message": str(one)} for one in errors],
        "last_backup": body.get("last_backup"),
        "id": str(uuid5(NAMESPACE_URL, f"{workflow}/{started}")),  # the same for every reader
        "root": ".",
        "status": "running",
        "skipped": [],
        "begun": 0,
        "in_doubt": [] if current is None or current in completed else [current],
        "failure": None,
        "saved": None,
        "warnings": [],
        "calls": [],
        "is_adopted": True,
    }
    return value, saved_at


def _checkpoint(name: str, body: Mapping[str, Any], ended: str) -> dict[str, Any]:
    path = f"checkpoints.{name}"
    artifacts, commits = _artifacts(body.get("artifacts") or [], f"{path}.artifacts")
    sums = mapping(body.get("checksums") or {}, f"{path}.checksums")
    return {
        "phase": name,
        "completed_at": body.get("completed_at", ended),
        "artifacts": artifacts,
        "checksums": {
            one: digest for one, digest in sums.items() if one in artifacts and _is_ours(digest)
        },
        "commits": [*commits, *texts(body.get("commits") or [], f"{path}.commits")],
    }


def _is_ours(checksum: object) -> bool:
    return isinstance(checksum, str) and checksum.startswith(("sha256:", "tree-sha256:"))


def _artifacts(value: Any, path: str) -> tuple[list[str], list[str]]:
    """Read files and commits: a list of files, or an object with `files` and `commits`."""
    if isinstance(value, list):
        return list(texts(value, path)), []
    if not isinstance(value, dict):
        raise wrong(path, "a list of files, or an object of files and commits", value)
    both = cast("dict[str, Any]", value)
    return (
        list(texts(both.get("files") or [], f"{path}.files")),
        list(texts(both.get("commits") or [], f"{path}.commits")),
    )
