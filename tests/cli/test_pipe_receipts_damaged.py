"""`pipe --store --receipts` on a file of receipts that is not what it was: told, and no line is sent twice because of it."""

from __future__ import annotations

import stat

import pytest

from resilient_bridge.testing import BridgeServer
from tests.cli.running_pipe import applied, message, running


pytestmark = [pytest.mark.real, pytest.mark.crash]


@pytest.fixture
def receipts(tmp_path):
    return tmp_path / "done.jsonl"


@pytest.fixture
def argv(tmp_path, receipts):
    return ("--store", str(tmp_path / "bridge.db"), "--receipts", str(receipts))


async def ran(server, argv, numbers):
    """One run with these lines, which have no keys of their own: its exit code, and what stderr says of the receipts."""
    async with running(server.url, *argv) as child:
        child.say(*map(message, numbers))
        code = await child.end()
        return code, [line for line in child.errors if "receipts:" in line]


async def test_a_line_that_is_damaged(argv, receipts):
    """One receipt of three is not readable: it goes on, says what is lost and where the old file is, and repeats nothing; 0."""
    async with BridgeServer() as server:
        assert await ran(server, argv, range(3)) == (0, [])
        assert stat.S_IMODE(receipts.stat().st_mode) == 0o600
        receipts.write_bytes(receipts.read_bytes().replace(b'"line":2', b'"line":3'))
        code, reported = await ran(server, argv, range(3, 5))
        assert code == 0
        assert len(reported) == 1
        assert reported[0].startswith("receipts: ")
        assert "is kept as done.jsonl.damaged-" in reported[0]
        assert "what became of line 2 is lost" in reported[0]
        assert await ran(server, argv, [5]) == (0, [])
        assert applied(server) == [*range(6)]


async def test_a_last_line_that_a_kill_cut_off(argv, receipts):
    """Its line is given again under the same key, so it is not sent again; 0."""
    async with BridgeServer() as server:
        await ran(server, argv, range(3))
        receipts.write_bytes(receipts.read_bytes()[:-20])
        code, reported = await ran(server, argv, range(2, 4))
        assert code == 0
        assert len(reported) == 1
        assert "line 3 of the input has no receipt yet" in reported[0]
        assert applied(server) == [*range(4)]
        assert receipts.read_bytes().count(b"\n") == 4


@pytest.mark.parametrize("remaining", [0, 1], ids=["empty", "a last line"])
async def test_a_file_that_does_not_say_where_the_input_goes_on(argv, receipts, remaining):
    """Whoever counts its lines gives all of the input again, or too little: 2, nothing is read, and stderr says what to do."""
    async with BridgeServer() as server:
        await ran(server, argv, range(3))
        receipts.write_bytes(
            receipts.read_bytes()[:-1].replace(b'"line":3', b'"line":4') + b"\n"
            if remaining
            else b""
        )
        code, reported = await ran(server, argv, range(3 * remaining, 4))
        assert code == 2
        assert len(reported) == 1
        assert "no input was read" in reported[0]
        assert "is kept as done.jsonl.damaged-" in reported[0]
        assert applied(server) == [0, 1, 2]
        assert await ran(server, argv, range(2 * remaining, 4)) == (0, [])
        assert applied(server) == ([0, 1, 2, 3] if remaining else [0, 1, 2, 0, 1, 2, 3])


async def test_a_link_is_not_followed(argv, receipts, tmp_path):
    """Somebody put it there: 2, and what it leads to is as it was."""
    victim = tmp_path / "victim"
    victim.write_text("")
    receipts.symlink_to(victim)
    async with BridgeServer() as server:
        code, reported = await ran(server, argv, [1])
        assert code == 2
        assert "a symbolic link" in reported[0]
        assert applied(server) == []
    assert victim.read_text() == ""
