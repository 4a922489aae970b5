"""The notes of a release: its part of CHANGELOG.md. `python -m website.release_notes [VERSION]` prints them; without a version, what is unreleased."""

from __future__ import annotations

import re
import sys
from pathlib import Path


CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def notes(text: str, version: str | None = None) -> str:
    """Return the part of the changelog of a version (`## 1.2.0 - 2026-12-01`), without its heading. Raises LookupError for one that is not there."""
    wanted = re.escape(version) if version else "Unreleased"
    found = re.search(
        rf"^## \[?{wanted}\]?(?: [^\n]*)?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    if not found:
        known = re.findall(r"^## \[?([\w.]+)", text, re.MULTILINE)
        msg = f"a version of the changelog expected ({', '.join(known)}), got {version or 'Unreleased'!r}"
        raise LookupError(msg)
    return found[1].strip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(notes(CHANGELOG.read_text(encoding="utf-8"), *sys.argv[1:2]))
