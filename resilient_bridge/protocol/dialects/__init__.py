"""Dialects of bridges, ready to use: `BridgeClient(url, dialect=rb.dialects.plain)`.

Each is a value, or a function that makes one; `evolve` changes single fields. How to write another is in docs/how-to/talk-to-another-bridge.md.
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
        "Acked Acknowledge Auth Challenge Closing Event Fact Finished Hello Intent Moved Ping Pong Record Refused Replayed Reply Resume Send"
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
