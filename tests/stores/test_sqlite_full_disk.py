"""A disk without room, or that may not be written to: refused in words, nothing pretended, and going on when there is room again.

The file systems are mounted in a namespace that the child makes for itself; without the right to do so those tests are skipped, as are
those that become another user where this one is not root. With RESILIENT_BRIDGE_REQUIRE_SERVERS=1 they fail then.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import pytest

from resilient_bridge.errors import StoreError
from tests.internals.stores import commits as sqlite_commits
from tests.stores.database_content import checkpointed, entry, look, opened
from tests.stores.faulty_disk import open_files
from tests.stores.test_sqlite_faults import DURABILITY, ROOT, wrong_after


pytestmark = [pytest.mark.real, pytest.mark.crash]


@cache
def mounts():
    """Why nothing can be mounted here; "" if it can."""
    if shutil.which("unshare") is None:
        return "unshare is missing"
    with tempfile.TemporaryDirectory() as folder:
        mounted = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        done = subprocess.run(mounted, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"nothing can be mounted: {done.stderr.strip()}"


@pytest.fixture
def full_disk(tmp_path):
    """Runs a scenario on a small file system; its facts, and where the copies are."""
    if mounts():
        pytest.skip(mounts())
    folder, out = tmp_path / "disk", tmp_path / "out"
    for one in (folder, out):
        one.mkdir(mode=0o700)

    def run(scenario, durability):
        program = ["unshare", "-m", sys.executable, "-m", "tests.stores.full_disk_program"]
        done = subprocess.run(
            [*program, scenario, str(folder), str(out), durability],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()], out

    return run


@pytest.mark.parametrize("durability", DURABILITY)
async def test_a_store_on_a_full_disk(full_disk, durability):
    """Every refusal is typed, nothing of it is in the file, everything accepted is; with room it works at once, without being reopened."""
    reported, out = full_disk("store", durability)
    at = [line["op"] for line in reported].index("lifted")
    assert sum(line["code"] == "SYS_STORE_UNAVAILABLE" for line in reported[:at]) > 5
    late = [line for line in reported[at:] if line["op"] != "open when full"]
    assert [line for line in late if line["code"]] == []
    assert reported[-1]["op"] == "open when full"
    assert reported[-1]["code"] == "SYS_STORE_UNAVAILABLE"
    assert await wrong_after(reported[:at], out / "full.db") == []
    for name in ("left.db", "closed.db"):
        assert (name, await wrong_after(reported, out / name)) == (name, [])


@pytest.mark.parametrize("durability", DURABILITY)
async def test_a_file_system_that_may_not_be_written_to(full_disk, durability):
    """Opening is refused, with a database there and without; when it may be written to, everything is there."""
    reported, out = full_disk("read_only", durability)
    codes = [(line["op"], line["code"]) for line in reported]
    refused = ("open", "SYS_STORE_UNAVAILABLE")
    assert codes == [("put", ""), refused, refused, ("open again", ""), ("entries", "")]
    assert reported[-1]["n"] == 1
    assert (
        await wrong_after(
            reported[:1] + [{"op": op, "n": 0, "code": ""} for op in ("mark", "keep")],
            out / "left.db",
        )
        == []
    )


@pytest.mark.parametrize("durability", DURABILITY)
async def test_a_client_on_a_full_disk(full_disk, durability):
    """READY: `send` raises and nothing moves, what needs no store goes on; with room, what was accepted moves, in order, once, and all is read.

    Each of the two times that it is full is told once, and so is each end of it; the connection is kept all the while.
    """
    reported, _ = full_disk("client", durability)
    facts = {}
    for line in reported:
        facts.setdefault(line.pop("fact"), []).append(line)
    assert facts["refused"] == [{"codes": ["SYS_STORE_UNAVAILABLE"] * 5, "pending": 0}]
    assert facts["goes on"] == [{"answer": "git_status_response", "state": "READY"}]
    assert facts["moved"] == [{"received": [0]}]
    assert facts["after"] == [{"is_sent": "applied"}]
    waits = {"states": ["queued", "queued"], "state": "FLUSHING", "answer": "git_status_response"}
    assert facts["waits"] == [waits]
    assert facts["held"] == [{"received": [0, 6]}]
    assert facts["proceeds"] == [
        {"confirmed": ["applied"] * 2, "received": [0, 6, 7, 8], "state": "READY"}
    ]
    assert facts["told"] == [{"failed": 1, "recovered": 1}, {"failed": 2, "recovered": 2}]
    assert facts["connections"] == [{"count": 2}]
    assert facts["closed"] == [{"state": "CLOSED", "error": "None"}]


# ---- rights and descriptors ------------------------------------------------------------------------------------------


@pytest.fixture
def no_one():
    """A directory of a user who has no rights; this process is that user meanwhile."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    made = Path(tempfile.mkdtemp(prefix="nobody-"))
    os.chown(made, 65534, 65534)
    os.seteuid(65534)
    try:
        yield made
    finally:
        os.seteuid(0)
        shutil.rmtree(made)


async def test_a_directory_that_may_not_be_written_to(no_one):
    """No lock can be made there: refused, also where a database is; when it may be, everything is there."""
    path = await checkpointed(no_one)
    truth, _ = await look(path)
    for name in ("known.db", "another.db"):
        (no_one / "known.db.owner").unlink(missing_ok=True)
        no_one.chmod(0o500)
        with pytest.raises(StoreError) as caught:
            await look(no_one / name)
        assert caught.value.failure.code == "SYS_STORE_UNAVAILABLE"
        no_one.chmod(0o700)
    assert await look(path) == (truth, [])


async def test_a_file_that_may_not_be_written_to(no_one):
    """Refused as it is, and not set aside: it is sound."""
    path = await checkpointed(no_one)
    truth, _ = await look(path)
    before = path.read_bytes()
    path.chmod(0o400)
    with pytest.raises(StoreError) as caught:
        await look(path)
    assert caught.value.failure.code == "SYS_STORE_UNAVAILABLE"
    assert path.read_bytes() == before
    path.chmod(0o600)
    assert await look(path) == (truth, [])


@contextmanager
def no_descriptors(rest=0):
    """Only so many more may be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + rest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_no_descriptors_to_open_with(tmp_path):
    """Whatever the number that is missing: typed, nothing is lost, and nothing is held afterwards."""
    tmp_path.chmod(0o700)
    path = await checkpointed(tmp_path)
    truth, _ = await look(path)
    held = open_files()
    codes = []
    for remaining in range(12):
        with no_descriptors(remaining):
            try:
                assert await look(path) == (truth, [])
            except StoreError as error:
                codes.append(error.failure.code)
        assert open_files() == held
        assert await look(path) == (truth, [])
    assert len(codes) >= 5
    assert set(codes) == {"SYS_STORE_UNAVAILABLE"}


async def test_no_descriptors_to_look_at_a_database_of_another_program(tmp_path):
    """What cannot be read is not taken for damaged: whatever is missing, the file stays where it is."""
    path = tmp_path / "known.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    path.chmod(0o600)
    before = path.read_bytes()
    for remaining in range(12):
        with no_descriptors(remaining), pytest.raises(StoreError):
            await look(path)
        assert (remaining, path.read_bytes() == before) == (remaining, True)


async def test_no_descriptors_while_it_is_open(tmp_path, monkeypatch):
    """What is open works on; only the log is not copied, until it can be."""
    monkeypatch.setattr(sqlite_commits, "_LOOK_EVERY", 4)
    tmp_path.chmod(0o700)
    async with opened(tmp_path / "known.db") as (store, _):
        with no_descriptors():
            for seq in range(1, 20):
                store.put(entry(seq))
                await asyncio.sleep(0.001)  # for the thread that copies
        for seq in range(20, 40):
            store.put(entry(seq))
            await asyncio.sleep(0.001)
    content, events = await look(tmp_path / "known.db")
    assert (len(content.entries), events) == (39, [])
