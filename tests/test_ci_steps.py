"""What `.ci/run` installs, and what CONTRIBUTING.md names. Rule: nothing that a test needs is left to chance, and no session is a secret."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path


ROOT = Path(__file__).parents[1]
BARE = [
    "bash",
    "dirname",
    "id",
    "mktemp",
    "rm",
]  # what the script itself runs; python3 is a stand-in that says yes


def test_a_bare_machine_gets_every_program_that_a_test_would_skip_without(tmp_path):
    """Redis, Node, nginx and git, strace for calls that fail, unshare and mount for disks that are full."""
    asked = tmp_path / "asked"
    for name in BARE:
        (tmp_path / name).symlink_to(shutil.which(name))
    for name, script in (
        ("python3", "exit 0"),
        ("sudo", 'exec "$@"'),
        ("apt-get", f'[ "$1" = update ] || echo "$@" >> {asked}'),
    ):
        (tmp_path / name).write_text(f"#!{shutil.which('bash')}\n{script}\n")
        (tmp_path / name).chmod(0o755)
    subprocess.run(
        [ROOT / ".ci/run", "system"], env={"PATH": str(tmp_path)}, check=True, capture_output=True
    )
    needed = {
        "git",
        "mount",
        "nginx-light",
        "nodejs",
        "npm",
        "redis-server",
        "strace",
        "util-linux",
    }
    assert needed <= set(asked.read_text().split())


def test_a_marker_that_a_session_asks_for_stands_in_the_file_of_its_tests():
    """Sessions collect only the files in which its text is: no conftest and no fixture adds one."""
    names = re.findall(r'"(mark\.\w+)"', (ROOT / "noxfile.py").read_text())
    assert set(names) == {"mark.simulation", "mark.sample", "mark.crash", "mark.campaign"}
    others = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    assert [str(path) for path in others for name in names if name in path.read_text()] == []


def test_contributing_names_every_session():
    """Whoever reads it knows of the longer campaigns, too."""
    sessions = re.findall(
        r"^@nox\.session.*\ndef (\w+)", (ROOT / "noxfile.py").read_text(), re.MULTILINE
    )
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert {"crashes", "damage", "mutation"} <= set(sessions)
    first = re.search(r"sessions = \[(.*)\]", (ROOT / "noxfile.py").read_text())[1]
    assert [
        name
        for name in sessions
        if f'"{name}"' not in first and f"`nox -s {name}`" not in contributing
    ] == []
