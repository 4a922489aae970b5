"""Disks that fail: every k-th write, flush and cut, a limit at every size. What was refused is in no file, what was accepted is.

By default a sample, the same in every run; `nox -s damage` (RB_DAMAGE=all) does every call and every limit. The k-th call fails through
strace; without it the limits (RLIMIT_FSIZE) remain, which need nothing, and with RESILIENT_BRIDGE_REQUIRE_SERVERS=1 the others fail.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from resilient_bridge.protocol import EntryState
from tests.samples import IS_ALL, some
from tests.stores.database_content import entry, key_of, look, marks_of, stamp_of, text_of
from tests.stores.database_damage import ROOM


ROOT = Path(__file__).parents[2]
DURABILITY = ["process", "machine"]
STRACE = shutil.which("strace")
SETTLED = set(range(1, 40, 8))

pytestmark = [pytest.mark.real, pytest.mark.crash, pytest.mark.timeout(7200 if IS_ALL else 120)]


@pytest.fixture
def room():
    """A private directory in memory, where flushes cost nothing."""
    made = Path(tempfile.mkdtemp(prefix="faults-", dir=ROOM))
    yield made
    shutil.rmtree(made)


def worker(*command, before=(), env=None):
    """What a store in a process of its own was told."""
    program = [*before, sys.executable, "-m", "tests.stores.database_worker", *map(str, command)]
    done = subprocess.run(
        program,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


async def wrong_after(reported, path):
    """What is in the file, held against what was told; a store that was refused something is not damaged."""
    content, events = await look(path)
    wrong = [f"an event: {event.lost}" for event in events]
    wrong += [
        f"{line['op']} {line['n']}: {line['code']}"
        for line in reported
        if "not typed" in line["code"]
    ]
    answers = {
        op: {line["n"]: not line["code"] for line in reported if line["op"] == op}
        for op in ("put", "mark", "keep")
    }
    put, marked = (
        answers["put"],
        max([n for n, is_ok in answers["mark"].items() if is_ok], default=0),
    )
    asked = max(answers["mark"], default=0)
    for seq, is_ok in put.items():
        outcome = content.outcomes.get(seq)
        is_there = seq in content.entries or (
            outcome is not None and outcome[2] is not EntryState.DROPPED
        )
        if is_ok != is_there and not (is_ok and seq in SETTLED):
            wrong.append(
                f"send {seq} was {'accepted, and is gone' if is_ok else 'refused, and is there'}"
            )
    for seq, (*row, state, _) in content.entries.items():
        if (
            row != [entry(seq).id, entry(seq).key, entry(seq).type, entry(seq).frame]
            or seq not in put
        ):
            wrong.append(f"send {seq} is another")
        if state is EntryState.QUEUED and seq <= marked:
            wrong.append(f"send {seq} was marked, and is shown as never handed out")
        if state is not EntryState.QUEUED and seq > asked:
            wrong.append(f"send {seq} was never marked, and is shown as handed out")
    wrong += [
        f"outcome {seq}"
        for seq, (*_, reason) in content.outcomes.items()
        if put.get(seq) == bool(reason)
    ]
    saved = max([n for n, is_ok in answers["keep"].items() if is_ok], default=0)
    if not saved <= content.taken <= max(len(put), saved):
        wrong.append(f"position {content.taken}, kept was {saved}")
    wrong += [
        f"message {n}"
        for n, mark in marks_of(content).items()
        if mark != (key_of(n), text_of(n), stamp_of(n))
    ]
    return wrong


# ---- every k-th call -------------------------------------------------------------------------------------------------

CALLS = [
    ("pwrite64", "ENOSPC"),
    ("pwrite64", "EIO"),
    ("fdatasync", "EIO"),
    ("ftruncate", "EIO"),
    ("fsync", "EIO"),
]


def count(call, room, durability, end):
    """How often a life makes this call in the thread that makes most, and in all others."""
    log = room / "calls"
    path = room / "count" / "known.db"
    worker(path, durability, end, before=[STRACE, "-f", "-qq", "-o", log, "-e", f"trace={call}"])
    by_thread = {}
    for line in log.read_text().splitlines():
        if f" {call}(" in line:
            by_thread[line.split()[0]] = by_thread.get(line.split()[0], 0) + 1
    most = max(by_thread.values(), default=0)
    return most, sum(by_thread.values()) - most


@pytest.mark.skipif(
    STRACE is None,
    reason="strace is missing (apt-get install strace): only the limits of size are tested",
)
@pytest.mark.parametrize("durability", DURABILITY)
@pytest.mark.parametrize(("call", "error"), CALLS, ids=lambda one: one)
async def test_every_call_that_fails(room, durability, call, error):
    """Once, for three calls or from there on: typed, exact after a crash, and silent, because nothing that was accepted is lost.

    Of these runs four or five of each end, evenly spread, unless all are asked for.
    """
    wrong, refused = [], 0
    for end in ("crash", "close"):
        last, others = count(call, room, durability, end)
        runs = [(k, how) for k in range(1, last + 1) for how in (f"{k}", f"{k}+", f"{k}..{k + 2}")]
        for k, how in some(runs, 2):
            path = room / f"{end} {how}" / "known.db"
            inject = [STRACE, "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}"]
            inject += ["-e", f"inject={call}:error={error}:when={how}"]
            reported = worker(path, durability, end, before=inject)
            refused += any(line["code"] for line in reported)
            wrong += [f"{end} {how}: {one}" for one in await wrong_after(reported, path)]
            # strace counts by thread: the k-th call of one that copies may come at the very end
            if (
                not how.endswith("+")
                and others + 20 < k < last - 40
                and reported[-1]["op"] != "open"
            ):
                assert not reported[-1]["code"], (
                    end,
                    how,
                    reported[-1],
                )  # the disk works again, and so does the store
            shutil.rmtree(path.parent)
    assert wrong == []
    assert (
        refused or call in {"ftruncate", "fsync"} or (call, durability) == ("fdatasync", "process")
    )


@pytest.mark.skipif(STRACE is None, reason="strace is missing (apt-get install strace)")
@pytest.mark.parametrize("lasting", ["", "+"])
async def test_a_flush_that_fails_after_the_data_was_written(room, lasting):
    """The commit stands whole in the log when its flush fails: refused, so it is taken back, and no crash brings it to light."""
    refused = 0
    for k in range(1, 7):
        path = room / f"{k}" / "known.db"
        await look(path)  # so that the flushes are those of the sends
        inject = [STRACE, "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync"]
        inject += ["-e", f"inject=fdatasync:error=EIO:when={k}{lasting}"]
        reported = worker(path, "machine", "sends", before=inject)
        refused += any(line["code"] and line["op"] == "put" for line in reported)
        content, events = await look(path)
        put = {line["n"] for line in reported if line["op"] == "put" and not line["code"]}
        assert (k, set(content.entries), events) == (k, put, [])
    assert refused >= 5


# ---- a limit at every size -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", DURABILITY)
async def test_a_limit_at_every_size(room, durability):
    """Full at some size, then room again: refused and typed in between, exact after a crash in either half, and going on at once.

    The sizes are 13,001 bytes apart, which is no multiple of a page or of a frame of the log; 64, if all are asked for.
    """
    step = "64" if IS_ALL else "13001"
    reported = worker(room, durability, "sizes", env={"STEP": step})
    lives = {}
    for line in reported:
        if line["op"] == "limit":
            current = lives.setdefault(line["n"], ([], []))
            half = 0
        elif line["op"] == "lifted":
            half = 1
        else:
            current[half].append(line)
    assert len(lives) > 10
    refused = sum(bool(line["code"]) for full, _ in lives.values() for line in full)
    for limit, (full, lifted) in lives.items():
        assert (limit, [line for line in lifted if line["code"]]) == (limit, [])
        assert (limit, await wrong_after(full, room / str(limit) / "full.db")) == (limit, [])
        for name in ("left.db", "alive.db"):
            assert (limit, name, await wrong_after(full + lifted, room / str(limit) / name)) == (
                limit,
                name,
                [],
            )
    assert refused > 20
