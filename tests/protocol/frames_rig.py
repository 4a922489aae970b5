"""A session whose dialect has functions, driven by hand: what the server sends are facts, written as JSON, or raw frames.

`spoken(fact, …)` is the frame of such facts, `dialect(…)` the dialect that reads it. Rule: what a test looks at is what a user gets:
messages, gaps, receipts, events.
"""

from __future__ import annotations

import json

import attrs

import resilient_bridge as rb
from resilient_bridge.bridge import BridgeState
from resilient_bridge.protocol import Gap
from tests.internals.telemetry import OutboundInDoubt, Resumed
from tests.protocol.driving import CUT, Rig


d = rb.dialects


def spoken(*facts):
    """One frame with these facts."""
    return json.dumps([[type(fact).__name__, attrs.asdict(fact)] for fact in facts])


def decode(frame):
    """The facts of a frame."""
    return tuple(getattr(d, name)(**fields) for name, fields in json.loads(frame))


def encode(intent):
    """An object with the intent's name as its first field."""
    match intent:
        case d.Send():
            return json.dumps({"send": intent.type, "id": intent.id, "number": intent.number})
        case d.Auth():
            return json.dumps({"auth": intent.token, "session": intent.record.session})
        case d.Ping():
            return json.dumps({"ping": intent.id})
        case d.Pong():
            return json.dumps({"pong": intent.body})
        case d.Acknowledge():
            return json.dumps({"acknowledge": attrs.astuple(intent)[0]})


def ask(record):
    """One frame: the position to ask after, of each channel."""
    after = {str(channel): record.after(channel) for channel in record.positions}
    return d.Resume(frames=(json.dumps({"ask": after}),) if after else ())


def dialect(positions=None, **settings):
    """A server that speaks facts; `positions` are fields of Positions."""
    policy = None if positions is None else d.Positions(**positions)
    if policy is not None:
        settings.setdefault("resume", ask)
    return rb.bridge.Dialect.envelopes(
        decode=decode, encode=encode, error=None, bearer=False, positions=policy, **settings
    )


def event(position, name=None, **fields):
    """An event at this position, whose frame is its name; a numbered one has a time, so that it can prove which log this is."""
    if isinstance(position, int) and not isinstance(position, bool):
        fields.setdefault("timestamp", str(1_767_225_600 + position))
    return d.Received(raw=name or f"e{position}", position=position, **fields)


def events(first, last, **fields):
    """The events from one number through another."""
    return [event(number, **fields) for number in range(first, last + 1)]


def shown(item):
    """A message as its frame, with a "?" if it may be a repetition; a gap as verdict, reason, channel and what is missing."""
    if isinstance(item, Gap):
        return (str(item.verdict), item.reason, item.channel, item.missing)
    return f"{item.raw}?" if item.maybe_duplicate else item.raw


def gap(reason, channel=None, missing=None, verdict="GAP"):
    """How a gap is shown."""
    return (verdict, reason, channel, missing)


def unknown(reason, channel=None):
    """How a doubt is shown."""
    return gap(reason, channel, verdict="UNKNOWN")


class FramesRig(Rig):
    """A Rig whose wire are frames. `asked`: how the last connection asked for what was missed."""

    def __init__(self, speaks, **options):
        super().__init__(dialect=speaks, **options)
        self.asked = None

    def connect(self, token=None):
        """An attempt that succeeds; what is written first."""
        self.asked = self.session.resume()
        return super().connect(token)

    def write(self):
        """Everything the session has to write now."""
        written = []
        while frames := self.session.frames_to_send(self.now):
            written += frames
            self.session.link.sent()
        self.wire += written
        self.after()
        return written

    def hear(self, *facts):
        """One frame of the server: of these facts, or as it is; returns what is written then."""
        raw = len(facts) == 1 and isinstance(facts[0], (str, bytes, dict))
        frame = facts[0] if raw else spoken(*facts)
        self.session.receive(json.dumps(frame) if isinstance(frame, dict) else frame, self.now)
        self.after()
        return self.write()

    def hear_each(self, facts):
        """Each of these facts in a frame of its own."""
        for fact in facts:
            self.hear(fact)

    def up(self, *facts, token=None):
        """Connected for the first time, having heard these facts."""
        self.connect(token)
        self.hear_each(facts)
        assert self.state is BridgeState.READY, self.state
        return self

    def again(self, failure=CUT, token=None):
        """The connection is lost, and the next one is there; what is written first."""
        self.lose(failure)
        return self.connect(token)

    def dies(self):
        """The session wants to end this connection: why, and the next one is there."""
        death = self.session.death
        assert death is not None
        self.again(death)
        return death

    def numbers_asked(self):
        """The positions that were asked for on this connection."""
        asked = [json.loads(frame) for frame in self.wire if "ask" in frame]
        return [frame["ask"] for frame in asked if "ask" in frame]

    def read(self):
        """What the reader gets now, as `shown`."""
        return [shown(item) for item in self.take()]

    @property
    def is_ready(self):
        """READY?"""
        return self.state is BridgeState.READY

    @property
    def resumed(self):
        """The last reconnection's verdict, with its proof, or its reason where there is none, and the verdicts of its channels."""
        last = self.of(Resumed)[-1]
        channels = {name: str(verdict) for name, verdict in last.channels.items()}
        return (str(last.verdict), last.proof or last.reason, channels)


class Pinged(FramesRig):
    """A session whose server confirms nothing. `pings`: the last entry before each WebSocket ping that was written."""

    def __init__(self, speaks=None, **options):
        super().__init__(dialect() if speaks is None else speaks, **options)
        self.pings = []

    def write(self):
        """Everything the session has to write now, and the WebSocket ping that is due behind it."""
        written = super().write()
        if self.session.link is not None and self.session.link.wire.ping_due:
            self.pings.append(self.session.link.wire.pinging())
        return written

    def pong(self, number=0):
        """The answer to a ping: by default the oldest."""
        self.session.link.answered(self.pings.pop(number), self.now)
        self.after()

    def up(self):
        """READY."""
        self.connect()
        assert self.state is rb.bridge.BridgeState.READY
        return self

    def doubts(self):
        """`(unknown, reached)` of each report so far."""
        return [(event.unknown, event.reached) for event in self.of(OutboundInDoubt)]
