"""Which log is it? Logs that begin alike, equal events without a name, and what a replay adds: no verdict promises more than was shown.

The rig of `frames_rig` drives one session by hand; the model at the end restarts thousands of servers with logs that begin alike.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import NamedTuple

import pytest

import resilient_bridge as rb
from resilient_bridge.protocol import Gap
from tests.protocol.frames_rig import FramesRig, d, dialect, shown


BOOT = ("boot", "ready", "tools", "idle", "ready")
STAMP = "2026-01-01T00:00:05Z"


def numbered(names, first=1, **fields):
    """Frames of a server that numbers its events and gives them neither id nor time."""
    return [{"type": name, "seq": first + at} | fields for at, name in enumerate(names)]


def sequence(**words):
    """The dialect of such a server."""
    return rb.dialects.sequence(field="seq", ask="after", **words)


def read(rig):
    """What the reader got since: a gap as verdict and reason, a message as its frame, with "?" if it may be a repetition."""
    return [
        (str(item.verdict), item.reason) if isinstance(item, Gap) else shown(item)
        for item in rig.take()
    ]


def rejoined(speaks, before, after):
    """The frames of the first connection, a cut, the frames of the next: verdict and what the reader got behind the cut."""
    rig = FramesRig(speaks).up()
    rig.hear_each(before)
    assert len(rig.take()) == len(before)
    rig.again()
    rig.hear_each(after)
    rig.idle(3)
    return rig.resumed[:2], read(rig)


# ---- L01: what has no name is counted ------------------------------------------------------------------------------


def timed(*texts, stamp=STAMP):
    """Frames of a server whose events have a time of whole seconds, and no id."""
    return [{"type": "token", "text": text, "timestamp": stamp} for text in texts]


def texts(items):
    """The texts of the messages among them."""
    return [item["text"] for item in items if isinstance(item, dict)]


@pytest.mark.parametrize("quiet", [False, True], ids=["anchor", "quiet"])
def test_l01_equal_events_without_an_id_are_delivered_as_often_as_they_come(quiet):
    """Nothing is lost, no connection ends: laughter at one time is no repetition."""
    speaks = rb.dialects.since()
    if quiet:
        speaks = speaks.evolve(positions=speaks.positions.evolve(ends="quiet"))
    rig = FramesRig(speaks).up()
    rig.hear_each(timed("he", "ha", "ha", "ha", "ho"))
    assert texts(read(rig)) == ["he", "ha", "ha", "ha", "ho"]


@pytest.mark.parametrize("missed", [0, 1, 2, 5])
@pytest.mark.parametrize("ends", ["anchor", "quiet", "stated"])
def test_l01_a_replay_of_equal_events_brings_those_that_were_missed(ends, missed):
    """The log holds "ha" three times and then more often: each that was missed is delivered, none of the others again."""
    speaks = rb.dialects.since(end="end" if ends == "stated" else None)
    if ends == "quiet":
        speaks = speaks.evolve(positions=speaks.positions.evolve(ends="quiet"))
    had = timed("he", "ha", "ha", "ha", "ho")
    end = [{"type": "end"}] if ends == "stated" else []
    verdict, came = rejoined(speaks, had, [*had, *timed(*["ha"] * missed), *end])
    assert verdict == ("RECOVERED", "anchor")
    assert len(came) == missed


def test_l01_live_events_behind_an_answer_that_lacks_the_anchor_are_all_delivered():
    """No answer, UNKNOWN: equal events behind it may be a late replay, as often as we had them; all are delivered."""
    rig = FramesRig(rb.dialects.since()).up()
    rig.hear_each(timed("ha", "ha"))
    rig.take()
    rig.again()
    rig.idle(3)
    rig.hear_each(timed("ha", "ha", "ha"))
    assert rig.resumed[:2] == ("UNKNOWN", "quiet")
    doubt, *came = rig.take()
    assert doubt.reason == "quiet"
    assert [message.maybe_duplicate for message in came] == [True, True, False]


def test_l01_what_a_replay_marks_is_counted_as_well():
    """The server says "replayed" of what it sends again: that is no new content."""
    had = timed("ha", "ha")
    again = [frame | {"replayed": True} for frame in timed("ha", "ha", "ha")]
    verdict, came = rejoined(rb.dialects.since(end="end"), had, [*again, {"type": "end"}])
    assert (verdict, len(came)) == (("RECOVERED", "anchor"), 1)


def test_l01_an_event_whose_content_was_edited_is_delivered():
    """One id and another text: the reader gets both, the second one flagged."""
    rig = FramesRig(rb.dialects.since()).up()
    one = {"type": "message", "id": "b7e1-x", "timestamp": STAMP, "text": "Hel"}
    rig.hear_each([one, one | {"text": "Hello"}, one | {"text": "Hello"}])
    came = rig.take()
    assert [message.payload["text"] for message in came] == ["Hel", "Hello"]
    assert [message.maybe_duplicate for message in came] == [False, True]


# ---- L14 and its kin: a log that begins alike ----------------------------------------------------------------------


def test_l14_a_new_log_that_begins_alike_is_not_recovered():
    """Five events, a restart, seven of which the first five are equal: at most UNKNOWN."""
    new = numbered([*BOOT, "late", "later"])
    verdict, came = rejoined(sequence(), numbered(BOOT), new[4:])
    assert verdict == ("UNKNOWN", "no_anchor")
    assert came == [("UNKNOWN", "no_anchor"), *new[5:]]


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        pytest.param({}, {"id": "5f0c-77aa-e"}, id="an id"),
        pytest.param({}, {"timestamp": STAMP}, id="a time"),
        pytest.param({"id": "meta.uid"}, {"meta": {"uid": "0f0f-aa-7x"}}, id="an id elsewhere"),
        pytest.param({"distinct": True}, {}, id="the user's word"),
    ],
)
def test_l14_what_names_the_event_proves_the_log(words, fields):
    """An honest server is RECOVERED where its events have an id or a time, or the user vouches for it."""
    before = [*numbered(BOOT[:4]), *numbered(BOOT[4:], 5, **fields)]
    verdict, came = rejoined(sequence(**words), before, [before[-1], *numbered(["late"], 6)])
    assert verdict == ("RECOVERED", "anchor")
    assert came == numbered(["late"], 6)


def test_l14_an_epoch_names_the_log():
    """The server says which log it has, and it is the one that we read."""
    speaks = sequence(hello="hello", epoch="log")
    hello = {"type": "hello", "log": "A"}
    rig = FramesRig(speaks)
    rig.connect()
    rig.hear_each([hello, *numbered(BOOT)])
    rig.take()
    rig.again()
    rig.hear_each([hello, *numbered(["ready", "late"], 5)])
    assert (rig.resumed[:2], read(rig)) == (("RECOVERED", "anchor"), numbered(["late"], 6))


@pytest.mark.parametrize("field", ["id", "timestamp"])
def test_l14_what_each_event_has_names_none(field):
    """The same id in each event (a session's, say), or a time that is none: another log would have it as well."""
    shared = {"id": "c0ffee-session-x"} if field == "id" else {"timestamp": "0"}
    before = numbered(BOOT, **shared)
    verdict, _ = rejoined(sequence(), before, [before[-1], *numbered(["late"], 6, **shared)])
    assert verdict == ("UNKNOWN", "no_anchor")


def numbers(**positions):
    """A server that speaks facts, and numbers its events without holes."""
    return dialect({"contiguous": True, "ends": "stated", **positions})


def plain(first, last, tag="e", **fields):
    """Numbered events without id and time; the frame of each is its name."""
    return [
        d.Received(
            raw=f"{tag}{n}", position=n, **{name: value(n) for name, value in fields.items()}
        )
        for n in range(first, last + 1)
    ]


STATED = d.Replayed(complete=True)
ALIKE = [
    pytest.param(numbers(overlap=1), [*plain(2, 4), STATED], id="b5, stated complete"),
    pytest.param(numbers(repeats=True), [*plain(1, 4), d.Replayed()], id="b6, the whole log again"),
    pytest.param(
        numbers(overlap=1), [d.Replayed(first=2, through=4), *plain(2, 4)], id="b9, a window"
    ),
    pytest.param(numbers(), [*plain(3, 4), STATED], id="b8, stated without an overlap"),
    pytest.param(numbers(ends="quiet"), plain(3, 4), id="b7, contiguous without an overlap"),
    pytest.param(numbers(inclusive=True, ends="anchor"), plain(2, 4), id="b2, an anchor"),
]


@pytest.mark.parametrize(("speaks", "answer"), ALIKE)
def test_l14_no_other_proof_says_which_log_it_is(speaks, answer):
    """The server restarts with a log that begins alike, and states that it has sent all: it has, of the new one."""
    (verdict, _), came = rejoined(speaks, plain(1, 2), answer)
    assert verdict == "UNKNOWN"
    assert came == [("UNKNOWN", "no_anchor"), "e3", "e4"]


@pytest.mark.parametrize(("speaks", "answer"), ALIKE)
def test_l14_the_user_can_vouch_for_the_server(speaks, answer):
    """With `distinct` the same evidence is RECOVERED: the user says that no two logs are alike."""
    speaks = speaks.evolve(positions=speaks.positions.evolve(distinct=True))
    (verdict, _), came = rejoined(speaks, plain(1, 2), answer)
    assert (verdict, came) == ("RECOVERED", ["e3", "e4"])


def test_l14_a_channel_may_be_named_for_its_log():
    """A run's id is the name of its log: a new log is a new channel."""
    one = {"per_channel": True, "contiguous": True, "overlap": 1, "ends": "stated"}
    answer = [*plain(2, 3, channel=lambda _: "run"), d.Replayed(complete=True, channel="run")]
    before = plain(1, 2, channel=lambda _: "run")
    assert rejoined(dialect(one), before, answer)[0] == ("UNKNOWN", "no_anchor")
    assert rejoined(dialect({**one, "names_log": True}), before, answer)[0] == (
        "RECOVERED",
        "stated",
    )


def test_l14_a_channel_of_which_nothing_was_missed_is_known_by_its_name():
    """No event comes, and the server states that it has sent all: its epoch says of which log."""
    one = {"per_channel": True, "contiguous": True, "ends": "stated"}
    before = [
        d.Replayed(channel="run", epoch="E"),
        *plain(1, 2, channel=lambda _: "run"),
    ]
    rig = FramesRig(dialect(one)).up()
    rig.hear_each(before)
    rig.take()
    rig.again()
    rig.hear(d.Replayed(complete=True, channel="run", epoch="E"))
    assert rig.resumed == ("RECOVERED", "stated", {"run": "RECOVERED"})


def test_b3_an_equal_id_with_other_content_is_another_log():
    """Ids that count begin again with the log: "ev-2" is another event now, and it is delivered."""
    named = {"id": lambda n: f"ev-{n}"}
    answer = [*plain(2, 2, "x", **named), *plain(3, 3, "x", **named), STATED]
    verdict, came = rejoined(numbers(overlap=1), plain(1, 2, **named), answer)
    assert verdict == ("GAP", "restarted")
    assert came == [("GAP", "restarted"), "x2", "x3"]


@pytest.mark.parametrize("inclusive", [False, True])
def test_ids_that_count_prove_nothing_about_a_log(inclusive):
    """A server that knows "ev-2" again after a restart may mean another event by it; one that knows a UUID does not."""
    speaks = rb.dialects.last_event_id(inclusive=inclusive, end="end", reset="reset")

    def ended(*ids):
        before = [{"type": "say", "id": ids[0]}, {"type": "say", "id": ids[1]}]
        again = before[1:] if inclusive else []
        return rejoined(speaks, before, [*again, {"type": "say", "id": ids[2]}, {"type": "end"}])[0]

    assert ended("ev-1", "ev-2", "ev-3") == ("UNKNOWN", "no_anchor")
    assert ended("9c1f-0a", "9c1f-0b", "9c1f-0c") == ("RECOVERED", "stated")


# ---- L08: what a replay adds is no other log ----------------------------------------------------------------------


def test_l08_a_flag_of_a_replay_is_no_other_log():
    """`"replayed": true` on what is sent again: no GAP, and nothing twice."""
    before = numbered(BOOT, timestamp=STAMP)
    again = numbered(["ready", "late"], 5, timestamp=STAMP, replayed=True)
    verdict, came = rejoined(sequence(), before, again)
    assert verdict == ("RECOVERED", "anchor")
    assert came == again[1:]


@pytest.mark.parametrize(
    "added",
    [{"sent_at": "2026-01-01T09:09:09Z"}, {"attempt": 2}, {"sent_at": 1767225999.25}],
    ids=["a time", "a field", "a number of seconds"],
)
def test_l08_what_a_replay_adds_or_gives_anew_is_flagged(added):
    """The dialect does not name the field: at most UNKNOWN, and what may be a repetition says so."""
    sent = {"sent_at": "2026-01-01T00:00:01Z"} if isinstance(added.get("sent_at"), str) else {}
    sent = {"sent_at": 1767225601} if isinstance(added.get("sent_at"), float) else sent
    rig = FramesRig(sequence(timestamp=None)).up()
    rig.hear_each(numbered(BOOT, **sent))
    rig.take()
    rig.again()
    rig.hear_each(numbered(["ready"], 5, **(sent | added)))
    rig.idle(3)
    assert rig.resumed[:2] == ("UNKNOWN", "unverified")
    doubt, message = rig.take()
    assert (doubt.reason, message.maybe_duplicate) == ("unverified", True)


def test_l08_a_dialect_names_its_volatile_fields():
    """Named, they are left out: RECOVERED where an id remains, and nothing twice."""
    speaks = sequence(volatile=["sent_at", "attempt"])
    before = numbered(BOOT, id="5f0c-1-x", sent_at="a", attempt=1)
    before = [frame | {"id": f"5f0c-{at}-x"} for at, frame in enumerate(before)]
    again = [before[-1] | {"sent_at": "b", "attempt": 2}, *numbered(["late"], 6, id="5f0c-9-x")]
    assert rejoined(speaks, before, again) == (("RECOVERED", "anchor"), again[1:])


def test_l08_an_equal_id_is_compared_and_a_time_may_change_beside_it():
    """One id that is no counter, and a new time: the event that we have."""
    before = [
        frame | {"id": f"5f0c-{at}-x"} for at, frame in enumerate(numbered(BOOT, sent_at=STAMP))
    ]
    again = [before[-1] | {"sent_at": "2026-01-01T09:00:00Z"}]
    assert rejoined(sequence(), before, again) == (("RECOVERED", "anchor"), [])


def test_l08_another_content_or_another_id_is_another_log():
    """What no replay would change has changed: GAP(restarted), and the event is delivered."""
    before = numbered(BOOT, id="5f0c-77aa-x", timestamp=STAMP)
    for other in ({"type": "gone"}, {"id": "5f0c-77aa-y"}, {"timestamp": STAMP, "text": "new"}):
        again = [before[-1] | other]
        (verdict, reason), came = rejoined(sequence(), before, again)
        if "text" in other:  # a field more is innocent beside an equal id
            assert verdict == "UNKNOWN"
        else:
            assert (verdict, reason, came[1:]) == ("GAP", "restarted", again)


def test_volatile_names_are_checked():
    """A time may be volatile only where an id remains; a text is no list of names."""
    with pytest.raises(
        rb.ConfigError, match=r"sequence\.volatile.*no timestamp where events have no id"
    ):
        sequence(id=None, volatile=["timestamp"])
    with pytest.raises(rb.ConfigError, match=r"sequence\.volatile.*a list of the names of fields"):
        sequence(volatile="replayed")
    with pytest.raises(rb.ConfigError, match=r"since\.volatile"):
        rb.dialects.since(field="at", volatile=["at"])
    with pytest.raises(rb.ConfigError, match=r"names_log.*per_channel=True"):
        d.Positions(names_log=True)


# ---- a model: thousands of logs that begin alike ---------------------------------------------------------------------


class World(NamedTuple):
    """One cut: what was read, what the log holds afterwards, and what happened."""

    before: list
    after: list
    had: int
    is_restarted: bool
    is_named: bool
    ends: str
    speaks: rb.bridge.Dialect


def imagined(rng):
    """Ids: none, counters or real ones; times: none or real ones; contents: alike up to some number, or distinct."""
    ids, times = rng.choice(["none", "counter", "uuid"]), rng.choice([False, True])
    is_alike, alike = rng.random() < 0.6, rng.randrange(8)

    def log(tag, count, base):
        found = []
        for n in range(1, count + 1):
            frame = {
                "seq": n,
                "type": "step",
                "text": f"{'' if is_alike and n <= alike else tag}step{n}",
            }
            if ids != "none":
                frame["id"] = (
                    f"ev-{n}" if ids == "counter" else f"{tag}{n}-{rng.randrange(10**9):x}-x"
                )
            if times:
                frame["timestamp"] = str(1_767_225_600 + base + n)
            found.append(frame)
        return found

    old = log("a", rng.randrange(2, 9), 0)
    had, is_restarted = rng.randrange(1, len(old) + 1), rng.random() < 0.5
    new = (
        log("b", rng.randrange(1, 12), 3600)
        if is_restarted
        else [*old, *log("n", 12, 99)[len(old) : len(old) + 2]]
    )
    ends = rng.choice(["anchor", "stated", "window"])
    end = {"end": "end", "reset": "reset"} if ends == "stated" else {}
    return World(old[:had], new, had, is_restarted, times or ids == "uuid", ends, sequence(**end))


def outcome(world, rng):
    """The verdict, and the frames that were delivered with whether they may be repetitions."""
    rig = FramesRig(world.speaks).up()
    rig.hear_each(world.before)
    rig.take()
    rig.again()
    for frame in world.after:
        if frame["seq"] >= world.had:
            rig.hear(frame | ({"replayed": True} if rng.random() < 0.2 else {}))
    if world.ends == "stated":
        rig.hear({"type": "end"})
    rig.idle(11)
    came = [item for item in rig.take() if not isinstance(item, Gap)]
    return rig.resumed[0], [
        (message.raw["seq"], message.raw["text"], message.maybe_duplicate) for message in came
    ]


def test_no_restart_is_recovered_and_no_honest_log_is_accused():
    """RECOVERED only where nothing was lost, and wherever a name shows it; GAP(restarted) never of the log that we read."""
    wrong, seen = Counter(), Counter()
    for seed in range(1_500):
        rng = random.Random(seed)
        world = imagined(rng)
        verdict, came = outcome(world, rng)
        seen[verdict, world.is_restarted] += 1
        lost = {(frame["seq"], frame["text"]) for frame in world.after} - {
            each[:2] for each in came
        }
        if not world.is_restarted:
            lost -= {(frame["seq"], frame["text"]) for frame in world.before}
            wrong["a GAP of an honest log"] += verdict == "GAP"
            wrong["UNKNOWN although a name shows it"] += verdict == "UNKNOWN" and world.is_named
            wrong["a repetition without a flag"] += any(
                n <= world.had and not may for n, _, may in came
            )
            wrong["lost or out of order"] += bool(lost) or [n for n, *_ in came] != sorted(
                n for n, *_ in came
            )
        elif verdict == "RECOVERED":
            wrong["a restarted log that was RECOVERED"] += 1
    assert +wrong == Counter()
    assert seen["RECOVERED", False] > 300
    assert seen["GAP", True] > 200
    assert seen["UNKNOWN", True] > 50


def test_a_frame_is_compared_as_it_was_read():
    """The frame that was delivered is decoded again: one of several events in a frame is found there."""
    speaks = numbers(overlap=1)
    rig = FramesRig(speaks).up()
    rig.hear(*plain(1, 3, timestamp=lambda n: str(1_767_225_600 + n)))
    rig.take()
    rig.again()
    rig.hear(*plain(3, 4, timestamp=lambda n: str(1_767_225_600 + n)), STATED)
    assert rig.resumed[:2] == ("RECOVERED", "stated")
    assert json.dumps(read(rig)) == '["e4"]'
