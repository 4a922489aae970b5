"""Dialects of bridges, ready to use: `BridgeClient(url, dialect=rb.dialects.plain)`.

Each is a value, or a function that makes one; `evolve` changes single fields. How to write another
is in docs/how-to/talk-to-another-bridge.md. This page lists all names; `help(rb.dialects.Event)`
describes one of them.

Dialects: `plain` (any frames, nothing else known), `jsonrpc`, `recursor`, `recursor_live`, `openhands`, `openhands_legacy`, `mattermost`,
`slack_socket_mode`, `agno(workflow_id=)`, `centrifugo(*channels)`, `jupyter(session=)`, `socketio()`; of home-made servers
`sequence(field=, ask=)`, `last_event_id()`, `since()`.

For one of your own: `decode(frame)` returns a tuple of facts (`Fact`), `encode(intent)` a frame or None, `resume(record)` a `Resume`; `table()` makes a
`decode` from field names.

- `Event(raw, type, payload, id, timestamp, channel, position, echo, ack)`: a message for the reader
- `Hello(session, epoch, token, url, silence, ping_every)`: the server has accepted us
- `Challenge(silence, ping_every)`: the server wants an `Auth`
- `Moved(position, channel)`: a position without an event
- `Finished(channel)`: nothing more comes in this log
- `Replayed(complete, channel, first, through, epoch)`: what the server says about a replay, such as its end
- `Reply(to, raw, type, payload, duplicate)`: the answer to a message of ours
- `Acked(ids, through, echo)`: the server has these messages of ours
- `Refused(raw, to, type, code, text, retry_after, echo, suggestions, severity)`: the server refuses a message or the connection
- `Unreadable(why, cause)`: a part of this frame cannot be read; the rest is taken
- `Closing(within)`: the server ends this connection soon
- `Ping(id, number, body, record)`, `Pong(id, body, number, record)`: a sign of life; facts, and intents as well

Intents (`Intent`): `Send(type, payload, id, key, timestamp, number, is_request, body)`, `Auth(token, record, id, number)`, `Acknowledge(ack)`, `Ping`, `Pong`.

To ask for what was missed: `Record(session_id, session, epoch, token, url, positions, epochs, joined, overlap, moved)` is what the client knows,
`Resume(query, headers, url, frames, channels)` how it asks. `Positions(…)` says how a server's positions behave, `End(…)` what the end of a connection means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy_names import lazily


if TYPE_CHECKING:
    from ..facts import Acked as Acked
    from ..facts import Acknowledge as Acknowledge
    from ..facts import Auth as Auth
    from ..facts import Challenge as Challenge
    from ..facts import Closing as Closing
    from ..facts import Event as Event
    from ..facts import Fact as Fact
    from ..facts import Finished as Finished
    from ..facts import Hello as Hello
    from ..facts import Intent as Intent
    from ..facts import Moved as Moved
    from ..facts import Ping as Ping
    from ..facts import Pong as Pong
    from ..facts import Record as Record
    from ..facts import Refused as Refused
    from ..facts import Replayed as Replayed
    from ..facts import Reply as Reply
    from ..facts import Resume as Resume
    from ..facts import Send as Send
    from ..facts import Unreadable as Unreadable
    from ..policies.ends import End as End
    from ..policies.positions import Positions as Positions
    from ._agno import agno as agno
    from ._centrifugo import centrifugo as centrifugo
    from ._families import last_event_id as last_event_id
    from ._families import sequence as sequence
    from ._families import since as since
    from ._json import table as table
    from ._jsonrpc import jsonrpc as jsonrpc
    from ._jupyter import jupyter as jupyter
    from ._mattermost import mattermost as mattermost
    from ._openhands import openhands as openhands
    from ._openhands import openhands_legacy as openhands_legacy
    from ._plain import plain as plain
    from ._recursor import recursor as recursor
    from ._recursor import recursor_live as recursor_live
    from ._slack import slack_socket_mode as slack_socket_mode
    from ._socketio import socketio as socketio

_NAMES = {
    ".facts": (
        "Acked Acknowledge Auth Challenge Closing Event Fact Finished Hello Intent Moved Ping Pong Record Refused Replayed Reply Resume Send Unreadable"
    ),
    ".policies.ends": "End",
    ".policies.positions": "Positions",
    "_agno": "agno",
    "_centrifugo": "centrifugo",
    "_families": "last_event_id sequence since",
    "_json": "table",
    "_jsonrpc": "jsonrpc",
    "_jupyter": "jupyter",
    "_mattermost": "mattermost",
    "_openhands": "openhands openhands_legacy",
    "_plain": "plain",
    "_recursor": "recursor recursor_live",
    "_slack": "slack_socket_mode",
    "_socketio": "socketio",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
