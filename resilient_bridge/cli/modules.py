"""The user's own code, named on the command line as `MODULE:NAME` or `FILE.py:NAME`.

Rule: what is named so is imported, and with that run, as `python -m MODULE` in this directory would.
"""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

from ..failure import text_of


if TYPE_CHECKING:
    from types import ModuleType


class CannotLoadError(Exception):
    """There is no such module or file, or it raises when it is imported."""


def split(target: str) -> tuple[str, str]:
    """Return the module or file, and the name in it ("" if there is none)."""
    where, _, name = target.rpartition(":")
    # not the drive of C:\\flow.py
    return (where, name) if where and name.isidentifier() else (target, "")


def load(where: str) -> ModuleType:
    """Return the module of this name, or of this file, found from the current directory.

    Raises CannotLoadError.
    """
    path = Path(where)
    is_file = where.endswith(".py")
    if is_file and not path.is_file():
        raise CannotLoadError(f"wanted a Python file or a module, got {where!r}")
    sys.path.insert(0, str(path.absolute().parent if is_file else Path.cwd()))
    try:
        return _executed(path) if is_file else import_module(where)
    except (Exception, SystemExit) as error:
        text = f"{type(error).__name__}: {text_of(error)}{_line_of(error, where)}"
        raise CannotLoadError(f"{where!r} cannot be imported: {text}") from error


def _executed(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:  # pragma: no cover -- not for a name that ends with .py
        raise ImportError(path)
    module = module_from_spec(spec)
    # `setdefault`: a file json.py must not replace the module json
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _line_of(error: BaseException, where: str) -> str:
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == where
    ]
    return f" (line {lines[-1]})" if lines else ""
