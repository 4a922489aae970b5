"""The families of home-made bridges, where the server acknowledges: by which name, what is repeated, and what is refused as an argument."""

from __future__ import annotations

import json

import pytest

import resilient_bridge as rb
from tests.protocol.frames_rig import FramesRig


ACKED = {"id_field": "id", "ack": "result.ok"}
FAMILIES = {
    "sequence": (rb.dialects.sequence, {"field": "seq", "ask": "last_seq"}, {"seq": 1}),
    "last_event_id": (rb.dialects.last_event_id, {"field": "event"}, {"event": "a"}),
    "since": (rb.dialects.since, {"field": "at"}, {"at": "2026-01-01T00:00:00Z"}),
}


def sequence(**arguments):
    """A dialect of numbered events."""
    return rb.dialects.sequence(field="seq", ask="last_seq", **arguments)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_send_is_confirmed_by_the_name_that_the_server_gives_back(name):
    """The key is written into the frame; a name of the user's own in it stays; a number is a name, too; events are events."""
    make, arguments, position = FAMILIES[name]
    rig = FramesRig(make(**arguments, **ACKED)).up()
    rig.write()
    entries = [
        rig.send("", {"do": 1}, key="k1"),
        rig.send("", {"do": 2, "id": "mine"}),
        rig.send("", {"id": 7}),
    ]
    sent = [json.loads(frame) for frame in rig.write() if b"id" in frame.encode()]
    assert [frame["id"] for frame in sent if "do" in frame or frame.get("id") == 7] == [
        "k1",
        "mine",
        7,
    ]
    rig.hear({**position, "result": {"ok": "k1"}})
    assert [str(entry.state) for entry in entries] == ["written"] * 3
    for acknowledged in ("mine", 7, "k1"):
        rig.hear({"result": {"ok": acknowledged}})
    assert [str(entry.state) for entry in entries] == ["confirmed"] * 3
    assert len(rig.read()) == 1


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_confirms_sends_where_the_server_acknowledges_them(name):
    """Without `ack` nothing does: a send that was written ends as such once a ping shows that it left."""
    make, arguments, _ = FAMILIES[name]
    assert make(**arguments, **ACKED).confirms
    assert not make(**arguments).confirms


@pytest.mark.parametrize(("dedupes", "state"), [(True, "confirmed"), (False, "unknown")])
def test_a_send_in_doubt_is_repeated_where_the_server_dedupes(dedupes, state):
    """The acknowledgement was lost with the connection: the same frame again, or an unknown outcome."""
    rig = FramesRig(sequence(**ACKED, dedupes=dedupes)).up()
    entry = rig.send("", {"do": 1}, key="k1")
    (first,) = rig.write()
    rig.again()
    rig.idle(3)
    assert (first in rig.wire) is dedupes
    rig.hear({"result": {"ok": "k1"}})
    assert str(entry.state) == state


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ack": "ok"}, "id_field and ack, or neither"),
        ({"id_field": "id"}, "id_field and ack, or neither"),
        ({"id_field": "a.b", "ack": "ok"}, "without dots"),
        ({"dedupes": True}, "id_field and ack beside True"),
    ],
)
def test_arguments_that_do_not_fit_together(arguments, words):
    """Each says what was wanted."""
    with pytest.raises(rb.ConfigError, match=words):
        sequence(**arguments)
