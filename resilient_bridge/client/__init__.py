"""The reconnecting client: BridgeClient, its receipts and its health."""

from __future__ import annotations

from .bridge import BridgeClient
from .greeting import Greeting
from .health import Health
from .receipt import Receipt


__all__ = ["BridgeClient", "Greeting", "Health", "Receipt"]
