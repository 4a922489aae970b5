"""The recommended preset for an unknown server: jittered waits without end, and outage reports."""

from __future__ import annotations

from .bridge_policy import BridgePolicy


default = BridgePolicy()
"""Recommended: reconnects within 0.5 s, then at random, up to 30 s, without end.

After 5 failed attempts or 5 minutes it reports SUSPENDED and continues.

Heartbeat 15 + 10 s; 1,000 messages or 8 MiB each way; resends within 270 s of the 5-minute window.
"""
