"""`resilient-bridge doctor --bridge` as a child process against scripted servers: what it finds out, and what it sends."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time

import pytest
from aiohttp import web

from resilient_bridge.testing import BridgeServer
from tests.bridges.aiohttp_server import serving
from tests.bridges.doubles.agno import Agno
from tests.bridges.doubles.harness import serving_aiohttp
from tests.bridges.doubles.homemade import Homemade
from tests.bridges.doubles.openhands import SessionSocket
from tests.bridges.doubles.recursor_live import RecursorLive
from tests.bridges.doubles.socketio import SocketIO
from tests.cli.running_doctor import doctor, publishing


pytestmark = [pytest.mark.real, pytest.mark.requirement("X4")]
SEQUENCE = "sequence(field='seq', ask='last_seq')"
IN_FRAMES = (
    "sequence(field='seq', ask={'type': 'resume', 'last_seq': '{position}'}, end='end', reset='gap', hello='hello', "
    "epoch='epoch', start=0, ping={'type': 'ping'}, pong='pong')"
)


# ---- numbers, ids and times ------------------------------------------------------------------------------------------


async def test_a_table_says_what_was_seen_and_a_sentence_what_follows():
    """Rows of 80 columns at most, the verdict with its proof, the promise in words, and the dialect as code; the server was told nothing."""
    double = Homemade(random.Random(1), names="id")
    async with publishing(double) as url:
        done = await doctor(url, "--dialect", SEQUENCE)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line[:19].strip(): line[19:] for line in lines}
    assert rows["verdict"] == "RECOVERED, proof: anchor"
    assert rows["asked after"].endswith(", in the URL")
    assert rows["inclusive"].startswith("no")
    assert rows["numbers"] == "without holes"
    text = " ".join(done.out.split())
    assert (
        "Across a cut: RECOVERED if the last event that you had comes again with the same content"
        in text
    )
    assert lines[-1] == f"rb.dialects.{SEQUENCE}"
    assert "\x1b" not in done.out
    assert double.effects == []
    assert double.connections == []


async def test_an_inclusive_replay_is_distinguished():
    """The event that is asked after comes again: that is a row, and a note says how to use it."""
    async with publishing(Homemade(random.Random(1), inclusive=True, names="timestamp")) as url:
        done = await doctor(url, "--dialect", SEQUENCE, "--json")
    assert (done.after["includes_asked"], done.after["includes_last"]) == (True, True)
    assert done.after["verdict"] == "RECOVERED"
    assert "inclusive=True" in done.data["notes"][0]


async def test_a_probe_that_is_refused_is_reported():
    """The server knows no such type: the note has its answer."""

    async def refusing(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"seq": 1})
        async for frame in socket:
            await socket.send_json({"error": f"unknown type {frame.json()['type']}"})
        return socket

    probe = ["--probe-type", "run", "--probe-runs-twice"]
    async with serving(refusing) as url:
        done = await doctor(url, "--dialect", SEQUENCE, *probe, "--json", seconds=6)
    (note,) = [note for note in done.data["notes"] if "--probe-type" in note]
    assert note.endswith('with an error: {"error": "unknown type run"}.')


async def test_l14_events_without_id_and_time_are_reported():
    """The last event comes again, and proves nothing: a note says what to name."""
    async with publishing(Homemade(random.Random(1))) as url:
        done = await doctor(url, "--dialect", SEQUENCE, "--json")
    assert (done.after["verdict"], done.after["reason"]) == ("UNKNOWN", "no_anchor")
    assert any(
        "id=" in note and "timestamp=" in note and "distinct=True" in note
        for note in done.data["notes"]
    )


async def test_a_server_that_says_more_is_seen_to_say_it():
    """Hello, the name of the log, pings, the start of the log and the end of a replay, all asked for in frames."""
    double = Homemade(
        random.Random(1), ask="frame", hello=True, epoch="epoch", end_marker="end", gap_frame="gap"
    )
    async with publishing(double) as url:
        done = await doctor(url, "--dialect", IN_FRAMES, "--json")
    found = done.data["findings"]
    assert done.code == 0
    assert found["greeting"] == "greeting"
    assert found["names_log"]
    assert found["ping"]["by"] == "message"
    assert 0 <= found["ping"]["seconds"] < 5
    assert found["from_start"] == 1
    assert found["retained"]["is_all"]
    assert (done.after["proof"], done.after["same_log"], done.after["by"]) == (
        "stated",
        True,
        "in a frame",
    )
    assert done.after["order"] == "rising"
    assert done.after["events"] == done.after["new"] + 1  # the one that was asked early comes again
    assert done.after["asked"] == found["before"]["last"] - 1


async def test_how_much_a_server_keeps_and_how_long_is_shown():
    """aiohttp's server holds 400 events, the oldest made ten minutes ago, and sends them to who asks from 0: text and JSON say so."""
    now = time.time()
    log = [{"type": "e", "seq": n, "created_at": now - 600 + n} for n in range(1, 401)]

    async def handle(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        after = int(request.query.get("last_seq", log[-1]["seq"]))
        for event in log:
            if event["seq"] > after:
                await socket.send_json(event)
        async for _ in socket:
            pass
        return socket

    dialect = "sequence(field='seq', ask='last_seq', start=0)"
    async with serving(handle) as url:
        done, printed = await asyncio.gather(
            doctor(url, "--dialect", dialect, "--json"), doctor(url, "--dialect", dialect)
        )
    retained = done.data["findings"]["retained"]
    assert (retained["events"], retained["is_all"], retained["stamped_by"]) == (
        400,
        True,
        "created_at",
    )
    assert 599 <= retained["age"] <= 599 + time.time() - now
    assert done.rows["from the start"] == "it sends from 1 on"
    text = " ".join(printed.out.split())
    assert "keeps 400 events; by its created_at the oldest is 10." in text


async def test_a_server_that_holds_too_little_shows_a_gap():
    """Of a ring of one event everything else is lost in the cut: GAP, and the page about it is named."""
    double = Homemade(random.Random(1), ring=1, gap_frame="gap")
    async with publishing(double, every=0.05) as url:
        done = await doctor(
            url, "--dialect", "sequence(field='seq', ask='last_seq', reset='gap')", "--json"
        )
    assert done.code == 0
    assert done.after["verdict"] == "GAP"
    assert "docs/reference/positions.md" in " ".join(done.data["notes"])
    assert "GAP, with the numbers" in done.data["promise"]


async def test_a_server_that_replays_nothing_ends_in_unknown():
    """It does not read what is asked in the URL, and says nothing for two seconds."""
    async with publishing(Homemade(random.Random(1), since="other"), every=0.2, events=4) as url:
        done = await doctor(url, "--dialect", SEQUENCE, "--json")
    assert (done.after["verdict"], done.after["reason"], done.after["events"]) == (
        "UNKNOWN",
        "quiet",
        0,
    )
    assert done.rows["answer"] == "none was seen"


async def test_times_are_ordered_and_reach_back():
    """`since` on a server that says the last event again."""
    double = Homemade(
        random.Random(1), kind="time", field="timestamp", since="since", inclusive=True
    )
    async with publishing(double) as url:
        done = await doctor(url, "--dialect", "since(id=None)", "--json")
    assert (done.after["verdict"], done.after["proof"], done.after["order"]) == (
        "RECOVERED",
        "anchor",
        "rising",
    )
    assert done.after["oldest"] == done.after["asked"] == done.data["findings"]["before"]["last"]
    retained = done.data["findings"]["retained"]
    assert (retained["events"], retained["is_all"]) == (done.after["events"], False)
    assert isinstance(retained["age"], float)
    assert retained["stamped_by"] == ""  # the dialect reads it


# ---- dialects of known servers ----------------------------------------------------------------------------------------


async def test_first_frames_name_a_dialect_that_needs_no_arguments():
    """socket.io is recognized, and examined at once; nothing but its own packets is sent."""
    double = SocketIO(random.Random(1))
    async with publishing(double) as url:
        done = await doctor(f"{url}/socket.io/?EIO=4&transport=websocket", "--json")
    assert done.code == 0
    assert done.data["fits"][0] == done.data["dialect"] == "rb.dialects.socketio()"
    assert done.data["first_frames"][0].startswith("0{")
    assert (done.after["verdict"], done.after["proof"], done.after["same_session"]) == (
        "RECOVERED",
        "session",
        True,
    )
    assert done.data["findings"]["was_challenged"]
    assert double.effects == []


async def test_first_frames_name_the_arguments_that_are_missing():
    """agno needs its workflow, a home-made server the name that is asked with: 2, and a line that says so."""
    async with publishing(Agno(random.Random(1))) as url:
        done = await doctor(f"{url}/workflows/ws")
    assert done.code == 2
    assert (
        '--dialect "agno(workflow_id=…)" expected: the frames do not show workflow_id=' in done.err
    )
    assert "connected" in done.out
    async with publishing(Homemade(random.Random(1))) as url:
        done = await doctor(url, "--json")
    assert done.code == 2
    assert done.data["why"].endswith("the frames do not show ask=")
    assert done.data["found_out"] is False
    assert done.data["dialect"] == "rb.dialects.sequence(field='seq', ask=…)"


async def test_a_server_that_says_nothing_is_not_judged_by_that():
    """Nobody has started a run of agno, so there is no position: UNKNOWN, and the note says what to do."""
    double = Agno(random.Random(1), token="t-123456")
    arguments = ["--dialect", "agno(workflow_id='w')", "--token-env", "RB_KEY", "--json"]
    async with serving_aiohttp(double) as url:
        done = await doctor(f"{url}/workflows/ws", *arguments, seconds=8, RB_KEY="t-123456")
    assert done.code == 0
    assert done.data["findings"]["was_challenged"]
    assert (done.after["verdict"], done.after["reason"]) == ("UNKNOWN", "no_position")
    assert "No event came before the cut" in " ".join(done.data["notes"])
    assert double.effects == []


async def test_a_key_is_used_and_never_shown():
    """OpenHands with its key: RECOVERED by the window that it names. With another one: refused, and 1."""
    arguments = ["--dialect", "openhands", "--token-env", "RB_KEY"]
    async with publishing(SessionSocket(random.Random(1), key="k-123456")) as url:
        where = f"{url}/sockets/session/main?note=n-987654"
        done = await doctor(where, *arguments, RB_KEY="k-123456")
        refused = await doctor(where, *arguments, "--json", RB_KEY="k-000000")
    assert done.code == 0
    assert "RECOVERED, proof: window" in done.out
    assert refused.code == 1
    assert refused.data["findings"]["losses"][0]["close_code"] == 4001
    assert refused.data["promise"] is None
    assert "credentials not accepted" in refused.err
    for secret in ("k-123456", "k-000000", "n-987654"):
        assert secret not in done.out + done.err + refused.out + refused.err


async def test_nothing_is_acknowledged():
    """A notification of ReCursor's stays in the queue, because nobody has read it; what comes again unasked is counted."""
    double = RecursorLive(random.Random(1), token="secret")
    arguments = ["--dialect", "recursor_live", "--token-env", "RB_KEY", "--json"]
    async with publishing(double, channel="notification") as url:
        done = await doctor(url, *arguments, RB_KEY="secret")
        assert double.effects == []
        assert len(double.queue) >= done.data["findings"]["before"]["acks_wanted"] > 0
    assert done.after["repeated"] > 0
    assert "UNKNOWN, always" in done.data["promise"]
    assert "not acknowledged is sent again" in done.data["promise"]


# ---- envelopes, and the probe -----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def talking(**options):
    """A BridgeServer that pushes."""
    async with BridgeServer(**options) as server:

        async def push():
            while not server.session:
                await asyncio.sleep(0.02)
            for number in range(1_000):
                await server.push("news", {"n": number})
                await asyncio.sleep(0.1)

        task = asyncio.ensure_future(push())
        try:
            yield server
        finally:
            task.cancel()


async def test_the_default_dialect_is_examined_where_the_server_waits_for_us():
    """Answers to auth, join, ping and replay are seen; only these four are sent."""
    async with talking(token="t-123456") as server:
        done = await doctor(server.url, "--token-env", "RB_KEY", "--json", RB_KEY="t-123456")
        sent = {frame["type"] for frame in server.frames}
        assert server.received == []
    found = done.data["findings"]
    assert done.code == 0
    assert done.data["dialect"] == "rb.dialects.recursor"
    assert (found["greeting"], found["join"], found["ping"]["by"]) == (
        "answer",
        "answered",
        "message",
    )
    assert found["states_dedupes"] is True
    assert found["repetition"] == "not tried"
    assert (done.after["verdict"], done.after["includes_last"]) == ("RECOVERED", True)
    assert done.after["order"] == "rising"
    assert sent == {"auth", "session_join", "heartbeat_ping", "request_replay"}


async def test_a_probe_shows_whether_a_repetition_is_noticed():
    """With both options one message goes out twice, under one id and key: the bridge runs it once and says so."""
    async with talking() as server:
        arguments = ["--probe-type", "tool_result", "--probe-runs-twice", "--json"]
        done = await doctor(server.url, "--dialect", "recursor", *arguments)
        twice = [frame for frame in server.frames if frame["type"] == "tool_result"]
        assert len(server.received) == 1
    assert done.data["findings"]["repetition"] == "noticed"
    assert len(twice) == 2
    assert twice[0] == twice[1]


async def test_a_probe_shows_that_a_message_may_run_twice():
    """ReCursor's real bridge answers both alike, and has the effect twice."""
    double = RecursorLive(random.Random(1), token="secret")
    arguments = ["--dialect", "recursor_live", "--token-env", "RB_KEY", "--probe-type", "file_list"]
    async with publishing(double) as url:
        done = await doctor(url, *arguments, "--probe-runs-twice", "--json", RB_KEY="secret")
    assert done.data["findings"]["repetition"] == "two answers"
    assert [effect["type"] for effect in double.effects] == ["file_list", "file_list"]
    assert len({effect["id"] for effect in double.effects}) == 1
