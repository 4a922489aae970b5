"""The reconnecting client: BridgeClient, its receipts and its health."""

from __future__ import annotations

from .bridge import BridgeClient
from .health import Health
from .receipt import Receipt


__all__ = ["BridgeClient", "Health", "Receipt"]
