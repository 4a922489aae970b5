"""Dialects of bridges, ready to use: `BridgeClient(url, dialect=rb.dialects.plain)`.

Each is a value; `evolve` changes single fields of one. How to write another is in docs/how-to/talk-to-another-bridge.md.
"""

from __future__ import annotations

from ..facts import Event, Send
from ._plain import plain
from ._recursor import recursor


__all__ = ["Event", "Send", "plain", "recursor"]
