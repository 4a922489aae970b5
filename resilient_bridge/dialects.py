"""Dialects of bridges, ready to use: `BridgeClient(url, dialect=rb.dialects.plain)`.

Each is a value, or a function that makes one; `evolve` changes single fields. How to write another
is in docs/how-to/talk-to-another-bridge.md. This page lists all names; `help(rb.dialects.Received)`
describes one of them.

Dialects: `plain` (any frames, nothing else known), `jsonrpc`, `recursor`, `recursor_live`, `openhands`, `openhands_legacy`, `mattermost`,
`slack_socket_mode`, `agno(workflow_id=)`, `centrifugo(*channels)`, `jupyter(session=)`, `socketio()`; of home-made servers
`sequence(field=, ask=)`, `last_event_id()`, `since()`.

For one of your own: `decode(frame)` returns a tuple of facts (`Fact`), `encode(intent)` a frame or None, `resume(record)` a `Resume`; `table()` makes a
`decode` from field names.

- `Received(raw, type, payload, id, timestamp, channel, position, echo, ack)`: a message for the reader
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

from .lazy_names import lazily


if TYPE_CHECKING:
    from .protocol.dialects._agno import agno as agno
    from .protocol.dialects._centrifugo import centrifugo as centrifugo
    from .protocol.dialects._families import last_event_id as last_event_id
    from .protocol.dialects._families import sequence as sequence
    from .protocol.dialects._families import since as since
    from .protocol.dialects._json import table as table
    from .protocol.dialects._jsonrpc import jsonrpc as jsonrpc
    from .protocol.dialects._jupyter import jupyter as jupyter
    from .protocol.dialects._mattermost import mattermost as mattermost
    from .protocol.dialects._openhands import openhands as openhands
    from .protocol.dialects._openhands import openhands_legacy as openhands_legacy
    from .protocol.dialects._plain import plain as plain
    from .protocol.dialects._recursor import recursor as recursor
    from .protocol.dialects._recursor import recursor_live as recursor_live
    from .protocol.dialects._slack import slack_socket_mode as slack_socket_mode
    from .protocol.dialects._socketio import socketio as socketio
    from .protocol.facts import Acked as Acked
    from .protocol.facts import Acknowledge as Acknowledge
    from .protocol.facts import Auth as Auth
    from .protocol.facts import Challenge as Challenge
    from .protocol.facts import Closing as Closing
    from .protocol.facts import Fact as Fact
    from .protocol.facts import Finished as Finished
    from .protocol.facts import Hello as Hello
    from .protocol.facts import Intent as Intent
    from .protocol.facts import Moved as Moved
    from .protocol.facts import Ping as Ping
    from .protocol.facts import Pong as Pong
    from .protocol.facts import Received as Received
    from .protocol.facts import Record as Record
    from .protocol.facts import Refused as Refused
    from .protocol.facts import Replayed as Replayed
    from .protocol.facts import Reply as Reply
    from .protocol.facts import Resume as Resume
    from .protocol.facts import Send as Send
    from .protocol.facts import Unreadable as Unreadable
    from .protocol.policies.ends import End as End
    from .protocol.policies.positions import Positions as Positions

_NAMES = {
    ".protocol.facts": (
        "Acked Acknowledge Auth Challenge Closing Received Fact Finished Hello Intent Moved Ping Pong Record Refused Replayed Reply Resume Send Unreadable"
    ),
    ".protocol.policies.ends": "End",
    ".protocol.policies.positions": "Positions",
    ".protocol.dialects._agno": "agno",
    ".protocol.dialects._centrifugo": "centrifugo",
    ".protocol.dialects._families": "last_event_id sequence since",
    ".protocol.dialects._json": "table",
    ".protocol.dialects._jsonrpc": "jsonrpc",
    ".protocol.dialects._jupyter": "jupyter",
    ".protocol.dialects._mattermost": "mattermost",
    ".protocol.dialects._openhands": "openhands openhands_legacy",
    ".protocol.dialects._plain": "plain",
    ".protocol.dialects._recursor": "recursor recursor_live",
    ".protocol.dialects._slack": "slack_socket_mode",
    ".protocol.dialects._socketio": "socketio",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
