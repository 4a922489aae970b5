"""M02 at a URL: a token in an environment variable or a file is rotated while the sidecar runs.

Rule: the far end, which is not ours, counts which token each request had and which call it carried out.
"""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from tests.adapters.sidecar.http_servers import Door, call, connected, opened, order, sdk_server
from tests.internals.adapters import LostError
from tests.peers.mcp_server import build
from tests.peers.running import Ledger


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]
OLD, NEW = "old-token-77", "new-token-88"


class Token:
    """A token under a reference, in a variable or a file."""

    def __init__(self, kind, tmp_path, monkeypatch):
        """Write the old one."""
        self.path, self._monkeypatch = tmp_path / "token", monkeypatch
        self.reference = "env:RB_ROTATED" if kind == "env" else f"file:{self.path}"
        self.write(OLD)

    def write(self, value):
        """Rotate it."""
        if self.reference.startswith("env:"):
            self._monkeypatch.setenv("RB_ROTATED", value)
        else:
            self.path.write_text(f"{value}\n")


@pytest.fixture(params=["env", "file"])
def token(request, tmp_path, monkeypatch):
    """One of each kind."""
    return Token(request.param, tmp_path, monkeypatch)


async def test_m02_after_a_rotation_every_call_has_the_new_token(token, tmp_path):
    """M02: nine calls after it, one refusal, each call carried out once; the session is the same."""
    ledger = Ledger(tmp_path / "ledger")
    door = Door(OLD, lambda: build(ledger.file, 2).streamable_http_app(json_response=True))
    headers = {"Authorization": f"Bearer {token.reference}"}
    async with (
        sdk_server(door) as server,
        connected(server.url, headers=headers) as (upstream, heard),
    ):
        await opened(upstream, heard)
        upstream.send(order(1, "before"))
        assert (await heard.outcome(1)).result
        door.valid = NEW
        token.write(NEW)
        door.asked.clear()
        for number in range(2, 11):
            upstream.send(order(number, f"n{number}"))
            assert (await heard.outcome(number)).result
        assert door.asked[NEW] >= 9
        assert door.refused <= 2  # a call, and the stream of notices if it came back just then
    assert ledger.keys == ["before", *(f"n{number}" for number in range(2, 11))]


async def test_m02_many_calls_that_meet_it_together_are_all_sent_again(token, tmp_path):
    """M02: one of them reads the secret, all of them use it."""
    ledger = Ledger(tmp_path / "ledger")
    door = Door(OLD, lambda: build(ledger.file, 2).streamable_http_app(json_response=True))
    async with (
        sdk_server(door) as server,
        connected(server.url, headers={"Authorization": f"Bearer {token.reference}"}) as (
            upstream,
            heard,
        ),
    ):
        await opened(upstream, heard)
        door.valid = NEW
        token.write(NEW)
        for number in range(1, 13):
            upstream.send(order(number, f"n{number}"))
        ended = await asyncio.gather(*(heard.outcome(number) for number in range(1, 13)))
        assert all(end.result for end in ended)
    assert sorted(ledger.keys) == sorted(f"n{number}" for number in range(1, 13))


async def test_m02_a_token_that_has_not_changed_is_refused_as_before(token, tmp_path):
    """M02: one request, the 401 is the answer; rotated later, the next call has the new one, and neither value is shown."""
    ledger = Ledger(tmp_path / "ledger")
    door = Door(OLD, lambda: build(ledger.file, 2).streamable_http_app(json_response=True))
    async with (
        sdk_server(door) as server,
        connected(server.url, headers={"Authorization": f"Bearer {token.reference}"}) as (
            upstream,
            heard,
        ),
    ):
        await opened(upstream, heard)
        door.valid = NEW
        before = door.asked[OLD]
        upstream.send(call(1, "add", a=1, b=2))
        loss = await heard.outcome(1)
        assert (loss.executed, loss.is_final) == (rb.errors.Executed.NO, True)
        assert door.asked[OLD] - before <= 2
        assert (OLD in repr(loss), loss.words) == (False, "[redacted] is over")
        token.write(NEW)
        upstream.send(call(2, "add", a=1, b=2))
        assert (await heard.outcome(2)).result
        door.valid = "a-third-one-99"
        upstream.send(call(3, "add", a=1, b=2))
        assert (await heard.outcome(3)).words == "[redacted] is over"


async def test_m02_a_refusal_says_that_the_new_token_cannot_be_read(tmp_path, monkeypatch):
    """M02: rotated at the server while the file is empty: the refusal names the file, and not only a login that would not help."""
    token = Token("file", tmp_path, monkeypatch)
    door = Door(
        OLD,
        lambda: build(Ledger(tmp_path / "ledger").file, 2).streamable_http_app(json_response=True),
    )
    async with (
        sdk_server(door) as server,
        connected(server.url, headers={"Authorization": f"Bearer {token.reference}"}) as (
            upstream,
            heard,
        ),
    ):
        await opened(upstream, heard)
        door.valid = NEW
        token.path.write_text("")
        upstream.send(call(1, "add", a=1, b=2))
        loss = await heard.outcome(1)
        assert (
            f"wanted a file that can be read and holds a secret, got {token.reference}"
            in loss.reason
        )
        assert (loss.executed, OLD in repr(loss)) == (rb.errors.Executed.NO, False)
        token.write(NEW)
        upstream.send(call(2, "add", a=1, b=2))
        assert (await heard.outcome(2)).result
        door.valid = "a-third-one-99"
        upstream.send(call(3, "add", a=1, b=2))
        assert "wanted a file" not in (await heard.outcome(3)).reason


@pytest.mark.parametrize("contents", [b"", None])
async def test_m02_a_token_that_cannot_be_read_now_makes_the_server_away(tmp_path, contents):
    """M02: a file that is being written again, or is not there: final for a first start, later something to wait for."""
    path = tmp_path / "token"
    if contents is not None:
        path.write_bytes(contents)
    with pytest.raises(LostError) as caught:
        async with connected(
            "http://127.0.0.1:1", headers={"Authorization": f"Bearer file:{path}"}
        ):
            pass
    assert (caught.value.loss.is_away, caught.value.loss.is_final) == (True, True)


async def test_m02_what_can_be_no_token_is_nothing_to_wait_for(tmp_path):
    """M02: a folder in its place does not become a token by waiting."""
    with pytest.raises(LostError) as caught:
        async with connected(
            "http://127.0.0.1:1", headers={"Authorization": f"Bearer file:{tmp_path}"}
        ):
            pass
    assert (caught.value.loss.is_away, caught.value.loss.is_final) == (False, True)
