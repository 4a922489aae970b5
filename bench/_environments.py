"""Environments outside the repository, for programs of other authors whose requirements would disturb ours.

Rule: what is installed is noted beside it, so an environment is made anew only for what it does not have.
"""

from __future__ import annotations

import re
import subprocess
import venv
from collections.abc import Iterable
from pathlib import Path


def has(folder: Path, names: Iterable[str]) -> bool:
    """Whether these names with their versions are noted there."""
    return set(names) <= set(_noted(folder))


def note(folder: Path, names: Iterable[str]) -> None:
    """Add these to what is installed; another version of the same package is replaced."""
    packages = {re.split("[=@]", name)[0] for name in names}
    others = [line for line in _noted(folder) if re.split("[=@]", line)[0] not in packages]
    (folder / "installed").write_text("\n".join([*others, *names]))


def _noted(folder: Path) -> list[str]:
    noted = folder / "installed"
    return noted.read_text().split() if noted.exists() else []


def python_with(folder: Path, names: list[str]) -> Path:
    """The interpreter of a virtual environment that has these from PyPI (`name==version`). CalledProcessError if pip fails."""
    python = folder / "bin" / "python"
    if not has(folder, names):
        if not python.exists():
            venv.create(folder, with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", *names], check=True, stderr=subprocess.DEVNULL
        )
        note(folder, names)
    return python
