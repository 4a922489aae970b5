"""`mcp --install CLIENT NAME`: put the entry into a client's configuration, and `--undo` takes it out again.

Rule: nothing of the file is lost. All of it but the entry stays as it was written; it is copied
beside itself first; what cannot be kept (comments, a link, a file that changed meanwhile) is
refused, and nothing is changed. The difference goes to stdout, remarks for people to stderr.
"""

from __future__ import annotations

import argparse
import difflib
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..config.json_members import NotEditableError, members_of, with_member
from ..failure.redaction import redact_lines
from ..files.file_changes import keep_copy, remove, replace_atomically
from ..files.private_files import path_of, prepare_directory, read_private
from .mcp_config import CLIENTS, Client, entry_for, remark, remarks
from .printing import complain, show


if TYPE_CHECKING:
    from ..adapters.sidecar.options import Sidecar


_OPTION: Final = "--install"
_BACKUP: Final = "backup"
_MEANWHILE: Final = "--install: another program has changed the file meanwhile; run this again"
_WIDE: Final = 400  # characters of a line that is shown


def install(arguments: argparse.Namespace, sidecar: Sidecar) -> int:
    """Put the entry into the client's file, and show the difference.

    Return 0, also if it is there already, or 2 if it is refused; then nothing was changed. Raises
    ConfigError or StoreError of the file.
    """
    client, name = arguments.install
    found = _file_of(client)
    if isinstance(found, str):
        return complain("mcp", found)
    if arguments.http is not None:
        return complain("mcp", f"{_OPTION}: with --http there is nothing to start")
    kind, path = found
    entry = entry_for(client.partition("=")[0], arguments, sidecar)
    if isinstance(entry, str):
        return complain("mcp", entry)
    try:
        before = _read(path)
        text = "" if before is None else before.decode("utf-8")
        after = with_member(text, kind.member, name, entry)
    except (NotEditableError, UnicodeDecodeError) as error:
        return complain("mcp", _by_hand(path, error, client))
    if after == text:
        remark([f"{name} is in {path} already, as it would be written"])
        return 0
    if (code := show("mcp", _difference(path, text, after), is_data=True)) != 0:
        return code
    backup = _replace(path, before, after)
    copied = f"as it was: {backup}" if backup is not None else "it is new"
    takes_back = f"{_OPTION} {client} {name} --undo takes it back; restart the client"
    remark([f"wrote {path}; {copied}; {takes_back}", *remarks(arguments, sidecar)])
    return 0


def undo(arguments: argparse.Namespace) -> int:
    """Put the client's file back as it was before the entry was installed.

    Return 0, or 2 if the file was changed since, or has no such entry; then nothing was changed.
    Raises ConfigError or StoreError of the file.
    """
    client, name = arguments.install
    found = _file_of(client)
    if isinstance(found, str):
        return complain("mcp", found)
    kind, path = found
    try:
        data = _read(path)
        now = "" if data is None else data.decode("utf-8")
        servers = members_of(now, kind.member) if now.strip() else {}
    except (NotEditableError, UnicodeDecodeError) as error:
        return complain("mcp", _by_hand(path, error, client))
    if name not in servers:
        return complain("mcp", f"--undo: {name} is not in {path}")
    backups = sorted(path.parent.glob(f"{path.name}.{_BACKUP}-*"), reverse=True)
    for backup in backups:
        before = read_private(backup, _OPTION)
        text = "" if before is None else before.decode("utf-8", "replace")
        if _is_step(text, now, kind.member, name, servers[name]):
            return _put_back(path, now, text, backup)
    if with_member("", kind.member, name, servers[name]) == now:
        return _put_back(path, now, "", None)
    copied = f"; as it was before: {backups[0]}" if backups else ""
    return complain("mcp", f"--undo: {path} was changed since, so nothing was undone{copied}")


def _file_of(client: str) -> tuple[Client, Path] | str:
    """Return the client and the path of its file, or what is wrong with CLIENT or CLIENT=FILE."""
    name, _, own = client.partition("=")
    kind = CLIENTS.get(name)
    if kind is None:
        known = ", ".join(each for each, one in CLIENTS.items() if one.is_json)
        return f"{_OPTION}: one of {known} expected, got {name!r}"
    if not kind.is_json:
        into = f" into {kind.where}" if kind.where else ""
        return f"{_OPTION}: {name} has no JSON file; put what --print-config {name} prints{into}"
    if not own and not kind.path:
        return f"{_OPTION}: {name}=FILE expected: the file that your client reads"
    path = path_of(own or kind.path.replace("{data}", _data_folder()), _OPTION)
    if not own and kind.path.startswith("{data}") and not path.parent.is_dir():
        return f"{_OPTION}: no folder {path.parent}: start the client once, or write {name}=FILE"
    return kind, path


def _data_folder() -> str:
    """Return the folder of programs' data on this system."""
    if sys.platform == "darwin":
        return "~/Library/Application Support"
    if sys.platform == "win32":
        return os.environ.get("APPDATA") or "~/AppData/Roaming"
    return os.environ.get("XDG_CONFIG_HOME") or "~/.config"


def _read(path: Path) -> bytes | None:
    """Return the content of the file, None if there is none.

    Raises ConfigError for a link and the like, NotEditableError for a file that is read-only.
    """
    data = read_private(path, _OPTION, is_shared=True)
    if data is not None and not (path.stat().st_mode & stat.S_IWUSR and os.access(path, os.W_OK)):
        raise NotEditableError("it is read-only")
    return data


def _by_hand(path: Path, error: Exception, client: str) -> str:
    why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
    name = client.partition("=")[0]
    return (
        f"{_OPTION}: {path} is not changed: {why}; --print-config {name} prints what to put there"
    )


def _difference(path: Path, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.split("\n"), after.split("\n"), str(path), str(path), n=2, lineterm=""
    )
    return redact_lines("\n".join(lines), limit=_WIDE)


def _replace(path: Path, before: bytes | None, after: str) -> Path | None:
    """Write the file, and return where its old content is. A file that others may read stays so.

    Raises StoreError, and NotEditableError if another program has changed it meanwhile.
    """
    prepare_directory(path, _OPTION)
    mode = None if before is None else stat.S_IMODE(path.stat().st_mode)
    backup = None if before is None else keep_copy(path, before, _BACKUP)
    if _read(path) != before:
        if backup is not None:
            remove(backup)
        raise NotEditableError(_MEANWHILE)
    replace_atomically(path, after.encode("utf-8"))
    if mode is not None:
        path.chmod(mode)
    return backup


def _is_step(before: str, now: str, member: str, name: str, entry: object) -> bool:
    """Return whether the file is as it was then, but for this entry."""
    try:
        return with_member(before, member, name, entry) == now
    except NotEditableError:
        return False


def _put_back(path: Path, now: str, before: str, backup: Path | None) -> int:
    """Write what was there before, or remove the file that was new."""
    if (code := show("mcp", _difference(path, now, before), is_data=True)) != 0:
        return code
    if _read(path) != now.encode("utf-8"):
        raise NotEditableError(_MEANWHILE)
    if backup is None:
        remove(path)
        remark([f"removed {path}, which had nothing else; restart the client"])
        return 0
    mode = stat.S_IMODE(path.stat().st_mode)
    replace_atomically(path, before.encode("utf-8"))
    path.chmod(mode)
    remove(backup)
    remark([f"{path} is as it was; restart the client"])
    return 0
