"""What the client does around a session, in virtual time: replace a connection before its end, ask anew for URL and token."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from tests.protocol.frames_rig import d, dialect, event, events, gap, spoken
from tests.protocol.frames_server import served


NUMBERED = {"contiguous": True, "ends": "stated", "distinct": True}
DONE = d.Replayed(complete=True)


# ---- a snapshot --------------------------------------------------------------------------------------------------


def test_what_comes_live_during_the_snapshot_waits_behind_it():
    """The snapshot is what `on_connect` waits for; the reader gets what came meanwhile, in its order, and not the snapshot."""
    snapshots = []

    def answer(connection, frame):
        number = 10 * len(snapshots)
        connection.say(spoken(event(number + 1)))
        if frame.get("op") == "subscribe":
            connection.say(spoken(d.Received(raw=f"snapshot {number}")))
            connection.say(spoken(event(number + 2)))

    async def greet(link):
        await link.send({"op": "subscribe"})
        snapshots.append((await link.expect(lambda raw: str(raw).startswith("snapshot"))).raw)

    async def main(server):
        server.on_frame = answer
        async with server.client(
            dialect({"ends": "quiet"}, resume=None), on_connect=greet
        ) as reader:
            server.drop()
            await reader.verdict()
            assert snapshots == ["snapshot 0", "snapshot 10"]
            assert [item for item in reader.stream if isinstance(item, str)] == [
                "e1",
                "e2",
                "e11",
                "e12",
            ]
            assert reader.verdicts == [("UNKNOWN", "quiet")]

    served(main)


# ---- a connection that is replaced before its end ----------------------------------------------------------------


def replaced(*facts):
    """The server announces its end; the next connection, when it is there, and what the reader got by then."""

    async def main(server):
        async with server.client(dialect(NUMBERED)) as reader:
            server.say(*events(1, 3), *facts, event(4))
            async with asyncio.timeout(20):
                while not server.connections[1:]:
                    await asyncio.sleep(0.001)
            assert str(reader.bridge.state) == "READY"
            while not any("ask" in frame for frame in server.heard):
                await asyncio.sleep(0.01)
            server.say(DONE, event(5))
            assert await reader.verdict() == ("RECOVERED", "stated")
            assert reader.stream == ["e1", "e2", "e3", "e4", "e5"]
            assert len(server.connections) == 1

    served(main)


def test_the_next_connection_is_there_before_the_old_one_ends():
    """READY all the while, and what came on the old connection meanwhile is not asked for."""
    replaced(d.Closing(within=30.0), d.Ping())


def test_an_announced_end_alone_is_enough():
    """The server says nothing else that would want an answer."""
    replaced(d.Closing(within=30.0))


def test_a_replacement_that_cannot_be_made_does_not_end_the_old_connection():
    """It lives until the server ends it, and then the ordinary attempts follow."""

    async def main(server):
        async with server.client(dialect(NUMBERED)) as reader:
            server.status = 503
            server.say(event(1), d.Closing(within=5.0), d.Ping())
            await asyncio.sleep(3)
            assert len(server.paths) == 2
            server.say(event(2))
            await asyncio.sleep(1)
            assert reader.stream == ["e1", "e2"]
            server.status = None
            server.drop()
            await asyncio.sleep(2)
            server.say(DONE)
            assert await reader.verdict() == ("RECOVERED", "stated")

    served(main)


# ---- URL and token -----------------------------------------------------------------------------------------------


SESSIONS = {"order": "opaque", "ends": "stated", "proof": "session"}


def by_token(record):
    """Asks with what the greeting gave."""
    return d.Resume(query={"token": record.token}, url=record.url) if record.token else d.Resume()


def test_a_ticket_is_never_used_twice():
    """A URL that is a function is asked for at each attempt, whatever became of the last one."""
    tickets = []

    async def main(server):
        async def url():
            tickets.append(len(tickets))
            return f"{server.url}/?ticket={tickets[-1]}"

        async with server.client(dialect(None), url=url) as reader:
            server.status = 503
            server.drop()
            await asyncio.sleep(20)
            server.status = None
            await reader.bridge.wait_ready(60)
            assert len(server.paths) > 3
            assert server.paths == [f"/?ticket={n}" for n in tickets]

    served(main)


def test_the_newest_token_wins():
    """A token that was replaced on a connection that lives is what the next one asks with."""

    async def main(server):
        server.first = [d.Hello(session="s", token="first")]
        async with server.client(
            dialect(SESSIONS, resume=by_token, waits_for_hello=True)
        ) as reader:
            server.say(event("a"), d.Hello(session="s", token="second"))
            await asyncio.sleep(1)
            server.drop()
            assert await reader.verdict() == ("RECOVERED", "session")
            assert server.paths == ["/", "/?token=second"]

    served(main)


def dead(address, refusal, **settings):
    """The server's own URL for the next connection is dead; what was dialled, and the reader."""

    async def main(server):
        url = address or f"{server.url}/resume"
        server.first = [d.Hello(session="one", token="old", url=url)]
        server.refusals = {"old": refusal}
        speaks = dialect(SESSIONS, resume=by_token, waits_for_hello=True, **settings)
        async with server.client(speaks) as reader:
            server.say(event("a"))
            await asyncio.sleep(1)
            server.first = [d.Hello(session="two", token="new")]
            server.drop()
            await asyncio.sleep(1200)
            return server.paths, reader

    return served(main)


def test_a_dead_token_falls_back_to_a_new_session_with_a_gap():
    """A rule of the dialect says what its refusal means: neither URL nor token is tried again, and the loss is told."""
    paths, reader = dead(None, 410, ends=(d.End(status=410, means="session_gone"),))
    assert paths == ["/", "/resume?token=old", "/"]
    assert reader.stream == ["ea", gap("new_session")]


def test_a_dead_address_falls_back_to_the_users_own():
    """The server that was to resume the session is gone with its address."""
    paths, reader = dead("ws://127.0.0.1:9/resume", None)
    assert paths == ["/", "/"]
    assert reader.stream == ["ea", gap("new_session")]


# ---- outcomes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dedupes", "error"), [(True, rb.errors.AttemptTimeoutError), (False, rb.OutcomeUnknownError)]
)
def test_an_answer_that_never_comes_leaves_the_outcome_open(dedupes, error):
    """A request goes out again where that is safe, and its repetition may be dropped in silence: in its time it fails, and may have run."""

    async def main(server):
        async with server.client(dialect(None, answers=True, dedupes=dedupes)) as reader:
            asking = asyncio.ensure_future(
                reader.bridge.request("ask", {}, timeout=20, idempotent=dedupes)
            )
            await asyncio.sleep(1)
            server.drop()
            with pytest.raises(error) as failed:
                await asking
            assert failed.value.failure.executed is rb.errors.Executed.MAYBE
            assert len(server.heard) == 1 + dedupes

    served(main)
