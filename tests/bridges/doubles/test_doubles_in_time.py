"""The doubles under a virtual clock and without a network: what takes minutes, and the half-open sockets."""

from __future__ import annotations

import asyncio
import json
from random import Random

from tests.bridges.doubles.agno import Agno
from tests.bridges.doubles.centrifugo import Centrifugo
from tests.bridges.doubles.clients import Pipe, lines, numbers, publish, served, virtually
from tests.bridges.doubles.homemade import Homemade
from tests.bridges.doubles.jupyter import Jupyter
from tests.bridges.doubles.mattermost import Mattermost
from tests.bridges.doubles.openhands import LegacySocket, SessionSocket
from tests.bridges.doubles.slack_socket_mode import SlackSocketMode
from tests.bridges.doubles.socketio import SocketIO


IO = "/socket.io/?EIO=4&transport=websocket"


def attached(double, path, *frames, **headers):
    """A pipe that the double serves, with the client's first frames."""
    pipe = Pipe(path, **headers)
    pipe.task = served(double, pipe)
    assert pipe.task is not None
    pipe.client_says(*frames)
    return pipe


def test_a_half_open_socket_costs_socketio_its_recovery():
    """The session is stored when the server notices, not before: who comes back earlier gets a new pid, and no reason."""

    async def main():
        double = SocketIO(Random(1), notices_after=30)
        first = attached(double, IO, "40")
        _, joined = await first.client_hears(raw=True)
        await publish(double, 1)
        (event,) = await first.client_hears(raw=True)
        resume = "40" + json.dumps(
            {"pid": json.loads(joined[2:])["pid"], "offset": json.loads(event[2:])[-1]}
        )
        first.client_cuts()
        await publish(double, 2)
        early = attached(double, IO, resume)
        assert numbers((await early.client_hears(raw=True))[1:]) == []
        early.client_closes()
        late = attached(double, IO, resume)
        await late.client_hears(40, raw=True)  # the ping among them; this one is refused as well
        again = attached(double, IO, resume)
        assert numbers((await again.client_hears(raw=True))[1:]) == [2]
        assert double.log == {None: [1, 2]}

    virtually(main)


def test_socketio_pings_and_expires():
    """`2` each 25 s, a client that is silent for 20 s more is cut; a session is gone after two minutes, or a polite leave."""

    async def main():
        double = SocketIO(Random(1))
        silent, polite = attached(double, IO, "40"), attached(double, IO, "40")
        joined = (await silent.client_hears(raw=True))[1]
        assert await silent.client_hears(25, raw=True) == ["2"]
        polite.client_says("3", "41")
        await silent.client_hears(20)
        assert silent.closed == 1005
        assert [session.pid for session in double.sessions.values()] == [
            json.loads(joined[2:])["pid"]
        ]
        polite.client_cuts()
        await polite.client_hears(121, raw=True)
        attached(double, IO, "40{}")
        await polite.client_hears(raw=True)
        assert double.sessions == {}

    virtually(main)


def test_a_half_open_socket_costs_jupyter_its_buffer():
    """What was written to the dead socket is lost, and the same session id shows no sign of it."""

    async def main():
        double = Jupyter(Random(1), notices_after=30)
        page = "/api/kernels/k1/channels?session_id=s"
        first = attached(double, page)
        await first.client_hears()
        first.client_cuts()
        await publish(double, 3, 4, 5)
        second = attached(double, page)
        await second.client_hears()
        await publish(double, 6)
        assert numbers(await second.client_hears()) == [6]
        assert first.closed == 1005
        second.client_cuts()
        await second.client_hears(31)
        await publish(double, 7)
        third = attached(double, page)
        assert numbers(await third.client_hears()) == [7]
        double.restart()
        assert double.refuse(page, {}) == 404
        double.start_kernel()
        assert double.refuse(page, {}) is None

    virtually(main)


def test_a_half_open_socket_costs_neither_agno_nor_the_since_family_anything():
    """Who replays from a position of the client has every event, whatever the server believes."""

    async def main():
        agno = Agno(Random(1), notices_after=60)
        start = {"action": "start-workflow", "message": "go"}
        first = attached(agno, "/workflows/ws", start)
        await first.client_hears(raw=True)
        first.client_cuts()
        await publish(agno, 1, 2)
        back = {"action": "reconnect", "run_id": "run-1", "last_event_index": 0}
        assert numbers(await attached(agno, "/workflows/ws", back).client_hears()) == [1, 2]
        homemade = Homemade(Random(2), notices_after=60)
        first = attached(homemade, "/")
        await first.client_hears()
        await publish(homemade, 1)
        assert numbers(await first.client_hears()) == [1]
        first.client_cuts()
        await publish(homemade, 2)
        assert numbers(await attached(homemade, "/?last_seq=1").client_hears()) == [2]

    virtually(main)


def test_agno_loses_what_comes_before_it_registers_and_what_it_drops():
    """A hole in the index between catch_up and live; an index larger than asked for; the database after half an hour."""

    async def main():
        double = Agno(Random(1), registers_after=5, memory_for=1800, database="works")
        await publish(double, 1, 2)
        double.trim(1)
        back = {"action": "reconnect", "run_id": "run-1", "last_event_index": 0}
        pipe = attached(double, "/workflows/ws", back)
        _, _, event = await pipe.client_hears(1)
        assert (event["event_index"], numbers([event])) == (2, [2])
        await publish(double, 3)
        assert [frame["event"] for frame in await pipe.client_hears(5)] == ["subscribed"]
        await publish(double, 4)
        assert [event["event_index"] for event in await pipe.client_hears()] == [4]
        double.finish()
        await pipe.client_hears(1801)
        assert double.runs == {}
        pipe.client_says(back)
        assert (await pipe.client_hears())[0]["event"] == "replay"

    virtually(main)


def test_slack_tries_for_six_minutes():
    """At once, after a minute, after five; half-open sockets take events with them; then the event is abandoned."""

    async def main():
        double = SlackSocketMode(Random(1), notices_after=100)
        await publish(double, 1)
        await asyncio.sleep(1)  # two attempts, and nobody there
        first = attached(double, double.new_path())
        assert numbers(await first.client_hears(58)) == []
        envelope = (await first.client_hears(2))[0]
        assert (numbers([envelope]), envelope["retry_attempt"]) == ([1], 2)
        first.client_says({"envelope_id": envelope["envelope_id"]})
        await first.client_hears()
        first.client_cuts()
        await publish(double, 2)
        second = attached(double, double.new_path())
        seen = await second.client_hears(400)
        assert set(numbers(seen)) <= {2}
        assert double.abandoned == [2]
        assert [effect["envelope_id"] for effect in double.effects] == [envelope["envelope_id"]]

    virtually(main)


def test_mattermost_numbers_what_it_writes_to_a_dead_socket():
    """128 of them can be repeated; a session whose loss was not noticed cannot be resumed at all."""

    async def main():
        double = Mattermost(Random(1), notices_after=100)
        bearer = {"Authorization": "Bearer secret"}
        first = attached(double, "/api/v4/websocket", **bearer)
        connection = (await first.client_hears())[0]["data"]["connection_id"]
        first.client_cuts()
        await publish(double, *range(1, 129))
        page = f"/api/v4/websocket?connection_id={connection}&sequence_number=1"
        early = attached(double, page, **bearer)
        assert (await early.client_hears())[0]["event"] == "hello"
        await early.client_hears(100)
        late = attached(double, page, **bearer)
        assert numbers(await late.client_hears()) == [*range(1, 129)]
        late.client_cuts()
        double.resumes_unnoticed = True
        await publish(double, 129)
        late = attached(double, page.replace("=1", "=2"), **bearer)
        assert numbers(await late.client_hears()) == [*range(2, 130)]
        late.blocked = True
        await publish(double, *range(300))
        await late.client_hears()
        assert late.closed == 1005

    virtually(main)


def test_centrifugo_pings_and_forgets_by_time():
    """`{}` each 25 s, 3012 without a pong; a history that nobody added to for its time is empty, and keeps its offset."""

    async def main():
        double = Centrifugo(Random(1), history_ttl=300)
        page = "/connection/websocket"
        connect, subscribe = {"id": 1, "connect": {}}, {"id": 2, "subscribe": {"channel": "news"}}
        pipe = attached(double, page, connect, subscribe)
        await publish(double, 1)
        await pipe.client_hears(raw=True)
        assert await pipe.client_hears(25, raw=True) == ["{}"]
        pipe.client_says({})
        assert await pipe.client_hears(25, raw=True) == ["{}"]
        await pipe.client_hears(8.5)
        assert pipe.closed == 3012
        await pipe.client_hears(300)
        late = attached(double, page, connect)
        late.client_says(
            {"id": 3, "subscribe": {"channel": "news", "recover": True, "epoch": "", "offset": 0}}
        )
        reply = lines(await late.client_hears(raw=True))[1]["subscribe"]
        assert (reply["offset"], reply.get("recovered")) == (1, None)

    virtually(main)


def test_openhands_waits_for_auth_and_bounds_what_waits():
    """4001 after 10 s of silence; 1013 when a client does not read; 1009 for a frame that is too big."""

    async def main():
        legacy, session = (
            LegacySocket(Random(1), key="k"),
            SessionSocket(Random(2), max_pending=1000, max_frame=100),
        )
        silent = attached(legacy, "/sockets/events/main")
        await silent.client_hears(9)
        assert silent.closed is None
        await silent.client_hears(2)
        assert silent.closed == 4001
        slow, big = (attached(session, "/sockets/session/main") for _ in range(2))
        await slow.client_hears()
        slow.blocked = True
        await publish(session, *range(20))
        big.client_says("x" * 101)
        await slow.client_hears()
        assert (slow.closed, big.closed) == (1013, 1009)

    virtually(main)


def test_homemade_live_events_race_the_replay():
    """A server that registers first says live events before the replay; one that registers last loses them."""

    async def main():
        for registers, expected in (("first", [2, 1, 3]), ("last", [1, 3])):
            double = Homemade(Random(1), registers=registers, replay_takes=5, absent="all")
            await publish(double, 1)
            pipe = attached(double, "/")
            await asyncio.sleep(1)
            await publish(double, 2)
            await asyncio.sleep(5)
            await publish(double, 3)
            assert numbers(await pipe.client_hears()) == expected

    virtually(main)


def test_a_restart_frees_the_process_and_says_no_goodbye():
    """A socket of the old process stays silent until the harness drops it; what its client sends has no effect."""

    async def main():
        double = Homemade(Random(1))
        pipe = attached(double, "/")
        await pipe.client_hears()
        double.restart()
        await publish(double, 1)
        pipe.client_says({"type": "message", "id": 1})
        assert await pipe.client_hears(60) == []
        assert (pipe.closed, double.effects, pipe.task.done()) == (None, [], False)
        pipe.client_cuts()
        await pipe.client_hears()
        assert pipe.task.done()

    virtually(main)
