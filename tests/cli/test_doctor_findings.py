"""What `doctor` makes of what it has seen: entries of a journal become findings, rows and a promise, without any connection."""

from __future__ import annotations

import json
import re

import pytest

import resilient_bridge as rb
from tests.internals.cli import (
    Entry,
    Probe,
    Reading,
    Row,
    conclude,
    data_of,
    notes_of,
    promise_of,
    rows_of,
    table_of,
)
from tests.rows import each_row


d = rb.dialects
SEQUENCE = d.sequence(field="seq", ask="last_seq")


class Story:
    """Entries, a tenth of a second apart."""

    def __init__(self):
        self.entries, self.connection = [], 0

    def tell(self, kind, value=None):
        self.entries.append(Entry(len(self.entries) / 10, self.connection, kind, value))
        return self

    def connect(self, record=None, resume=None):
        """Dialled, asked, opened, accepted."""
        self.connection += 1
        self.tell("dialled")
        if resume is not None:
            self.tell("asked", (record or d.Record(), resume))
        return self.tell("opened").tell("happened", rb.events.Connected())

    def come(self, *frames):
        for frame in frames:
            self.tell("came", frame if isinstance(frame, str | bytes) else json.dumps(frame))
        return self

    def end(self, verdict, reason="", **more):
        """The verdict of a reconnection."""
        event = rb.events.Resumed(
            session_id="s", verdict=rb.bridge.Verdict(verdict), reason=reason, **more
        )
        return self.tell("happened", event)

    def found(self, dialect, **more):
        reading = Reading(dialect)
        for entry in self.entries:
            reading.add(entry)
        return conclude(list(reading.connections.values()), dialect, **more)


def events(*numbers):
    return [{"type": "event", "seq": number} for number in numbers]


def asked(after):
    """After the cut: the last known is one above what is asked after."""
    return d.Record(positions={None: after + 1}, overlap=1), d.Resume(query={"last_seq": after})


def row(findings, what):
    return dict(rows_of(findings)).get(what)


def test_nothing_is_claimed_of_what_was_not_seen():
    """No entry: not connected, not accepted, no ping, no verdict, not found out."""
    findings = Story().found(SEQUENCE)
    assert (findings.connected, findings.accepted, findings.after) == (None, None, None)
    assert not findings.is_found_out
    assert rows_of(findings) == [Row("connected", "no"), Row("accepted", "no")]
    assert json.loads(json.dumps(data_of(findings)))["repetition"] == "not tried"


def test_an_exclusive_replay():
    """It begins behind the event that was asked after, which is known to be there; the last known one came again."""
    story = Story().connect(resume=d.Resume()).come(*events(1, 2, 3)).tell("cut")
    story.connect(*asked(2)).come(*events(3, 4, 5)).end("RECOVERED", "anchor", proof="anchor")
    after = story.found(SEQUENCE).after
    assert (after.asked, after.by, after.events, after.new) == (2, "in the URL", 3, 2)
    assert (after.includes_asked, after.includes_last, after.order) == (False, True, "rising")


def test_an_inclusive_replay_in_the_wrong_order():
    """The event that was asked after came again, and the rest from the newest to the oldest."""
    story = Story().connect(resume=d.Resume()).come(*events(1, 2, 3)).tell("cut")
    story.connect(*asked(2)).come(*events(5, 4, 3, 2)).end("RECOVERED")
    findings = story.found(SEQUENCE)
    assert (findings.after.includes_asked, findings.after.order) == (True, "falling")
    assert "inclusive=True" in notes_of(findings, SEQUENCE)[0]


def test_whether_a_replay_is_inclusive_is_not_guessed():
    """Asked after 0, where no event is known to be: nothing can be said."""
    story = Story().connect(resume=d.Resume()).come(*events(1)).tell("cut")
    story.connect(*asked(0)).come(*events(1, 2)).end("RECOVERED")
    findings = story.found(SEQUENCE)
    assert findings.after.includes_asked is None
    assert row(findings, "inclusive") is None


@pytest.mark.parametrize(
    ("numbers", "numbering"),
    [((1, 2, 3), "without holes"), ((1, 3, 4), "with holes"), ((3, 2), "not rising"), ((1,), None)],
)
def test_numbers_are_looked_at(numbers, numbering):
    """From one event to the next; holes in what a dialect takes for contiguous are worth a note."""
    findings = Story().connect(resume=d.Resume()).come(*events(*numbers)).found(SEQUENCE)
    assert findings.before.numbering == numbering
    assert any("contiguous=False" in note for note in notes_of(findings, SEQUENCE)) == (
        numbering == "with holes"
    )


def test_what_comes_close_behind_a_replay_belongs_to_it():
    """An anchor ends the waiting of the client, and not what the server sends again; what comes later is live."""
    story = Story().connect(resume=d.Resume()).come(*events(1)).tell("cut")
    story.connect(*asked(0)).come(*events(1)).end("RECOVERED")
    at = story.entries[-2].at  # when the replay was heard of last
    for number, later in ((2, 0.05), (3, 0.1), (4, 1.0)):
        story.entries.append(Entry(at + later, 2, "came", json.dumps(events(number)[0])))
    assert story.found(SEQUENCE).after.events == 3


def test_the_start_of_a_log_is_named_where_it_was_asked_for():
    """With a question and no position; where nothing was asked it is not shown."""
    dialect = d.sequence(field="seq", ask="last_seq", start=0)
    story = Story().connect(resume=d.Resume(query={"last_seq": 0})).come(*events(7, 8))
    assert row(story.found(dialect), "from the start") == "it sends from 7 on"
    story = Story().connect(resume=d.Resume()).come(*events(7, 8))
    assert row(story.found(SEQUENCE), "from the start").startswith("not shown")


FROM_START = d.sequence(field="seq", ask="last_seq", start=0)
AT_NOON = 1_774_008_000.0  # 2026-03-20T12:00:00Z


def replayed(*frames):
    """A first connection that asks for everything, and what comes."""
    return Story().connect(resume=d.Resume(query={"last_seq": 0})).come(*frames)


@pytest.mark.parametrize(
    ("dialect", "frames", "retained"),
    [
        (FROM_START, events(7, 8), "2 events; none has a time, so how long is not shown"),
        (
            FROM_START,
            [{"type": "event", "seq": 7, "timestamp": "2026-03-20T11:58:00.300Z"}, *events(8)],
            "2 events; by its stamp the oldest is 2.0 minutes old",
        ),
        (
            FROM_START,
            [
                {"type": "event", "seq": 7, "ts": 1_774_008_000.3},
                {"type": "event", "seq": 8, "ts": 1_774_007_995},
            ],
            "2 events; by its ts the oldest is 5.4 s old",
        ),
        (
            FROM_START,
            [{"type": "event", "seq": 7, "time": "2026-03-20T15:00:00.3Z"}],
            "1 event; by its time the oldest is 3.0 hours ahead of the clock of this machine",
        ),
        (
            FROM_START,
            [{"type": "event", "seq": 7, "time": "soon", "ts": True, "created_at": None}],
            "1 event; none has a time, so how long is not shown",
        ),
        (
            d.since(id=None),
            [{"type": "event", "timestamp": "2026-03-17T12:00:00.300Z"}],
            "1 event; by its stamp the oldest is 3.0 days old",
        ),
        (
            d.last_event_id(),  # an id of digits is no time
            [{"type": "event", "id": "175928847299117063"}],
            "1 event; none has a time, so how long is not shown",
        ),
    ],
)
def test_how_much_a_server_keeps_and_how_long(dialect, frames, retained):
    """By the replay from the start: how many events, and the age of the oldest by what it says of itself."""
    findings = replayed(*frames).found(dialect, began=AT_NOON)
    assert row(findings, "keeps") == retained
    data = json.loads(json.dumps(data_of(findings)))["retained"]
    assert (data["events"], data["is_all"]) == (len(frames), True)
    assert (data["age"] is None) == ("no" in retained.split("; ")[1])


def test_a_replay_from_the_middle_shows_the_least_that_is_retained():
    """The longest of them; and where nothing came again, nothing is said."""
    story = Story().connect(resume=d.Resume()).come(*events(1, 2, 3)).tell("cut")
    story.connect(*asked(2)).come(*events(3, 4, 5)).end("RECOVERED", "anchor", proof="anchor")
    findings = story.found(SEQUENCE)
    assert row(findings, "keeps").startswith(
        "at least 3 events, as more was not asked for; none has a time"
    )
    assert not findings.retained.is_all
    story = Story().connect(resume=d.Resume()).come(*events(1, 2, 3)).tell("cut")
    findings = story.connect(*asked(2)).end("UNKNOWN", "quiet").found(SEQUENCE)
    assert (findings.retained, row(findings, "keeps")) == (None, None)


def test_what_an_answer_in_envelopes_holds_is_counted():
    """Each entry of the answer, with its own timestamp; the question was not after a time."""
    entry = {
        "type": "tool_call",
        "id": "e1",
        "timestamp": "2026-03-20T11:59:00.500Z",
        "payload": {},
    }
    ask = {"type": "request_replay", "id": "q", "payload": {}}
    story = Story().connect().tell("went", json.dumps(ask))
    story.come(
        {"type": "replay_buffer", "id": "q", "payload": {"messages": [entry, entry | {"id": "e2"}]}}
    )
    findings = story.found(d.recursor, began=AT_NOON)
    assert row(findings, "keeps") == "2 events; by its stamp the oldest is 59.9 s old"


def test_how_a_connection_ended_is_named():
    """By close code, status and the server's own code; the one that was cut by the command is no loss; what repeats is counted."""
    failure = rb.Failure.of(
        "AUTH_FORBIDDEN", "no", details={"close_code": 4001, "close_by": "peer"}
    )
    status = rb.Failure.of(
        "AUTH_FORBIDDEN", "no", details={"http_status": 403, "server_code": "E1"}
    )
    story = (
        Story()
        .connect()
        .tell("cut")
        .tell("happened", rb.events.Disconnected(reason="x", failure=failure))
    )
    for why in (failure, failure, status):
        story.connect().tell("happened", rb.events.GaveUp(name="bridge", failure=why))
    findings = story.found(d.plain, has_failed=True)
    assert [(loss.close_code, loss.http_status, loss.server_code) for loss in findings.losses] == [
        (4001, None, None),
        (4001, None, None),
        (None, 403, "E1"),
    ]
    rows = [found for what, found in rows_of(findings) if what == "ended"]
    assert rows == ["2 times: close code 4001: no", "HTTP status 403, code E1: no"]
    assert not findings.is_found_out


PROBE = Probe("job", "id-1", "key-1", 7)


@pytest.mark.parametrize(
    ("frames", "repetition"),
    [
        ([], "no answer"),
        ([("message_ack", {"message_id": "id-1", "status": "applied"})], "one answer"),
        ([("message_ack", {"message_id": "id-1", "status": "applied"})] * 2, "two answers"),
        (
            [
                ("message_ack", {"message_id": "id-1", "status": "applied"}),
                ("message_ack", {"idempotency_key": "key-1", "status": "duplicate"}),
            ],
            "noticed",
        ),
        ([("error", {"code": "PROTO_UNKNOWN_TYPE", "request_type": "job"})], "refused"),
        ([("message_ack", {"message_id": "other", "status": "duplicate"})], "no answer"),
    ],
)
def test_the_answers_to_a_probe(frames, repetition):
    """Only what is about the message counts, and only what came after it."""
    story = (
        Story()
        .connect()
        .come({"type": "message_ack", "payload": {"message_id": "id-1"}})
        .tell("probed", PROBE)
    )
    story.come(*({"type": kind, "payload": payload} for kind, payload in frames))
    assert story.found(d.recursor).repetition == repetition


@each_row(
    ("dialect", "words"),
    [
        (d.plain, "UNKNOWN, always"),
        (d.slack_socket_mode, "what was not acknowledged is sent again"),
        (
            SEQUENCE,
            "the last event that you had comes again with the same content, and has an id or a time; GAP, with the numbers",
        ),
        (
            d.sequence(field="seq", ask="s", contiguous=False),
            "comes again with the same content, and has an id or a time; else UNKNOWN",
        ),
        (d.last_event_id(), "UNKNOWN: nothing that this server sends proves a replay"),
        (
            d.last_event_id(end="end", reset="gap"),
            "the server says that its replay is complete; else UNKNOWN",
        ),
        (d.socketio(), "names the session that you had; GAP where it forgot the session"),
        (d.agno(workflow_id="w"), "Across a cut for each log: RECOVERED if"),
        (d.mattermost, "answers the ping behind the question"),
        (d.recursor, "RECOVERED if the replay holds the last message that you had"),
        (d.recursor.evolve(request_replay=None), "this server replays nothing"),
    ],
)
def test_a_promise_follows_from_what_the_dialect_relies_on(dialect, words):
    """Before anything was seen it names every proof that there can be, and the verdict without one."""
    assert words in promise_of(Story().connect().found(dialect), dialect)


def test_a_frame_that_a_dialect_cannot_read_is_counted():
    """It is none of this dialect, and says nothing."""
    findings = Story().connect().come("no JSON", b"\xff").found(d.openhands)
    assert row(findings, "not readable") == "2 frames: not of this dialect"


def test_a_table_is_as_wide_as_it_may_be():
    """Long texts go over several lines, under their first word; below 40 columns it is 40."""
    rows = [Row("what", "words " * 30), Row("url", "x" * 200)]
    for width in (80, 60, 10):
        lines = table_of(rows, width).splitlines()
        assert max(map(len, lines)) <= max(40, width)
        assert lines[1].startswith(" " * 19)


def test_a_table_breaks_no_name_and_no_folder_of_a_path():
    """Lines end at spaces, and within a PATH behind its colons: what is copied out of it is whole."""
    folders = [f"/opt/some-tool-{number}/libexec/bin" for number in range(8)]
    names = [f"get-a-resource-{number}" for number in range(12)]
    rows = [Row("starts", f"looked for in {':'.join(folders)}"), Row("only read", ", ".join(names))]
    lines = table_of(rows, 60).splitlines()
    assert max(map(len, lines)) <= 60
    words = {word.rstrip(",:") for line in lines for word in re.split(r" |:(?=/)", line)}
    assert words >= {*folders, *names}
    assert table_of([Row("url", f"see {'x' * 30} http://host.example/a")], 60).endswith(
        " http://host.example/a"
    )


@pytest.mark.parametrize(
    ("numbers", "order"), [((4, 5), "rising"), ((5, 4), "falling"), ((4,), None)]
)
def test_x04_two_events_are_enough_to_tell_an_order(numbers, order):
    """Of two it is seen, of one it is not claimed."""
    story = Story().connect(resume=d.Resume()).come(*events(1, 2, 3)).tell("cut")
    story.connect(*asked(3)).come(*events(*numbers)).end("RECOVERED")
    assert story.found(SEQUENCE).after.order == order
