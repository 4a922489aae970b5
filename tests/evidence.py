"""How old the figures of docs/reference/evidence.md are, measured by the code that they speak of.

Rule: no clock and no history of git is asked. tests/evidence.json keeps, for each part of the page, one line of code in
eight as it was when the part's figures were counted; a part is too old when more than a quarter of those lines are in no module
of its tree any more. What moved has not changed, and code that is new is not what the figures speak of.
After a campaign: put its figures and its date on the page, then `python -m tests.evidence "Dialects"` (or another heading).
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path


ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/evidence.md"
STORED = Path(__file__).with_suffix(".json")
ALLOWED = 0.25
# The parts of the page: the rooms of the package that each speaks of, and what makes its runs.
ROOMS = {
    "Evidence: measured under injected faults": (
        "adapters",
        "calls",
        "failure",
        "agent/tools",
        "agent/workflow",
        "tests/campaigns",
    ),
    "Dialects": ("client", "protocol", "tests/bridges/dialects"),
    "The MCP sidecar": ("adapters/sidecar", "tests/adapters/sidecar/struck.py"),
    "Behind proxies": ("adapters/links", "adapters/sidecar", "tests/campaigns/away.py"),
    "Real servers": ("client", "protocol", "transports", "tests/bridges/servers"),
    "Sends in doubt": ("client", "protocol", "tests/bridges/kills"),
    "Files that are taken away": ("stores/sqlite", "files", "tests/crashes"),
    "Quotas, effects in doubt, orders of tasks": (
        "calls/adaptive",
        "calls/effects.py",
        "calls/limits",
        "stores/effects.py",
        "testing/orders.py",
    ),
    "Alert rules": ("exporters", "tests/exporters/test_rules_fire.py"),
    "The report's page": ("report", "tests/report"),
    "Frameworks": ("examples/frameworks", "tests/frameworks.py"),
    "Mutants": ("tests/mutants.toml",),
    "Platforms": ("calls", "failure", "protocol", "transports", "world"),
}
TREES = (
    "",
    "tests/adapters",
    "tests/bridges",
    "tests/campaigns",
    "tests/crashes",
    "tests/exporters",
    "tests/report",
    "tests/frameworks.py",
    "tests/mutants.toml",
    "examples/",
)


def folder(room: str) -> str:
    """The path of a room: below the package, if it says nothing else."""
    return room if room.startswith(("tests/", "examples/")) else f"resilient_bridge/{room}"


def files(room: str) -> list[str]:
    """The modules of a room; at least one, so that a room that was renamed is noticed."""
    path = ROOT / folder(room)
    found = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert found, f"{folder(room)} expected, which evidence.md speaks of"
    return [str(one.relative_to(ROOT)) for one in found]


def _here(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def sample(names: list[str], read: Callable[[str], str] = _here) -> list[str]:
    """One in eight of the lines of code in these files, as digests: the same ones for the same code, wherever they stand."""
    stored: set[int] = set()
    for name in names:
        for line in re.sub(r'"""(?s:.*?)"""', "", read(name)).splitlines():
            bare = line.strip()
            if len(bare) > 8 and not bare.startswith(("#", "import ", "from ")):
                digest = zlib.crc32(bare.encode())
                if digest % 8 == 0:
                    stored.add(digest)
    return [f"{digest:08x}" for digest in sorted(stored)]


def gone(then: list[str], now: list[str]) -> float:
    """The share of the lines of then that are nowhere now."""
    return len(set(then) - set(now)) / len(then)


def of_rooms(part: str) -> list[str]:
    """What the rooms of a part look like."""
    return sample([name for room in ROOMS[part] for name in files(room)])


def everywhere() -> list[str]:
    """All code that a line may have moved to."""
    return sample([name for tree in TREES for name in files(tree)])


def dates() -> Iterator[tuple[str, str]]:
    """Each part of the page that states when its figures were counted, with the last of those days."""
    for section in re.split(r"^##? ", _here("docs/reference/evidence.md"), flags=re.MULTILINE)[1:]:
        if stated := re.findall(r"^(20\d\d-\d\d-\d\d)\b", section, re.MULTILINE):
            yield section.partition("\n")[0], max(stated)


def main(parts: list[str]) -> None:
    """Keep what the code of these parts is like, under the date that the page states."""
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    days = dict(dates())
    for part in parts:
        stored[part] = {"date": days[part], "lines": " ".join(of_rooms(part))}
    STORED.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:] or sys.exit("name the parts of the page whose figures are new"))
