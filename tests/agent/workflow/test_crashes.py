"""The program of docs/how-to/run-a-workflow.md, killed at every point and damaged in every way: what is finished is never done again.

The server answers 503 twice before each first success, the compiler is killed on its first run, git and the files are real, and
each life ends by SIGKILL. `RB_SEED` and `RB_LIVES` choose other sequences and more of them.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.agent.workflow.flows import value_in
from tests.agent.workflow.judge import Judge
from tests.agent.workflow.lives import LEDGER
from tests.samples import IS_ALL, some


pytestmark = [pytest.mark.real, pytest.mark.crash, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/how-to/run-a-workflow.md"
PHASES = ["collect", "build", "proofread", "commit", "announce"]
DIED = "phase {} began again: the process had ended inside of it"
RECOVERED = {
    "collect": "collect: tool fetch recovered after 2 retries",
    "build": "build: tool compile_notes recovered after 1 retry",
    "announce": "announce: tool post recovered after 2 retries",
}
NOTES = "# 1.0\n\n- everything\n"
COMPILER = """
import os, pathlib, signal, sys
first = pathlib.Path(".compiler-ran")
if not first.exists():
    first.touch()
    os.kill(os.getpid(), signal.SIGKILL)  # out of memory, as the system says it
source, target = map(pathlib.Path, sys.argv[1:])
target.parent.mkdir(exist_ok=True)
target.write_text("<pre>" + source.read_text() + "</pre>")
"""
GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
SEED, LIVES = (
    int(os.environ.get("RB_SEED", "0")),
    int(os.environ.get("RB_LIVES", "12" if IS_ALL else "6")),
)


class Host:
    """A flaky server: every second answer to a new caller is a 503; it knows a key, and does its work once."""

    def __init__(self):
        host = self
        self.asked = Counter()
        self.announced = Counter()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self._answer(NOTES)

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                if self._answer("ok"):
                    host.announced[self.path, self.headers["Idempotency-Key"]] += 1

            def _answer(self, text):
                host.asked[self.path] += 1
                is_fine = host.asked[self.path] > 2
                body = text.encode() if is_fine else b""
                self.send_response(200 if is_fine else 503)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return is_fine

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Release:
    """A directory with a repository, and the lives of the program in it."""

    def __init__(self, root, host, ask):
        self.root, self._host, self._ask = root, f"{host.url}/{root.name}", ask
        root.mkdir(mode=0o700)
        (root / "compile_notes.py").write_text(COMPILER)
        (root / ".gitignore").write_text(".release\n.ledger\n.compiler-ran\ncompile_notes.py\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", ".gitignore")
        self.git("commit", "--quiet", "-m", "begin")
        self.path = root.name
        self.judge = Judge(root, root / ".release/state.json")

    def git(self, *words):
        done = subprocess.run(
            ["git", *words],
            cwd=self.root,
            env={**os.environ, **GIT},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def live(self, kill_at=0, *, resume=False):
        """One life; if it ends with a report, that says what was lost, done again, and where a process had died."""
        self.judge.look(resumes=resume)
        reported = self._ask(
            {"root": str(self.root), "host": self._host, "kill_at": kill_at, "resume": resume}
        )
        if "report" in reported:
            missing = self.judge.missing(reported["report"])
            assert not missing, (missing, reported["text"])
        return reported

    def died_in(self):
        """The phase that began and has not ended, by the ledger and the file; None if there is none."""
        began, finished = self.ledger("began"), self.ledger("finished")
        try:
            value = value_in(self.root / ".release/state.json")
        except FileNotFoundError:
            return None
        done = {*finished, *value["phases_completed"], *(one["phase"] for one in value["skipped"])}
        return next((name for name in began if name not in done), value["current_phase"])

    def ledger(self, word):
        """The phases that began, or finished, in order, in all lives."""
        ledger = self.root / LEDGER
        lines = ledger.read_text().split("\n")[:-1] if ledger.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(word)]

    def finished(self):
        """What the file says that is finished; None if it cannot be read."""
        try:
            return value_in(self.root / ".release/state.json")["phases_completed"]
        except (OSError, ValueError, KeyError):
            return None

    def check(self, host, report):
        """The end is right: files, one commit, one announcement."""
        assert report["status"] == "completed", report
        assert (self.root / "notes.md").read_text() == NOTES
        assert (self.root / "dist/notes.html").read_text() == f"<pre>{NOTES}</pre>"
        assert self.git("log", "--format=%s").split("\n")[:-1] == ["release notes", "begin"]
        assert self.git("status", "--porcelain") == ""
        parts = [key for path, key in host.announced if path.startswith(f"/{self.path}/")]
        assert len(parts) == 1, host.announced
        assert [one["phase"] for one in report["skipped"]] == ["proofread"]


@pytest.fixture(scope="module")
def host():
    """The server of all lives."""
    made = Host()
    yield made
    made.close()


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Asks for a life, and returns what it came to."""
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    program = tmp_path_factory.mktemp("program") / "release.py"
    program.write_text(
        re.search(r"```python\n(# release\.py\n.*?)```", PAGE.read_text(), re.DOTALL)[1]
    )
    command = [sys.executable, "-m", "tests.agent.workflow.lives", str(program)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **GIT},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def asked(reported):
        process.stdin.write(json.dumps(reported) + "\n")
        process.stdin.flush()
        stated = json.loads(process.stdout.readline())
        assert "error" not in stated, stated
        return stated

    yield asked
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()


@pytest.fixture
def release(tmp_path, host, ask):
    """Makes a directory for a release, by name."""
    made = iter(range(10_000))
    return lambda: Release(tmp_path / f"{tmp_path.name}-{next(made)}", host, ask)


@pytest.mark.requirement("C9")
def test_the_program_of_the_page_runs(release, host):
    """Undisturbed: flaky server, killed compiler, missing spell checker and style guide, and a report that names them."""
    one = release()
    reported = one.live()
    one.check(host, reported["report"])
    assert one.ledger("began") == PHASES
    tool, phase = [text for text in reported["report"]["warnings"] if "skipped optional" in text]
    assert tool.startswith("proofread: skipped optional tool spell_check: ")
    assert phase == "skipped optional phase proofread: no style guide (CONFIG, not retryable)"
    assert [text for text in reported["report"]["warnings"] if text not in {tool, phase}] == [
        *RECOVERED.values()
    ]
    assert [error["tool"] for error in reported["report"]["errors"]] == ["spell_check", None]
    assert reported["points"] > 60


@pytest.mark.requirement("C6")
@pytest.mark.requirement("C10")
@pytest.mark.parametrize("part", some(range(8), 2))
def test_a_kill_at_every_point(release, host, part):
    """Between and inside of all phases: after the kill one more run ends it; what was finished at the kill did not begin again.

    Its report names the phase that was killed, and no other; and every tool that had recovered, before the kill or after it.
    Of eight points two are taken, unless all are asked for.
    """
    points = release().live()["points"]
    killed = 0
    for kill_at in range(1 + part, points + 1, 8):
        one = release()
        first = one.live(kill_at)
        if "killed" not in first:  # a life may be shorter than the one that was measured
            continue
        killed += 1
        assert first == {"killed": 9}
        finished = {*(one.finished() or []), *one.ledger("finished")}
        began, inside = len(one.ledger("began")), one.died_in()
        last = one.live()
        assert "report" in last, (kill_at, last)
        one.check(host, last["report"])
        again = one.ledger("began")[began:]
        assert not finished & set(again), (kill_at, finished, again)
        assert sorted({*finished, *again} | {"proofread"}) == sorted(PHASES), kill_at
        warnings = last["report"]["warnings"]
        died = [] if inside is None else [DIED.format(inside)]
        assert [text for text in warnings if "began again" in text] == died, (kill_at, warnings)
        assert all(text in last["text"] for text in died)
        recovered = {
            text for phase, text in RECOVERED.items() if phase != inside
        }  # killed between a call and its word
        assert recovered <= set(warnings), (kill_at, warnings)
    assert killed >= points // 8 - 2


HARMS = (
    "flip state", "cut state", "remove state", "flip backup", "remove backup", "flip both", "cut both",
    "flip journal", "cut journal", "remove journal", "flip copy", "cut copy", "remove copy",
    "remove notes.md", "change notes.md", "remove dist", "change dist", "nothing", "nothing",
)  # fmt: skip


def harm(root, what, rng):
    """Do it, if what it is done to is there."""
    verb, _, name = what.partition(" ")
    state, backup = root / ".release/state.json", root / ".release/state.json.bak"
    journal, copy = root / ".release/state.json.journal", root / ".release/state.json.journal.bak"
    places = {"state": [state], "backup": [backup], "both": [state, backup], "journal": [journal], "copy": [copy], "notes.md": [root / "notes.md"],
              "dist": [root / "dist/notes.html"], "": []}[name]  # fmt: skip
    for path in places:
        if not path.exists():
            continue
        data = bytearray(path.read_bytes())
        if verb == "remove":
            path.unlink()
        elif verb == "cut":
            path.write_bytes(data[: rng.randrange(len(data))])
        else:
            offset = rng.randrange(len(data))
            data[offset] ^= 1 << rng.randrange(8)
            path.write_bytes(data)


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("seed", range(SEED, SEED + LIVES))
def test_any_sequence_of_kills_and_damage(release, host, seed):
    """Each life is killed somewhere, then something is damaged: in the end it is completed with the right artifacts, or halted with a report.

    Never both, and never silently: every report says what was lost, what did not hold and where a process died, save for what nobody could
    see (tests/agent/workflow/judge.py). A halt is resumed; it ends within a bounded number of lives.
    """
    rng = random.Random(seed)
    one = release()
    story, reported = [], {}
    for life in range(40):
        kill_at = rng.randrange(1, 90) if life < 8 else 0
        reported = one.live(kill_at, resume=reported.get("report", {}).get("status") == "halted")
        story.append(
            (kill_at, reported.get("report", {}).get("status", "killed"), one.ledger("began"))
        )
        report = reported.get("report")
        if report is not None:
            assert report["status"] in {"completed", "halted"}, story
            assert (report["status"] == "halted") is (report["failure"] is not None), story
            if report["status"] == "completed":
                break
            assert report["failure"]["suggestions"], story
            assert "what failed" in reported["text"], story
        what = rng.choice(HARMS)
        if what == "change dist" and "build" not in one.ledger("finished"):
            what = "nothing"  # its call is not made again, and nobody has measured what it made
        harm(one.root, what, rng)
        story.append(what)
    else:
        pytest.fail(f"it never ended: {story}")
    try:
        one.check(host, reported["report"])
    except AssertionError:
        # The state may be lost while git and the server have theirs: the effects that are known by their own keys stay one each
        # only as long as the identity of the workflow is known.
        is_reported = any(
            "lost workflow progress" in text for text in reported["report"]["warnings"]
        )
        if not (is_reported or one.judge.is_forgotten):
            raise AssertionError(story) from None
        assert (one.root / "dist/notes.html").read_text() == f"<pre>{NOTES}</pre>"
