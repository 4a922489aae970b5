"""The two copies of a value, for callers that must not set aside a copy of a later version.

Rule: this module reads the file and the backup beside it, and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...failure import Failure, StoreError
from ...files.private_files import read_private
from .document import ENVELOPE, InvalidDocumentError


if TYPE_CHECKING:
    from pathlib import Path

    from .document import Form


def backup_of(path: Path, form: Form = ENVELOPE) -> Path:
    """Return the path of the backup of a file."""
    return path.with_name(path.name + form.backup)


def is_whole(
    path: Path, version: int, *, field: str, of: str, form: Form = ENVELOPE
) -> bool | None:
    """Return whether a copy is intact, None if it is missing.

    The version number of a damaged one is ignored.

    Raises the StoreError of `later_version` for a later version than this, and what `read_private`
    raises for `field`.
    """
    data = read_private(path, field)
    if data is None:
        return None
    try:
        found = form.read(data).version
    except InvalidDocumentError:
        return False
    if found > version:
        raise later_version(path, version, found, of=of)
    return True


def later_version(path: Path, version: int, found: int, *, of: str) -> StoreError:
    """Return the error for a copy of an unknown version; `of` names the kind of state."""
    return StoreError(
        Failure.of(
            "SYS_STATE_FOREIGN", f"{path}: wanted version {version} of {of}, got version {found}"
        )
    )
